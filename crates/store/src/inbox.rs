//! The inbox: what agents insert into the view `messages` by plain SQL, until the daemon has appended it.
//!
//! Invariant: a row leaves in the transaction that appends it, so that it is appended once, whatever crashes. Rows of
//! one agent are numbered in the order in which their transactions commit, and leave in this order.

use async_trait::async_trait;

use super::{AppendOutcome, AppendRequest, StoreResult};
use recapd_core::domain::time::Timestamp;

/// How many refused rows are kept to be looked at: the newest ones.
pub const REFUSED_KEPT: i64 = 10_000;

/// A row as an agent inserted it. Nothing in it has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// Its number.
    pub id: i64,
    /// The agent that the message is for.
    pub agent: Option<String>,
    pub role: Option<String>,
    /// The content, as text or JSON.
    pub content: Option<String>,
    /// The format of the content.
    pub format: Option<String>,
    /// The name of the speaker.
    pub speaker: Option<String>,
    /// The agent's own id of the message.
    pub client_id: Option<String>,
    /// When it was said, if the agent gave a time.
    pub said_at: Option<Timestamp>,
    /// When it was inserted.
    pub received_at: Timestamp,
    /// A column that holds no UTF-8 (SQLite takes any bytes); it is `None` here.
    pub not_utf8: Option<&'static str>,
}

/// A row that can't be appended, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRow {
    /// Its number.
    pub id: i64,
    /// Why, and what to do about it.
    pub reason: String,
    /// The column that holds no UTF-8: the row's texts are kept in hexadecimal, so that nobody else fails to read them.
    pub not_utf8: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxFigures {
    /// Rows that wait.
    pub waiting: i64,
    /// When the oldest of them was inserted.
    pub oldest_at: Option<Timestamp>,
    /// Rows that were refused and are kept.
    pub refused: i64,
}

/// The inbox, as the ingestor empties it.
#[async_trait]
pub trait InboxStore: Send + Sync {
    /// Rows that wait and come after `after`, in order: at most `rows_max`, and beyond the first one only as many as
    /// have texts of `bytes_max` bytes together. A row before `after` may still appear, when its transaction
    /// commits.
    async fn waiting(&self, after: i64, rows_max: i64, bytes_max: i64) -> StoreResult<Vec<InboxRow>>;

    /// Appends, as [`Store::append`](super::Store::append), what `rows` hold, and takes these out of the inbox, in one
    /// transaction.
    ///
    /// # Errors
    /// As `append`; [`Fence::Inbox`](super::Fence::Inbox) when another caller has taken one of the rows, or an earlier
    /// row of the same agent waits. Nothing is changed then.
    async fn append_from_inbox(&self, request: AppendRequest, rows: Vec<i64>) -> StoreResult<AppendOutcome>;

    /// Sets rows aside that still wait. Returns how many. Of all rows set aside the newest [`REFUSED_KEPT`] are kept.
    async fn refuse(&self, rows: Vec<RefusedRow>, now: Timestamp) -> StoreResult<u64>;

    /// How many rows are in it.
    async fn inbox_figures(&self) -> StoreResult<InboxFigures>;

    /// A listener for what is inserted from now on.
    async fn inbox_listener(&self) -> StoreResult<Box<dyn ChangeListener>>;
}

/// Listens for inserts into the inbox.
#[async_trait]
pub trait ChangeListener: Send {
    /// Waits until something may have been inserted since the last call.
    async fn rung(&mut self) -> StoreResult<()>;
}
