//! The storage seam. Each operation is one transaction; none stays open while a model thinks.
//!
//! The watermarks in `agents` are the truth, a queue row only says when to look: a lost row costs delay, never work.
//! One transaction writes a summary, behind three fences: the lease's token, the expected version, the watermark.
//! Safety never rests on time: leases and clocks decide only *when* work is repeated.
//!
//! Every implementation passes the one conformance suite in `tests/it/store`.

pub mod access;
pub mod archive;
pub mod backup;
pub mod batch;
pub mod copy;
pub mod examine;
pub mod forget;
pub mod inbox;
pub mod operate;
mod outage;
pub mod page;
pub mod postgres;
mod project;
pub mod recall;
pub mod record;
pub mod recount;
pub mod schema;
pub mod spending;
mod sql;
pub mod sqlite;
mod timeouts;
pub mod update;
pub mod verify;
pub mod version;

use async_trait::async_trait;

pub use forget::*;
pub use outage::*;
pub use project::*;
pub use recall::*;
pub use record::*;
pub use recount::*;
pub use spending::*;
pub use sql::{Connections, DatabaseSettings, SqlStore};
pub use update::*;
pub use version::*;

use crate::{
    domain::{
        agent::AgentId,
        context::COPIES_MAX,
        ledger::TooBig,
        project::ProjectId,
        recall::Query,
        settings::{AgentSettings, SettingsPatch},
        time::Timestamp,
        work::{Lease, Reason},
    },
    threads::Panicked,
};
use verify::AgentReport;

