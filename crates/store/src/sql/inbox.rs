//! Reads and empties the inbox; see [`InboxStore`].

use async_trait::async_trait;

use super::{
    super::{
        AppendOutcome, AppendRequest, Fence, StoreError, StoreResult,
        inbox::{ChangeListener, InboxFigures, InboxRow, InboxStore, REFUSED_KEPT, RefusedRow},
    },
    Connection, Lock, SqlStore, append, query,
    row::time,
    sql,
    value::Row,
};
use recapd_core::domain::{agent::AgentId, time::Timestamp};

/// The column with the agent that a message is for.
const AGENT: &str = "agent_id";

#[async_trait]
impl InboxStore for SqlStore {
    async fn waiting(&self, after: i64, rows_max: i64, bytes_max: i64) -> StoreResult<Vec<InboxRow>> {
        waiting(&mut self.reader().await?, after, rows_max, bytes_max).await
    }

    async fn append_from_inbox(&self, request: AppendRequest, rows: Vec<i64>) -> StoreResult<AppendOutcome> {
        let agent = request.agent.clone();
        self.write(Lock::Agent(agent), move |tx| {
            Box::pin(async move {
                take(tx, &request.agent, &rows).await?;
                append::append(tx, request, false).await
            })
        })
        .await
    }

    async fn refuse(&self, rows: Vec<RefusedRow>, now: Timestamp) -> StoreResult<u64> {
        self.write(Lock::Nothing, move |tx| Box::pin(refuse(tx, rows, now))).await
    }

    async fn inbox_figures(&self) -> StoreResult<InboxFigures> {
        figures(&mut self.reader().await?).await
    }

    async fn inbox_listener(&self) -> StoreResult<Box<dyn ChangeListener>> {
        self.change_listener().await
    }
}

async fn waiting(
    connection: &mut Connection,
    after: i64,
    rows_max: i64,
    bytes_max: i64,
) -> StoreResult<Vec<InboxRow>> {
    let sql = sql!(
        "-- sql/inbox.waiting\nSELECT id, agent_id, role, content, format, speaker, client_id, said_at, received_at FROM \
         (SELECT i.*, sum(own) OVER (ORDER BY id) AS bytes FROM \
          (SELECT m.*, coalesce(octet_length(agent_id), 0) + coalesce(octet_length(role), 0) \
             + coalesce(octet_length(content), 0) + coalesce(octet_length(format), 0) \
             + coalesce(octet_length(speaker), 0) + coalesce(octet_length(client_id), 0) AS own \
           FROM message_inbox m WHERE refused_at IS NULL AND id > $1 ORDER BY id LIMIT $2) i) s \
         WHERE bytes <= $3 OR bytes = own ORDER BY id"
    );
    let found = query(sql).bind(after).bind(rows_max).bind(bytes_max).fetch_all(connection).await?;
    found.iter().map(row).collect()
}

fn row(row: &Row) -> StoreResult<InboxRow> {
    let mut bad = None;
    Ok(InboxRow {
        id: row.try_get(0)?,
        agent: text(row, 1, AGENT, &mut bad)?,
        role: text(row, 2, "role", &mut bad)?,
        content: text(row, 3, "content", &mut bad)?,
        format: text(row, 4, "format", &mut bad)?,
        speaker: text(row, 5, "speaker", &mut bad)?,
        client_id: text(row, 6, "client_id", &mut bad)?,
        said_at: row.try_get(7)?,
        received_at: row.try_get(8)?,
        not_utf8: bad,
    })
}

/// Reads a text. Returns `None` for invalid UTF-8; `bad` gets the name of the first such column.
fn text(
    row: &Row,
    column: usize,
    name: &'static str,
    bad: &mut Option<&'static str>,
) -> StoreResult<Option<String>> {
    match row.try_get::<Option<String>>(column) {
        Err(sqlx::Error::ColumnDecode { .. }) => {
            bad.get_or_insert(name);
            Ok(None)
        }
        read => Ok(read?),
    }
}

/// Removes these rows, or fails. Another caller that wants one of them waits for the commit and then finds it removed. Also fails
/// if an earlier row of the agent waits, which a reader that reads page by page may have missed.
async fn take(tx: &mut Connection, agent: &AgentId, rows: &[i64]) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/inbox.take\nDELETE FROM message_inbox WHERE refused_at IS NULL \
         AND id IN (SELECT CAST(value AS bigint) FROM {each}($1{::jsonb})) \
         AND NOT EXISTS (SELECT 1 FROM message_inbox e WHERE e.refused_at IS NULL AND e.agent_id = $2 AND e.id < $3)"
    );
    let first = rows.iter().copied().min().unwrap_or_default();
    let row_count = query(sql)
        .bind(serde_json::json!(rows).to_string())
        .bind(agent.as_str())
        .bind(first)
        .execute(tx)
        .await?;
    if row_count == rows.len() as u64 { Ok(()) } else { Err(StoreError::Fenced(Fence::Inbox)) }
}

async fn refuse(tx: &mut Connection, rows: Vec<RefusedRow>, now: Timestamp) -> StoreResult<u64> {
    let sql = sql!(
        "-- sql/inbox.refuse\nUPDATE message_inbox SET refused_at = $2, refusal = $3 WHERE id = $1 AND refused_at IS NULL"
    );
    let mut refused = 0;
    for row in rows {
        if let Some(column) = row.not_utf8 {
            to_hex(tx, row.id, column == AGENT).await?;
        }
        let refusal_query = query(sql).bind(row.id).bind(now).bind(row.reason);
        refused += refusal_query.execute(&mut *tx).await?;
    }
    let sql = sql!(
        "-- sql/inbox.prune\nDELETE FROM message_inbox WHERE refused_at IS NOT NULL AND id <= \
         (SELECT id FROM message_inbox WHERE refused_at IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET $1)"
    );
    query(sql).bind(REFUSED_KEPT).execute(tx).await?;
    Ok(refused)
}

/// Converts the texts of a waiting row to hexadecimal; the agent's id only if `with_agent`, that is, if the id isn't valid UTF-8.
async fn to_hex(tx: &mut Connection, id: i64, with_agent: bool) -> StoreResult<()> {
    let sql = sql!(
        "-- sqlite/inbox.to_hex\nUPDATE message_inbox SET role = hex(role), content = hex(content), \
         format = hex(format), speaker = hex(speaker), client_id = hex(client_id), \
         agent_id = CASE WHEN $2 THEN hex(agent_id) ELSE agent_id END WHERE id = $1 AND refused_at IS NULL"
    );
    query(sql).bind(id).bind(with_agent).execute(tx).await?;
    Ok(())
}

async fn figures(connection: &mut Connection) -> StoreResult<InboxFigures> {
    let sql = sql!(
        "-- sql/inbox.figures\nSELECT (SELECT count(*) FROM message_inbox WHERE refused_at IS NULL), \
         (SELECT received_at FROM message_inbox WHERE refused_at IS NULL ORDER BY id LIMIT 1), \
         (SELECT count(*) FROM message_inbox WHERE refused_at IS NOT NULL)"
    );
    let found = query(sql).fetch_one(connection).await?;
    Ok(InboxFigures { waiting: found.try_get(0)?, oldest_at: time(&found, 1)?, refused: found.try_get(2)? })
}
