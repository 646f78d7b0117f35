//! What can go wrong in a store.

use super::{FactFault, ITEM_PINS_MAX, Outage};
use recapd_core::domain::{agent::AgentId, context::COPIES_MAX, ledger::TooBig};
use recapd_platform::threads::ComputationPanic;

/// What can go wrong in a store's operation, by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another worker or a change of the summary went first: drop the result, the queue will offer the work again.
    #[error("fenced off: {0}")]
    Fenced(Fence),
    /// No such agent.
    #[error("agent `{0}` is unknown")]
    UnknownAgent(AgentId),
    /// There is such an agent already.
    #[error("agent `{0}` exists already")]
    AgentExists(AgentId),
    /// The client sent another message under an id that it has used before.
    #[error("client id `{0}` was used before for another message")]
    ClientIdReused(String),
    /// The client sent another request under a key that it has used before.
    #[error("idempotency key `{0}` was used for another request")]
    KeyReused(String),
    /// There is no such mark to go back to: never set, or left behind by a clear or an earlier rewind.
    #[error("{}", no_mark(.0.as_deref()))]
    UnknownMark(Option<String>),
    /// There is no such version to go back to, or it is kept no longer.
    #[error("{}", no_version(*.version, *.kept))]
    UnknownVersion {
        version: i64,
        /// The oldest and the newest version that are kept, if any are.
        kept: Option<(i64, i64)>,
    },
    /// There is no such item that covers anything.
    #[error("{}", no_item(*.item, *.now))]
    UnknownItem {
        item: i64,
        /// The item that covers its exchanges now, if it was replaced.
        now: Option<i64>,
    },
    /// There are as many pinned items as there may be.
    #[error("{ITEM_PINS_MAX} items are pinned, and no more can be")]
    ItemPinsFull,
    /// Facts can't be changed so.
    #[error(transparent)]
    Fact(#[from] FactFault),
    /// There is no such message to pin in the agent's live history, or no such pin to take back.
    #[error("there is no message {0} that could be pinned, or it isn't pinned")]
    UnknownMessage(i64),
    /// The agent has no exchange of that number.
    #[error("there is no exchange #{0}")]
    UnknownExchange(i64),
    /// Agents were forked from this one, and share what it holds.
    #[error("`{agent}` can't be deleted while agents are there that were forked from it: {}", forks.join(", "))]
    HasForks { agent: AgentId, forks: Vec<String> },
    /// The copies of pinned messages would take more room than contexts have for them.
    #[error(
        "{} pinned messages would have {tokens} tokens: at most {COPIES_MAX} of {max_tokens} can be pinned",
        pinned + 1
    )]
    PinsFull {
        /// How many are pinned already.
        pinned: i64,
        /// Tokens of these and the new one.
        tokens: i64,
        /// The most tokens that they may have.
        max_tokens: i64,
    },
    /// The newest exchange alone would exceed the agent's budget, and the agent's settings have that refused.
    #[error(transparent)]
    WouldOverflow(#[from] TooBig),
    /// Stored data that can't be right; an operator must look.
    #[error("table {table}, {row}: column {column} holds `{value}`")]
    Inconsistent {
        table: &'static str,
        row: String,
        column: &'static str,
        /// What it holds.
        value: String,
    },
    /// The database refuses what would break a constraint, or what it can't hold: a defect of recapd. Nothing was
    /// changed.
    #[error("the database refuses the change: {0}")]
    Refused(String),
    /// The database was written by a newer recapd, or is not recapd's.
    #[error("the database's schema can't be used: {0}")]
    Schema(String),
    /// Another daemon holds this database.
    #[error("{0} is in use by another recapd")]
    InUse(String),
    /// The database rolled the transaction back several times because of conflicts with others, or others held what it would lock:
    /// nothing is wrong, and nothing was changed.
    #[error("the change gave way to others, try again: {0}")]
    Contended(String),
    /// The database is unreachable, full, busy or broken: try again later.
    #[error("the database fails: {0}")]
    Unavailable(Outage),
    /// What was to be stored, or was read, could not be worked out. The database has nothing to do with it.
    #[error(transparent)]
    Panicked(#[from] ComputationPanic),
}

impl StoreError {
    /// The kind of the database's failure, as `recapd_db_errors_total` labels it; `None` if the database works and only
    /// refused.
    pub fn class(&self) -> Option<&'static str> {
        match self {
            Self::Unavailable(outage) => Some(outage.kind.class()),
            Self::Contended(_) => Some("busy"),
            Self::Refused(_) => Some("constraint"),
            Self::Inconsistent { .. } => Some("corrupt"),
            Self::Schema(_) | Self::InUse(_) => Some("other"),
            _ => None,
        }
    }
}

fn no_mark(label: Option<&str>) -> String {
    label.map_or_else(
        || "there is no mark".to_owned(),
        |label| format!("there is no mark `{label}`"),
    )
}

fn no_version(version: i64, kept: Option<(i64, i64)>) -> String {
    let kept = match kept {
        None => "there is none yet".to_owned(),
        Some((oldest, newest)) => format!("{oldest} to {newest} are kept"),
    };
    format!("there is no version {version}: {kept}")
}

fn no_item(item: i64, now: Option<i64>) -> String {
    let now = now.map_or_else(String::new, |now| {
        format!("; what it stood for is told by item {now} now")
    });
    format!("there is no item {item}{now}")
}

/// The guard of an update that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fence {
    /// The lease is no longer this holder's.
    Lease,
    /// The summary has another version than the one that was read.
    Version,
    /// A watermark moved: the boundary moved back, or the exchanges are covered already.
    Watermark,
    /// Exchanges that were read were set aside meanwhile.
    Exchanges,
    /// Another caller has taken a row out of the inbox, or an earlier row of the agent waits there.
    Inbox,
}

impl std::fmt::Display for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Lease => "lease",
            Self::Version => "version",
            Self::Watermark => "watermark",
            Self::Exchanges => "exchanges",
            Self::Inbox => "inbox",
        })
    }
}
