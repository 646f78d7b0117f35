//! The store's errors, grouped by what the caller does next.

use super::{FactFault, ITEM_PINS_MAX, Outage};
use recapd_core::domain::{
    agent::AgentId,
    context::COPIES_MAX,
    ledger::TooBig,
    note::{NOTES_MAX, NoteFault, NoteName},
};
use recapd_platform::threads::ComputationPanic;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another worker or a change of the summary came first. The caller drops its result; the queue will offer the work again.
    #[error("fenced off: {0}")]
    Fenced(Fence),
    #[error("agent `{0}` is unknown")]
    UnknownAgent(AgentId),
    #[error("agent `{0}` exists already")]
    AgentExists(AgentId),
    #[error("client id `{0}` was used before for another message")]
    ClientIdReused(String),
    #[error("idempotency key `{0}` was used for another request")]
    KeyReused(String),
    /// The mark was never set, or a clear or an earlier rewind has removed it.
    #[error("{}", no_mark(.0.as_deref()))]
    UnknownMark(Option<String>),
    /// The version to go back to never existed, or it has been deleted.
    #[error("{}", no_version(*.version, *.kept))]
    UnknownVersion {
        version: i64,
        /// The oldest and the newest version that are kept; `None` if there are none.
        kept: Option<(i64, i64)>,
    },
    /// The agent has no such item in force.
    #[error("{}", no_item(*.item, *.now))]
    UnknownItem {
        item: i64,
        /// The item that replaced it.
        now: Option<i64>,
    },
    #[error("{ITEM_PINS_MAX} items are pinned, and no more can be")]
    ItemPinsFull,
    #[error(transparent)]
    Fact(#[from] FactFault),
    /// The agent has no such message to pin in its live history, no such pin to remove, or no such message to forget.
    #[error("there is no message {0} that could be pinned, or it isn't pinned")]
    UnknownMessage(i64),
    #[error("there is no exchange #{0}")]
    UnknownExchange(i64),
    /// Forks of this agent share its exchanges.
    #[error("`{agent}` can't be deleted while it has forks: {}", forks.join(", "))]
    HasForks { agent: AgentId, forks: Vec<String> },
    /// The copies of pinned messages would take more tokens than contexts reserve for them.
    #[error(
        "{} pinned messages would have {tokens} tokens: at most {COPIES_MAX} of {max_tokens} can be pinned",
        pinned + 1
    )]
    PinsFull {
        pinned: i64,
        /// Tokens of the pinned messages and the new one.
        tokens: i64,
        max_tokens: i64,
    },
    #[error(transparent)]
    Note(#[from] NoteFault),
    #[error("there is no note `{0}`")]
    UnknownNote(NoteName),
    /// Another change has written the note since the version that this change replaces.
    #[error("note `{name}` {}", present_version(*version))]
    NoteChanged {
        name: NoteName,
        /// The present version; 0 if there is none.
        version: i64,
    },
    #[error("the agent has {NOTES_MAX} notes, and may have no more")]
    NotesFull,
    /// The newest exchange alone would exceed the agent's budget, and the agent's settings refuse that.
    #[error(transparent)]
    WouldOverflow(#[from] TooBig),
    /// Stored data contradicts itself. An operator must examine it.
    #[error("table {table}, {row}: column {column} holds `{value}`")]
    Inconsistent { table: &'static str, row: String, column: &'static str, value: String },
    /// The change would break a constraint, or the database can't hold the value: a bug in recapd. Nothing was changed.
    #[error("the database refuses the change: {0}")]
    Refused(String),
    /// A newer recapd wrote the database, or the database isn't recapd's.
    #[error("the database's schema can't be used: {0}")]
    Schema(String),
    #[error("{0} is in use by another recapd")]
    InUse(String),
    /// The database rolled the transaction back several times because of conflicts, or others held its locks. Nothing was
    /// changed, and a retry may succeed.
    #[error("the change gave way to others, try again: {0}")]
    Contended(String),
    /// The database is unreachable, full, busy or broken. A retry may succeed later.
    #[error("the database fails: {0}")]
    Unavailable(Outage),
    /// A computation on the data panicked. The database isn't the cause.
    #[error(transparent)]
    Panicked(#[from] ComputationPanic),
}

impl StoreError {
    /// Returns the label of the failure in `recapd_db_errors_total`; `None` if the database works and only refused the operation.
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
    label.map_or_else(|| "there is no mark".to_owned(), |label| format!("there is no mark `{label}`"))
}

fn no_version(version: i64, kept: Option<(i64, i64)>) -> String {
    let kept = match kept {
        None => "there is none yet".to_owned(),
        Some((oldest, newest)) => format!("{oldest} to {newest} are kept"),
    };
    format!("there is no version {version}: {kept}")
}

fn present_version(version: i64) -> String {
    match version {
        0 => "isn't there".to_owned(),
        version => format!("is at version {version} now"),
    }
}

fn no_item(item: i64, now: Option<i64>) -> String {
    let now = now.map_or_else(String::new, |now| format!("; item {now} covers its exchanges now"));
    format!("there is no item {item}{now}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fence {
    Lease,
    Version,
    /// A watermark moved: the boundary moved back, or the exchanges are covered already.
    Watermark,
    /// Exchanges of the update have been set aside.
    Exchanges,
    /// Another caller has removed a row from the inbox, or an earlier row of the agent waits there.
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
