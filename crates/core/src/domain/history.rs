//! History: the exchanges around the boundary, for people and programs (seed 000, "Visualization"; seed 001, "Horizontal Rule").
//!
//! A horizontal rule separates archive and window. Its position is computed from the boundary each time and never stored. So the command
//! line, the API and the dashboard always agree about it.

mod text;

use serde::{Serialize, Serializer};

pub use self::text::{age, render_text, rule, rule_label};
use super::{
    agent::AgentId,
    budget::Budget,
    convergence::ConvergenceScore,
    exchange::{Exchange, ExchangeState},
    text::one_line,
    time::Timestamp,
    transcript::Voice,
};

/// A line of text in an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLine {
    /// Whose line it is.
    pub voice: Voice,
    /// The text. Rendering removes its control characters and line feeds.
    pub text: String,
    /// The tokens of its message, on the message's first line; `None` unless requested.
    pub tokens: Option<i64>,
}

/// An exchange of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryExchange {
    /// Its row in the ledger.
    pub exchange: Exchange,
    /// When it left the window; `None` if it didn't.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covers it, if known.
    pub summary_version: Option<i64>,
    /// The lines of its messages; empty unless requested.
    pub lines: Vec<HistoryLine>,
}

/// The key figures of the newest summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistorySummary {
    /// The version number.
    pub version: i64,
    /// The document's tokens.
    pub tokens: i64,
    /// The ceiling of the document in tokens.
    pub max_tokens: i64,
}

/// A history to render. Serializes to `{agent_id, budget_tokens, summary, window: {tokens, fill_ratio}, boundary: {first_exchange,
/// after_exchange, tokens_visible}, convergence, archived_total, window_total, exchanges: [{n, title, state, …}]}`.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryView {
    /// The agent whose history it is.
    pub agent: AgentId,
    /// The window's budget.
    pub budget: Budget,
    /// The newest summary, if there is one.
    pub summary: Option<HistorySummary>,
    /// The boundary: the first exchange in the window.
    pub first_exchange: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
    /// Tokens of the window, preamble included.
    pub window_tokens: i64,
    /// The shown exchanges, oldest first: the newest ones of the window and of the archive, as many as requested.
    pub exchanges: Vec<HistoryExchange>,
    /// How many live exchanges are before the boundary, shown or not.
    pub archived_total: i64,
    /// How many live exchanges are in the window, shown or not.
    pub window_total: i64,
    /// How alike the speakers sound, if there are several.
    pub convergence: Option<ConvergenceScore>,
    /// The current time, to which ages are relative.
    pub now: Timestamp,
}

/// Where an exchange is, and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeStanding {
    /// A rewind set it aside.
    SetAside,
    /// Archived and covered by the summary, since that version if it is known.
    Covered(Option<i64>),
    /// Archived, but not summarised yet.
    Pending,
    /// In the window, complete.
    Window,
    /// In the window; more messages are expected.
    Open,
    /// In the window; the user interrupted it.
    Interrupted,
}

impl ExchangeStanding {
    /// Returns `archived`, `window`, `open`, `interrupted` or `set_aside`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SetAside => "set_aside",
            Self::Covered(_) | Self::Pending => "archived",
            Self::Window => "window",
            Self::Open => "open",
            Self::Interrupted => "interrupted",
        }
    }
}

impl HistoryView {
    /// Returns where the exchange is, and its state.
    pub fn standing(&self, row: &HistoryExchange) -> ExchangeStanding {
        let exchange = &row.exchange;
        match (row.summary_version, exchange.state) {
            _ if exchange.set_aside_at.is_some() => ExchangeStanding::SetAside,
            (version, _) if self.is_archived(row) => {
                if version.is_some() || exchange.exchange <= self.summarized_through {
                    ExchangeStanding::Covered(version)
                } else {
                    ExchangeStanding::Pending
                }
            }
            (_, ExchangeState::Open) => ExchangeStanding::Open,
            (_, ExchangeState::Interrupted) => ExchangeStanding::Interrupted,
            (_, ExchangeState::Closed) => ExchangeStanding::Window,
        }
    }

    /// Returns true if the exchange is before the boundary.
    pub fn is_archived(&self, row: &HistoryExchange) -> bool {
        row.exchange.exchange < self.first_exchange
    }

    /// Returns true if the exchange is the newest one of a window over its budget.
    pub fn is_over_budget(&self, row: &HistoryExchange) -> bool {
        let is_newest = self.exchanges.last() == Some(row);
        is_newest && !self.is_archived(row) && self.budget.is_exceeded_by(self.window_tokens)
    }

