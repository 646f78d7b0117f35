//! Stores audit events; see [`AuditStore`].

use async_trait::async_trait;

use super::{
    super::{
        StoreResult,
        audit::{AuditEvent, AuditKind, AuditQuery, AuditRow, AuditStore},
    },
    Lock, SqlStore, Value, insert, query,
    row::{self, agent_id},
    sql,
    value::Row,
};
use recapd_core::domain::{agent::AgentId, time::Timestamp};

macro_rules! audit_select {
    ($label:literal, $where:literal) => {
        sql!(
            $label,
            "\nSELECT event, at, kind, token, peer, method, route, agent_id, request_id, status, outcome FROM audit_events ",
            $where,
            " ORDER BY event DESC LIMIT $2"
        )
    };
}

#[async_trait]
impl AuditStore for SqlStore {
    async fn record_audit(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.write(Lock::Nothing, move |tx| {
            Box::pin(async move {
                let head = sql!(
                    "-- sql/audit.record\nINSERT INTO audit_events \
                       (at, kind, token, peer, method, route, agent_id, request_id, status, outcome)"
                );
                let rows = events.iter().map(values).collect();
                insert(head, rows, sql!("")).execute(tx).await?;
                Ok(())
            })
        })
        .await
    }

    async fn prune_audit(&self, kind: AuditKind, keep: i64, limit: i64) -> StoreResult<u64> {
        self.write(Lock::Nothing, move |tx| {
            Box::pin(async move {
                let sql = sql!(
                    "-- sql/audit.prune\nDELETE FROM audit_events WHERE event IN \
                       (SELECT event FROM audit_events WHERE kind = $1 AND event <= \
                        (SELECT event FROM audit_events WHERE kind = $1 ORDER BY event DESC LIMIT 1 OFFSET $2) \
                        ORDER BY event LIMIT $3)"
                );
                let pruned = query(sql).bind(kind.name()).bind(keep).bind(limit);
                Ok(pruned.execute(tx).await?)
            })
        })
        .await
    }

    async fn audit(&self, filter: AuditQuery) -> StoreResult<Vec<AuditRow>> {
        let all_sql = audit_select!("-- sql/audit.all", "WHERE event < $1 AND at >= $3 AND at < $4");
        let agent_sql = audit_select!(
            "-- sql/audit.of_agent",
            "WHERE event < $1 AND at >= $3 AND at < $4 AND agent_id = $5"
        );
        let agent = filter.agent.as_ref().map(AgentId::as_str);
        let select = query(if agent.is_some() { agent_sql } else { all_sql })
            .bind(filter.before.unwrap_or(i64::MAX))
            .bind(filter.limit)
            .bind(filter.since.unwrap_or(Timestamp::MIN))
            .bind(filter.until.unwrap_or(Timestamp::MAX));
        let select = match agent {
            Some(agent) => select.bind(agent),
            None => select,
        };
        let mut reader = self.reader().await?;
        select.fetch_all(&mut reader).await?.iter().map(read).collect()
    }
}

fn values(event: &AuditEvent) -> Vec<Value<'_>> {
    vec![
        event.at.into(),
        event.kind.name().into(),
        event.token.as_deref().into(),
        event.peer.as_str().into(),
        event.method.as_str().into(),
        event.route.as_str().into(),
        event.agent_id.as_ref().map(AgentId::as_str).into(),
        event.request_id.as_str().into(),
        event.status.into(),
        event.outcome.as_str().into(),
    ]
}

fn read(row: &Row) -> StoreResult<AuditRow> {
    let (event, kind): (i64, String) = (row.try_get(0)?, row.try_get(2)?);
    let wrong = || row::inconsistent("audit_events", format!("event {event}"), "kind", &kind);
    let agent: Option<String> = row.try_get(7)?;
    Ok(AuditRow {
        event,
        what: AuditEvent {
            at: row.try_get(1)?,
            kind: AuditKind::from_name(&kind).ok_or_else(wrong)?,
            token: row.try_get(3)?,
            peer: row.try_get(4)?,
            method: row.try_get(5)?,
            route: row.try_get(6)?,
            agent_id: agent.map(|_| agent_id(row, 7)).transpose()?,
            request_id: row.try_get(8)?,
            status: row.try_get(9)?,
            outcome: row.try_get(10)?,
        },
    })
}
