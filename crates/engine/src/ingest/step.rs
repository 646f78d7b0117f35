//! Replies to a clear, a mark, a rewind and a fork, shared by HTTP and the command line.

use serde::Serialize;

use recapd_core::domain::agent::AgentId;
use recapd_store::{AppendOutcome, ForkOutcome, StepOutcome};

/// The reply to a clear, a mark or a rewind.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = StepOutcome)]
pub struct StepReply {
    /// The newest exchange; 0 if there is none.
    pub exchange: i64,
    /// The first exchange of the window.
    pub first_exchange: i64,
    /// The last exchange that the summary covers.
    pub covers_through: i64,
    /// Tokens of the window.
    pub window_tokens: i64,
    #[serde(flatten)]
    #[schema(value_type = SteppedFigures)]
    figures: Option<StepFigures>,
}

/// The figures of a step. Each kind of step has some of them.
#[derive(utoipa::ToSchema)]
#[expect(
    dead_code,
    reason = "only the OpenAPI schema uses it: it lists the fields of all variants of StepFigures"
)]
struct SteppedFigures {
    /// The new session, after a clear.
    session: Option<i64>,
    /// The mark's name, after a mark.
    label: Option<String>,
    /// The exchange that holds the mark, after a mark or a rewind.
    marked_exchange: Option<i64>,
    /// How many exchanges a rewind set aside.
    set_aside: Option<i64>,
    /// The summary's new version, if a rewind changed it.
    version: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum StepFigures {
    Cleared { session: i64 },
    Marked { label: Option<String>, marked_exchange: i64 },
    Rewound { marked_exchange: i64, set_aside: i64, version: Option<i64> },
}

impl From<AppendOutcome> for StepReply {
    fn from(outcome: AppendOutcome) -> Self {
        let figures = outcome.steps.into_iter().find_map(|step| match step {
            StepOutcome::Cleared { session } => Some(StepFigures::Cleared { session }),
            StepOutcome::Marked { label, exchange } => {
                Some(StepFigures::Marked { label, marked_exchange: exchange })
            }
            StepOutcome::Rewound { exchange, set_aside, version } => {
                Some(StepFigures::Rewound { marked_exchange: exchange, set_aside, version })
            }
            // The store refuses an unknown mark, message or note with an error; pins and notes have replies of their own.
            StepOutcome::Ignored { .. }
            | StepOutcome::NotThere { .. }
            | StepOutcome::NoNote { .. }
            | StepOutcome::Pinned { .. }
            | StepOutcome::Unpinned { .. }
            | StepOutcome::Noted { .. } => None,
        });
        Self {
            exchange: outcome.exchange,
            first_exchange: outcome.first_exchange,
            covers_through: outcome.summarized_through,
            window_tokens: outcome.window_tokens,
            figures,
        }
    }
}

/// The reply to a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ForkOutcome)]
pub struct ForkReply {
    /// The new agent.
    pub agent_id: AgentId,
    /// The agent that it was forked from.
    pub parent_agent_id: AgentId,
    /// The parent's last exchange at the fork; null if the parent had no exchanges.
    pub fork_exchange: Option<i64>,
    /// How many exchanges the new agent shares with the parent: those in its window and those pending.
    pub exchanges: i64,
    /// How many items the new agent's document shares with the parent's.
    pub items: i64,
}

impl ForkReply {
    pub fn new(parent: AgentId, child: AgentId, forked: ForkOutcome) -> Self {
        Self {
            agent_id: child,
            parent_agent_id: parent,
            fork_exchange: forked.fork_exchange,
            exchanges: forked.exchanges,
            items: forked.items,
        }
    }
}
