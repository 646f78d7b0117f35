//! Reads contexts, for the command line and for HTTP.
//!
//! [`ContextMaterial::build`] does the computing, apart from the reads that wait for the database.

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
        context::{Alternation, ContextOptions, Elision, Role, concerns_own_answers, is_safe_boundary},
        exchange::{FIRST_EXCHANGE, PREAMBLE},
        message::{Message, Part},
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

/// The most exchanges of a window that are read.
pub const WINDOW_EXCHANGES_MAX: i64 = 100_000;
/// The most bytes of payloads of preamble and window. Anthropic's longest request has 32 MB, and summary, copies, tools and
/// the re-encoding as JSON come on top. Tokens don't bound bytes: an image has few.
pub const CONTEXT_BYTES_MAX: i64 = 24 << 20;
/// Too few bytes for any message, so that only sizes are read.
const SIZES_ONLY: i64 = 1;
/// The preamble, which is never left out, has at most one part in this many of those bytes.
const PREAMBLE_SHARE: i64 = 2;
/// The most pinned and important messages that are read. Twice as many as are copied, since the newest may be in the window.
const PINS_MAX: i64 = 100;
const NAMED_MAX: usize = 10;
/// The summary takes at most one part in this many of a request.
const SUMMARY_SHARE: i64 = 4;
/// How often a context is rebuilt because the lines about exchanges that were left out crowded out further ones.
const LEFT_OUT_PASSES: usize = 3;
/// The first message of a session is looked for in this many of its first exchanges.
const ANCHOR_EXCHANGES_MAX: i64 = 4;

/// The options of a request for a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextQuery {
    pub format: RequestFormat,
    /// The most tokens of the whole request; `None` as configured, 0 for no limit.
    pub budget_tokens: Option<i64>,
    /// How alternation is repaired; `None` as configured.
    pub alternation: Option<Alternation>,
    /// The most tokens of the summary, if fewer than its share of the budget.
    pub summary_max_tokens: Option<i64>,
    /// True if thinking of the open exchange is sent even where something before it has changed.
    pub keeps_open_thinking: bool,
}

impl ContextQuery {
    /// Returns `defaults` with the query's options in their place.
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
    /// True if something has left the window, even if it is back. Thinking may then be bound to messages that aren't sent.
    has_evicted: bool,
    /// Before this exchange, long answers of recapd's own tools are shortened.
    passed_before: i64,
    preamble: Vec<StoredMessage>,
    anchor: Option<StoredMessage>,
    pins: Pins,
    /// The request that the window's first exchange works on, and the exchange it begins, if only later legs were read.
    request: Option<(i64, StoredMessage)>,
    window: Vec<StoredExchange>,
    /// Older exchanges of the window, too large to be read.
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
    /// The speaker who sees it, in a shared conversation.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// The fields of the provider's request that hold the conversation.
    pub body: serde_json::Value,
    /// Its size in tokens, by the counter of the window.
    pub tokens: i64,
    /// The most tokens it may have; null for no limit.
    pub limit_tokens: Option<i64>,
    /// True if it exceeds the limit, because the newest exchange alone is too big.
    pub over_budget: bool,
    /// The version of the summary in it; 0 for none.
    pub summary_version: i64,
    pub first_exchange: i64,
    /// Exchanges of the window that it has no room for.
    pub left_out: Vec<i64>,
    /// The numbers of pinned and important messages that it holds as copies.
    pub copied: Vec<i64>,
    /// Tool results that were shortened.
    pub elided: Vec<Elision>,
    /// What was left out or shortened and why, and what could not be carried over to this provider.
    pub notes: Vec<String>,
    /// Its parts in order, for people.
    #[serde(skip)]
    pub parts: Vec<RequestPart>,
}

/// What of a request is of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPart {
    pub name: &'static str,
    /// How many messages, or parts of them, it is made of.
    pub pieces: i64,
    pub tokens: i64,
}

/// Reads what the context of `agent` is built from. `snapshot` is the summary of the step ([`Store::summary_of_step`]). It
/// says where the window begins, so that each exchange is either in the window or in the summary.
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

