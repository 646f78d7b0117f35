//! The index on PostgreSQL: a `tsvector` per message, and a mark per agent.
//!
//! An append marks its agent as pending in its own transaction. The indexer takes some of these agents, with locks that other daemons
//! skip, and moves their marks together with writing the words. The texts of vectors and queries are made here, without a text search
//! configuration, so that words are the same as on SQLite whatever the server's settings.

use std::collections::{BTreeSet, HashMap};

use futures::TryStreamExt as _;
use serde::Serialize;
use serde_json::json;

use super::{AncestorLine, INDEX_BYTES_MAX, PlacedHit, Wish, hits};
use crate::{
    HITS_MAX, StoreResult,
    sql::{Connection, Lock, SqlStore, query, row, sql},
};
use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    recall::{Query, Term, indexed, searchable},
    text::floor_cut,
};

/// How many agents are indexed in one transaction.
const AGENTS_MAX: i64 = 32;
/// The most matching messages that are ranked, the newest ones.
const RANKED_MAX: i64 = 3_000;

/// PostgreSQL keeps no position of a word after this one, …
const POSITION_MAX: usize = 16_383;
/// … and no more than this many positions of one word: phrases are found among those.
const POSITIONS_MAX: usize = 255;
const WORD_BYTES_MAX: usize = 2_046;
/// The most bytes of a vector, somewhat below PostgreSQL's limit of a megabyte: further words are left out.
const VECTOR_BYTES_MAX: usize = 1_000_000;
/// The size of a word in addition to its bytes.
const WORD_OVERHEAD_BYTES: usize = 8;

#[derive(Debug, Serialize)]
struct IndexEntry {
    agent_id: String,
    seq: i64,
    words: Option<String>,
}

pub(super) async fn index(store: &SqlStore, messages_max: i64) -> StoreResult<i64> {
    store
        .write(Lock::Nothing, move |tx| Box::pin(index_some(tx, messages_max)))
        .await
}

/// Indexes some messages without waiting: an agent that another transaction writes or indexes stays pending.
async fn index_some(tx: &mut Connection, messages_max: i64) -> StoreResult<i64> {
    // If a crash of the server undoes this, it is done again.
    let sql = sql!("-- postgres/recall.hurry\nSET LOCAL synchronous_commit = off");
    query(sql).execute(&mut *tx).await?;
    let sql = sql!(
        "-- postgres/recall.claim\nSELECT agent_id FROM recall_pending ORDER BY turn LIMIT $1 \
               FOR UPDATE SKIP LOCKED"
    );
    let claimed: Vec<String> = query(sql).bind(AGENTS_MAX).fetch_column(&mut *tx).await?;
    if claimed.is_empty() {
        return Ok(0);
    }
    let messages = unindexed_messages(tx, &claimed, messages_max).await?;
    // The words are made without the agents' locks, so that no append waits for that.
    let sql = sql!(
        "-- postgres/recall.lock\nSELECT agent_id FROM agents WHERE agent_id IN \
               (SELECT value FROM jsonb_array_elements_text($1::jsonb)) FOR NO KEY UPDATE SKIP LOCKED"
    );
    let locked: Vec<String> = query(sql)
        .bind(json!(claimed).to_string())
        .fetch_column(&mut *tx)
        .await?;
    let messages: Vec<IndexEntry> = messages
        .into_iter()
        .filter(|message| locked.contains(&message.agent_id))
        .collect();
    write(tx, &messages).await?;
    release(tx, &locked, &messages).await?;
    Ok(i64_or_max(messages.len()))
}

