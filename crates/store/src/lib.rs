//! The storage seam. Each operation is one transaction; none stays open while a model thinks.
//!
//! The watermarks in `agents` are the truth, a queue row only says when to look: a lost row costs delay, never work.
//! One transaction writes a summary, behind three fences: the lease's token, the expected version, the watermark.
//! Safety never rests on time: leases and clocks decide only *when* work is repeated.
//!
//! Every implementation passes the one conformance suite in `tests/it/store`.

pub mod access;
pub mod archive;
pub mod audit;
pub mod backup;
pub mod batch;
pub mod copy;
mod error;
pub mod examine;
mod fact;
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
pub mod seal;
pub mod spending;
mod sql;
pub mod sqlite;
mod timeouts;
pub mod update;
pub mod verify;
pub mod version;

use std::collections::HashMap;

use async_trait::async_trait;

pub use error::{Fence, StoreError};
pub use fact::*;
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

use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    project::ProjectId,
    recall::Query,
    settings::{AgentSettings, SettingsPatch},
    time::Timestamp,
    work::{Lease, Reason},
};
use verify::AgentReport;

/// The result of a store's operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// The database, as recapd uses it.
#[async_trait]
pub trait Store: Send + Sync {
    /// Appends messages to an agent (made on first use), moves the boundary and wakes the queue if need be. A message
    /// whose client id is known already is counted as a duplicate and changes nothing.
    /// Clears, marks, rewinds, pins and unpins among the messages take effect where they stand ([`recapd_core::domain::lineage`]).
    ///
    /// # Errors
    /// [`StoreError::ClientIdReused`] when another message has that client id; a replay stores it under another id,
    /// once. [`StoreError::KeyReused`] when another request was made under the same key. [`StoreError::WouldOverflow`]
    /// if the agent's settings ask for it. [`StoreError::PinsFull`] when a message can't be pinned; a replay pins it
    /// all the same. Nothing is stored then.
    async fn append(&self, request: AppendRequest) -> StoreResult<AppendOutcome>;

    /// What is stored under those of `ids`, client ids, under which an agent has messages: their payloads.
    async fn known_payloads(&self, agent: &AgentId, ids: &[&str]) -> StoreResult<HashMap<String, String>>;

    /// As [`Self::append`], but the marks that rewinds go back to, and the messages that pins name, must exist.
    ///
    /// # Errors
    /// [`StoreError::UnknownMark`] or [`StoreError::UnknownMessage`] when one doesn't; nothing is stored then.
    async fn rewind(&self, request: AppendRequest) -> StoreResult<AppendOutcome>;

    /// Makes the agent `child`, which starts from the present state of `parent`: it shares the past, but nothing that
    /// comes.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or [`StoreError::AgentExists`] for the child.
    async fn fork(&self, parent: &AgentId, child: &AgentId, now: Timestamp) -> StoreResult<ForkOutcome>;

    /// The agents that an agent was forked from, directly or not, nearest first.
    async fn ancestors(&self, agent: &AgentId) -> StoreResult<Vec<Ancestor>>;

    /// The messages that stay in view when their exchanges have left the window: the pinned ones and those marked as
    /// important to the running session, at most `limit`. Beyond that the oldest are left out, important ones before
    /// pinned ones.
    async fn pins(&self, agent: &AgentId, limit: i64) -> StoreResult<Pins>;

    /// Ends the running session; its pending exchanges become urgent.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn end_session(&self, agent: &AgentId, now: Timestamp) -> StoreResult<SessionEnded>;

    /// Changes an agent's settings, which override the configuration from its next append on. Returns all of them. With
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

    /// Notes that exchanges which the summary doesn't cover have to be counted again: see [`Self::recount_batch`].
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn begin_recount(&self, agent: &AgentId) -> StoreResult<()>;

    /// Agents with exchanges that have to be counted again, at most `limit`.
    async fn recounts_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// The newest exchanges still to be counted again, at most `messages_max` messages but at least one exchange;
    /// `None` if there are none.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn recount_batch(&self, agent: &AgentId, messages_max: i64) -> StoreResult<Option<RecountBatch>>;

