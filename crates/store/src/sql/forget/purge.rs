//! Removes from one agent everything that was derived from forgotten messages.

use crate::sql::{Connection, query, sql};

use super::{
    super::{
        super::{Forget, StoreError, StoreResult, StoredMessage, seal},
        agent, batch, exchange, facts,
        fork::record,
        hold,
        lineage::{self, withdraw},
        queue,
        recall::AncestorLine,
        revise::{self, ComposedVersion, Revision, RevisionDraft},
        seal::fill,
        totals,
    },
    Tombstone, TouchedAgent,
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::{Exchange, FORGOTTEN_TITLE, Headline, LedgerEntry},
    number::i64_or_max,
    summary::{
        coverage::digest_items,
        item::{BRIEF_CHARS_MAX, ExchangeRange, GIST_CHARS_MAX, Item, TEXT_CHARS_MAX},
        version::VersionKind,
    },
    text::cut,
    work::Reason,
};

/// The numbers of the items about the forgotten exchanges, ascending.
#[derive(Default)]
struct AffectedItems {
    /// Items that came with a fork. A rollback may restore them.
    inherited: Vec<i64>,
    /// The agent's own items in force.
    own_items: Vec<i64>,
    /// The agent's own items that are no longer in force.
    removed: Vec<i64>,
}

/// The removal from one agent.
pub(super) struct Purge<'a> {
    pub(super) request: &'a Forget,
    pub(super) agent: &'a AgentId,
    pub(super) touched: &'a TouchedAgent,
    pub(super) tombstones: &'a [Tombstone],
    pub(super) composed: &'a [ComposedVersion],
}

