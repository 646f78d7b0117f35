//! Stores the embeddings of messages, and how far each agent's messages are embedded. Neither database needs an extension, since
//! a search compares a bounded number of vectors one by one while it reads them.

use async_trait::async_trait;
use futures::TryStreamExt as _;
use serde_json::json;

use super::{AncestorLine, rows::PlacedMessage};
use crate::{
    StoreResult,
    embedding::{
        COMPARED_MAX, EMBEDDED_MESSAGES_MAX, EmbeddingBatch, EmbeddingClaim, EmbeddingModel,
        EmbeddingOutcome, EmbeddingStore,
    },
    sql::{Connection, Lock, SqlStore, query, row, sql},
};
use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    recall::{
        ArchiveSearch, NearExchange, NearestExchanges, QuestionEmbedding, RankedExchange, Role, SessionRange,
        fuse,
    },
    text::hexadecimal,
    time::Timestamp,
};

/// Limits the bytes of payloads in one batch. The first message is taken whatever its size.
const BATCH_BYTES_MAX: usize = 1_048_576;

/// A SELECT, without its first word, of the agents and how far their messages are embedded by model `$1` of `$2` dimensions:
/// through `after_seq`. Of each agent only the newest `$3` messages are embedded.
macro_rules! marked_agents {
    () => {
        concat!(
            "a.agent_id, a.last_seq, coalesce(k.claimed_until, 0) AS claimed_until, ",
            "{max}(a.fork_seq, a.last_seq - $3, CASE WHEN k.model = $1 AND k.dimensions = $2 THEN k.through_seq ELSE 0 END) ",
            "AS after_seq FROM agents a LEFT JOIN recall_vector_marks k ON k.agent_id = a.agent_id WHERE a.deleted_at IS NULL"
        )
    };
}

#[async_trait]
impl EmbeddingStore for SqlStore {
    async fn claim_unembedded(&self, claim: EmbeddingClaim) -> StoreResult<Option<EmbeddingBatch>> {
        // Most of the time there is nothing to embed, and this check writes nothing.
        let Some(next) = next(&mut self.reader().await?, &claim).await? else {
            return Ok(None);
        };
        let (agent, request) = (next.clone(), claim.clone());
        let is_claimed = self
            .write(Lock::Nothing, move |tx| Box::pin(async move { claim_agent(tx, &agent, &request).await }))
            .await?;
        if !is_claimed {
            return Ok(None);
        }
        batch(&mut self.reader().await?, next, &claim).await.map(Some)
    }

    async fn keep_embeddings(&self, outcome: EmbeddingOutcome) -> StoreResult<u64> {
        self.write(Lock::Agent(outcome.agent.clone()), move |tx| Box::pin(keep(tx, outcome))).await
    }

    async fn unembedded(&self, model: &EmbeddingModel) -> StoreResult<i64> {
        let sql = sql!(
            "-- sql/vectors.unembedded\nSELECT CAST(coalesce(sum({max}(w.last_seq - w.after_seq, 0)), 0) AS bigint) FROM (SELECT ",
            marked_agents!(),
            ") w"
        );
        let query = query(sql).bind(model.name.as_str()).bind(model.dimensions).bind(EMBEDDED_MESSAGES_MAX);
        Ok(query.fetch_one(&mut self.reader().await?).await?.try_get(0)?)
    }
}

/// An agent with messages that aren't embedded yet.
#[derive(Clone)]
struct BehindAgent {
    agent: AgentId,
    after_seq: i64,
    last_seq: i64,
}

/// Returns the agent with the fewest messages to embed, so that active agents don't wait for a long archive.
async fn next(connection: &mut Connection, claim: &EmbeddingClaim) -> StoreResult<Option<BehindAgent>> {
    let sql = sql!(
        "-- sql/vectors.next\nSELECT w.agent_id, w.after_seq, w.last_seq FROM (SELECT ",
        marked_agents!(),
        ") w WHERE w.last_seq > w.after_seq AND w.claimed_until <= $4 ORDER BY w.last_seq - w.after_seq, w.agent_id LIMIT 1"
    );
    let found = query(sql)
        .bind(claim.model.name.as_str())
        .bind(claim.model.dimensions)
        .bind(EMBEDDED_MESSAGES_MAX)
        .bind(claim.now.0)
        .fetch_optional(connection)
        .await?;
    found
        .map(|found| {
            Ok(BehindAgent {
                agent: row::agent_id(&found, 0)?,
                after_seq: found.try_get(1)?,
                last_seq: found.try_get(2)?,
            })
        })
        .transpose()
}