/// Returns how many bytes of payloads of preamble and window [`load`] reads for the same `snapshot`. Reads their sizes alone.
///
/// # Errors
/// The store's errors.
pub async fn payload_bytes(store: &dyn Store, agent: &AgentId, snapshot: &Snapshot) -> StoreResult<usize> {
    let of = |from, through, limit| ExchangeQuery {
        from,
        through,
        limit,
        bytes_max: SIZES_ONLY,
    };
    let first_exchange = snapshot.first_exchange.max(FIRST_EXCHANGE);
    let mut sized = store.exchanges(agent, of(PREAMBLE, PREAMBLE, 1)).await?;
    sized.extend(
        store
            .exchanges(agent, of(first_exchange, i64::MAX, WINDOW_EXCHANGES_MAX))
            .await?,
    );
    let bytes: i64 = sized.iter().filter_map(|stored| stored.unread_bytes).sum();
    Ok(usize_or_max(bytes.min(CONTEXT_BYTES_MAX)))
}

/// Like [`load`], with at most `bytes_max` bytes of payloads of preamble and window.
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
    let preamble = preamble(store, agent, bytes_max / PREAMBLE_SHARE).await?;
    let room = bytes_max - bytes_of(&preamble);
    let WindowContent {
        exchanges: window,
        left_out,
        shortened,
    } = window::read(store, agent, first_exchange, room).await?;
    let thinks = |stored: &StoredMessage| {
        stored
            .message
            .parts
            .iter()
            .any(|part| matches!(part, Part::Thinking(_)))
    };
    let may_think = window.iter().flat_map(|exchange| &exchange.messages).any(thinks);
    let has_evicted = first_exchange > FIRST_EXCHANGE || (may_think && store.has_evicted(agent).await?);
    let opening = match window.last() {
        Some(newest) => opening(store, agent, newest).await?,
        None => Vec::new(),
    };
    let perspective = match viewer {
        Some(viewer) => {
            let stored = preamble.iter().chain(&opening).chain(&window);
            let heard = stored.flat_map(|exchange| exchange.messages.iter().map(|stored| &stored.message));
            Some(perspective(store, agent, viewer, speakers(heard)).await?)
        }
        None => None,
    };
    let opens = |message: &Message| match &perspective {
        // The first thing said to the speaker. Their own words set them no task.
        Some(perspective) => perspective
            .see(message)
            .is_some_and(|seen| seen.role == Role::User),
        None => is_safe_boundary(message),
    };
    let request = request(store, agent, &window, &opening).await?;
    let mut opening = opening.into_iter().flat_map(|exchange| exchange.messages);
    let anchor = opening.find(|stored| opens(&stored.message));
    Ok(ContextMaterial {
        agent: agent.clone(),
        version: snapshot.version,
        markdown: with_notes(store, agent, snapshot).await?,
        first_exchange,
        has_evicted,
        passed_before: passed_before(store, agent, first_exchange, &window).await?,
        preamble: preamble
            .into_iter()
            .flat_map(|exchange| exchange.messages)
            .collect(),
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

/// Puts a line with the notes above the document. It names the notes as they were when the window last moved, so it stays the same until
/// the next step. The window itself shows what the agent has written since.
async fn with_notes(store: &dyn Store, agent: &AgentId, snapshot: &Snapshot) -> StoreResult<String> {
    if snapshot.markdown.trim().is_empty() {
        return Ok(snapshot.markdown.clone());
    }
    let query = NoteQuery {
        before: Some(snapshot.first_exchange),
        ..NoteQuery::default()
    };
    Ok(above(&store.notes(agent, &query).await?, &snapshot.markdown))
}

/// Reads the running session's preamble, which is never left out.
async fn preamble(
    store: &dyn Store,
    agent: &AgentId,
    bytes_max: i64,
) -> Result<Vec<StoredExchange>, ContextError> {
    let query = ExchangeQuery {
        from: PREAMBLE,
        through: PREAMBLE,
        limit: 1,
        bytes_max,
    };
    let found = store.exchanges(agent, query).await?;
    let unread = found.iter().find(|stored| stored.unread_bytes.is_some());
    match unread.map(|stored| stored.exchange.exchange) {
        Some(number) => Err(ContextError::TooLarge(number)),
        None => Ok(found),
    }
}

/// Returns the newest exchange that was complete when the boundary moved to `first_exchange`: answers of recapd's tools before it are
/// shortened. [`PREAMBLE`] if there are no answers, or nothing has left the window.
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
    let last_evicted = ExchangeQuery {
        from: FIRST_EXCHANGE,
        through: first_exchange - 1,
        limit: 1,
        bytes_max: SIZES_ONLY,
    };
    let found = store.exchanges(agent, last_evicted).await?;
    let Some(evicted_at) = found.first().and_then(|stored| stored.evicted_at) else {
        return Ok(PREAMBLE);
    };
    // Up to the first that wasn't complete, so that nothing that came later is among them, whatever its time.
    let complete = window
        .iter()
        .map(|stored| &stored.exchange)
        .take_while(|exchange| exchange.last_at < evicted_at)
        .last();
    // It may have been the newest, which mustn't change before the next step.
    Ok(complete.map_or(PREAMBLE, |last| last.exchange))
}

fn bytes_of(exchanges: &[StoredExchange]) -> i64 {
    let messages = exchanges.iter().flat_map(|exchange| &exchange.messages);
    messages
        .map(|stored| MESSAGE_BYTES + i64_or_max(stored.message.payload.len()))
        .sum()
}

/// Returns the view that `viewer` has of a conversation between `heard`.
async fn perspective(
    store: &dyn Store,
    agent: &AgentId,
    viewer: Viewer,
    heard: Vec<String>,
) -> Result<Perspective, ContextError> {
    let settings = store.agent(agent).await?.map(|row| row.settings);
    let telling = settings.unwrap_or_default().telling(viewer.telling);
    Ok(Perspective::new(&viewer.speaker, telling, heard)?)
}

/// Returns the request that the window's first exchange works on, and the exchange it begins, if the window begins with a
/// later leg. A long run often begins its session, so the request may be in the `opening`.
async fn request(
    store: &dyn Store,
    agent: &AgentId,
    window: &[StoredExchange],
    opening: &[StoredExchange],
) -> StoreResult<Option<(i64, StoredMessage)>> {
    let first = window.first().map(|first| &first.exchange);
    let Some(first) = first.filter(|first| first.begins_with() < first.exchange) else {
        return Ok(None);
    };
    let begins_with = first.begins_with();
    let leg = opening
        .iter()
        .find(|stored| stored.exchange.exchange == begins_with);
    let mut messages = leg.into_iter().flat_map(|leg| &leg.messages);
    let found = match messages.find(|stored| is_safe_boundary(&stored.message)) {
        Some(request) => Some(request.clone()),
        None => store.request_of(agent, begins_with).await?,
    };
    Ok(found.map(|request| (begins_with, request)))
}

/// Reads the first exchanges of the session of `newest`, among them the user's first message.
async fn opening(
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
    let own_from = found
        .first()
        .map_or(query.through + 1, |own| own.exchange.exchange);
    let mut opening = inherited(store, agent, first..own_from).await?;
    opening.retain(|inherited| inherited.exchange.session == session);
    for stored in found {
        opening.push(match stored.unread_bytes {
            Some(_) => begun(store, agent, stored).await?.stored,
            None => stored,
        });
    }
    Ok(opening)
}

/// Reads those of these exchanges that the agent's ancestors have. A fork has no rows for exchanges covered when it was made.
async fn inherited(
    store: &dyn Store,
    agent: &AgentId,
    numbers: Range<i64>,
) -> StoreResult<Vec<StoredExchange>> {
    let mut inherited = Vec::new();
    for number in numbers {
        let expanded = store.expand(agent, number, part(0)).await?;
        let shared = expanded.filter(|expanded| expanded.placed.is_found());
        inherited.extend(shared.map(|shared| StoredExchange {
            exchange: shared.placed.exchange,
            evicted_at: None,
            summary_version: None,
            messages: shared.messages,
            unread_bytes: None,
            request: None,
        }));
    }
    Ok(inherited)
}
