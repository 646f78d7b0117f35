//! The inbox: messages that agents insert into the view `messages` by plain SQL, until the daemon has appended them.
//!
//! Invariant: the transaction that appends a row also removes the row from the inbox, so that the row is appended once, whatever
//! crashes. Rows of one agent are numbered in the order in which their transactions commit, and are appended in this order.

use async_trait::async_trait;

use super::{AppendOutcome, AppendRequest, StoreResult};
use recapd_core::domain::time::Timestamp;

/// How many of the newest refused rows are kept for inspection.
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
    /// The name of a column that holds invalid UTF-8 (SQLite accepts any bytes) and is therefore `None` here.
    pub not_utf8: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRow {
    pub id: i64,
    /// Why the row was refused, and what to do about it.
    pub reason: String,
    /// The column that holds invalid UTF-8. The row's texts are then stored in hexadecimal, so that no reader fails on them.
    pub not_utf8: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxFigures {
    pub waiting: i64,
    /// When the oldest waiting row was inserted.
    pub oldest_at: Option<Timestamp>,
    pub refused: i64,
}

/// The inbox, from which the ingestor appends.
#[async_trait]
pub trait InboxStore: Send + Sync {
    /// Returns waiting rows after `after`, in order: at most `rows_max`, and as many as have at most `bytes_max` bytes of text
    /// together, but at least one if there is one. A row before `after` may still appear later, when its transaction commits.
    async fn waiting(&self, after: i64, rows_max: i64, bytes_max: i64) -> StoreResult<Vec<InboxRow>>;

    /// Appends the messages made from `rows`, as [`Store::append`](super::Store::append) does, and removes the rows from the
    /// inbox in the same transaction.
    ///
    /// # Errors
    /// As `append`. [`Fence::Inbox`](super::Fence::Inbox) if another caller has removed one of the rows, or an earlier row of the
    /// same agent waits; then nothing is changed.
    async fn append_from_inbox(&self, request: AppendRequest, rows: Vec<i64>) -> StoreResult<AppendOutcome>;

    /// Marks waiting rows as refused. Returns how many. Deletes all refused rows except the newest [`REFUSED_KEPT`].
    async fn refuse(&self, rows: Vec<RefusedRow>, now: Timestamp) -> StoreResult<u64>;

    async fn inbox_figures(&self) -> StoreResult<InboxFigures>;

    /// Returns a listener for inserts from now on.
    async fn inbox_listener(&self) -> StoreResult<Box<dyn ChangeListener>>;
}

#[async_trait]
pub trait ChangeListener: Send {
    /// Waits until something may have been inserted since the last call.
    async fn wait_for_change(&mut self) -> StoreResult<()>;
}
