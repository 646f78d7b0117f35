//! Reads contexts, for the command line and for HTTP.
//!
//! The functions here read from the database. [`ContextMaterial::build`] then computes the context without it.

mod build;
mod compact;
pub mod pins;
mod replacement;
mod window;

use std::ops::Range;

use serde::Serialize;

pub use compact::{CompactReply, HANDOFF_TOKENS, HANDOFF_TOKENS_MAX, HANDOFF_TOKENS_MIN};
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{Alternation, ContextOptions, Elision, concerns_own_answers, is_safe_boundary},
        exchange::{FIRST_EXCHANGE, PREAMBLE},
        message::{Message, Part, Role},
        note::above,
        number::{i64_or_max, usize_or_max},
        perspective::{Perspective, PerspectiveStyle, UnknownSpeaker, speakers},
        zone::Zone,
    },
    formats::outgoing::RequestFormat,
};
use recapd_engine::snapshot::Snapshot;
use recapd_store::{
    ExchangeQuery, MESSAGE_BYTES, NoteQuery, Pins, Store, StoreError, StoreResult, StoredExchange,
    StoredMessage,
    page::{PAGE_BYTES_MAX, begun, part},
};
pub use replacement::Replacement;
use window::{ShortenedMessages, WindowContent};

/// Limits how many exchanges of a window are read.
pub const WINDOW_EXCHANGES_MAX: i64 = 100_000;
/// Limits the payload bytes of preamble and window. Anthropic accepts requests of up to 32 MB, and summary, copies,
/// tools and the re-encoding as JSON come on top. A limit on tokens wouldn't limit bytes: an image has few tokens.
pub const CONTEXT_BYTES_MAX: i64 = 24 << 20;
/// A byte limit that no message fits, so that the store returns only sizes.
const SIZES_ONLY: i64 = 1;
/// The preamble, which is never left out, gets at most 1/2 of [`CONTEXT_BYTES_MAX`].
const PREAMBLE_SHARE: i64 = 2;
/// Limits how many pinned and important messages are read. It is twice the number of copies, because the newest of these
/// messages may be in the window and need no copies.
const PINS_MAX: i64 = 100;
/// Limits how many messages a note names.
const NAMED_MAX: usize = 10;
/// The summary gets at most 1/4 of a request.
const SUMMARY_SHARE: i64 = 4;
/// How often a context is rebuilt. The lines about exchanges that were left out can crowd out further exchanges, which then
/// need lines, too.
const LEFT_OUT_PASSES: usize = 3;
/// The session's first user message is searched for in this many of its first exchanges.
const ANCHOR_EXCHANGES_MAX: i64 = 4;

/// The options of a request for a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextQuery {
    pub format: RequestFormat,
    /// The most tokens of the whole request. `None`: as configured. 0: no limit.
    pub budget_tokens: Option<i64>,
    /// How alternation is repaired. `None`: as configured.
    pub alternation: Option<Alternation>,
    /// The most tokens of the summary, if that is less than its share of the budget.
    pub summary_max_tokens: Option<i64>,
    /// True if the thinking of the open exchange is sent even where an earlier message has changed.
    pub keeps_open_thinking: bool,
}

impl ContextQuery {
    /// Returns `defaults`, overridden by the query's options.
    pub fn options(self, defaults: ContextOptions) -> ContextOptions {
        ContextOptions {
            max_tokens: self.budget_tokens.unwrap_or(defaults.max_tokens),
            alternation: self.alternation.unwrap_or(defaults.alternation),
            system_in_place: self.format.takes_system_in_place(),
            ends_with_user: self.format.ends_with_user(),
            names_speakers: self.format.names_speakers(),
            keep_open_thinking: self.keeps_open_thinking
                || self.format.keeps_open_thinking()
                || defaults.keep_open_thinking,
            ..defaults
        }
    }
}

/// The speaker who sees a shared conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    pub speaker: String,
    /// How speakers see the conversation, unless the agent's settings say otherwise.
    pub telling: PerspectiveStyle,
}

