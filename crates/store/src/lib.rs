//! The storage seam. Each operation is one transaction. None stays open while a model thinks.
//!
//! The watermarks in `agents` are the truth. A queue row only says when to look: a lost row costs delay, never work. A summary is written
//! in one transaction behind three fences: the lease's token, the expected version, the watermark. Safety never rests on time: leases and
//! clocks decide only *when* work is repeated.
//!
//! Every implementation passes the conformance suite in `tests/it/store`.

pub mod access;
pub mod archive;
pub mod audit;
pub mod backup;
pub mod batch;
pub mod copy;
pub mod embedding;
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
    ledger::CutPoint,
    note::Note,
    project::ProjectId,
    recall::ArchiveSearch,
    settings::{AgentSettings, SettingsPatch},
    time::Timestamp,
    work::{Lease, Reason},
};
use verify::AgentReport;

pub type StoreResult<T> = Result<T, StoreError>;

#[async_trait]
pub trait Store: Send + Sync {
    /// Appends messages to an agent, which the first append creates; moves the boundary and wakes the queue if necessary. A message with
    /// a known client id counts as a duplicate and changes nothing. Clears, marks, rewinds, pins and unpins among the messages take
    /// effect where they stand ([`recapd_core::domain::lineage`]).
    ///
    /// # Errors
    /// Nothing is stored then. [`StoreError::ClientIdReused`] when another message has that client id (a replay stores the message once,
    /// under another id). [`StoreError::KeyReused`] when the key belongs to another request. [`StoreError::WouldOverflow`] if the agent's
    /// settings ask for it. [`StoreError::PinsFull`] when a message can't be pinned (a replay pins it all the same).
    /// [`StoreError::NoteChanged`] or [`StoreError::NotesFull`] when a note can't be written (a replay writes it all the same).
    async fn append(&self, request: AppendRequest) -> StoreResult<AppendOutcome>;

    /// Returns the payloads of those of an agent's messages whose client ids are among `ids`, by client id.
    async fn known_payloads(&self, agent: &AgentId, ids: &[&str]) -> StoreResult<HashMap<String, String>>;

    /// Works like [`Self::append`], but every mark that a rewind names, message that a pin names and note that is deleted must exist.
    ///
    /// # Errors
    /// [`StoreError::UnknownMark`], [`StoreError::UnknownMessage`] or [`StoreError::UnknownNote`]; nothing is stored then.
    async fn rewind(&self, request: AppendRequest) -> StoreResult<AppendOutcome>;

    /// Creates the agent `child` from the present state of `parent`. They share the past, but nothing that follows.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or [`StoreError::AgentExists`] for the child.
    async fn fork(&self, parent: &AgentId, child: &AgentId, now: Timestamp) -> StoreResult<ForkOutcome>;

    /// Returns the agents that an agent was forked from, directly or indirectly, nearest first.
    async fn ancestors(&self, agent: &AgentId) -> StoreResult<Vec<Ancestor>>;

    /// Returns the messages that stay in view after their exchanges have left the window, at most `limit`: the pinned ones, and those
    /// marked as important to the running session. Beyond `limit` the oldest are left out, important ones before pinned ones.
    async fn pins(&self, agent: &AgentId, limit: i64) -> StoreResult<Pins>;

    /// Returns an agent's notes in order of their names, without deleted ones; or the versions of one note, newest first, also those that
    /// deleted it, at most [`recapd_core::domain::note::NOTE_VERSIONS_MAX`]. Notes are written by appending
    /// ([`recapd_core::domain::note`]).
    async fn notes(&self, agent: &AgentId, query: &NoteQuery) -> StoreResult<Vec<Note>>;

    /// Ends the running session; its pending exchanges become urgent.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn end_session(&self, agent: &AgentId, now: Timestamp) -> StoreResult<SessionEnded>;

    /// Changes an agent's settings, which override the configuration from its next append on, and returns all of them. Creates the agent
    /// if there is none. A new provider or model starts a recount.
    async fn change_settings(
        &self,
        agent: &AgentId,
        patch: &SettingsPatch,
        now: Timestamp,
    ) -> StoreResult<AgentSettings>;

