//! Reading a context: one function for the command line and for HTTP.
//!
//! What it costs to build one is paid by [`ContextMaterial::build`], apart from what waits for the database.

use serde::Serialize;

use crate::{
    domain::{
        agent::AgentId,
        context::{
            Alternation, ContextInput, ContextOptions, Elision, SourceExchange, SourceMessage, build, fence,
            is_safe_boundary,
        },
        exchange::{ExchangeState, FIRST_EXCHANGE, PREAMBLE},
        summary::pending::with_pending,
        tokens::TokenCounter,
    },
    formats::outgoing::{Outgoing, RequestFormat, render},
    snapshot::Snapshot,
    store::{ExchangeQuery, Store, StoreResult, StoredExchange, StoredMessage},
};

/// The most exchanges of a window that are read.
pub const WINDOW_EXCHANGES_MAX: i64 = 100_000;
/// The summary takes at most this part of a request.
const SUMMARY_SHARE: i64 = 4;
/// The first message of a session is looked for in its first exchanges, at most so many.
const ANCHOR_EXCHANGES_MAX: i64 = 4;

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextQuery {
    /// Whose request is written.
    pub format: RequestFormat,
    /// The most tokens of the whole request, if not what is configured; 0 is no limit.
    pub budget_tokens: Option<i64>,
    /// How alternation is repaired, if not as configured.
    pub alternation: Option<Alternation>,
}

impl ContextQuery {
    /// The configured `defaults` with what was asked for.
    pub fn options(self, defaults: ContextOptions) -> ContextOptions {
        ContextOptions {
            max_tokens: self.budget_tokens.unwrap_or(defaults.max_tokens),
            alternation: self.alternation.unwrap_or(defaults.alternation),
            system_in_place: self.format.takes_system_in_place(),
            ..defaults
        }
    }
}

/// All that a context is built from.
#[derive(Clone, Debug)]
pub struct ContextMaterial {
    agent: AgentId,
    version: i64,
    /// The document as readers see it; empty for none.
    markdown: String,
    first_exchange: i64,
    preamble: Vec<StoredMessage>,
    anchor: Option<StoredMessage>,
    window: Vec<StoredExchange>,
}

/// A context, ready to be sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextReply {
    /// Whose.
    pub agent_id: AgentId,
    /// For which provider.
    pub format: RequestFormat,
    /// The fields of the provider's request that hold the conversation.
    pub body: serde_json::Value,
    /// What it costs, by the counter of the window.
    pub tokens: i64,
    /// What it may cost, if there is a limit.
    pub limit_tokens: Option<i64>,
    /// It costs more, since the newest exchange is too big by itself.
    pub over_budget: bool,
    /// The version of the summary in it; 0 for none.
    pub summary_version: i64,
    /// The first exchange of the window.
    pub first_exchange: i64,
    /// Exchanges of the window that had no room.
    pub left_out: Vec<i64>,
    /// Tool results that were shortened.
    pub elided: Vec<Elision>,
    /// What could not be carried over to this provider.
    pub notes: Vec<String>,
}

/// Reads what the context of `agent` is built from. `snapshot` is the summary of the step
/// ([`Store::summary_of_step`]); it says where the window begins, so that no exchange is both in it and in the summary,
/// or in neither.
///
/// # Errors
/// What the store fails with.
pub async fn load(store: &dyn Store, agent: &AgentId, snapshot: &Snapshot) -> StoreResult<ContextMaterial> {
    let query = |from, through, limit| ExchangeQuery {
        from,
        through,
        limit,
        messages: true,
    };
    let first_exchange = snapshot.first_exchange.max(FIRST_EXCHANGE);
    let preamble = store.exchanges(agent, query(PREAMBLE, PREAMBLE, 1)).await?;
    let window = query(first_exchange, i64::MAX, WINDOW_EXCHANGES_MAX);
    let window = store.exchanges(agent, window).await?;
    let anchor = match window.last() {
        Some(newest) => anchor(store, agent, newest).await?,
        None => None,
    };
    Ok(ContextMaterial {
        agent: agent.clone(),
        version: snapshot.version,
        markdown: snapshot.markdown.clone(),
        first_exchange,
        preamble: preamble
            .into_iter()
            .flat_map(|exchange| exchange.messages)
            .collect(),
        anchor,
        window,
    })
}