#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error(transparent)]
    UnknownSpeaker(#[from] UnknownSpeaker),
    /// The exchange is larger than any request, even with its results shortened. It can be read in parts.
    #[error("exchange #{0} is too big to build a context from")]
    TooLarge(i64),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Everything that a context is built from.
#[derive(Clone, Debug)]
pub struct ContextMaterial {
    agent: AgentId,
    version: i64,
    /// Empty if there is no summary.
    markdown: String,
    first_exchange: i64,
    /// True if an exchange has ever left the window, even if a rewind brought it back. Thinking may then be bound to
    /// messages that aren't sent.
    has_evicted: bool,
    /// Before this exchange, long answers of recapd's own tools are shortened.
    passed_before: i64,
    preamble: Vec<StoredMessage>,
    anchor: Option<StoredMessage>,
    pins: Pins,
    /// The request that the window's first exchange works on, and the number of the exchange that begins with this
    /// request. `None` unless the window begins with a later leg.
    request: Option<(i64, StoredMessage)>,
    window: Vec<StoredExchange>,
    /// An exchange of the window that is too large to be read, and all older ones.
    left_out: Vec<StoredExchange>,
    zone: Zone,
    shortened: ShortenedMessages,
    perspective: Option<Perspective>,
}

/// A context, ready to send.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = Context)]
pub struct ContextReply {
    pub agent_id: AgentId,
    /// The provider's format of `body`.
    pub format: RequestFormat,
    /// In a shared conversation: the speaker who sees this context.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// The fields of the provider's request that hold the conversation.
    pub body: serde_json::Value,
    /// Size in tokens, counted by the window's counter.
    pub tokens: i64,
    /// The most tokens that the context may have; null for no limit.
    pub limit_tokens: Option<i64>,
    /// True if the context exceeds the limit because the newest exchange alone is too big.
    pub over_budget: bool,
    /// The version of the summary in the context; 0 for none.
    pub summary_version: i64,
    pub first_exchange: i64,
    /// Exchanges of the window for which the context has no room.
    pub left_out: Vec<i64>,
    /// The numbers of pinned and important messages that the context holds as copies.
    pub copied: Vec<i64>,
    /// Tool results that were shortened.
    pub elided: Vec<Elision>,
    /// What was left out or shortened and why, and what could not be carried over to this provider.
    pub notes: Vec<String>,
    /// The parts of the context in order, for people.
    #[serde(skip)]
    pub parts: Vec<RequestPart>,
}

/// The parts of a request that are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPart {
    pub name: &'static str,
    /// How many messages, or parts of messages, are of this kind.
    pub pieces: i64,
    pub tokens: i64,
}

/// Reads what the context of `agent` is built from. `snapshot` is the summary of the step ([`Store::summary_of_step`]).
/// Its boundary determines where the window begins, so that each exchange is either in the window or in the summary.
///
/// # Errors
/// The store's errors, [`ContextError::UnknownSpeaker`] if `viewer` takes no part in the conversation, and [`ContextError::TooLarge`].
pub async fn load(
    store: &dyn Store,
    agent: &AgentId,
    snapshot: &Snapshot,
    viewer: Option<Viewer>,
) -> Result<ContextMaterial, ContextError> {
    load_within(store, agent, snapshot, viewer, CONTEXT_BYTES_MAX).await
}

/// Returns how many payload bytes of preamble and window [`load`] would read for the same `snapshot`. Reads only their
/// sizes.
///
/// # Errors
/// The store's errors.
pub async fn payload_bytes(store: &dyn Store, agent: &AgentId, snapshot: &Snapshot) -> StoreResult<usize> {
    let query = |from, through, limit| ExchangeQuery { from, through, limit, bytes_max: SIZES_ONLY };
    let first_exchange = snapshot.first_exchange.max(FIRST_EXCHANGE);
    let mut sized = store.exchanges(agent, query(PREAMBLE, PREAMBLE, 1)).await?;
    sized.extend(store.exchanges(agent, query(first_exchange, i64::MAX, WINDOW_EXCHANGES_MAX)).await?);
    let bytes: i64 = sized.iter().filter_map(|stored| stored.unread_bytes).sum();
    Ok(usize_or_max(bytes.min(CONTEXT_BYTES_MAX)))
}