/// Returns the messages after the marks of these agents, agent by agent.
async fn unindexed_messages(
    tx: &mut Connection,
    agents: &[String],
    messages_max: i64,
) -> StoreResult<Vec<IndexEntry>> {
    let sql = sql!(
        "-- postgres/recall.unindexed\nSELECT m.seq, m.format, m.payload, m.tokens, m.said_at, m.kind, p.agent_id \
               FROM jsonb_array_elements_text($1::jsonb) WITH ORDINALITY p (agent_id, place) \
               LEFT JOIN recall_marks k ON k.agent_id = p.agent_id CROSS JOIN LATERAL (SELECT l.seq, l.format, l.payload, \
               l.tokens, l.said_at, l.kind FROM message_log l WHERE l.agent_id = p.agent_id \
               AND l.seq > coalesce(k.indexed_seq, 0) ORDER BY l.seq LIMIT $2) m ORDER BY p.place, m.seq LIMIT $2"
    );
    let mut rows = query(sql)
        .bind(json!(agents).to_string())
        .bind(messages_max)
        .fetch(tx)?;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while bytes < INDEX_BYTES_MAX {
        let Some(row) = rows.try_next().await? else { break };
        let stored = row::message(&row)?;
        bytes += stored.message.payload.len();
        let agent_id: String = row.try_get(6)?;
        let said = indexed(&searchable(&stored.message));
        messages.push(IndexEntry {
            words: (!said.is_empty()).then(|| vector(&agent_id, &said)),
            seq: stored.seq,
            agent_id,
        });
    }
    Ok(messages)
}

/// Writes words, and moves the marks. Leaves out messages that were forgotten since they were read.
async fn write(tx: &mut Connection, messages: &[IndexEntry]) -> StoreResult<()> {
    let sql = sql!(
        "-- postgres/recall.index\nINSERT INTO message_words (agent_id, seq, words) \
               SELECT m.agent_id, m.seq, CAST(j.words AS tsvector) \
               FROM jsonb_to_recordset($1::jsonb) j (agent_id text, seq bigint, words text) \
               JOIN message_log m ON m.agent_id = j.agent_id AND m.seq = j.seq \
               WHERE j.words IS NOT NULL AND m.forgotten_at IS NULL ON CONFLICT (agent_id, seq) DO NOTHING"
    );
    query(sql)
        .bind(json!(messages).to_string())
        .execute(&mut *tx)
        .await?;
    let through: HashMap<&str, i64> = messages
        .iter()
        .map(|message| (message.agent_id.as_str(), message.seq))
        .collect();
    let sql = sql!(
        "-- postgres/recall.advance\nINSERT INTO recall_marks (agent_id, indexed_seq) \
               SELECT key, CAST(value AS bigint) FROM jsonb_each_text($1::jsonb) \
               ON CONFLICT (agent_id) DO UPDATE SET indexed_seq = excluded.indexed_seq"
    );
    query(sql).bind(json!(through).to_string()).execute(tx).await?;
    Ok(())
}