/// The first thing that the user said in the session of `newest`.
async fn anchor(
    store: &dyn Store,
    agent: &AgentId,
    newest: &StoredExchange,
) -> StoreResult<Option<StoredMessage>> {
    let session = newest.exchange.session;
    let first = session_start(store, agent, newest).await?;
    for number in first..first + ANCHOR_EXCHANGES_MAX {
        let query = ExchangeQuery {
            from: number,
            through: number,
            limit: 1,
            messages: true,
        };
        let found = store.exchanges(agent, query).await?;
        let of_session = found
            .into_iter()
            .filter(|found| found.exchange.session == session);
        let mut messages = of_session.flat_map(|found| found.messages);
        let anchor = messages.find(|stored| is_safe_boundary(&stored.message));
        if anchor.is_some() {
            return Ok(anchor);
        }
    }
    Ok(None)
}

/// The first exchange of the session of `newest`. Sessions follow each other, so halving finds it.
async fn session_start(store: &dyn Store, agent: &AgentId, newest: &StoredExchange) -> StoreResult<i64> {
    let (mut low, mut high) = (FIRST_EXCHANGE, newest.exchange.exchange);
    while low < high {
        let middle = i64::midpoint(low, high);
        let query = ExchangeQuery {
            from: FIRST_EXCHANGE,
            through: middle,
            limit: 1,
            messages: false,
        };
        let found = store.exchanges(agent, query).await?;
        match found.first().map(|found| &found.exchange) {
            Some(found) if found.session == newest.exchange.session => high = found.exchange,
            _ => low = middle + 1,
        }
    }
    Ok(high)
}

impl ContextMaterial {
    /// Builds the context and writes it as the query asks. Costs are those of the stored messages, which `counter`
    /// counted when they came in, and its own for everything else.
    pub fn build(
        &self,
        query: ContextQuery,
        defaults: ContextOptions,
        counter: &dyn TokenCounter,
    ) -> ContextReply {
        let options = query.options(defaults);
        let room = options.limit_tokens().map(|limit| limit / SUMMARY_SHARE);
        let shortened = room
            .filter(|&room| counter.count(&self.markdown) > room)
            .map(|room| with_pending(&self.markdown, &[], room, counter).0);
        let input = self.input(shortened.as_ref().unwrap_or(&self.markdown));
        let context = build(&input, &options, counter);
        let Outgoing { body, mut notes } = render(query.format, &context.turns);
        if shortened.is_some() {
            notes.push("the summary is shortened: whole, it would take too much of this budget".to_owned());
        }
        ContextReply {
            agent_id: self.agent.clone(),
            format: query.format,
            body,
            tokens: context.tokens,
            limit_tokens: context.limit_tokens,
            over_budget: context.over_budget,
            summary_version: self.version,
            first_exchange: self.first_exchange,
            left_out: context.left_out,
            elided: context.elided,
            notes,
        }
    }

    fn input(&self, markdown: &str) -> ContextInput<'_> {
        let has_summary = !markdown.trim().is_empty();
        let exchanges = self.window.iter().map(|stored| SourceExchange {
            exchange: stored.exchange.exchange,
            is_open: stored.exchange.state == ExchangeState::Open,
            messages: stored.messages.iter().map(source).collect(),
        });
        ContextInput {
            preamble: self.preamble.iter().map(source).collect(),
            anchor: self.anchor.as_ref().map(source),
            summary: has_summary.then(|| fence(&self.agent, self.version, markdown)),
            exchanges: exchanges.collect(),
            evicted: self.first_exchange > FIRST_EXCHANGE,
        }
    }
}

fn source(stored: &StoredMessage) -> SourceMessage<'_> {
    SourceMessage {
        seq: stored.seq,
        message: &stored.message,
        tokens: Some(stored.tokens),
    }
}
