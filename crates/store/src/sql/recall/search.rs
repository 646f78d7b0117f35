//! Searches: reads the part of the index and the unindexed messages that a search needs. The domain ranks them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures::{TryStreamExt as _, stream::BoxStream};
use serde_json::json;

use super::{AncestorLine, line::BlockKey, rows::PlacedMessage, vectors::with_nearest};
use crate::{
    FoundExchange, PlacedExchange, SearchHits, StoreResult, StoredMessage, TAIL_MESSAGES_MAX,
    sql::{Connection, Row, query, row, sql, statement::SqlDialect},
};
use recapd_core::domain::{
    agent::AgentId,
    recall::{
        ArchiveSearch, Candidates, IndexPart, IndexTotals, Query, RankedExchange, SessionRange, TERMS_MAX,
        Term, block_of, searchable,
    },
};

/// Limits how many of an agent's newest messages are examined to count the unindexed ones.
const UNINDEXED_COUNTED_MAX: i64 = 100_000;
/// Limits the postings that a search reads. To keep the limit, a search leaves out the most common words of a question, but never
/// the rarest word.
const POSTINGS_MAX: i64 = 500_000;
/// Limits the rows read for words that begin with a word of the question. The newest blocks come first.
const PREFIX_ROWS_MAX: i64 = 4_000;
/// Limits how many messages are read to verify a phrase. The newest come first.
const PHRASE_MESSAGES_MAX: usize = 1_000;
/// The blocks that a search reads.
type Parts = BTreeMap<BlockKey, IndexPart>;

pub(in crate::sql) async fn search(
    tx: &mut Connection,
    agent: &AgentId,
    wanted: &ArchiveSearch,
) -> StoreResult<Option<SearchHits>> {
    let Some(line) = AncestorLine::of(tx, agent).await? else {
        return Ok(None);
    };
    look_up_rows(tx).await?;
    let (search, parts) = words(tx, &line, wanted).await?;
    let (mut candidates, unsearched) = candidates(tx, &line, &search, parts).await?;
    if let Some(session) = search.filter.session {
        candidates.session = Some(session_range(tx, agent, session).await?);
    }
    verify_phrases(tx, &line, &search, &mut candidates).await?;
    let ranked = candidates.rank(&search);
    let ranked = with_nearest(tx, &line, &search, candidates.session.as_ref(), ranked).await?;
    let mut found = look_up(tx, &line, ranked, &search).await?;
    let has_more = found.len() > search.limit;
    found.truncate(search.limit);
    Ok(Some(SearchHits { terms: search.query.terms().to_vec(), found, has_more, unsearched }))
}

/// Makes PostgreSQL look up the index's rows one by one. It can't know how few rows a search needs, and would read whole tables.
async fn look_up_rows(tx: &mut Connection) -> StoreResult<()> {
    if tx.dialect() == SqlDialect::Postgres {
        let sql = sql!(
            "-- postgres/recall.look_up_rows\nSELECT set_config('enable_hashjoin', 'off', true), \
                   set_config('enable_mergejoin', 'off', true)"
        );
        query(sql).fetch_one(tx).await?;
    }
    Ok(())
}

/// Reads the postings of the question's words. If there are very many words, or very common ones, reads only the rarest.
async fn words(
    tx: &mut Connection,
    line: &AncestorLine,
    wanted: &ArchiveSearch,
) -> StoreResult<(ArchiveSearch, Parts)> {
    // Counting costs as much as reading, and few questions need the counts.
    if wanted.query.terms().len() <= TERMS_MAX
        && let Some(parts) = read_words(tx, line, &wanted.stems(), POSTINGS_MAX).await?
    {
        return Ok((wanted.clone(), parts));
    }
    let search = ArchiveSearch { query: with_rarest_terms(tx, line, &wanted.query).await?, ..wanted.clone() };
    let parts = read_words(tx, line, &search.stems(), i64::MAX).await?;
    Ok((search, parts.unwrap_or_default()))
}