    /// Stores the new counts of a batch (exchanges covered or set aside meanwhile keep theirs), and moves the boundary
    /// if the window exceeds its budget by them. Returns `None` and changes nothing if the settings have changed since
    /// the batch was read, or another recount went first.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn recount(&self, recount: Recount) -> StoreResult<Option<RecountOutcome>>;

    /// What was learned about token counters, in the order in which it was learned.
    async fn calibrations(&self) -> StoreResult<Vec<KeptCalibration>>;

    /// Saves what was learned about these models. Of all models, only the last ones that learned are kept.
    async fn keep_calibrations(&self, kept: Vec<KeptCalibration>, now: Timestamp) -> StoreResult<()>;

    async fn agent(&self, agent: &AgentId) -> StoreResult<Option<AgentRow>>;

    /// Agents in order of their ids, after `after`.
    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> StoreResult<Vec<AgentRow>>;

    /// The exchanges numbered `from` to `through`, live ones only, with their messages if asked for and as far as they are
    /// not too much at once ([`page`] says what to do then).
    async fn exchanges(&self, agent: &AgentId, query: ExchangeQuery) -> StoreResult<Vec<StoredExchange>>;

    /// How many live exchanges are numbered `from` to `through`.
    async fn count_exchanges(&self, agent: &AgentId, from: i64, through: i64) -> StoreResult<i64>;

    /// The first live exchange of a session that the agent has a row of; none if there is none. Of a fork that has no rows
    /// of the running session's beginning the number with which that begins: its ancestors have them.
    async fn session_start(&self, agent: &AgentId, session: i64) -> StoreResult<Option<i64>>;

    /// Whether anything ever left the agent's window, though it may be back there.
    async fn has_evicted(&self, agent: &AgentId) -> StoreResult<bool>;

    /// The last words of named speakers (no humans who step in), at most `limit` of them, in order: final messages of live
    /// exchanges, among the last [`SAID_EXCHANGES_MAX`] exchanges. For a conversation of several speakers.
    async fn last_said(&self, agent: &AgentId, limit: i64) -> StoreResult<Vec<SaidMessage>>;

    /// The messages of an agent's live archive that match `query`, in no order; `None` for an unknown agent. Inherited
    /// exchanges belong to the archive, forgotten messages don't.
    async fn search(&self, agent: &AgentId, query: &Query) -> StoreResult<Option<SearchHits>>;