impl Purge<'_> {
    /// Recalculates the tokens and headlines of the exchanges from the remaining messages, and the running totals after them.
    pub(super) async fn recalculate(&self, tx: &mut Connection) -> StoreResult<()> {
        self.forget_counts(tx).await?;
        for &number in &self.touched.exchanges {
            self.recalculate_one(tx, number).await?;
        }
        if let Some(first) = self.touched.exchanges.first() {
            totals::handle_change(tx, self.agent, *first).await?;
        }
        Ok(())
    }

    /// Removes the other derived data. Must run after `recalculate` has run for all agents. Returns how many items and how many
    /// earlier versions lost their text.
    pub(super) async fn run(&self, tx: &mut Connection) -> StoreResult<(i64, i64)> {
        lineage::void_lease(tx, self.agent, self.request.now).await?;
        // During a rebuild readers get a held document, which may be about these exchanges, too.
        hold::release(tx, self.agent, 0, true).await?;
        let affected = self.find_items(tx).await?;
        let items = self.rewrite_document(tx, &affected).await?;
        self.remove_item_texts(tx, &affected).await?;
        fill::items(tx, self.agent, i64::MAX).await?;
        facts::remove_texts(tx, self.agent, &self.touched.summarisable).await?;
        fill::facts(tx, self.agent, i64::MAX).await?;
        let versions = self.purge_versions(tx).await?;
        self.forget_answers(tx).await?;
        batch::forget(tx, self.agent, self.request.now).await?;
        self.rewrite_fork(tx).await?;
        Ok((items, versions))
    }

    async fn forget_counts(&self, tx: &mut Connection) -> StoreResult<()> {
        let seqs: Vec<i64> = self.tombstones.iter().map(|message| message.seq).collect();
        // A fork and its parent use the same numbers for different messages.
        let sql = sql!(
            "-- sql/forget.counts\nDELETE FROM recounts WHERE agent_id = $1 \
                   AND seq IN (SELECT CAST(value AS bigint) FROM {each}($2{::jsonb})) AND EXISTS (SELECT 1 FROM exchange_log e \
                   JOIN {each}($3{::jsonb}) n ON CAST(n.value AS bigint) = e.exchange WHERE e.agent_id = $1 \
                   AND recounts.seq BETWEEN e.first_seq AND e.last_seq)"
        );
        query(sql)
            .bind(self.agent.as_str())
            .bind(serde_json::json!(seqs).to_string())
            .bind(serde_json::json!(self.touched.exchanges).to_string())
            .execute(tx)
            .await?;
        Ok(())
    }

    /// Recalculates an exchange's tokens and headline from the remaining messages.
    async fn recalculate_one(&self, tx: &mut Connection, number: i64) -> StoreResult<()> {
        let Some(found) = exchange::find(tx, self.agent, number).await? else {
            return Ok(());
        };
        let remaining = self.messages_left(tx, &found).await?;
        let headline = serde_json::json!(self.headline(&remaining, &found)).to_string();
        let sql = sql!(
            "-- sql/forget.sum_up\nUPDATE exchange_log SET headline = $3, digest = $4, tokens = \
                   (SELECT coalesce(CAST(sum(coalesce(r.tokens, m.tokens)) AS bigint), 0) FROM message_log m \
                   LEFT JOIN recounts r ON r.agent_id = $1 AND r.seq = m.seq WHERE m.agent_id = exchange_log.source_agent_id \
                   AND m.seq BETWEEN exchange_log.first_seq AND exchange_log.last_seq \
                   AND m.exchange = exchange_log.exchange) WHERE agent_id = $1 AND exchange = $2"
        );
        query(sql)
            .bind(self.agent.as_str())
            .bind(number)
            .bind(headline.as_str())
            .bind(seal::of_exchange(&found, &headline))
            .execute(&mut *tx)
            .await?;
        Ok(())
    }

    /// Returns the messages of an exchange that aren't forgotten, and aren't to be.
    async fn messages_left(
        &self,
        tx: &mut Connection,
        exchange: &Exchange,
    ) -> StoreResult<Vec<StoredMessage>> {
        let mut messages = exchange::messages(tx, self.agent, exchange).await?;
        let is_tombstone = |seq| self.tombstones.iter().any(|message| message.seq == seq);
        messages.retain(|stored| !stored.message.is_forgotten() && !is_tombstone(stored.seq));
        Ok(messages)
    }

    fn headline(&self, remaining: &[StoredMessage], original: &Exchange) -> Headline {
        let mut entries = remaining.iter().map(|stored| {
            let redactor = &self.request.redactor;
            LedgerEntry::new(&stored.message, stored.tokens, stored.said_at, redactor)
        });
        let mut headline = Headline::default();
        if let Some(first) = entries.next() {
            let mut exchange =
                Exchange::open(original.exchange, original.session, 0, original.first_seq, &first);
            entries.for_each(|entry| exchange.add(original.last_seq, &entry));
            headline = exchange.headline;
        }
        headline.note_forgotten();
        let Headline { continues, leg_from, leg_tokens_before, round, .. } = original.headline.clone();
        Headline { continues, leg_from, leg_tokens_before, round, ..headline }
    }

    /// Prepares the version that [`Self::run`] will write; `None` if there will be none, or if inherited items get other texts first.
    pub(super) async fn draft(&self, tx: &mut Connection) -> StoreResult<Option<RevisionDraft>> {
        let affected = self.find_items(tx).await?;
        if !affected.inherited.is_empty() {
            return Ok(None);
        }
        match self.revision(tx, &affected).await? {
            Some(revision) => Ok(Some(RevisionDraft::read(tx, revision).await?)),
            None => Ok(None),
        }
    }

    /// Writes the document without the items about these exchanges. Returns how many items there were.
    async fn rewrite_document(&self, tx: &mut Connection, affected: &AffectedItems) -> StoreResult<i64> {
        for &item in &affected.inherited {
            self.replace_item_texts(tx, item).await?;
        }
        fill::items(tx, self.agent, i64::MAX).await?;
        let Some(revision) = self.revision(tx, affected).await? else {
            return Ok(0);
        };
        let has_digests = revision.added.iter().any(|item| item.provisional);
        let composed = self.composed.iter().find(|composed| composed.agent() == self.agent);
        revise::write(tx, revision, composed).await?;
        if has_digests {
            let wake = queue::Wake::at_once(Reason::Eviction, self.request.now);
            queue::enqueue(tx, self.agent, wake).await?;
        }
        Ok(i64_or_max(affected.own_items.len() + affected.inherited.len()))
    }

    /// Returns the revision that replaces the agent's own items about these exchanges with digests of all exchanges that these
    /// items cover; a model then condenses those that weren't forgotten. Inherited items stay: their texts are digests already,
    /// since their exchanges have no rows here. A document without items about these exchanges also gets a new version if readers
    /// see digests of pending ones after it. `None` if the document may stay.
    async fn revision(&self, tx: &mut Connection, affected: &AffectedItems) -> StoreResult<Option<Revision>> {
        let row = agent::load_known(tx, self.agent).await?;
        let evicted = ..row.ledger.first_exchange;
        let has_left = self.touched.summarisable.range(evicted).next().is_some();
        let facts = facts::about(tx, self.agent, &self.touched.summarisable).await?;
        if affected.own_items.is_empty() && affected.inherited.is_empty() && facts.is_empty() && !has_left {
            return Ok(None);
        }
        let through = row.ledger.summarized_through;
        let mut covered = withdraw::covered_before(tx, self.agent, &affected.own_items, through).await?;
        for exchange in &mut covered {
            self.strip(tx, exchange).await?;
        }
        Ok(Some(Revision {
            agent: self.agent.clone(),
            kind: VersionKind::Forget,
            through,
            gains: None,
            removed: affected.own_items.clone(),
            added: digests(&covered),
            hidden: Vec::new(),
            facts,
            policy: self.request.rules.policy,
            as_of: row.as_of.unwrap_or(self.request.now),
            now: self.request.now,
        }))
    }

    /// Removes the messages to be forgotten from an exchange's tokens and headline, if its row still includes them.
    async fn strip(&self, tx: &mut Connection, exchange: &mut Exchange) -> StoreResult<()> {
        if self.touched.exchanges.contains(&exchange.exchange) && !exchange.headline.is_forgotten() {
            let remaining = self.messages_left(tx, exchange).await?;
            exchange.tokens = remaining.iter().map(|message| message.tokens).sum();
            exchange.headline = self.headline(&remaining, exchange);
        }
        Ok(())
    }

    /// Finds the items about these exchanges. Reads items by the range of the exchanges and compares them here, because a
    /// database would go through the exchanges again for each item.
    async fn find_items(&self, tx: &mut Connection) -> StoreResult<AffectedItems> {
        let summarisable = &self.touched.summarisable;
        let (Some(first), Some(last)) = (summarisable.first(), summarisable.last()) else {
            return Ok(AffectedItems::default());
        };
        let sql = sql!(
            "-- sql/forget.items\nSELECT r.first_exchange, r.last_exchange, i.item, i.source_agent_id IS NOT NULL, \
                   i.removed_version IS NOT NULL FROM summary_item_ranges r {join} summary_items i \
                   ON i.agent_id = r.agent_id AND i.item = r.item WHERE r.agent_id = $1 \
                   AND r.first_exchange <= $3 AND r.last_exchange >= $2 ORDER BY i.item"
        );
        let query = query(sql).bind(self.agent.as_str()).bind(*first).bind(*last);
        let mut affected = AffectedItems::default();
        for row in query.fetch_all(tx).await? {
            let (first, last): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            if summarisable.range(first..=last).next().is_none() {
                continue;
            }
            let items = match (row.try_get::<bool>(3)?, row.try_get::<bool>(4)?) {
                (true, _) => &mut affected.inherited,
                (false, false) => &mut affected.own_items,
                (false, true) => &mut affected.removed,
            };
            let item: i64 = row.try_get(2)?;
            if items.last() != Some(&item) {
                items.push(item);
            }
        }
        Ok(affected)
    }

    /// Replaces an inherited item's texts with the present headlines of its exchanges. Keeps its number, times and tokens.
    async fn replace_item_texts(&self, tx: &mut Connection, item: i64) -> StoreResult<()> {
        let [text, brief, gist] = self.texts_from_headlines(tx, item).await?;
        let sql = sql!(
            "-- sql/forget.retell\nUPDATE summary_items SET text = $3, brief = $4, gist = $5, digest = NULL \
                   WHERE agent_id = $1 AND item = $2"
        );
        query(sql).bind(self.agent.as_str()).bind(item).bind(text).bind(brief).bind(gist).execute(tx).await?;
        Ok(())
    }

    async fn texts_from_headlines(&self, tx: &mut Connection, item: i64) -> StoreResult<[String; 3]> {
        let sql = sql!(
            "-- sql/forget.ranges\nSELECT first_exchange, last_exchange FROM summary_item_ranges \
                   WHERE agent_id = $1 AND item = $2 ORDER BY first_exchange"
        );
        let ranges = query(sql).bind(self.agent.as_str()).bind(item).fetch_all(&mut *tx).await?;
        let line = AncestorLine::of(tx, self.agent).await?;
        let line = line.ok_or_else(|| StoreError::UnknownAgent(self.agent.clone()))?;
        let mut exchanges: Vec<Exchange> = Vec::new();
        for row in &ranges {
            let range = ExchangeRange { first: row.try_get(0)?, last: row.try_get(1)? };
            for number in range.first..=range.last {
                let placed = line.find(tx, number).await?;
                exchanges.extend(placed.map(|placed| Exchange { set_aside_at: None, ..placed.exchange }));
            }
        }
        Ok(join_texts(&digest_items(&exchanges)))
    }

    /// Removes the texts of items that are no longer in force.
    async fn remove_item_texts(&self, tx: &mut Connection, affected: &AffectedItems) -> StoreResult<()> {
        let sql = sql!(
            "-- sql/forget.blank\nUPDATE summary_items SET text = $3, brief = $3, gist = $3, digest = NULL \
                   WHERE agent_id = $1 AND item IN (SELECT CAST(value AS bigint) FROM {each}($2{::jsonb}))"
        );
        let items: Vec<i64> = affected.own_items.iter().chain(&affected.removed).copied().collect();
        query(sql)
            .bind(self.agent.as_str())
            .bind(serde_json::json!(items).to_string())
            .bind(FORGOTTEN_TITLE)
            .execute(tx)
            .await?;
        Ok(())
    }

    /// Removes the texts of versions before the current one, from the first version that covered one of these exchanges on.
    async fn purge_versions(&self, tx: &mut Connection) -> StoreResult<i64> {
        let sql = sql!(
            "-- sql/forget.versions\nUPDATE summary_versions SET content = '', token_count = 0, digest = '', purged_at = $3 \
                   WHERE agent_id = $1 AND covers_through >= $2 AND purged_at IS NULL \
                   AND version < (SELECT s.version FROM summaries s WHERE s.agent_id = $1)"
        );
        let row_count = query(sql)
            .bind(self.agent.as_str())
            .bind(self.touched.summarisable.first().copied())
            .bind(self.request.now)
            .execute(tx)
            .await?;
        Ok(i64_or_max(row_count))
    }

    /// Deletes the journalled answers, which may hold any text that the model read. For a while after this, answers to earlier
    /// questions aren't journalled.
    async fn forget_answers(&self, tx: &mut Connection) -> StoreResult<()> {
        let answers = sql!("-- sql/forget.answers\nDELETE FROM model_answers WHERE agent_id = $1");
        let note = sql!(
            "-- sql/forget.note\nUPDATE agents SET forgotten_at = $2, updated_at = $2 WHERE agent_id = $1"
        );
        // The digest of a request would confirm a guess at its content. Messages' ids still detect duplicates.
        let keys = sql!("-- sql/forget.keys\nDELETE FROM idempotency_keys WHERE agent_id = $1");
        // The inbox keeps refused rows for inspection, and they may hold the same text.
        let refused = sql!(
            "-- sql/forget.refused\nDELETE FROM message_inbox WHERE agent_id = $1 AND refused_at IS NOT NULL"
        );
        query(refused).bind(self.agent.as_str()).execute(&mut *tx).await?;
        query(answers).bind(self.agent.as_str()).execute(&mut *tx).await?;
        query(keys).bind(self.agent.as_str()).execute(&mut *tx).await?;
        query(note).bind(self.agent.as_str()).bind(self.request.now).execute(tx).await?;
        Ok(())
    }

    /// Removes these exchanges' content from a fork's record.
    async fn rewrite_fork(&self, tx: &mut Connection) -> StoreResult<()> {
        let Some(mut fork) = record::load_if_recorded(tx, self.agent).await? else {
            return Ok(());
        };
        let tombstones: Vec<(i64, i64)> =
            self.tombstones.iter().map(|message| (message.seq, message.tokens)).collect();
        for &number in &self.touched.exchanges {
            let headline = exchange::find(tx, self.agent, number).await?.map(|found| found.headline);
            fork.forget(number, &tombstones, headline.unwrap_or_default());
        }
        record::replace(tx, self.agent, &fork).await
    }
}

/// Returns digest items of exchanges. Each forgotten exchange has a digest of its own, which is final, because no text is left to
/// condense.
fn digests(orphans: &[Exchange]) -> Vec<Item> {
    let (forgotten, remaining): (Vec<Exchange>, Vec<Exchange>) =
        orphans.iter().cloned().partition(|exchange| exchange.headline.is_forgotten());
    let forgotten_items =
        digest_items(&forgotten).into_iter().map(|item| Item { provisional: false, ..item });
    forgotten_items.chain(digest_items(&remaining)).collect()
}

/// Joins the texts, the briefs and the gists of several items into one each.
fn join_texts(items: &[Item]) -> [String; 3] {
    let joined = |of: &dyn Fn(&Item) -> &str, chars_max| {
        let texts: Vec<&str> = items.iter().map(of).collect();
        cut(&texts.join("; "), chars_max)
    };
    [
        joined(&|item| &item.text, TEXT_CHARS_MAX),
        joined(&|item| &item.brief, BRIEF_CHARS_MAX),
        joined(&|item| &item.gist, GIST_CHARS_MAX),
    ]
}