/// Claims the agent. Returns false if another daemon was faster.
async fn claim_agent(tx: &mut Connection, next: &BehindAgent, claim: &EmbeddingClaim) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/vectors.mark\nINSERT INTO recall_vector_marks (agent_id, model, dimensions, through_seq, claimed_until) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT (agent_id) DO UPDATE SET model = excluded.model, \
               dimensions = excluded.dimensions, through_seq = excluded.through_seq, claimed_until = excluded.claimed_until \
               WHERE recall_vector_marks.claimed_until <= $6"
    );
    let claimed = query(sql)
        .bind(next.agent.as_str())
        .bind(claim.model.name.as_str())
        .bind(claim.model.dimensions)
        .bind(next.after_seq)
        .bind(claim.until.0)
        .bind(claim.now.0)
        .execute(tx)
        .await?;
    Ok(claimed > 0)
}

/// Reads the messages of a claimed agent.
async fn batch(
    connection: &mut Connection,
    next: BehindAgent,
    claim: &EmbeddingClaim,
) -> StoreResult<EmbeddingBatch> {
    let sql = sql!(
        "-- sql/vectors.batch\nSELECT seq, format, payload, tokens, said_at, kind, exchange FROM message_log \
               WHERE agent_id = $1 AND seq > $2 AND seq <= $3 AND kind IN ('user', 'assistant') \
               AND forgotten_at IS NULL ORDER BY seq LIMIT $4"
    );
    let mut rows = query(sql)
        .bind(next.agent.as_str())
        .bind(next.after_seq)
        .bind(next.last_seq)
        .bind(claim.messages_max)
        .fetch(connection)?;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES_MAX {
        let Some(found) = rows.try_next().await? else {
            break;
        };
        let stored = PlacedMessage::read(&found)?.stored;
        bytes += stored.message.payload.len();
        messages.push(stored);
    }
    let is_all = bytes < BATCH_BYTES_MAX && i64_or_max(messages.len()) < claim.messages_max;
    let last = messages.last().filter(|_| !is_all);
    Ok(EmbeddingBatch {
        through_seq: last.map_or(next.last_seq, |last| last.seq),
        agent: next.agent,
        messages,
        after_seq: next.after_seq,
        claimed_until: claim.until,
    })
}

