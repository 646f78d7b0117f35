//! Writes versions outside of updates: the common part of a rewind, a rollback, a rebuild, a forgetting and an edit, each with a fencing
//! token of its own.

use crate::sql::{Connection, query, sql};

use super::{
    super::{Patch, RunRecord, StoreError, StoreResult},
    batch, complete, facts, queue, row, summary,
};
use recapd_core::{
    domain::{
        agent::AgentId,
        summary::{
            compaction::{Composition, SummaryPolicy, compose_with},
            fact::Fact,
            item::Item,
            state::FactUpdate,
            version::VersionKind,
        },
        time::Timestamp,
        work::Lease,
    },
    tokenizer,
};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revision {
    pub(super) agent: AgentId,
    pub(super) kind: VersionKind,
    /// The last exchange that the version covers.
    pub(super) through: i64,
    /// The first newly covered exchange, and the number of newly covered exchanges; `None` if there are none.
    pub(super) gains: Option<(i64, i64)>,
    /// Items that no longer cover anything.
    pub(super) removed: Vec<i64>,
    /// New items. An item that already has a number is a copy of the item with that number.
    pub(super) added: Vec<Item>,
    /// New items that cover their exchanges but don't appear in the document.
    pub(super) hidden: Vec<Item>,
    /// Changes to the facts. A new fact that already has a number is a copy of the fact with that number.
    pub(super) facts: FactUpdate,
    pub(super) policy: SummaryPolicy,
    /// The time that its items are aged by.
    pub(super) as_of: Timestamp,
    pub(super) now: Timestamp,
}

#[derive(Clone, Copy)]
pub(super) struct WrittenVersion {
    pub(super) version: i64,
    /// The number of the first new item; the other new items have the next numbers.
    pub(super) first_item: i64,
    /// The number of the first new fact; the other new facts have the next numbers.
    pub(super) first_fact: i64,
}

/// A revision, with all that its document is composed from.
pub(super) struct RevisionDraft {
    revision: Revision,
    /// The document's items: those that stay, and then the new ones.
    items: Vec<Item>,
    /// How many of `items` stay.
    old: usize,
    facts: Vec<Fact>,
    /// The document's version so far.
    version: i64,
}

/// A version that is composed and not written yet. Callers compose it before the transaction, because everybody waits for the writer.
#[derive(Clone, Debug)]
pub(super) struct ComposedVersion {
    revision: Revision,
    patch: Patch,
}

impl Revision {
    /// Returns the revision with the agent's own ageing.
    async fn for_agent(self, tx: &mut Connection) -> StoreResult<Self> {
        let time = summary::agent_time(tx, &self.agent).await?;
        Ok(Self { policy: self.policy.for_agent(time), ..self })
    }
}

impl RevisionDraft {
    pub(super) async fn read(tx: &mut Connection, revision: Revision) -> StoreResult<Self> {
        let revision = revision.for_agent(tx).await?;
        Self::read_parts(tx, revision).await
    }

    async fn read_parts(tx: &mut Connection, revision: Revision) -> StoreResult<Self> {
        let agent = &revision.agent;
        let mut items = summary::shown_items(tx, agent).await?;
        items.retain(|item| !revision.removed.contains(&item.item));
        let old = items.len();
        items.extend(revision.added.iter().cloned());
        Ok(Self {
            old,
            facts: revision.facts.holding(&facts::holding(tx, agent).await?),
            version: current(tx, agent).await?.0,
            revision,
            items,
        })
    }

    /// Composes the document. A full one takes about a tenth of a second.
    pub(super) fn compose(self) -> ComposedVersion {
        let Self { revision, items, old, facts, version } = self;
        let counter = tokenizer::ceiling_counter();
        let composition = compose_with(&facts, &items, revision.as_of, &revision.policy, counter.as_ref());
        let patch = patch(&revision, version, &items[..], old, composition);
        ComposedVersion { revision, patch }
    }
}

/// Writes a version. Uses `composed` if it was made of this revision and of the present version; otherwise composes the version here. The
/// caller has moved the watermark, if necessary.
pub(super) async fn write(
    tx: &mut Connection,
    revision: Revision,
    composed: Option<&ComposedVersion>,
) -> StoreResult<WrittenVersion> {
    let revision = revision.for_agent(tx).await?;
    let (version, _) = current(tx, &revision.agent).await?;
    match composed.filter(|composed| composed.is_of(&revision, version)) {
        Some(composed) => composed.write(tx).await,
        None => RevisionDraft::read_parts(tx, revision).await?.compose().write(tx).await,
    }
}

impl ComposedVersion {
    pub(super) fn agent(&self) -> &AgentId {
        &self.revision.agent
    }