    /// Marks the exchanges that the summary doesn't cover as due for a recount: see [`Self::recount_batch`].
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn begin_recount(&self, agent: &AgentId) -> StoreResult<()>;

    /// Returns at most `limit` agents with exchanges that are due for a recount.
    async fn recounts_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Returns the newest exchanges that are due for a recount, with at most `messages_max` messages but at least one exchange; `None` if
    /// there are none.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn recount_batch(&self, agent: &AgentId, messages_max: i64) -> StoreResult<Option<RecountBatch>>;

    /// Stores the new counts of a batch, and moves the boundary if the window now exceeds its budget. Exchanges that were covered or set
    /// aside in the meantime keep their counts. Returns `None` and changes nothing if the settings have changed since the batch was read,
    /// or if another recount came first.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn recount(&self, recount: Recount) -> StoreResult<Option<RecountOutcome>>;

    /// Returns the saved calibrations of token counters, oldest first.
    async fn calibrations(&self) -> StoreResult<Vec<KeptCalibration>>;

    /// Saves these calibrations. Of all models, only those that learned most recently are kept.
    async fn keep_calibrations(&self, kept: Vec<KeptCalibration>, now: Timestamp) -> StoreResult<()>;

    async fn agent(&self, agent: &AgentId) -> StoreResult<Option<AgentRow>>;

    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> StoreResult<Vec<AgentRow>>;

    /// Returns the live exchanges `from` to `through`. If asked for, their messages come with them, up to a limit of bytes ([`page`] says
    /// how to read the rest).
    async fn exchanges(&self, agent: &AgentId, query: ExchangeQuery) -> StoreResult<Vec<StoredExchange>>;

    async fn count_exchanges(&self, agent: &AgentId, from: i64, through: i64) -> StoreResult<i64>;

    /// Returns the live exchanges at these places of the history, in order, with the first pending one and the boundary. A place is a
    /// number of tokens from the beginning. It costs an index look-up for each.
    async fn landmarks(&self, agent: &AgentId, places: &[i64]) -> StoreResult<Vec<CutPoint>>;

    /// Returns the first live exchange of a session among the agent's own rows, or `None`. For a fork that lacks the rows at the
    /// beginning of its running session, returns the number with which that session begins; its ancestors hold those rows.
    async fn session_start(&self, agent: &AgentId, session: i64) -> StoreResult<Option<i64>>;

    /// True if anything ever left the agent's window, even if it has returned since.
    async fn has_evicted(&self, agent: &AgentId) -> StoreResult<bool>;

    /// Returns the last messages of named speakers (without humans who step in), at most `limit`, in order. Reads final messages of live
    /// exchanges, among the last [`SAID_EXCHANGES_MAX`] exchanges. For conversations of several speakers.
    async fn last_said(&self, agent: &AgentId, limit: i64) -> StoreResult<Vec<SaidMessage>>;

    /// Searches an agent's live archive, with inherited exchanges and without forgotten messages; `None` for an unknown agent.
    async fn search(&self, agent: &AgentId, search: &ArchiveSearch) -> StoreResult<Option<SearchHits>>;