/// Like [`load`], but limits the payload bytes of preamble and window to `bytes_max`.
///
/// # Errors
/// The errors of [`load`].
pub async fn load_within(
    store: &dyn Store,
    agent: &AgentId,
    snapshot: &Snapshot,
    viewer: Option<Viewer>,
    bytes_max: i64,
) -> Result<ContextMaterial, ContextError> {
    let first_exchange = snapshot.first_exchange.max(FIRST_EXCHANGE);
    let preamble = read_preamble(store, agent, bytes_max / PREAMBLE_SHARE).await?;
    let room = bytes_max - bytes_of(&preamble);
    let WindowContent { exchanges: window, left_out, shortened } =
        window::read(store, agent, first_exchange, room).await?;
    let thinks =
        |stored: &StoredMessage| stored.message.parts.iter().any(|part| matches!(part, Part::Thinking(_)));
    let may_think = window.iter().flat_map(|exchange| &exchange.messages).any(thinks);
    let has_evicted = first_exchange > FIRST_EXCHANGE || (may_think && store.has_evicted(agent).await?);
    let opening = match window.last() {
        Some(newest) => read_opening(store, agent, newest).await?,
        None => Vec::new(),
    };
    let perspective = match viewer {
        Some(viewer) => {
            let stored = preamble.iter().chain(&opening).chain(&window);
            let messages = stored.flat_map(|exchange| exchange.messages.iter().map(|stored| &stored.message));
            Some(perspective(store, agent, viewer, speakers(messages)).await?)
        }
        None => None,
    };
    let opens = |message: &Message| match &perspective {
        // The speaker's own words set no task, so the anchor is the first message that the speaker hears.
        Some(perspective) => perspective.see(message).is_some_and(|view| view.role == Role::User),
        None => is_safe_boundary(message),
    };
    let request = read_request(store, agent, &window, &opening).await?;
    let mut opening = opening.into_iter().flat_map(|exchange| exchange.messages);
    let anchor = opening.find(|stored| opens(&stored.message));
    Ok(ContextMaterial {
        agent: agent.clone(),
        version: snapshot.version,
        markdown: with_notes(store, agent, snapshot).await?,
        first_exchange,
        has_evicted,
        passed_before: passed_before(store, agent, first_exchange, &window).await?,
        preamble: preamble.into_iter().flat_map(|exchange| exchange.messages).collect(),
        anchor,
        pins: store.pins(agent, PINS_MAX).await?,
        request,
        window,
        left_out,
        zone: snapshot.zone,
        shortened,
        perspective,
    })
}

/// Puts a line that names the notes above the document. The line names the notes as of the window's last move, so it
/// stays the same until the next step. The window itself shows what the agent has written since.
async fn with_notes(store: &dyn Store, agent: &AgentId, snapshot: &Snapshot) -> StoreResult<String> {
    if snapshot.markdown.trim().is_empty() {
        return Ok(snapshot.markdown.clone());
    }
    let query = NoteQuery { before: Some(snapshot.first_exchange), ..NoteQuery::default() };
    Ok(above(&store.notes(agent, &query).await?, &snapshot.markdown))
}

/// Reads the preamble of the running session. It is never left out.
async fn read_preamble(
    store: &dyn Store,
    agent: &AgentId,
    bytes_max: i64,
) -> Result<Vec<StoredExchange>, ContextError> {
    let query = ExchangeQuery { from: PREAMBLE, through: PREAMBLE, limit: 1, bytes_max };
    let found = store.exchanges(agent, query).await?;
    let unread = found.iter().find(|stored| stored.unread_bytes.is_some());
    match unread.map(|stored| stored.exchange.exchange) {
        Some(number) => Err(ContextError::TooLarge(number)),
        None => Ok(found),
    }
}

/// Returns the newest exchange that was complete when the boundary moved to `first_exchange`: answers of recapd's own tools
/// in earlier exchanges are shortened. [`PREAMBLE`] if there are no such answers, or nothing has left the window.
async fn passed_before(
    store: &dyn Store,
    agent: &AgentId,
    first_exchange: i64,
    window: &[StoredExchange],
) -> StoreResult<i64> {
    let mut messages = window.iter().flat_map(|stored| &stored.messages);
    if !messages.any(|stored| concerns_own_answers(&stored.message)) {
        return Ok(PREAMBLE);
    }
    let last_evicted =
        ExchangeQuery { from: FIRST_EXCHANGE, through: first_exchange - 1, limit: 1, bytes_max: SIZES_ONLY };
    let found = store.exchanges(agent, last_evicted).await?;
    let Some(evicted_at) = found.first().and_then(|stored| stored.evicted_at) else {
        return Ok(PREAMBLE);
    };
    // Stops at the first exchange that wasn't complete then, because exchanges after it may carry earlier times.
    let complete = window
        .iter()
        .map(|stored| &stored.exchange)
        .take_while(|exchange| exchange.last_at < evicted_at)
        .last();
    // The last complete exchange stays whole: it may have been the newest, which mustn't change before the next step.
    Ok(complete.map_or(PREAMBLE, |last| last.exchange))
}

