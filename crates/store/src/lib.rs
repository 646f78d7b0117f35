//! The interface of the store, and its implementations. Each operation is one transaction, and none stays open while a model
//! works.
//!
//! The watermarks in `agents` decide what work there is. A queue row only says when to do it, so a lost row delays work but never
//! loses any. A summary is written in one transaction behind three fences: the lease's fencing token, the expected version, the
//! watermark. Safety never depends on time: leases and clocks decide only *when* work is repeated.
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
    /// Appends messages to an agent. The first append creates the agent. Moves the boundary and wakes the queue if necessary. Is
    /// idempotent: a message whose client id is stored already is a duplicate and changes nothing. Clears, marks, rewinds, pins,
    /// unpins and notes among the messages take effect at their positions ([`recapd_core::domain::lineage`]).
    ///
    /// # Errors
    /// After an error nothing is stored. [`StoreError::ClientIdReused`] if a different message has that client id (a replay
    /// stores the message under another id instead). [`StoreError::KeyReused`] if the key belongs to a different request.
    /// [`StoreError::WouldOverflow`] if the newest leg alone exceeds the budget, and the agent's settings refuse that.
    /// [`StoreError::PinsFull`] if a message can't be pinned (a replay pins it nevertheless). [`StoreError::NoteChanged`] or
    /// [`StoreError::NotesFull`] if a note can't be written (a replay writes it nevertheless).
    async fn append(&self, request: AppendRequest) -> StoreResult<AppendOutcome>;

    /// Returns the payloads of the agent's messages with these client ids, by client id.
    async fn known_payloads(&self, agent: &AgentId, ids: &[&str]) -> StoreResult<HashMap<String, String>>;

    /// Works like [`Self::append`], but fails if a mark to rewind to, a message to pin or a note to delete doesn't exist.
    ///
    /// # Errors
    /// [`StoreError::UnknownMark`], [`StoreError::UnknownMessage`] or [`StoreError::UnknownNote`]; then nothing is stored.
    async fn rewind(&self, request: AppendRequest) -> StoreResult<AppendOutcome>;

    /// Creates the agent `child` from the present state of `parent`. The two share the past, but nothing that comes later.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], or [`StoreError::AgentExists`] for the child.
    async fn fork(&self, parent: &AgentId, child: &AgentId, now: Timestamp) -> StoreResult<ForkOutcome>;

    /// Returns the agent's ancestors: the agents that it was forked from, directly or indirectly, nearest first.
    async fn ancestors(&self, agent: &AgentId) -> StoreResult<Vec<Ancestor>>;

    /// Returns up to `limit` messages that stay in view after their exchanges have left the window: the pinned messages, and
    /// those that are important to the running session. If there are more, leaves out the oldest, important ones before pinned
    /// ones.
    async fn pins(&self, agent: &AgentId, limit: i64) -> StoreResult<Pins>;

    /// Returns either an agent's notes in order of their names, without deleted ones, or the versions of one note, newest first,
    /// including deletions, at most [`recapd_core::domain::note::NOTE_VERSIONS_MAX`]. An append writes notes
    /// ([`recapd_core::domain::note`]).
    async fn notes(&self, agent: &AgentId, query: &NoteQuery) -> StoreResult<Vec<Note>>;

    /// Ends the running session. Its pending exchanges become urgent.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn end_session(&self, agent: &AgentId, now: Timestamp) -> StoreResult<SessionEnded>;

    /// Changes an agent's settings, which override the configuration from the next append on. Returns all settings. Creates the
    /// agent if it doesn't exist. A new provider or model starts a recount.
    async fn change_settings(
        &self,
        agent: &AgentId,
        patch: &SettingsPatch,
        now: Timestamp,
    ) -> StoreResult<AgentSettings>;

    /// Records that the exchanges that the summary doesn't cover need a recount: see [`Self::recount_batch`].
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn begin_recount(&self, agent: &AgentId) -> StoreResult<()>;

    /// Returns up to `limit` agents with exchanges that need a recount.
    async fn recounts_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Returns the newest exchanges that need a recount: together up to `messages_max` messages, but at least one exchange;
    /// `None` if there are none.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn recount_batch(&self, agent: &AgentId, messages_max: i64) -> StoreResult<Option<RecountBatch>>;

    /// Stores the new counts of a batch, and moves the boundary if the window then exceeds its budget. Exchanges that were
    /// covered or set aside in the meantime keep their counts. Returns `None` and changes nothing if the settings have changed
    /// since the batch was read, or if another recount came first.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn recount(&self, recount: Recount) -> StoreResult<Option<RecountOutcome>>;

    /// Returns the saved calibrations of token counters, oldest first.
    async fn calibrations(&self) -> StoreResult<Vec<KeptCalibration>>;

    /// Saves these calibrations. Then keeps only the most recently learned ones, up to a fixed number, and deletes the others.
    async fn keep_calibrations(&self, calibrations: Vec<KeptCalibration>, now: Timestamp) -> StoreResult<()>;

    async fn agent(&self, agent: &AgentId) -> StoreResult<Option<AgentRow>>;

    async fn agents(&self, after: Option<&AgentId>, limit: i64) -> StoreResult<Vec<AgentRow>>;

    /// Returns the live exchanges `from` to `through`. Includes their messages if the query asks for them, up to a limit of bytes
    /// ([`page`] explains how to read the rest).
    async fn exchanges(&self, agent: &AgentId, query: ExchangeQuery) -> StoreResult<Vec<StoredExchange>>;

    async fn count_exchanges(&self, agent: &AgentId, from: i64, through: i64) -> StoreResult<i64>;

    /// Returns the live exchanges at these offsets of the history, in order, and also the first pending one and the boundary. An
    /// offset is a number of tokens from the beginning. Takes one index look-up for each offset.
    async fn landmarks(&self, agent: &AgentId, token_offsets: &[i64]) -> StoreResult<Vec<CutPoint>>;

    /// Returns the first live exchange of a session among the agent's own rows, if there is one. If a fork lacks the rows at the
    /// beginning of its running session, returns the number with which that session begins; the fork's ancestors hold those rows.
    async fn session_start(&self, agent: &AgentId, session: i64) -> StoreResult<Option<i64>>;

    /// Returns true if any exchange ever left the agent's window, even if it has returned since.
    async fn has_evicted(&self, agent: &AgentId) -> StoreResult<bool>;

    /// Returns the last messages of named speakers in order, at most `limit`, for conversations of several speakers. Leaves out
    /// humans who step in. Reads the final messages of the last [`SAID_EXCHANGES_MAX`] live exchanges.
    async fn last_said(&self, agent: &AgentId, limit: i64) -> StoreResult<Vec<SaidMessage>>;

    /// Searches an agent's live archive, which includes inherited exchanges; `None` for an unknown agent.
    async fn search(&self, agent: &AgentId, search: &ArchiveSearch) -> StoreResult<Option<SearchHits>>;

    /// Returns an exchange in its original form, even if it is inherited or set aside; `None` if it doesn't exist.
    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        range: MessageRange,
    ) -> StoreResult<Option<ExpandedExchange>>;

    /// Returns the request that an exchange or leg works on: the first user message of its exchange, even if it is inherited or
    /// set aside.
    async fn request_of(&self, agent: &AgentId, exchange: i64) -> StoreResult<Option<StoredMessage>>;

    /// Returns the live legs of the exchange to which `exchange` belongs, in order, including inherited ones; at most
    /// [`LEGS_MAX`]. Returns none if the number is unknown. Takes two look-ups and reads the rows of the legs.
    async fn legs(&self, agent: &AgentId, exchange: i64) -> StoreResult<Vec<Exchange>>;

    /// Indexes the next messages for recall, at most `messages_max`. Returns how many it indexed; 0 if all are indexed.
    async fn index_messages(&self, messages_max: i64) -> StoreResult<i64>;

    /// Seals rows that were stored before seals existed, or by a recapd that makes none, oldest messages first. Returns how many
    /// rows it sealed; 0 if all are sealed.
    async fn seal_rows(&self, rows_max: i64) -> StoreResult<i64>;

    /// Forgets messages: they become tombstones in every agent that shares them, and everything derived from them is removed. A
    /// second call changes nothing.
    ///
    /// Works in steps between which others may write. [`Self::begin_forget`] records the request first, so that
    /// [`Forgettable::Begun`] can continue after a crash. When this returns, everything is forgotten.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownExchange`] or [`StoreError::UnknownMessage`]; then nothing is changed.
    /// After other errors, [`Self::forgettings_due`] shows whether work remains.
    async fn forget(&self, request: Forget) -> StoreResult<Forgotten> {
        let mut forgotten = self.begin_forget(&request).await?;
        loop {
            let step = self.forget_some(&request).await?;
            forgotten.items += step.items;
            forgotten.versions += step.versions;
            if step.remaining == 0 {
                break;
            }
        }
        for agent in &forgotten.agents {
            while self.settle_totals(agent, &request.rules, request.now).await?.is_some() {}
        }
        forgotten.is_scrubbed = self.scrub().await;
        Ok(forgotten)
    }

    /// Records what to forget. Returns the messages and exchanges that the request names, and the agents that share them.
    ///
    /// # Errors
    /// As [`Self::forget`].
    async fn begin_forget(&self, request: &Forget) -> StoreResult<Forgotten>;

    /// Forgets part of what is recorded for the agent, in one transaction: in every agent that shares it, and in their documents.
    async fn forget_some(&self, request: &Forget) -> StoreResult<ForgetStep>;

    /// Returns agents with a recorded but unfinished forgetting.
    async fn forgettings_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Counts the agent's exchanges that are recorded to be forgotten.
    async fn forgettings_left(&self, agent: &AgentId) -> StoreResult<i64>;

    /// Recalculates the next running totals that a forgetting or a recount has made outdated, in one transaction. Returns `None`
    /// if all were right. After the last totals, evicts if the window exceeds its budget.
    async fn settle_totals(
        &self,
        agent: &AgentId,
        rules: &AppendRules,
        now: Timestamp,
    ) -> StoreResult<Option<RecountOutcome>>;

    /// Returns agents with outdated running totals.
    async fn totals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Deletes an agent and everything about it. Exchanges that it inherited stay with their owners.
    ///
    /// Works in steps between which others may write. The first step hides the agent; appends to it fail
    /// ([`StoreError::Contended`]) until the deletion is finished. After a crash, another call continues the deletion.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::HasForks`]; then nothing is changed. After other errors,
    /// [`Self::deletions_due`] shows whether work remains.
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
        Ok(Deletion { messages, is_scrubbed: self.scrub().await })
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

    /// Overwrites deleted and replaced data in the database's files. Returns false if some may remain.
    async fn scrub(&self) -> bool;

    /// Returns the current document and the pending exchanges, in one consistent read.
    async fn summary(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>>;

    /// Returns the document that contexts show, and the exchanges that have left the window since. The document is the first
    /// version that covers the newest eviction step. Until there is such a version, it is the version that was current at that
    /// step. So the document changes only once per step, which keeps the provider's prompt cache warm. A rewind that withdraws
    /// items or facts changes it at once.
    async fn summary_of_step(&self, agent: &AgentId) -> StoreResult<Option<SummaryRow>>;

    /// Returns the stored versions of an agent's document without their texts, newest first.
    async fn versions(&self, agent: &AgentId, query: VersionQuery) -> StoreResult<Vec<VersionFigures>>;

    /// Returns one version; `None` if it never existed or has been deleted for its age.
    async fn version(&self, agent: &AgentId, version: i64) -> StoreResult<Option<Version>>;

    /// Rolls back: writes a new version with the items of an earlier one. Exchanges that only later versions covered become
    /// pending again. Doesn't restore an item about exchanges that have been set aside; digests replace it for its other
    /// exchanges. Voids the lease of an update in progress.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::UnknownVersion`]; then nothing is changed.
    async fn roll_back(&self, request: RollbackRequest) -> StoreResult<RevisionOutcome>;

    /// Removes the items and makes every exchange outside of the window pending, so that all are summarised again. A fork keeps
    /// its inherited items, and missing ones are restored. Readers get the old document until the new one covers as much. Also
    /// restores missing rows of the summary's tables. Voids the lease of an update in progress.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn rebuild(&self, request: RebuildRequest) -> StoreResult<RevisionOutcome>;

    /// Marks more items as removed in their own rows, in one transaction: items that a rollback or a rebuild removed and that
    /// weren't in the document. Returns true if some are left. Readers see no difference. After a crash, another call continues.
    async fn withdraw_some(&self, agent: &AgentId) -> StoreResult<bool>;

    /// Returns agents for which [`Self::withdraw_some`] has rows to mark.
    async fn withdrawals_due(&self, limit: i64) -> StoreResult<Vec<AgentId>>;

    /// Returns the items in force, in order of their numbers.
    async fn items(&self, agent: &AgentId, query: ItemQuery) -> StoreResult<Vec<ItemRow>>;

    async fn facts(&self, agent: &AgentId, query: FactQuery) -> StoreResult<Vec<FactRow>>;

    /// Applies an operator's change to the facts and writes a new version. Voids the lease of an update in progress.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`] or [`StoreError::Fact`]; then nothing is changed.
    async fn change_fact(&self, request: FactRequest) -> StoreResult<FactEdited>;

    /// Applies an operator's change to an item and writes a new version. An item with a new text gets a new number, so that
    /// earlier versions keep the old item. Voids the lease of an update in progress.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownItem`] or [`StoreError::ItemPinsFull`]; then nothing is changed.
    async fn edit_item(&self, request: EditRequest) -> StoreResult<EditOutcome>;

    /// Moves the agent into `project`; `None` removes it from its project.
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

    /// Leases up to `limit` due rows, in an order that prefers urgent rows but lets no row starve
    /// ([`recapd_core::domain::work::Priority::slack_ms`]). A row with an expired lease, whose worker has vanished, is due.
    async fn claim(&self, claim: ClaimRequest) -> StoreResult<Vec<Lease>>;

    /// Returns in how many milliseconds [`Self::claim`] may find a row, as far as this is known now: 0 if one may be due
    /// already, `None` if there are no rows or only parked ones.
    async fn next_due_ms(&self, now: Timestamp) -> StoreResult<Option<i64>>;

    /// Renews leases. Returns the fencing tokens of those that are still held.
    async fn renew(&self, leases: &[Lease], now: Timestamp, lease_ms: i64) -> StoreResult<Vec<i64>>;

    /// Returns everything that an update needs, in one consistent read.
    async fn material(&self, lease: &Lease, limits: MaterialLimits) -> StoreResult<Material>;

    /// Returns the model's answer to the question with this key; `None` if the journal has none.
    async fn journalled(&self, agent: &AgentId, key: &str) -> StoreResult<Option<JournalledAnswer>>;

    /// Returns which of these keys have a journalled answer, in any order.
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
    /// [`StoreError::Fenced`] if a fence fails; then nothing is changed.
    async fn complete(&self, lease: &Lease, patch: Patch) -> StoreResult<Completion>;

    /// Writes a version with the changes that ageing alone makes. The lease continues, but must not write another version.
    /// Returns false and changes nothing if a model's answer about the present version exists or may still arrive, because the
    /// answer would become useless and have to be paid for again.
    ///
    /// # Errors
    /// As [`Self::complete`].
    async fn age_document(&self, lease: &Lease, patch: Patch) -> StoreResult<bool>;

    /// Ends a lease that has nothing to write, and moves the watermark over set-aside exchanges.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    async fn settle(&self, lease: &Lease, settle: Settle) -> StoreResult<Completion>;

    /// Gives a lease back after a failure. The row is retried after a wait, or parked. A row that was woken in the meantime isn't
    /// parked. Returns true if the row is parked.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the lease is no longer held.
    async fn fail(&self, lease: &Lease, failure: Failure) -> StoreResult<bool>;

    /// Gives leases back without counting an attempt. Returns how many were still held.
    async fn release(&self, leases: &[Lease], now: Timestamp) -> StoreResult<u64>;

    /// Gives back a lease that has to wait for a provider or for the next day, without counting an attempt. Records the cost so
    /// far as a run.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the lease is no longer held.
    async fn postpone(&self, lease: &Lease, postponement: Postponement) -> StoreResult<()>;

    /// Records the cost of an attempt that had no effect because another attempt came first. Does nothing if it is recorded
    /// already.
    async fn record_run(&self, lease: &Lease, run: RunRecord) -> StoreResult<()>;

    /// Makes waiting updates due whose wait may be over. Returns how many.
    async fn resume(&self, kind: Resume, now: Timestamp) -> StoreResult<u64>;

    /// Returns what models have cost since `since`, for one agent and for all, and the agent's settings.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`].
    async fn spending(&self, agent: &AgentId, since: Timestamp) -> StoreResult<Spending>;

    /// Returns which spending limit pauses an agent's updates and until when, if one does.
    async fn paused(&self, agent: &AgentId) -> StoreResult<Option<SpendPause>>;

    /// Creates queue rows for up to `limit` agents whose documents hold provisional items and that have no row. Returns how many
    /// it created.
    async fn enqueue_revisits(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Reports that the holder of expired leases is alive. Gives back the leases that are still in their rows, and no longer
    /// counts them as crashes.
    async fn disclaim(&self, leases: &[Lease]) -> StoreResult<u64>;

    /// Makes rows due at once whose leases `owner` held before it restarted. Only the holder of the owner's lock may call this.
    async fn reclaim(&self, owner: &str, now: Timestamp) -> StoreResult<u64>;

    /// Brings forward times that a clock running ahead of `now` has set: by `ahead_ms`, or if that is `None`, by as much as the
    /// newest rows show, but never to before `now`. Doesn't change the queue if leases use the database's own clock. Returns how
    /// many queue rows it changed.
    async fn set_back(&self, ahead_ms: Option<i64>, now: Timestamp) -> StoreResult<u64>;

    /// Creates missing queue rows for agents with exchanges that have been pending since before `pending_before`. Returns how
    /// many were missing.
    async fn reconcile(&self, pending_before: Timestamp, now: Timestamp) -> StoreResult<u64>;

    /// Gives rows parked before `parked_before` one more attempt, the last of `attempts_max`. A row whose workers crashed gets it
    /// after ten minutes, but only once. Cancelled rows stay parked. Returns how many.
    async fn probe_parked(
        &self,
        parked_before: Timestamp,
        attempts_max: i64,
        now: Timestamp,
    ) -> StoreResult<u64>;

    /// Makes rows due for up to `limit` agents with an item that is too old for its section, unless their rows already wait for
    /// ageing. Returns how many.
    async fn enqueue_ageing(&self, now: Timestamp, limit: i64) -> StoreResult<u64>;

    /// Takes a schedule's slot. Only one caller gets it, fires the job, and then calls [`Self::finish_slot`]. If this caller
    /// doesn't finish within [`FIRING_MS_MAX`], another caller gets the slot.
    async fn take_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<Slot>;

    /// Records that the job of a taken slot has been fired.
    async fn finish_slot(&self, name: &str, slot: Timestamp, now: Timestamp) -> StoreResult<()>;

    /// Deletes old runs, answers, versions and the like in many short transactions. Returns how many rows. Rows that others are
    /// writing are deleted by the next call.
    async fn prune(&self, prune: Prune) -> StoreResult<u64>;

    /// Returns the figures for metrics and `status`.
    async fn sample(&self, now: Timestamp, window_ms: i64) -> StoreResult<Sample>;

    /// Checks the invariants of one agent.
    async fn verify(&self, agent: &AgentId) -> StoreResult<AgentReport>;

    /// Works like [`Self::verify`], and also runs the checks that take long.
    async fn verify_deep(&self, agent: &AgentId) -> StoreResult<AgentReport>;

    /// Makes a round trip. Also fails if the last write failed, if another file has taken the database's name, or if the server
    /// accepts no writes.
    async fn ping(&self) -> StoreResult<()>;
}