    /// Returns an exchange in its original form, even if it is inherited or set aside; `None` if there is none.
    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        range: MessageRange,
    ) -> StoreResult<Option<ExpandedExchange>>;

    /// Returns the request that an exchange or leg works on: its exchange's first user message, even if it is inherited or set aside.
    async fn request_of(&self, agent: &AgentId, exchange: i64) -> StoreResult<Option<StoredMessage>>;

    /// Returns the live legs of the exchange that contains this exchange or leg, in order, including inherited ones; at most
    /// [`LEGS_MAX`]. Empty if the number is unknown. It costs two look-ups and the rows.
    async fn legs(&self, agent: &AgentId, exchange: i64) -> StoreResult<Vec<Exchange>>;

    /// Indexes the next messages, at most `messages_max`. Returns how many; 0 once all are indexed.
    async fn index_messages(&self, messages_max: i64) -> StoreResult<i64>;

    /// Seals rows that were stored before seals existed, or by a recapd that makes none, oldest messages first. Returns how many rows it
    /// sealed; 0 once all are sealed.
    async fn seal_rows(&self, rows_max: i64) -> StoreResult<i64>;

    /// Forgets messages: they become tombstones in every agent that shares them, and everything derived from them is removed. A second
    /// call changes nothing more.
    ///
    /// It works in steps, and others may write between them. [`Self::begin_forget`] records the request first, so that
    /// [`Forgettable::Begun`] can continue after a crash. When this returns, everything is forgotten.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownExchange`] or [`StoreError::UnknownMessage`]; nothing is changed then. After
    /// other errors [`Self::forgettings_due`] tells whether work is left.
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

    /// Records what to forget. Returns the messages and exchanges concerned, and the agents that share them.
    ///
    /// # Errors
    /// As [`Self::forget`].
    async fn begin_forget(&self, request: &Forget) -> StoreResult<Forgotten>;

    /// Forgets part of what was recorded for the agent, in one transaction, in every agent that shares it and in their documents.
    async fn forget_some(&self, request: &Forget) -> StoreResult<ForgetStep>;

    /// Returns agents for which a recorded forgetting isn't finished.
    async fn forgettings_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Counts the agent's exchanges that are recorded but not forgotten yet.
    async fn forgettings_left(&self, agent: &AgentId) -> StoreResult<i64>;

    /// Recalculates the next running totals that a forgetting or a recount has changed, in one transaction; `None` if all were right.
    /// After the last ones, it evicts if the window exceeds its budget.
    async fn settle_totals(
        &self,
        agent: &AgentId,
        rules: &AppendRules,
        now: Timestamp,
    ) -> StoreResult<Option<RecountOutcome>>;

    /// Returns agents with running totals that are still to be recalculated.
    async fn totals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Deletes an agent with everything about it. Exchanges that it inherited stay with their owners.
    ///
    /// It works in steps, and others may write between them. The first step hides the agent; appends to it fail
    /// ([`StoreError::Contended`]) until it is gone. After a crash, another call continues the deletion.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::HasForks`]; nothing is changed then. After other errors [`Self::deletions_due`]
    /// tells whether work is left.
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

    /// Hides the agent and records its deletion.
    ///
    /// # Errors
    /// As [`Self::delete_agent`].
    async fn begin_delete(&self, agent: &AgentId, now: Timestamp) -> StoreResult<()>;

    /// Deletes part of an agent whose deletion has begun, in one transaction.
    async fn delete_some(&self, agent: &AgentId) -> StoreResult<DeleteStep>;

    /// Returns agents whose deletion has begun but isn't finished.
    async fn deletions_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Removes deleted and replaced data from the database's files. Returns false if some may remain.
    async fn scrub(&self) -> bool;

    /// Returns the current document and the pending exchanges, in one consistent read.
    async fn summary(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>>;

    /// Returns the document that contexts show, and the exchanges that have left the window since. It is the first version that covers
    /// the newest eviction step or, until there is one, the version that was current at that step. It changes once per step, so that the
    /// provider's prompt cache stays warm, and at once when a rewind has withdrawn something.
    async fn summary_of_step(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>>;

    /// Returns the newest kept versions of an agent's document, newest first, without their texts.
    async fn versions(&self, agent: &AgentId, query: VersionQuery) -> StoreResult<Vec<VersionFigures>>;

    /// Returns one version; `None` if there is none, or if it was deleted for its age.
    async fn version(&self, agent: &AgentId, version: i64) -> StoreResult<Option<Version>>;

    /// Writes a new version with the items of an earlier one. Exchanges that only later versions covered become pending again. Items
    /// about exchanges that have been set aside don't come back; digests replace them for their other exchanges. Voids the lease of an
    /// update in progress.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::UnknownVersion`]; nothing is changed then.
    async fn roll_back(&self, request: RollbackRequest) -> StoreResult<RevisionOutcome>;

    /// Removes the items and makes every exchange outside of the window pending, to be summarised again. A fork keeps, or gets back, the
    /// items it began with. Readers get the old document until the new one covers as much. Also restores missing rows of the summary's
    /// tables. Voids the lease of an update in progress.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn rebuild(&self, request: RebuildRequest) -> StoreResult<RevisionOutcome>;

    /// Writes the rows of more items that a rollback or a rebuild removed and that weren't in the document, in one transaction. Returns
    /// true if some are left. Nobody sees a difference; after a crash it can continue.
    async fn withdraw_some(&self, agent: &AgentId) -> StoreResult<bool>;

    /// Returns agents for which [`Self::withdraw_some`] has something to do.
    async fn withdrawals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Returns the items that cover exchanges, in order of their numbers.
    async fn items(&self, agent: &AgentId, query: ItemQuery) -> StoreResult<Vec<ItemRow>>;

    async fn facts(&self, agent: &AgentId, query: FactQuery) -> StoreResult<Vec<FactRow>>;

    /// Applies an operator's change to the facts and writes a new version. Voids the lease of an update in progress.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::Fact`]; nothing is changed then.
    async fn change_fact(&self, request: FactRequest) -> StoreResult<FactEdited>;

    /// Applies an operator's change to an item and writes a new version. A new text gets a new number, so that earlier versions keep the
    /// old one. Voids the lease of an update in progress.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownItem`] or [`StoreError::ItemPinsFull`]; nothing is changed then.
    async fn edit_item(&self, request: EditRequest) -> StoreResult<EditOutcome>;

    /// Moves the agent into `project`, or out of any project if `None`.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn set_project(
        &self,
        agent: &AgentId,
        project: Option<&ProjectId>,
        now: Timestamp,
    ) -> StoreResult<()>;

    async fn projects(&self, after: Option<&ProjectId>, limit: i64) -> StoreResult<Vec<ProjectFigures>>;

    /// Returns a value that changes whenever a project's document does; `None` if no agent belongs to the project.
    async fn project_stamp(&self, project: &ProjectId) -> StoreResult<Option<ProjectStamp>>;

    /// Returns the figures and items for a project's document, in one consistent read; `None` if no agent belongs to it.
    async fn project(&self, project: &ProjectId) -> StoreResult<Option<(ProjectStamp, ProjectRow)>>;

    /// Creates a queue row for an agent, or wakes the existing one.
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

    /// Leases up to `limit` rows that are due, most urgent first. A vanished worker's row is due when its lease has expired.
    async fn claim(&self, claim: ClaimRequest) -> StoreResult<Vec<Lease>>;

    /// Returns in how many milliseconds [`Self::claim`] may find a row, as far as known now: zero if it may at any time, `None` if there
    /// are no rows except parked ones.
    async fn next_due_ms(&self, now: Timestamp) -> StoreResult<Option<i64>>;

    /// Renews leases. Returns the fencing tokens of those still held.
    async fn renew(&self, leases: &[Lease], now: Timestamp, lease_ms: i64) -> StoreResult<Vec<i64>>;

    /// Returns everything that an update needs, in one consistent read.
    async fn material(&self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material>;

    async fn journalled(&self, agent: &AgentId, key: &str) -> StoreResult<Option<JournalledAnswer>>;

    /// Returns which of these keys have a journalled answer, in no order.
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
    /// [`StoreError::Fenced`] when a fence does not hold; nothing is changed then.
    async fn complete(&self, lease: &Lease, patch: Patch) -> StoreResult<Completion>;

    /// Writes a version with the changes that time alone has made. The lease continues, but must not write another version. Returns false
    /// and changes nothing if a model's answer about the present version exists or may still arrive: that answer would have to be paid
    /// for again.
    ///
    /// # Errors
    /// As [`Self::complete`].
    async fn age_document(&self, lease: &Lease, patch: Patch) -> StoreResult<bool>;

    /// Finishes a lease that had nothing to write, and moves the watermark over set-aside exchanges.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    async fn settle(&self, lease: &Lease, settle: Settle) -> StoreResult<Completion>;

    /// Gives a lease back after a failure: the row is tried again after a wait, or parked. A row that was woken in the meantime isn't
    /// parked. Returns true if the row is parked now.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the lease is no longer held.
    async fn fail(&self, lease: &Lease, failure: Failure) -> StoreResult<bool>;

    /// Gives leases back without counting an attempt. Returns how many were still held.
    async fn release(&self, leases: &[Lease], now: Timestamp) -> StoreResult<u64>;

    /// Gives back a lease that has to wait for a provider or for the next day, without counting an attempt. The cost so far goes into the
    /// runs table.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the lease is no longer held.
    async fn postpone(&self, lease: &Lease, postponement: Postponement) -> StoreResult<()>;

    /// Records the cost of an attempt that had no effect because another one came first, unless it is recorded already.
    async fn record_run(&self, lease: &Lease, run: RunRecord) -> StoreResult<()>;

    /// Makes updates due whose wait may be over. Returns how many.
    async fn resume(&self, whom: Resume, now: Timestamp) -> StoreResult<u64>;

    /// Returns what models have cost since `since`, for one agent and for all, and the agent's settings.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn spending(&self, agent: &AgentId, since: Timestamp) -> StoreResult<Spending>;

    /// Returns why and until when a spending limit pauses an agent's updates, if one does.
    async fn paused(&self, agent: &AgentId) -> StoreResult<Option<SpendPause>>;

    /// Creates queue rows for at most `limit` agents whose documents hold provisional items and that have no row. Returns how many.
    async fn enqueue_revisits(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Reports that the holder of ended leases is alive. Gives back those still in their rows; they no longer count as crashes.
    async fn disclaim(&self, leases: &[Lease]) -> StoreResult<u64>;

    /// Makes leases due at once that `owner` held before it restarted. Only the holder of the owner's lock may call this.
    async fn reclaim(&self, owner: &str, now: Timestamp) -> StoreResult<u64>;

    /// Brings forward times that a clock running ahead of `now` has set: by `ahead_ms` or, if that is `None`, by as much as the newest
    /// rows show, but never to before `now`. Does nothing to the queue where the database's own clock judges leases. Returns how many
    /// queue rows it moved.
    async fn set_back(&self, ahead_ms: Option<i64>, now: Timestamp) -> StoreResult<u64>;

    /// Creates missing queue rows for agents with pending exchanges. Returns how many were missing.
    async fn reconcile(&self, pending_before: Timestamp, now: Timestamp) -> StoreResult<u64>;

    /// Gives rows parked before `parked_before` one more attempt, the last of `attempts_max`. Rows whose holders vanished get it after ten
    /// minutes, once. Cancelled rows stay parked. Returns how many.
    async fn probe_parked(
        &self,
        parked_before: Timestamp,
        attempts_max: i64,
        now: Timestamp,
    ) -> StoreResult<u64>;

    /// Makes rows due for at most `limit` agents with an item that has outgrown its section, unless their rows wait for that already.
    /// Returns how many.
    async fn enqueue_ageing(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Takes a schedule's slot. One caller gets it, fires, and then calls [`Self::finish_slot`]. If it doesn't within [`FIRING_MS_MAX`],
    /// another caller gets the slot.
    async fn take_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<Slot>;

    async fn finish_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<()>;

    /// Deletes old runs, answers, versions and the like, in many short transactions. Returns how many rows. Rows that others are writing
    /// are left for the next call.
    async fn prune(&self, prune: Prune) -> StoreResult<u64>;

    /// Returns the figures for metrics and `status`.
    async fn sample(&self, now: Timestamp, window_ms: i64) -> StoreResult<Sample>;

    /// Checks the invariants of one agent.
    async fn verify(&self, agent: &AgentId) -> StoreResult<AgentReport>;

    /// Works like [`Self::verify`], with the checks that take long.
    async fn verify_deep(&self, agent: &AgentId) -> StoreResult<AgentReport>;

    /// Makes a round trip. Also fails if the last write failed, if another database has taken this one's name, or if the server takes no
    /// writes.
    async fn ping(&self) -> StoreResult<()>;
}