/// Returns the query with only its rarest terms.
async fn with_rarest_terms(tx: &mut Connection, line: &AncestorLine, wanted: &Query) -> StoreResult<Query> {
    let counts = counts(tx, line, &stems(wanted.terms())).await?;
    let count = |term: &Term| {
        let counts = term.stems().iter().map(|stem| counts.get(stem).copied().unwrap_or_default());
        counts.min().unwrap_or_default()
    };
    let mut terms_by_count: Vec<(i64, usize)> = wanted.terms().iter().map(count).zip(0..).collect();
    // A term that no message has costs nothing, so it doesn't count towards the limits.
    terms_by_count.sort_by_key(|&(count, index)| (count == 0, count, index));
    let mut remaining = POSTINGS_MAX;
    let used: HashSet<usize> = terms_by_count
        .into_iter()
        .take(TERMS_MAX)
        .enumerate()
        .take_while(|(position, (count, _))| {
            remaining -= count;
            *position == 0 || remaining >= 0 || *count == 0
        })
        .map(|(_, (_, index))| index)
        .collect();
    Ok(wanted.with_terms(|index| used.contains(&index)))
}

fn stems(terms: &[Term]) -> BTreeSet<&str> {
    terms.iter().flat_map(Term::stems).map(String::as_str).collect()
}