    /// The exchange of that number as it was, even if inherited or set aside; `None` if there is none.
    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        range: MessageRange,
    ) -> StoreResult<Option<ExpandedExchange>>;

    /// What an exchange works on: the first message of the user's in the exchange, or leg, of that number, even if it is
    /// inherited or set aside.
    async fn request_of(&self, agent: &AgentId, exchange: i64) -> StoreResult<Option<StoredMessage>>;

    /// The live rows of the exchange to which the exchange, or leg, of that number belongs, in order, inherited ones among
    /// them; at most [`LEGS_MAX`]. None if there is no such number. It costs two look-ups and the rows.
    async fn legs(&self, agent: &AgentId, exchange: i64) -> StoreResult<Vec<Exchange>>;

    /// Indexes the next messages, at most `messages_max`. Returns how many; 0 when all are indexed.
    async fn index_messages(&self, messages_max: i64) -> StoreResult<i64>;

    /// Seals some of what was stored before there were seals, or by a recapd that makes none, oldest messages first. Returns how
    /// many rows; 0 when all are sealed.
    async fn seal_rows(&self, rows_max: i64) -> StoreResult<i64>;

    /// Forgets messages: they become tombstones in every agent that shares them, and what was derived from them is
    /// removed. Doing it twice changes nothing more.
    ///
    /// It is done in steps, between which others write: [`Self::begin_forget`] notes what is to be forgotten, so that what a
    /// crash breaks off goes on with [`Forgettable::Begun`]. When this returns everything is forgotten.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownExchange`] or [`StoreError::UnknownMessage`]; nothing is changed
    /// then. After other errors [`Self::forgettings_due`] tells whether some is left.
    async fn forget(&self, request: Forget) -> StoreResult<Forgotten> {
        let mut forgotten = self.begin_forget(&request).await?;
        loop {
            let step = self.forget_some(&request).await?;
            forgotten.items += step.items;
            forgotten.versions += step.versions;
            if step.left == 0 {
                break;
            }
        }
        for agent in &forgotten.agents {
            while self
                .settle_totals(agent, &request.rules, request.now)
                .await?
                .is_some()
            {}
        }
        forgotten.is_scrubbed = self.scrub().await;
        Ok(forgotten)
    }

    /// Notes what is to be forgotten. Returns the messages and exchanges that will be, and the agents that share them.
    ///
    /// # Errors
    /// As [`Self::forget`].
    async fn begin_forget(&self, request: &Forget) -> StoreResult<Forgotten>;

    /// Forgets some of what was noted for the agent, in one transaction: what it forgets is gone from every agent that shares it
    /// and from their documents.
    async fn forget_some(&self, request: &Forget) -> StoreResult<ForgetStep>;

    /// Agents for which something was noted that isn't forgotten yet.
    async fn forgettings_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Exchanges of the agent that were noted and aren't forgotten yet.
    async fn forgettings_left(&self, agent: &AgentId) -> StoreResult<i64>;

    /// Reckons the next running totals that a forgetting or a recount has changed, in one transaction; `None` if all were
    /// right. When the last are, the window is held against its budget.
    async fn settle_totals(
        &self,
        agent: &AgentId,
        rules: &AppendRules,
        now: Timestamp,
    ) -> StoreResult<Option<RecountOutcome>>;

    /// Agents with running totals that aren't right yet.
    async fn totals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Deletes an agent with everything about it. Exchanges that it inherited stay with the agents they belong to.
    ///
    /// It is done in steps, between which others write. From the first one on nobody sees the agent; appends to it are
    /// refused ([`StoreError::Contended`]) until it is gone. What a crash breaks off goes on when this is called again.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or [`StoreError::HasForks`]; nothing is changed then. After other errors
    /// [`Self::deletions_due`] tells whether some is left.
    async fn delete_agent(&self, agent: &AgentId, now: Timestamp) -> StoreResult<Deletion> {
        self.begin_delete(agent, now).await?;
        let mut messages = 0;
        loop {
            let step = self.delete_some(agent).await?;
            messages += step.messages;
            if step.is_gone {
                break;
            }
        }
        Ok(Deletion {
            messages,
            is_scrubbed: self.scrub().await,
        })
    }

    /// Hides the agent, and notes that it is to be deleted.
    ///
    /// # Errors
    /// As [`Self::delete_agent`].
    async fn begin_delete(&self, agent: &AgentId, now: Timestamp) -> StoreResult<()>;

    /// Deletes some of what is left of an agent that is being deleted, in one transaction.
    async fn delete_some(&self, agent: &AgentId) -> StoreResult<DeleteStep>;

    /// Agents whose deletion has begun and isn't done.
    async fn deletions_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Removes what was deleted or replaced from the database's files. False if some of it may remain.
    async fn scrub(&self) -> bool;

    /// The current document and the exchanges that are pending, in one consistent read.
    async fn summary(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>>;

    /// The document that contexts show, and the exchanges that left the window since: the first version that covers the
    /// newest step of eviction or, until there is one, the version that was there when the step was taken. It changes once per
    /// step, so that the provider's prompt cache stays warm, and at once when a rewind has withdrawn something.
    async fn summary_of_step(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>>;

    /// The newest versions of an agent's document that are kept, newest first, without their texts.
    async fn versions(&self, agent: &AgentId, query: VersionQuery) -> StoreResult<Vec<VersionFigures>>;

    /// One version; `None` if there is none, or it was deleted for its age.
    async fn version(&self, agent: &AgentId, version: i64) -> StoreResult<Option<Version>>;

    /// Writes a new version with the items of an earlier one. Exchanges that only later versions covered are pending
    /// again. Items about exchanges that were set aside since don't come back; digests stand for the other exchanges of
    /// such an item. The lease of an update under way is voided.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::UnknownVersion`]; nothing is changed then.
    async fn roll_back(&self, request: RollbackRequest) -> StoreResult<RevisionOutcome>;

    /// Removes the items and makes all exchanges that have left the window pending, to be summarised again; a fork
    /// keeps, or gets back, the items it began with. Readers get the old document until the new one covers as much.
    /// Missing rows of the summary's tables are restored, too. The lease of an update under way is voided.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn rebuild(&self, request: RebuildRequest) -> StoreResult<RevisionOutcome>;

    /// The items that cover exchanges, in the order of their numbers.
    async fn items(&self, agent: &AgentId, query: ItemQuery) -> StoreResult<Vec<ItemRow>>;

    /// The facts, in the order of their numbers.
    async fn facts(&self, agent: &AgentId, query: FactQuery) -> StoreResult<Vec<FactRow>>;

    /// Changes the facts by hand, and writes a new version. The lease of an update under way is voided.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::Fact`]; nothing is changed then.
    async fn change_fact(&self, request: FactRequest) -> StoreResult<FactEdited>;

    /// Changes an item by hand, and writes a new version. A new text gets a new number, so that earlier versions keep
    /// the old one. The lease of an update under way is voided.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownItem`] or [`StoreError::ItemPinsFull`]; nothing is changed then.
    async fn edit_item(&self, request: EditRequest) -> StoreResult<EditOutcome>;

    /// Puts the agent into `project`, or into none, whatever project it was in.
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

    /// A value that changes with anything in a project's document; `None` if no agent belongs to the project.
    async fn project_stamp(&self, project: &ProjectId) -> StoreResult<Option<ProjectStamp>>;

    /// The figures and items for a project's document, in one consistent read; `None` if no agent belongs to it.
    async fn project(&self, project: &ProjectId) -> StoreResult<Option<(ProjectStamp, ProjectRow)>>;

    /// Makes a queue row for an agent, or wakes the one it has.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn enqueue(
        &self,
        agent: &AgentId,
        reason: Reason,
        delay_ms: i64,
        now: Timestamp,
    ) -> StoreResult<EnqueueOutcome>;

    /// Leases up to `limit` rows that are due, most urgent first; a vanished worker's row when its lease has run out.
    async fn claim(&self, claim: ClaimRequest) -> StoreResult<Vec<Lease>>;

    /// In how many milliseconds [`Self::claim`] may find a row, as far as is known now: zero if it may at any time,
    /// `None` if there are only parked rows or none.
    async fn next_due_ms(&self, now: Timestamp) -> StoreResult<Option<i64>>;

    /// Renews leases. Returns the fencing tokens of those that are still held.
    async fn renew(&self, leases: &[Lease], now: Timestamp, lease_ms: i64) -> StoreResult<Vec<i64>>;

    /// Everything an update needs, in one consistent read.
    async fn material(&self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material>;

    async fn journalled(&self, agent: &AgentId, key: &str) -> StoreResult<Option<JournalledAnswer>>;

    /// Which of these keys have a journalled answer, in no order.
    async fn journalled_among(&self, agent: &AgentId, keys: &[String]) -> StoreResult<Vec<String>>;

    /// Stores a model's answer in the journal before it is applied.
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
    async fn complete(&self, lease: &Lease, patch: Patch) -> StoreResult<Completion>;

    /// Writes what time alone has changed, under a lease that goes on, but writes no further version. Returns false, and
    /// changes nothing, if an answer about the present version is there or may still come: it would be paid for again.
    ///
    /// # Errors
    /// As [`Self::complete`].
    async fn age_document(&self, lease: &Lease, patch: Patch) -> StoreResult<bool>;

    /// Finishes a lease that had nothing to write, moving the watermark over set-aside exchanges.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    async fn settle(&self, lease: &Lease, settle: Settle) -> StoreResult<Completion>;

    /// Gives a lease back after a failure, to be tried again after a wait, or to be parked. A row that was woken
    /// meanwhile isn't parked. Returns whether the row is parked now.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the lease is no longer held.
    async fn fail(&self, lease: &Lease, failure: Failure) -> StoreResult<bool>;

    /// Gives leases back; it doesn't count as an attempt. Returns how many were still held.
    async fn release(&self, leases: &[Lease], now: Timestamp) -> StoreResult<u64>;

    /// Gives a lease back that has to wait for a provider or the next day; it doesn't count as an attempt. The cost so
    /// far is kept in the runs table.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the lease is no longer held.
    async fn postpone(&self, lease: &Lease, postponement: Postponement) -> StoreResult<()>;

    /// Keeps the cost of an attempt that had no effect because another one went first; unless it is kept already.
    async fn record_run(&self, lease: &Lease, run: RunRecord) -> StoreResult<()>;

    /// Makes updates due for which what they wait for may be over. Returns how many.
    async fn resume(&self, whom: Resume, now: Timestamp) -> StoreResult<u64>;

    /// What models have cost since `since`, for one agent and for all, and the agent's settings.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn spending(&self, agent: &AgentId, since: Timestamp) -> StoreResult<Spending>;

    /// Why and until when an agent's updates are paused, if they are.
    async fn paused(&self, agent: &AgentId) -> StoreResult<Option<SpendPause>>;

    /// Makes queue rows for at most `limit` agents without one whose documents hold provisional items. Returns how
    /// many.
    async fn enqueue_revisits(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Says that the holder of ended leases lives. Those still in their rows are given back; no crash counts any more for them.
    async fn disclaim(&self, leases: &[Lease]) -> StoreResult<u64>;

    /// Makes leases due at once that `owner` held before it restarted. Only for the holder of the owner's lock.
    async fn reclaim(&self, owner: &str, now: Timestamp) -> StoreResult<u64>;

    /// Moves nearer the times that were set by a clock which ran ahead of `now`: by `ahead_ms` or, if that is `None`,
    /// by as much as the newest rows show; never to before `now`. It does nothing where the database's own clock
    /// judges. Returns how many rows of the queue were moved.
    async fn set_back(&self, ahead_ms: Option<i64>, now: Timestamp) -> StoreResult<u64>;

    /// Makes queue rows for agents whose pending exchanges have none. Returns how many were missing.
    async fn reconcile(&self, pending_before: Timestamp, now: Timestamp) -> StoreResult<u64>;

    /// Gives rows parked before `parked_before` one more attempt, the last of `attempts_max`; rows of which the holders vanished
    /// after ten minutes, once. Returns how many.
    async fn probe_parked(
        &self,
        parked_before: Timestamp,
        attempts_max: i64,
        now: Timestamp,
    ) -> StoreResult<u64>;

    /// Makes rows due for at most `limit` agents of which an item has outgrown its section, unless they wait for that
    /// already. Returns how many.
    async fn enqueue_ageing(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Takes a schedule's slot, which one caller gets: that one fires, and calls [`Self::finish_slot`] when it is done.
    /// If it doesn't within [`FIRING_MS_MAX`], another caller gets the slot.
    async fn take_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<Slot>;

    /// Notes that a slot was fired.
    async fn finish_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<()>;

    /// Deletes old runs, answers, versions and the like, in many short transactions. Returns how many rows. Rows that
    /// are being written are left for the next time.
    async fn prune(&self, prune: Prune) -> StoreResult<u64>;

    /// The figures for metrics and `status`.
    async fn sample(&self, now: Timestamp, window_ms: i64) -> StoreResult<Sample>;

    /// Checks the invariants of one agent.
    async fn verify(&self, agent: &AgentId) -> StoreResult<AgentReport>;

    /// As [`Self::verify`], with what takes long.
    async fn verify_deep(&self, agent: &AgentId) -> StoreResult<AgentReport>;

    /// A round trip. Fails, too, where the last write failed, the database is no longer the one of its name, or its server
    /// takes no writes.
    async fn ping(&self) -> StoreResult<()>;
}