    /// Returns true if this was composed of `revision` and of the items and facts of `version`, which change only with the
    /// version.
    fn is_of(&self, revision: &Revision, version: i64) -> bool {
        self.patch.version == version && self.revision == *revision
    }

    async fn write(&self, tx: &mut Connection) -> StoreResult<WrittenVersion> {
        let (agent, patch) = (&self.revision.agent, &self.patch);
        let lease = Lease {
            agent: agent.clone(),
            token: queue::next_token(tx).await?,
            claimed_wake: 0,
            attempt: 0,
            crashes: 0,
            taken_over: false,
            reasons: 0,
            ready_at: patch.run.finished_at,
        };
        complete::write_document(tx, &lease, patch).await?;
        batch::end_batch_wait(tx, agent, patch.run.finished_at).await?;
        let first_item = complete::reserve_items(tx, agent, patch).await?;
        complete::write_items(tx, agent, patch, first_item).await?;
        for (number, (item, _)) in (first_item..).zip(&patch.added) {
            if item.item > 0 {
                note_source(tx, agent, item.item, number).await?;
            }
        }
        complete::retire_items(tx, agent, patch).await?;
        let version = patch.version + 1;
        let first_fact = facts::write(tx, agent, version, &patch.facts).await?;
        complete::write_version(tx, &lease, patch, self.revision.kind).await?;
        Ok(WrittenVersion { version, first_item, first_fact })
    }
}

/// Returns the document's version, and the time for which its items are aged; `None` stands for the clock's time.
pub(super) async fn current(tx: &mut Connection, agent: &AgentId) -> StoreResult<(i64, Option<Timestamp>)> {
    let sql = sql!(
        "-- sql/revise.current\nSELECT s.version, a.as_of FROM summaries s \
               JOIN agents a ON a.agent_id = s.agent_id WHERE s.agent_id = $1"
    );
    let found = query(sql).bind(agent.as_str()).fetch_optional(tx).await?;
    let row = found.ok_or_else(|| StoreError::UnknownAgent(agent.clone()))?;
    Ok((row.try_get(0)?, row::time(&row, 1)?))
}

/// Moves the watermark to `through`. Exchanges between it and the window become pending. Returns the boundary.
pub(super) async fn move_watermark(
    tx: &mut Connection,
    agent: &AgentId,
    through: i64,
    now: Timestamp,
) -> StoreResult<i64> {
    let sql = sql!(
        "-- sql/revise.move_watermark\nUPDATE agents SET summarized_through = $2, \
               pending_since = CASE WHEN first_exchange > $2 + 1 THEN coalesce(pending_since, $3) END \
               WHERE agent_id = $1 RETURNING first_exchange"
    );
    let row = query(sql).bind(agent.as_str()).bind(through).bind(now).fetch_one(tx).await?;
    Ok(row.try_get(0)?)
}

fn patch(revision: &Revision, version: i64, items: &[Item], old: usize, composition: Composition) -> Patch {
    let is_dropped = |index: usize| composition.dropped.binary_search(&index).is_ok();
    let (existing, new) = items.split_at(old);
    let new = (old..).zip(new);
    let added = new.map(|(index, item)| (item.clone(), is_dropped(index)));
    let hidden = revision.hidden.iter().map(|item| (item.clone(), true));
    let existing = existing.iter().enumerate();
    let (lo, exchanges) = revision.gains.unwrap_or((revision.through, 0));
    Patch {
        version,
        lo,
        hi: revision.through,
        exchanges,
        added: added.chain(hidden).collect(),
        dropped: existing.filter(|(index, _)| is_dropped(*index)).map(|(_, item)| item.item).collect(),
        removed: revision.removed.clone(),
        facts: revision.facts.clone(),
        content: composition.document,
        token_count: composition.tokens,
        path: composition.path,
        as_of: revision.as_of,
        next_ageing_at: composition.next_change,
        has_more: false,
        park: None,
        rearm_wait_ms: 0,
        batch_exchanges: 0,
        batch_tokens_min: 0,
        run: RunRecord { started_at: revision.now, finished_at: revision.now, ..RunRecord::default() },
    }
}

/// Records which item of the parent the new item `to` copies, if it was made from an inherited item, `from`.
async fn note_source(tx: &mut Connection, agent: &AgentId, from: i64, to: i64) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/revise.note_source\nUPDATE summary_items SET source_agent_id = o.source_agent_id, \
               source_item = coalesce(o.source_item, o.item) FROM summary_items o \
               WHERE summary_items.agent_id = $1 AND summary_items.item = $3 \
               AND o.agent_id = $1 AND o.item = $2 AND o.source_agent_id IS NOT NULL"
    );
    query(sql).bind(agent.as_str()).bind(from).bind(to).execute(tx).await?;
    Ok(())
}