/// Counts the messages that have each stem.
async fn counts(
    tx: &mut Connection,
    line: &AncestorLine,
    stems: &BTreeSet<&str>,
) -> StoreResult<HashMap<String, i64>> {
    let sql = sql!(
        "-- sql/recall.counts\nSELECT w.stem, CAST(sum(w.messages) AS bigint) FROM {each}($1{::jsonb}) b \
               {join} {each_text}($2{::jsonb}) s ON {true} = {true} {join} recall_words w ON w.agent_id = b.value ->> 0 \
               AND w.block = CAST(b.value ->> 1 AS bigint) AND w.stem = s.value GROUP BY w.stem"
    );
    let found = query(sql)
        .bind(json!(line.blocks()).to_string())
        .bind(json!(stems).to_string())
        .fetch_all(tx)
        .await?;
    found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Reads what the ranking needs, and counts messages that are neither indexed nor read.
async fn candidates(
    tx: &mut Connection,
    line: &AncestorLine,
    search: &ArchiveSearch,
    mut parts: Parts,
) -> StoreResult<(Candidates, i64)> {
    let has = |stem: &str| parts.values().any(|part| part.has(stem));
    let open = search.query.terms().iter().filter(|term| term.is_open() && !has(term.stem()));
    let prefixes: BTreeSet<&str> = open.map(Term::stem).collect();
    add_beginning(tx, line, &prefixes, &mut parts).await?;
    let edges: Vec<BlockKey> =
        line.members().map(|member| (member.agent.to_string(), block_of(member.through_seq))).collect();
    let mut totals = add_messages(tx, line, search, &edges, &mut parts).await?;
    for (member, key) in line.members().zip(edges) {
        if let Some(part) = parts.get_mut(&key) {
            part.truncate(member.through_seq);
            totals += part.totals();
        }
    }
    let mut parts: Vec<IndexPart> = parts.into_values().collect();
    let (tail, unsearched) = index_unindexed(tx, line).await?;
    for part in &tail {
        totals += part.totals();
    }
    parts.extend(tail);
    parts.sort_by_key(IndexPart::block);
    let candidates = Candidates { totals, parts, ..Candidates::default() };
    Ok((candidates, unsearched))
}

/// Reads postings, with one row for each block; `None` if there are more than `postings_max`.
async fn read_words(
    tx: &mut Connection,
    line: &AncestorLine,
    stems: &BTreeSet<String>,
    postings_max: i64,
) -> StoreResult<Option<Parts>> {
    let sql = sql!(
        "-- sql/recall.words\nSELECT w.agent_id, w.block, CAST({array_of}({array}(w.stem, w.messages)) AS text), \
               string_agg(w.postings, '') FROM {each}($1{::jsonb}) b \
               {join} {each_text}($2{::jsonb}) s ON {true} = {true} {join} recall_words w ON w.agent_id = b.value ->> 0 \
               AND w.block = CAST(b.value ->> 1 AS bigint) AND w.stem = s.value GROUP BY w.agent_id, w.block"
    );
    let query = query(sql).bind(json!(line.blocks()).to_string()).bind(json!(stems).to_string());
    let mut parts = Parts::new();
    let is_whole = add_rows(query.fetch(tx)?, postings_max, &mut parts).await?;
    Ok(is_whole.then_some(parts))
}

/// Adds the postings of the words that begin with one of `prefixes`.
async fn add_beginning(
    tx: &mut Connection,
    line: &AncestorLine,
    prefixes: &BTreeSet<&str>,
    parts: &mut Parts,
) -> StoreResult<()> {
    if prefixes.is_empty() {
        return Ok(());
    }
    let ranges: Vec<[String; 2]> =
        prefixes.iter().map(|prefix| [(*prefix).to_owned(), format!("{prefix}{}", char::MAX)]).collect();
    let sql = sql!(
        "-- sql/recall.beginning\nSELECT w.agent_id, w.block, CAST({array}({array}(w.stem, w.messages)) AS text), w.postings \
               FROM {each}($1{::jsonb}) b {join} {each}($2{::jsonb}) p ON {true} = {true} \
               {join} recall_words w ON w.agent_id = b.value ->> 0 AND w.block = CAST(b.value ->> 1 AS bigint) \
               AND w.stem >= p.value ->> 0 AND w.stem < p.value ->> 1 ORDER BY w.block DESC, w.agent_id, w.stem LIMIT $3"
    );
    let query = query(sql)
        .bind(json!(line.blocks()).to_string())
        .bind(json!(ranges).to_string())
        .bind(PREFIX_ROWS_MAX);
    add_rows(query.fetch(tx)?, POSTINGS_MAX, parts).await?;
    Ok(())
}

/// Adds the postings of `rows` to `parts`. Stops and returns false when there are more than `postings_max`.
async fn add_rows(
    mut rows: BoxStream<'_, Result<Row, sqlx::Error>>,
    mut postings_max: i64,
    parts: &mut Parts,
) -> StoreResult<bool> {
    while let Some(row) = rows.try_next().await? {
        let key: BlockKey = (row.try_get(0)?, row.try_get(1)?);
        let stems: String = row.try_get(2)?;
        let wrong = |_| row::inconsistent("recall_words", format!("block {}", key.1), "stem", &stems);
        let stems: Vec<(String, i64)> = serde_json::from_str(&stems).map_err(wrong)?;
        postings_max -= stems.iter().map(|(_, count)| count).sum::<i64>();
        part_of(parts, key).add_rows(stems, &row.try_get::<Vec<u8>>(3)?);
        if postings_max < 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn part_of(parts: &mut Parts, key: BlockKey) -> &mut IndexPart {
    parts.entry(key).or_insert_with_key(|(_, block)| IndexPart::new(*block))
}

/// Adds the messages that the search needs, and all messages of `edges`, each member's last block. Returns the size of the rest
/// of the archive.
async fn add_messages(
    tx: &mut Connection,
    line: &AncestorLine,
    search: &ArchiveSearch,
    edges: &[BlockKey],
    parts: &mut Parts,
) -> StoreResult<IndexTotals> {
    let mut blocks: BTreeSet<BlockKey> = parts.keys().chain(edges).cloned().collect();
    if search.has_no_terms() {
        blocks.extend(line.blocks());
    }
    // To compare keys, SQLite reads the whole row of each block, so one pass reads everything.
    let sql = sql!(
        "-- sql/recall.blocks\nSELECT b.agent_id, b.block, b.messages, b.words, \
               CASE WHEN (b.agent_id, b.block) IN (SELECT n.value ->> 0, CAST(n.value ->> 1 AS bigint) \
               FROM {each}($2{::jsonb}) n) THEN b.entries ELSE '' END FROM {each}($1{::jsonb}) l \
               {join} recall_blocks b ON b.agent_id = l.value ->> 0 AND b.block <= CAST(l.value ->> 2 AS bigint)"
    );
    let query = query(sql).bind(line.json()).bind(json!(blocks).to_string());
    let (mut totals, mut rows) = (IndexTotals::default(), query.fetch(tx)?);
    while let Some(row) = rows.try_next().await? {
        let key: BlockKey = (row.try_get(0)?, row.try_get(1)?);
        let bytes: Vec<u8> = row.try_get(4)?;
        if edges.contains(&key) {
            part_of(parts, key).add_messages(&bytes);
            continue;
        }
        totals += IndexTotals { messages: row.try_get(2)?, words: row.try_get(3)? };
        if !bytes.is_empty() {
            part_of(parts, key).add_found(&bytes, search);
        }
    }
    Ok(totals)
}

/// Indexes the newest unindexed messages of the line in memory, and counts the older unindexed ones.
async fn index_unindexed(tx: &mut Connection, line: &AncestorLine) -> StoreResult<(Vec<IndexPart>, i64)> {
    let (spans, unsearched) = tail(tx, line).await?;
    let sql = sql!(
        "-- sql/recall.tail\nSELECT seq, format, payload, tokens, said_at, kind, exchange FROM message_log \
               WHERE agent_id = $1 AND seq > $2 AND seq <= $3 AND forgotten_at IS NULL ORDER BY seq"
    );
    let mut parts = Vec::new();
    for (agent, after, through) in &spans {
        let query = query(sql).bind(agent.as_str()).bind(*after).bind(*through);
        let rows = query.fetch_all(&mut *tx).await?;
        let messages: StoreResult<Vec<PlacedMessage>> = rows.iter().map(PlacedMessage::read).collect();
        parts.extend(PlacedMessage::indexed(&messages?));
    }
    Ok((parts, unsearched))
}

/// Returns the range of messages to read for each agent of the line (after the first number, up to the second), and how many
/// unindexed messages come before these. An agent's messages have consecutive numbers. In SQLite their ids ascend with their
/// numbers; other agents' ids in between do no harm.
async fn tail(tx: &mut Connection, line: &AncestorLine) -> StoreResult<(Vec<(String, i64, i64)>, i64)> {
    let sql = sql!(
        sqlite: "-- sql/recall.behind\nSELECT a.agent_id, max(a.fork_seq, min(a.last_seq, l.value ->> 1) - $2, \
               coalesce((SELECT n.seq FROM (SELECT m.id, m.seq FROM message_log m WHERE m.agent_id = a.agent_id \
               AND m.seq <= l.value ->> 1 ORDER BY m.seq DESC LIMIT $2) n \
               WHERE n.id <= (SELECT value FROM counters WHERE name = 'recall_indexed') LIMIT 1), 0)), \
               min(a.last_seq, l.value ->> 1) FROM json_each($1) l CROSS JOIN agents a ON a.agent_id = l.value ->> 0 \
               ORDER BY l.key",
        postgres: "-- sql/recall.behind\nSELECT a.agent_id, greatest(a.fork_seq, \
               least(a.last_seq, CAST(l.value ->> 1 AS bigint)) - $2, coalesce(k.indexed_seq, 0)), \
               least(a.last_seq, CAST(l.value ->> 1 AS bigint)) \
               FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY l (value, place) \
               JOIN agents a ON a.agent_id = l.value ->> 0 LEFT JOIN recall_marks k ON k.agent_id = a.agent_id \
               ORDER BY l.place",
    );
    let (mut spans, mut remaining, mut unsearched) = (Vec::new(), TAIL_MESSAGES_MAX, 0);
    let query = query(sql).bind(line.json()).bind(UNINDEXED_COUNTED_MAX);
    for row in query.fetch_all(tx).await? {
        let (indexed, through): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        let backlog = (through - indexed).max(0);
        let read = backlog.min(remaining);
        remaining -= read;
        unsearched += backlog - read;
        if read > 0 {
            spans.push((row.try_get(0)?, through - read, through));
        }
    }
    Ok((spans, unsearched))
}

/// The exchanges of an unknown session. No exchange has this number.
const NO_EXCHANGE: SessionRange = i64::MAX..=i64::MAX;

async fn session_range(tx: &mut Connection, agent: &AgentId, session: i64) -> StoreResult<SessionRange> {
    let sql = sql!(
        "-- sql/recall.session\nSELECT s.first_exchange, (SELECT min(n.first_exchange) FROM sessions n \
               WHERE n.agent_id = s.agent_id AND n.session > s.session) FROM sessions s \
               WHERE s.agent_id = $1 AND s.session = $2"
    );
    let found = query(sql).bind(agent.as_str()).bind(session).fetch_optional(tx).await?;
    let Some(row) = found else {
        return Ok(NO_EXCHANGE);
    };
    let next: Option<i64> = row.try_get(1)?;
    Ok(row.try_get(0)?..=next.map_or(i64::MAX, |next| next - 1))
}

/// Reads the messages that may contain a phrase, and notes those that do.
async fn verify_phrases(
    tx: &mut Connection,
    line: &AncestorLine,
    search: &ArchiveSearch,
    candidates: &mut Candidates,
) -> StoreResult<()> {
    for (index, term) in search.query.terms().iter().enumerate().filter(|(_, term)| term.is_phrase()) {
        let seqs = candidates.find_phrase(term, &search.filter, PHRASE_MESSAGES_MAX);
        let query = search.query.with_terms(|other| other == index);
        let verified = messages(tx, line, &seqs).await?.into_values();
        let verified =
            verified.filter(|stored| query.find_terms(&searchable(&stored.message)).contains(&true));
        candidates.verified.insert(index, verified.map(|stored| stored.seq).collect());
    }
    Ok(())
}

/// Reads messages of the line by their numbers. Leaves out forgotten ones.
async fn messages(
    tx: &mut Connection,
    line: &AncestorLine,
    seqs: &[i64],
) -> StoreResult<HashMap<i64, StoredMessage>> {
    let keys: Vec<_> = seqs.iter().map(|seq| json!([line.owner(*seq), seq])).collect();
    let sql = sql!(
        "-- sql/recall.hits\nSELECT m.seq, m.format, m.payload, m.tokens, m.said_at, m.kind FROM {each}($1{::jsonb}) j \
               {join} message_log m ON m.agent_id = j.value ->> 0 AND m.seq = CAST(j.value ->> 1 AS bigint) \
               WHERE m.forgotten_at IS NULL"
    );
    let found = query(sql).bind(json!(keys).to_string()).fetch_all(tx).await?;
    found.iter().map(|found| row::message(found).map(|stored| (stored.seq, stored))).collect()
}

/// Loads the ranked exchanges and their best messages. Skips exchanges that were set aside, and stops at one more than the search
/// wants.
async fn look_up(
    tx: &mut Connection,
    line: &AncestorLine,
    ranked: Vec<RankedExchange>,
    search: &ArchiveSearch,
) -> StoreResult<Vec<FoundExchange>> {
    let mut placed: Vec<(RankedExchange, PlacedExchange)> = Vec::new();
    for mut ranked in ranked {
        if placed.len() > search.limit {
            break;
        }
        let found = line.find(tx, ranked.exchange).await?.filter(PlacedExchange::is_found);
        let Some(found) = found else { continue };
        ranked.seqs.retain(|seq| found.exchange.holds(*seq));
        if !ranked.seqs.is_empty() {
            placed.push((ranked, found));
        }
    }
    let seqs: Vec<i64> = placed.iter().flat_map(|(ranked, _)| ranked.seqs.iter().copied()).collect();
    let mut messages = messages(tx, line, &seqs).await?;
    let terms = search.query.terms().len();
    let found = placed.into_iter().map(|(ranked, placed)| FoundExchange {
        missing: (0..terms).filter(|term| !ranked.has(*term)).collect(),
        hits: ranked.seqs.iter().filter_map(|seq| messages.remove(seq)).collect(),
        placed,
    });
    Ok(found.filter(|found| !found.hits.is_empty()).collect())
}