    /// Returns the exchange after which the rule is drawn; `None` while nothing has left the window.
    pub fn after_exchange(&self) -> Option<i64> {
        (self.archived_total > 0).then(|| self.first_exchange - 1)
    }

    /// Returns how full the window is, where 1.0 is the budget; `None` without a budget.
    pub fn fill_ratio(&self) -> Option<f64> {
        fill_ratio(self.window_tokens, self.budget.budget_tokens())
    }
}

/// Returns how full a window is, where 1.0 is the budget; `None` without a budget (0).
#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
pub fn fill_ratio(window_tokens: i64, budget_tokens: i64) -> Option<f64> {
    (budget_tokens > 0).then(|| window_tokens as f64 / budget_tokens as f64)
}

impl Serialize for HistoryView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireHistory {
            agent_id: &self.agent,
            budget_tokens: self.budget.budget_tokens(),
            summary: self.summary,
            window: WireWindow { tokens: self.window_tokens, fill_ratio: self.fill_ratio() },
            boundary: WireBoundary {
                first_exchange: self.first_exchange,
                after_exchange: self.after_exchange(),
                tokens_visible: self.window_tokens,
            },
            convergence: self.convergence.as_ref(),
            archived_total: self.archived_total,
            window_total: self.window_total,
            exchanges: self.exchanges.iter().map(|row| self.wire(row)).collect(),
        }
        .serialize(serializer)
    }
}

impl HistoryView {
    fn wire<'a>(&self, row: &'a HistoryExchange) -> WireExchange<'a> {
        let exchange = &row.exchange;
        let standing = self.standing(row);
        WireExchange {
            n: exchange.exchange,
            continues: exchange.headline.continues,
            title: one_line(&exchange.headline.title),
            state: standing.name(),
            waiting: standing == ExchangeStanding::Pending,
            over_budget: self.is_over_budget(row),
            tokens: exchange.tokens,
            started_at: exchange.opened_at,
            ended_at: exchange.last_at,
            evicted_at: row.evicted_at,
            summary_version: row.summary_version,
            messages: row.lines.iter().map(WireLine::new).collect(),
        }
    }
}

fn voice_name(voice: Voice) -> &'static str {
    match voice {
        Voice::User => "user",
        Voice::Assistant => "assistant",
        Voice::Program => "program",
        Voice::Call => "tool",
        Voice::Result => "result",
        Voice::FailedResult => "failed",
    }
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = History))]
struct WireHistory<'a> {
    agent_id: &'a AgentId,
    budget_tokens: i64,
    summary: Option<HistorySummary>,
    window: WireWindow,
    boundary: WireBoundary,
    #[serde(skip_serializing_if = "Option::is_none")]
    convergence: Option<&'a ConvergenceScore>,
    archived_total: i64,
    window_total: i64,
    exchanges: Vec<WireExchange<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = HistoryWindow))]
struct WireWindow {
    tokens: i64,
    fill_ratio: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = HistoryBoundary))]
struct WireBoundary {
    first_exchange: i64,
    after_exchange: Option<i64>,
    tokens_visible: i64,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = HistoryExchange))]
struct WireExchange<'a> {
    n: i64,
    /// The first leg of the exchange, if this is a later leg.
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<i64>,
    title: String,
    state: &'static str,
    waiting: bool,
    over_budget: bool,
    tokens: i64,
    started_at: Timestamp,
    ended_at: Timestamp,
    /// When it left the window; `null` if it didn't.
    evicted_at: Option<Timestamp>,
    summary_version: Option<i64>,
    messages: Vec<WireLine<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = HistoryLine))]
struct WireLine<'a> {
    voice: &'static str,
    text: &'a str,
    /// The tokens of the message, on its first line, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<i64>,
}

impl<'a> WireLine<'a> {
    fn new(line: &'a HistoryLine) -> Self {
        Self { voice: voice_name(line.voice), text: &line.text, tokens: line.tokens }
    }
}

#[cfg(test)]
mod tests;

#[cfg(feature = "openapi")]
mod schema {
    use utoipa::{
        PartialSchema, ToSchema,
        openapi::{RefOr, schema::Schema},
    };

    use super::{HistoryView, WireHistory};

    impl PartialSchema for HistoryView {
        fn schema() -> RefOr<Schema> {
            WireHistory::schema()
        }
    }

    impl ToSchema for HistoryView {
        fn name() -> std::borrow::Cow<'static, str> {
            WireHistory::name()
        }

        fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
            WireHistory::schemas(schemas);
        }
    }
}