/// What can go wrong, by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else went first: drop the result, the queue will offer the work again.
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
        /// The version.
        version: i64,
        /// The oldest and the newest one that are kept, if there are any.
        kept: Option<(i64, i64)>,
    },
    /// There is no such item that covers anything.
    #[error("{}", no_item(*.item, *.now))]
    UnknownItem {
        /// The item.
        item: i64,
        /// The one that stands for its exchanges now, if it was replaced.
        now: Option<i64>,
    },
    /// There are as many pinned items as there may be.
    #[error("{ITEM_PINS_MAX} items are pinned, and no more can be")]
    ItemPinsFull,
    /// There is no such message to pin in the agent's live history, or no such pin to take back.
    #[error("there is no message {0} that could be pinned, or it isn't pinned")]
    UnknownMessage(i64),
    /// The agent has no exchange of that number.
    #[error("there is no exchange #{0}")]
    UnknownExchange(i64),
    /// Other agents began with what this one holds.
    #[error("`{agent}` can't be deleted while agents are there that were forked from it: {}", forks.join(", "))]
    HasForks {
        /// Who.
        agent: AgentId,
        /// Its forks, some of them.
        forks: Vec<String>,
    },
    /// The copies of pinned messages would take more room than they have in a context.
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
    /// The newest exchange alone would be over the agent's budget, and the agent wants that refused.
    #[error(transparent)]
    WouldOverflow(#[from] TooBig),
    /// Stored data that can't be right; an operator must look.
    #[error("table {table}, {row}: column {column} holds `{value}`")]
    Inconsistent {
        /// Where.
        table: &'static str,
        /// Which row.
        row: String,
        /// Which column.
        column: &'static str,
        /// What it holds.
        value: String,
    },
    /// The database refuses what would break a rule of its schema, or what it can't hold: a defect of recapd. Nothing was
    /// changed.
    #[error("the database refuses the change: {0}")]
    Refused(String),
    /// The database was written by a newer recapd, or is not recapd's.
    #[error("the database's schema can't be used: {0}")]
    Schema(String),
    /// Another daemon holds this database.
    #[error("{0} is in use by another recapd")]
    InUse(String),
    /// The database undid the change, again and again, because others were in each other's way: nothing is wrong, and
    /// nothing was changed.
    #[error("the database undid the change for the sake of another one: {0}")]
    Contended(String),
    /// The database is unreachable, full, busy or broken: try again later.
    #[error("the database fails: {0}")]
    Unavailable(Outage),
    /// What was to be stored, or was read, could not be worked out. The database has nothing to do with it.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl StoreError {
    /// What is the matter with the database, in the words of `recapd_db_errors_total`; `None` if nothing is, and it
    /// only said no.
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

/// Which of the guards of an update did not hold.
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
    /// Somebody else has taken a row out of the inbox, or an earlier one of the agent waits there.
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

/// The result of a store's operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// The database, as recapd uses it.
#[async_trait]
pub trait Store: Send + Sync {
    /// Appends messages to an agent (made on first use), moves the boundary and wakes the queue as far as that needs.
    /// A message that is known already by its client id is counted as a duplicate and changes nothing.
    /// Clears, marks, rewinds, pins and unpins among the messages take effect where they stand ([`crate::domain::lineage`]).
    ///
    /// # Errors
    /// [`StoreError::ClientIdReused`] when it isn't the same message; replayed ones are stored under another id, once.
    /// [`StoreError::KeyReused`] when another request was made under the same key. [`StoreError::WouldOverflow`] by the agent's own wish. [`StoreError::PinsFull`] when a message can't be pinned;
    /// a replay pins it all the same. Nothing is stored then.
    async fn append(&self, request: AppendRequest) -> StoreResult<AppendOutcome>;

    /// As [`Self::append`], but the marks that rewinds go back to must be there, and the messages that pins name.
    ///
    /// # Errors
    /// [`StoreError::UnknownMark`] or [`StoreError::UnknownMessage`] when one isn't; nothing is stored then.
    async fn rewind(&self, request: AppendRequest) -> StoreResult<AppendOutcome>;

    /// Makes the agent `child`, which begins where `parent` stands and shares its past, and nothing of its future.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or [`StoreError::AgentExists`] for the child.
    async fn fork(&self, parent: &AgentId, child: &AgentId, now: Timestamp) -> StoreResult<Forked>;

    /// The agents that an agent came from by forks, nearest first.
    async fn ancestors(&self, agent: &AgentId) -> StoreResult<Vec<Ancestor>>;

    /// The messages that stay in view when their exchanges have left the window: the pinned ones and those that are
    /// important to the running session, at most `limit` of them. What is left out is the oldest: of the important ones
    /// first.
    async fn pins(&self, agent: &AgentId, limit: i64) -> StoreResult<Pins>;

    /// Ends the running session, whatever is pending becomes urgent.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn end_session(&self, agent: &AgentId, now: Timestamp) -> StoreResult<SessionEnded>;

    /// Changes what an agent overrides in the configuration, from its next append on. Returns all it overrides. With
    /// another provider or model, a recount begins.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn change_settings(
        &self,
        agent: &AgentId,
        patch: &SettingsPatch,
        now: Timestamp,
    ) -> StoreResult<AgentSettings>;

    /// Notes that what the summary doesn't cover has to be counted again: see [`Self::recount_batch`].
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn begin_recount(&self, agent: &AgentId) -> StoreResult<()>;

    /// Agents of which something has to be counted again, at most `limit`.
    async fn recounts_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// The newest exchanges still to be counted again, at most `messages_max` messages but at least one exchange; none
    /// if nothing is left.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn recount_batch(&self, agent: &AgentId, messages_max: i64) -> StoreResult<Option<RecountBatch>>;

    /// Replaces the counts of a batch, of which what was covered or set aside meanwhile keeps its own, and moves the
    /// boundary if the window is over its budget by them. None, and nothing is changed, if the settings have changed
    /// since the batch was read, or another recount went first.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn recount(&self, recount: Recount) -> StoreResult<Option<Recounted>>;

    /// What was learned about counters, in the order in which it was.
    async fn calibrations(&self) -> StoreResult<Vec<KeptCalibration>>;

    /// Keeps what was learned about these models, and of all the models those that learned last.
    async fn keep_calibrations(&self, kept: Vec<KeptCalibration>, now: Timestamp) -> StoreResult<()>;

    /// One agent.
    async fn agent(&self, agent: &AgentId) -> StoreResult<Option<AgentRow>>;

    /// Agents in order of their ids, after `after`.
    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> StoreResult<Vec<AgentRow>>;

    /// The exchanges numbered `from` to `through`, live ones only, with their messages if asked for and as far as they are
    /// not too much at once ([`page`] says what to do then).
    async fn exchanges(&self, agent: &AgentId, query: ExchangeQuery) -> StoreResult<Vec<StoredExchange>>;

    /// How many live exchanges are numbered `from` to `through`.
    async fn count_exchanges(&self, agent: &AgentId, from: i64, through: i64) -> StoreResult<i64>;

    /// The first live exchange of a session that the agent has a row of; none if there is none.
    async fn session_start(&self, agent: &AgentId, session: i64) -> StoreResult<Option<i64>>;

    /// The last words of named speakers (no humans who step in), at most `limit` of them, in order: final messages of live
    /// exchanges, among the last [`SAID_EXCHANGES_MAX`] exchanges. For a conversation of several speakers.
    async fn last_said(&self, agent: &AgentId, limit: i64) -> StoreResult<Vec<SaidMessage>>;

    /// What the live archive of an agent holds of the terms of `query`, in no order; none for an unknown agent. What it
    /// inherited by a fork belongs to it, what was forgotten doesn't.
    async fn search(&self, agent: &AgentId, query: &Query) -> StoreResult<Option<Searched>>;

    /// The exchange of that number as it was, also one that was inherited or set aside; none if there is no such one.
    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        range: MessageRange,
    ) -> StoreResult<Option<Expanded>>;

    /// Puts the next messages into the index, at most so many. Returns how many; 0 when all are.
    async fn index_messages(&self, messages_max: i64) -> StoreResult<i64>;

    /// Forgets messages: they become tombstones in every agent that shares them, and what was made of them goes. Doing it
    /// twice is doing it once.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownExchange`] or [`StoreError::UnknownMessage`]; nothing is changed
    /// then.
    async fn forget(&self, request: Forget) -> StoreResult<Forgotten>;

    /// Deletes an agent with all that is known of it. What it inherited stays with whom it came from.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or [`StoreError::HasForks`]; nothing is changed then.
    async fn delete_agent(&self, agent: &AgentId) -> StoreResult<Deleted>;

    /// The current document, with what is pending behind it, in one consistent read.
    async fn summary(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>>;

    /// The document that contexts show, with what left the window since behind it: the first version that covers the
    /// newest step of eviction that is covered as a whole. It changes once per step, so that the provider's prompt cache
    /// stays warm, and at once where a rewind has withdrawn something.
    async fn summary_of_step(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>>;

    /// The newest versions of an agent's document that are kept, newest first, without their texts.
    async fn versions(&self, agent: &AgentId, query: VersionQuery) -> StoreResult<Vec<VersionFigures>>;

    /// One version; none if there is no such version, or it is kept no longer.
    async fn version(&self, agent: &AgentId, version: i64) -> StoreResult<Option<Version>>;

    /// Writes a new version of the items as of an earlier one. What later versions covered is pending again; what the
    /// earlier one told of exchanges that were set aside since stays away, and digests stand for their neighbours. The
    /// lease of an update under way is voided.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::UnknownVersion`]; nothing is changed then.
    async fn roll_back(&self, request: RollbackRequest) -> StoreResult<Revised>;

    /// Throws the items away and makes all that has left the window pending, to be summarised again; what a fork came
    /// with stays, or comes back. Readers get the document as it was until the new one covers as much. Mends what is
    /// missing in the summary's tables, too. The lease of an update under way is voided.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn rebuild(&self, request: RebuildRequest) -> StoreResult<Revised>;

    /// The items that cover exchanges, by their numbers.
    async fn items(&self, agent: &AgentId, query: ItemQuery) -> StoreResult<Vec<ItemRow>>;

    /// Changes an item by hand, and writes the document anew. New words make an item of a new number, so that earlier
    /// versions keep the old ones. The lease of an update under way is voided.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownItem`] or [`StoreError::ItemPinsFull`]; nothing is changed then.
    async fn edit_item(&self, request: EditRequest) -> StoreResult<Edited>;

    /// Makes the agent one of `project`, or of none, whatever it belonged to.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn set_project(
        &self,
        agent: &AgentId,
        project: Option<&ProjectId>,
        now: Timestamp,
    ) -> StoreResult<()>;

    /// Projects in order of their names, after `after`.
    async fn projects(&self, after: Option<&ProjectId>, limit: i64) -> StoreResult<Vec<ProjectFigures>>;

    /// What tells whether anything of a project has changed; `None` if no agent belongs to it.
    async fn project_stamp(&self, project: &ProjectId) -> StoreResult<Option<ProjectStamp>>;

    /// What a project's document is made of, in one consistent read; `None` if no agent belongs to it.
    async fn project(&self, project: &ProjectId) -> StoreResult<Option<(ProjectStamp, ProjectRow)>>;

    /// Wakes the queue for an agent.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn enqueue(
        &self,
        agent: &AgentId,
        reason: Reason,
        delay_ms: i64,
        now: Timestamp,
    ) -> StoreResult<Enqueued>;

    /// Leases up to `limit` rows that are due, most urgent first. Rows of a vanished holder are due when their lease
    /// ran out.
    async fn claim(&self, claim: ClaimRequest) -> StoreResult<Vec<Lease>>;

    /// In how many milliseconds [`Self::claim`] may find something, as far as is known now: zero if it may at any time,
    /// none if nothing is queued but what is parked.
    async fn next_due_ms(&self, now: Timestamp) -> StoreResult<Option<i64>>;

    /// Prolongs leases. Returns the tokens that are still held.
    async fn renew(&self, leases: &[Lease], now: Timestamp, lease_ms: i64) -> StoreResult<Vec<i64>>;

    /// Everything an update needs, in one consistent read.
    async fn material(&self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material>;

    /// A journalled answer.
    async fn journalled(&self, agent: &AgentId, key: &str) -> StoreResult<Option<JournalledAnswer>>;

    /// Which of these keys have a journalled answer, in no order.
    async fn journalled_among(&self, agent: &AgentId, keys: &[String]) -> StoreResult<Vec<String>>;

    /// Keeps an answer before it is applied.
    async fn journal(
        &self,
        agent: &AgentId,
        key: &str,
        answer: &JournalledAnswer,
        now: Timestamp,
    ) -> StoreResult<()>;

    /// Applies an update exactly once: items, version, watermark and queue row in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when a guard does not hold; nothing is changed then.
    async fn complete(&self, lease: &Lease, patch: Patch) -> StoreResult<Completed>;

    /// Finishes a lease that had nothing to write, moving the watermark over set-aside exchanges to `through`.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    async fn settle(&self, lease: &Lease, settle: Settle) -> StoreResult<Completed>;

    /// Gives a lease back after a failure, to be tried again after a wait, or parked. What was woken meanwhile isn't parked.
    /// Returns whether it is parked now.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the lease is no longer held.
    async fn fail(&self, lease: &Lease, failure: Failure) -> StoreResult<bool>;

    /// Gives leases back untouched: no attempt is burnt. Returns how many were still held.
    async fn release(&self, leases: &[Lease], now: Timestamp) -> StoreResult<u64>;

    /// Gives a lease back that has to wait for a provider or the next day: no attempt is burnt. What it cost so far is
    /// kept in the runs table.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the lease is no longer held.
    async fn postpone(&self, lease: &Lease, postponement: Postponement) -> StoreResult<()>;

    /// Keeps what an attempt cost that had no effect, because somebody else went first; unless it is kept already.
    async fn record_run(&self, lease: &Lease, run: RunRecord) -> StoreResult<()>;

    /// Makes paused updates due at once: other limits may hold now. Returns how many.
    async fn resume_paused(&self, now: Timestamp) -> StoreResult<u64>;

    /// What models have cost since `since`: for one agent, with its settings, and for all.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn spending(&self, agent: &AgentId, since: Timestamp) -> StoreResult<Spending>;

    /// Why and until when an agent's updates are paused, if they are.
    async fn paused(&self, agent: &AgentId) -> StoreResult<Option<Paused>>;

    /// Makes queue rows for at most `limit` agents whose document holds items that stand in for a model's, unless they
    /// have one. Returns how many.
    async fn enqueue_revisits(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Makes the leases of `owner` from an earlier life due at once. Only for the holder of the owner's lock.
    async fn reclaim(&self, owner: &str, now: Timestamp) -> StoreResult<u64>;

    /// Brings nearer what a clock that ran ahead of `now` has put off, by `ahead_ms`, or if that isn't known, by as much
    /// as the newest rows tell; never to before `now`. Nothing where the database's own clock judges. Returns how many
    /// rows of the queue.
    async fn set_back(&self, ahead_ms: Option<i64>, now: Timestamp) -> StoreResult<u64>;

    /// Makes queue rows for agents whose pending exchanges have none. Returns how many were missing.
    async fn reconcile(&self, pending_before: Timestamp, now: Timestamp) -> StoreResult<u64>;

    /// Gives rows parked before `parked_before` one more try, the last of `attempts_max`. Returns how many.
    async fn probe_parked(
        &self,
        parked_before: Timestamp,
        attempts_max: i64,
        now: Timestamp,
    ) -> StoreResult<u64>;

    /// Wakes the queue for at most `limit` agents of which an item has outgrown its section and whose rows don't wait for that
    /// already. Returns how many.
    async fn enqueue_ageing(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Takes a schedule's slot. It is one caller's to fire, who says so by [`Self::finish_slot`] when it is done; if that
    /// doesn't come within [`FIRING_MS_MAX`], it is another one's.
    async fn take_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<Slot>;

    /// Notes that a slot was fired.
    async fn finish_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<()>;

    /// Deletes old runs, answers, versions and the like, in many short transactions. Returns how many rows went. What
    /// somebody is writing stays for the next time.
    async fn prune(&self, prune: Prune) -> StoreResult<u64>;

    /// Figures for metrics and `status`.
    async fn sample(&self, now: Timestamp, window_ms: i64) -> StoreResult<Sample>;

    /// Checks the invariants of one agent.
    async fn verify(&self, agent: &AgentId) -> StoreResult<AgentReport>;

    /// A round trip. Fails, too, where the last write failed, or the database is no longer the one of its name.
    async fn ping(&self) -> StoreResult<()>;
}
