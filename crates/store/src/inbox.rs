//! The inbox: messages that agents insert into the view `messages` by plain SQL, until the daemon has appended them.
//!
//! Invariant: the transaction that appends a row also removes it, so that it is appended once, whatever crashes. Rows of one agent are
//! numbered in the order in which their transactions commit, and leave in this order.

use async_trait::async_trait;

use super::{AppendOutcome, AppendRequest, StoreResult};
use recapd_core::domain::time::Timestamp;

/// How many refused rows are kept for inspection: the newest ones.
pub const REFUSED_KEPT: i64 = 10_000;

/// A row as an agent inserted it. Nothing in it has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    pub id: i64,
    pub agent: Option<String>,
    pub role: Option<String>,
    /// Text or JSON.
    pub content: Option<String>,
    pub format: Option<String>,
    pub speaker: Option<String>,
    /// The agent's own id of the message.
    pub client_id: Option<String>,
    /// When it was said, if the agent gave a time.
    pub said_at: Option<Timestamp>,
    pub received_at: Timestamp,
    /// A column that holds invalid UTF-8 (SQLite accepts any bytes); it is `None` here.
    pub not_utf8: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRow {
    pub id: i64,
    /// Why, and what to do about it.
    pub reason: String,
    /// The column that holds invalid UTF-8. The row's texts are then kept in hexadecimal, so that no reader fails on them.
    pub not_utf8: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxFigures {
    pub waiting: i64,
    /// When the oldest of them was inserted.
    pub oldest_at: Option<Timestamp>,
    pub refused: i64,
}

/// The inbox, as the ingestor empties it.
#[async_trait]
pub trait InboxStore: Send + Sync {
    /// Returns rows that wait and follow `after`, in order: at most `rows_max` and, beyond the first, only as many as hold `bytes_max`
    /// bytes of text together. A row before `after` may still appear when its transaction commits.
    async fn waiting(&self, after: i64, rows_max: i64, bytes_max: i64) -> StoreResult<Vec<InboxRow>>;

    /// Appends the content of `rows`, as [`Store::append`](super::Store::append) does, and removes them from the inbox in the same
    /// transaction.
    ///
    /// # Errors
    /// As `append`; [`Fence::Inbox`](super::Fence::Inbox) when another caller has taken one of the rows, or an earlier row of the same
    /// agent waits. Nothing is changed then.
    async fn append_from_inbox(&self, request: AppendRequest, rows: Vec<i64>) -> StoreResult<AppendOutcome>;

    /// Sets waiting rows aside as refused, and returns how many. Of all refused rows, the newest [`REFUSED_KEPT`] are kept.
    async fn refuse(&self, rows: Vec<RefusedRow>, now: Timestamp) -> StoreResult<u64>;

    async fn inbox_figures(&self) -> StoreResult<InboxFigures>;

    /// Returns a listener for inserts from now on.
    async fn inbox_listener(&self) -> StoreResult<Box<dyn ChangeListener>>;
}

#[async_trait]
pub trait ChangeListener: Send {
    /// Waits until something may have been inserted since the last call.
    async fn rung(&mut self) -> StoreResult<()>;
}