/// Ends the pending state of agents that have caught up; the others go behind those that wait.
async fn release(tx: &mut Connection, agents: &[String], indexed: &[IndexEntry]) -> StoreResult<()> {
    let done = sql!(
        "-- postgres/recall.done\nDELETE FROM recall_pending p \
               WHERE p.agent_id IN (SELECT value FROM jsonb_array_elements_text($1::jsonb)) \
               AND NOT EXISTS (SELECT 1 FROM message_log m WHERE m.agent_id = p.agent_id AND m.seq > \
               coalesce((SELECT k.indexed_seq FROM recall_marks k WHERE k.agent_id = p.agent_id), 0))"
    );
    let again = sql!(
        "-- postgres/recall.again\nUPDATE recall_pending SET turn = nextval('recall_turn') \
               WHERE agent_id IN (SELECT value FROM jsonb_array_elements_text($1::jsonb))"
    );
    let served: BTreeSet<&str> = indexed.iter().map(|message| message.agent_id.as_str()).collect();
    for (sql, agents) in [(done, json!(agents)), (again, json!(served))] {
        query(sql).bind(agents.to_string()).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Returns the word for an agent: no word of a text begins like it.
fn who(agent: &str) -> String {
    format!("'@{agent}'")
}

/// Returns the text of a message's vector: the agent, and the words with their positions.
fn vector(agent: &str, said: &str) -> String {
    let mut places: HashMap<&str, Vec<String>> = HashMap::new();
    let mut bytes = 0;
    for (word, place) in said.split(' ').zip(1_usize..) {
        let word = floor_cut(word, WORD_BYTES_MAX);
        bytes += WORD_OVERHEAD_BYTES + word.len();
        if bytes > VECTOR_BYTES_MAX {
            break;
        }
        let places = places.entry(word).or_default();
        if place <= POSITION_MAX && places.len() < POSITIONS_MAX {
            places.push(place.to_string());
        }
    }
    let mut text = who(agent);
    for (word, places) in places {
        // Words consist of letters and digits only, so they can't end the quotation.
        text.push_str(" '");
        text.push_str(word);
        text.push('\'');
        if !places.is_empty() {
            text.push(':');
            text.push_str(&places.join(","));
        }
    }
    text
}

fn term(term: &Term) -> String {
    let words: Vec<String> = term
        .words()
        .iter()
        .map(|word| format!("'{}'", floor_cut(word, WORD_BYTES_MAX)))
        .collect();
    let open = if term.is_open() { ":*" } else { "" };
    format!("({}{open})", words.join(" <-> "))
}

/// Returns the query for the index, which also ranks the hits.
fn expression(wanted: &Query, wish: Wish) -> String {
    let terms: Vec<String> = wanted.terms().iter().map(term).collect();
    terms.join(match wish {
        Wish::All => " & ",
        Wish::Any => " | ",
    })
}

pub(super) async fn ranked(
    tx: &mut Connection,
    line: &AncestorLine,
    wanted: &Query,
    wish: Wish,
) -> StoreResult<Vec<PlacedHit>> {
    let names: Vec<String> = line.agents().map(|agent| who(agent.as_str())).collect();
    let said = expression(wanted, wish);
    let sql = sql!(
        "-- postgres/recall.ranked\nWITH held AS (SELECT w.agent_id, w.seq, w.words FROM message_words w \
               JOIN jsonb_array_elements($3::jsonb) l ON l.value ->> 0 = w.agent_id \
               WHERE w.words @@ CAST($1 AS tsquery) AND w.seq <= CAST(l.value ->> 1 AS bigint) \
               ORDER BY w.seq DESC LIMIT $5), \
               best AS (SELECT agent_id, seq, ts_rank(words, CAST($2 AS tsquery), 1) AS rank FROM held \
               ORDER BY rank DESC, seq DESC LIMIT $4) \
               SELECT m.seq, m.format, m.payload, m.tokens, m.said_at, m.kind, m.exchange, \
               CAST(-b.rank AS double precision) FROM best b \
               JOIN message_log m ON m.agent_id = b.agent_id AND m.seq = b.seq \
               WHERE m.forgotten_at IS NULL ORDER BY b.rank DESC, b.seq DESC"
    );
    let found = query(sql)
        .bind(format!("({}) & ({said})", names.join(" | ")))
        .bind(said)
        .bind(line.json())
        .bind(i64_or_max(HITS_MAX / 2))
        .bind(RANKED_MAX)
        .fetch_all(tx)
        .await?;
    hits(&found)
}

pub(super) async fn forget(tx: &mut Connection, agent: &AgentId, seqs: &[i64]) -> StoreResult<()> {
    let sql = sql!(
        "-- postgres/recall.forget\nDELETE FROM message_words WHERE agent_id = $1 \
               AND seq IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements($2::jsonb))"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(json!(seqs).to_string())
        .execute(tx)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_too_long_for_a_vector() {
        let many: Vec<String> = (0..400_000).map(|number| format!("w{number}")).collect();
        let text = vector("a", &many.join(" "));
        assert!(text.starts_with("'@a' ") && text.contains("'w0':1"));
        assert!(text.contains("'w16382':16383") && !text.contains(":16384"));
        assert!(!text.contains("'w399999'"));
        let same = "word ".repeat(1_000);
        assert_eq!(
            vector("a", same.trim_end()).matches(',').count(),
            POSITIONS_MAX - 1
        );
        let longest = "x".repeat(WORD_BYTES_MAX);
        assert_eq!(vector("a", &"x".repeat(5_000)), format!("'@a' '{longest}':1"));
    }

    #[test]
    fn a_query_is_asked_term_by_term() {
        let wanted = Query::parse("Café src/parser.rs \"no more\"").unwrap();
        let all = "('cafe':*) & ('src' <-> 'parser' <-> 'rs') & ('no' <-> 'more')";
        assert_eq!(expression(&wanted, Wish::All), all);
        assert_eq!(expression(&wanted, Wish::Any), all.replace('&', "|"));
    }
}