async fn keep(tx: &mut Connection, outcome: EmbeddingOutcome) -> StoreResult<u64> {
    let agent = outcome.agent.as_str();
    let advance = sql!(
        "-- sql/vectors.advance\nUPDATE recall_vector_marks SET through_seq = $2, claimed_until = 0 WHERE agent_id = $1 \
               AND claimed_until = $3 AND model = $4 AND dimensions = $5 \
               AND EXISTS (SELECT 1 FROM agents a WHERE a.agent_id = $1 AND a.deleted_at IS NULL)"
    );
    let advance = query(advance)
        .bind(agent)
        .bind(outcome.through_seq)
        .bind(outcome.claimed_until.0)
        .bind(outcome.model.name.as_str())
        .bind(outcome.model.dimensions);
    if advance.execute(&mut *tx).await? == 0 {
        return Ok(0);
    }
    // Vectors of an earlier model are deleted in the same step.
    let delete = sql!(
        "-- sql/vectors.replace\nDELETE FROM recall_vectors WHERE agent_id = $1 AND seq > $2 AND seq <= $3"
    );
    query(delete).bind(agent).bind(outcome.after_seq).bind(outcome.through_seq).execute(&mut *tx).await?;
    let insert = sql!(
        sqlite: "-- sql/vectors.insert\nINSERT INTO recall_vectors (agent_id, seq, exchange, kind, said_at, model, vector) \
                 SELECT m.agent_id, m.seq, m.exchange, m.kind, m.said_at, $3, unhex(j.value ->> 1) FROM json_each($2) j \
                 CROSS JOIN message_log m ON m.agent_id = $1 AND m.seq = j.value ->> 0 WHERE m.forgotten_at IS NULL",
        postgres: "-- sql/vectors.insert\nINSERT INTO recall_vectors (agent_id, seq, exchange, kind, said_at, model, vector) \
                   SELECT m.agent_id, m.seq, m.exchange, m.kind, m.said_at, $3, decode(j.value ->> 1, 'hex') \
                   FROM jsonb_array_elements($2::jsonb) j JOIN message_log m ON m.agent_id = $1 \
                   AND m.seq = CAST(j.value ->> 0 AS bigint) WHERE m.forgotten_at IS NULL",
    );
    let rows: Vec<_> = outcome
        .embeddings
        .iter()
        .map(|(seq, embedding)| json!([seq, hexadecimal(&embedding.bytes())]))
        .collect();
    let insert = query(insert).bind(agent).bind(json!(rows).to_string()).bind(outcome.model.name.as_str());
    Ok(insert.execute(tx).await?)
}

/// Removes the vectors of messages.
pub(in crate::sql) async fn forget(tx: &mut Connection, agent: &AgentId, seqs: &[i64]) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/vectors.forget\nDELETE FROM recall_vectors WHERE agent_id = $1 \
               AND seq IN (SELECT CAST(value AS bigint) FROM {each}($2{::jsonb}))"
    );
    let query = query(sql).bind(agent.as_str()).bind(json!(seqs).to_string());
    query.execute(tx).await?;
    Ok(())
}

/// Adds the exchanges that the question's embedding finds to those that its words found. Without an embedding, adds nothing.
pub(super) async fn with_nearest(
    tx: &mut Connection,
    line: &AncestorLine,
    search: &ArchiveSearch,
    session: Option<&SessionRange>,
    first: Vec<RankedExchange>,
) -> StoreResult<Vec<RankedExchange>> {
    match search.question_embedding() {
        Some(question) => Ok(fuse(first, &nearest(tx, line, search, session, question).await?)),
        None => Ok(first),
    }
}

async fn nearest(
    tx: &mut Connection,
    line: &AncestorLine,
    search: &ArchiveSearch,
    session: Option<&SessionRange>,
    question: &QuestionEmbedding,
) -> StoreResult<Vec<NearExchange>> {
    let sql = sql!(
        "-- sql/vectors.compared\nSELECT exchange, seq, vector FROM recall_vectors WHERE agent_id = $1 AND seq <= $2 \
               AND model = $3 AND ($4 = '' OR kind = $4) AND said_at >= $5 AND said_at < $6 AND exchange BETWEEN $7 AND $8 \
               ORDER BY seq DESC LIMIT $9"
    );
    let filter = &search.filter;
    let mut nearest = NearestExchanges::to(&question.embedding);
    let mut remaining = COMPARED_MAX;
    for member in line.members() {
        let mut rows = query(sql)
            .bind(member.agent.as_str())
            .bind(member.through_seq)
            .bind(question.model.as_str())
            .bind(filter.role.map_or("", Role::name))
            .bind(filter.since.unwrap_or(Timestamp(i64::MIN)))
            .bind(filter.until.unwrap_or(Timestamp(i64::MAX)))
            .bind(session.map_or(i64::MIN, |range| *range.start()))
            .bind(session.map_or(i64::MAX, |range| *range.end()))
            .bind(remaining)
            .fetch(&mut *tx)?;
        while let Some(found) = rows.try_next().await? {
            remaining -= 1;
            nearest.add(found.try_get(0)?, found.try_get(1)?, &found.try_get::<Vec<u8>>(2)?);
        }
        if remaining == 0 {
            break;
        }
    }
    Ok(nearest.into_ranking())
}