fn bytes_of(exchanges: &[StoredExchange]) -> i64 {
    let messages = exchanges.iter().flat_map(|exchange| &exchange.messages);
    messages.map(|stored| MESSAGE_BYTES + i64_or_max(stored.message.payload.len())).sum()
}

/// Returns the conversation between the speakers `heard` as `viewer` sees it.
async fn perspective(
    store: &dyn Store,
    agent: &AgentId,
    viewer: Viewer,
    speakers: Vec<String>,
) -> Result<Perspective, ContextError> {
    let settings = store.agent(agent).await?.map(|row| row.settings);
    let telling = settings.unwrap_or_default().perspective_style(viewer.telling);
    Ok(Perspective::new(&viewer.speaker, telling, speakers)?)
}

/// If the window begins with a later leg: returns the request that the leg works on, and the number of the exchange
/// that begins with this request. A long run often begins its session, so the request may be in the `opening`.
async fn read_request(
    store: &dyn Store,
    agent: &AgentId,
    window: &[StoredExchange],
    opening: &[StoredExchange],
) -> StoreResult<Option<(i64, StoredMessage)>> {
    let first = window.first().map(|first| &first.exchange);
    let Some(first) = first.filter(|first| first.first_leg() < first.exchange) else {
        return Ok(None);
    };
    let first_leg = first.first_leg();
    let leg = opening.iter().find(|stored| stored.exchange.exchange == first_leg);
    let mut messages = leg.into_iter().flat_map(|leg| &leg.messages);
    let found = match messages.find(|stored| is_safe_boundary(&stored.message)) {
        Some(request) => Some(request.clone()),
        None => store.request_of(agent, first_leg).await?,
    };
    Ok(found.map(|request| (first_leg, request)))
}

/// Reads the first exchanges of the session of `newest`. They hold the user's first message.
async fn read_opening(
    store: &dyn Store,
    agent: &AgentId,
    newest: &StoredExchange,
) -> StoreResult<Vec<StoredExchange>> {
    let session = newest.exchange.session;
    let Some(first) = store.session_start(agent, session).await? else {
        return Ok(Vec::new());
    };
    let query = ExchangeQuery {
        from: first,
        through: first + ANCHOR_EXCHANGES_MAX - 1,
        limit: ANCHOR_EXCHANGES_MAX,
        bytes_max: PAGE_BYTES_MAX,
    };
    let mut found = store.exchanges(agent, query).await?;
    found.retain(|found| found.exchange.session == session);
    // A fork's own exchanges begin here. Earlier exchanges belong to its ancestors.
    let own_from = found.first().map_or(query.through + 1, |stored| stored.exchange.exchange);
    let mut opening = read_inherited(store, agent, first..own_from).await?;
    opening.retain(|inherited| inherited.exchange.session == session);
    for stored in found {
        opening.push(match stored.unread_bytes {
            Some(_) => begun(store, agent, stored).await?.stored,
            None => stored,
        });
    }
    Ok(opening)
}

/// Reads the exchanges with these `numbers` from the agent's ancestors. A fork has no rows for exchanges that were
/// already covered when it was made.
async fn read_inherited(
    store: &dyn Store,
    agent: &AgentId,
    numbers: Range<i64>,
) -> StoreResult<Vec<StoredExchange>> {
    let mut inherited = Vec::new();
    for number in numbers {
        let expanded = store.expand(agent, number, part(0)).await?;
        let found = expanded.filter(|expanded| expanded.placed.is_found());
        inherited.extend(found.map(|found| StoredExchange {
            exchange: found.placed.exchange,
            evicted_at: None,
            summary_version: None,
            messages: found.messages,
            unread_bytes: None,
            request: None,
        }));
    }
    Ok(inherited)
}
