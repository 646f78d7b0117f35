//! Stores access tokens; see [`AccessStore`].

use async_trait::async_trait;
use serde_json::json;

use super::{
    super::{
        StoreResult,
        access::{AccessStore, NewToken, TOKENS_MAX, Token, TokenOutcome},
    },
    Connection, Lock, SqlStore, query,
    row::{self, agent_id, time},
    sql,
    value::Row,
};
use recapd_core::domain::{
    access::{AccessNames, Scope, TokenName},
    agent::AgentId,
    project::ProjectId,
    time::Timestamp,
};

#[async_trait]
impl AccessStore for SqlStore {
    async fn keep_token(&self, token: NewToken, now: Timestamp) -> StoreResult<TokenOutcome> {
        self.write(Lock::Nothing, move |tx| Box::pin(async move { keep(tx, &token, now).await })).await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        let sql = sql!(
            "-- sql/access.tokens\nSELECT name, digest, scope, reach, created_at, expires_at, revoked_at, last_used_at \
               FROM access_tokens ORDER BY name LIMIT $1"
        );
        let mut reader = self.reader().await?;
        let found = query(sql).bind(TOKENS_MAX).fetch_all(&mut reader).await?;
        found.iter().map(token).collect()
    }

    async fn revoke_token(&self, name: &TokenName, now: Timestamp) -> StoreResult<bool> {
        let name = name.clone();
        self.write(Lock::Nothing, move |tx| {
            Box::pin(async move {
                let sql = sql!(
                    "-- sql/access.revoke\nUPDATE access_tokens SET revoked_at = coalesce(revoked_at, $2) WHERE name = $1"
                );
                let row_count = query(sql).bind(name.as_str()).bind(now).execute(tx).await?;
                Ok(row_count == 1)
            })
        })
        .await
    }

    async fn reset_tokens(&self) -> StoreResult<u64> {
        self.write(Lock::Nothing, move |tx| {
            Box::pin(async move {
                let sql = sql!("-- sql/access.reset\nDELETE FROM access_tokens");
                Ok(query(sql).execute(tx).await?)
            })
        })
        .await
    }

    async fn note_token_use(&self, name: &TokenName, at: Timestamp) -> StoreResult<()> {
        let name = name.clone();
        self.write(Lock::Nothing, move |tx| {
            Box::pin(async move {
                let sql = sql!(
                    "-- sql/access.note_use\nUPDATE access_tokens SET last_used_at = $2 \
                       WHERE name = $1 AND (last_used_at IS NULL OR last_used_at < $2)"
                );
                query(sql).bind(name.as_str()).bind(at).execute(tx).await?;
                Ok(())
            })
        })
        .await
    }

    async fn project_of(&self, agent: &AgentId) -> StoreResult<Option<ProjectId>> {
        let sql = sql!("-- sql/access.project_of\nSELECT project_id FROM agents WHERE agent_id = $1");
        let mut reader = self.reader().await?;
        let found = query(sql).bind(agent.as_str()).fetch_optional(&mut reader).await?;
        let Some(row) = found else {
            return Ok(None);
        };
        let project: Option<String> = row.try_get(0)?;
        let wrong = |text: &str| row::inconsistent("agents", format!("agent {agent}"), "project_id", text);
        project.map(|text| text.parse().map_err(|_| wrong(&text))).transpose()
    }

    async fn named_agents(
        &self,
        names: &AccessNames,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Vec<AgentId>> {
        let sql = sql!(
            "-- sql/access.named_agents\nSELECT agent_id FROM agents WHERE agent_id > $1 AND deleted_at IS NULL \
               AND (agent_id IN (SELECT value FROM {each_text}($2{::jsonb})) \
               OR project_id IN (SELECT value FROM {each_text}($3{::jsonb}))) ORDER BY agent_id LIMIT $4"
        );
        let mut reader = self.reader().await?;
        let found = query(sql)
            .bind(after.map_or("", AgentId::as_str))
            .bind(json!(names.agents).to_string())
            .bind(json!(names.projects).to_string())
            .bind(limit)
            .fetch_all(&mut reader)
            .await?;
        found.iter().map(|row| agent_id(row, 0)).collect()
    }
}

async fn keep(tx: &mut Connection, token: &NewToken, now: Timestamp) -> StoreResult<TokenOutcome> {
    let sql = sql!("-- sql/access.count\nSELECT count(*) FROM access_tokens WHERE name <> $1");
    let count: i64 = query(sql).bind(token.name.as_str()).fetch_one(&mut *tx).await?.try_get(0)?;
    if count >= TOKENS_MAX {
        return Ok(TokenOutcome::TooMany);
    }
    let sql = sql!(
        "-- sql/access.keep\nINSERT INTO access_tokens (name, digest, scope, reach, created_at, expires_at) \
           VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO UPDATE SET digest = excluded.digest, \
           scope = excluded.scope, reach = excluded.reach, created_at = excluded.created_at, \
           expires_at = excluded.expires_at, revoked_at = NULL, last_used_at = NULL \
           WHERE access_tokens.revoked_at IS NOT NULL"
    );
    let row_count = query(sql)
        .bind(token.name.as_str())
        .bind(token.digest.as_str())
        .bind(token.scope.name())
        .bind(json!(token.reach).to_string())
        .bind(now)
        .bind(token.expires_at)
        .execute(tx)
        .await?;
    Ok(if row_count == 1 { TokenOutcome::Done } else { TokenOutcome::NameTaken })
}

fn token(row: &Row) -> StoreResult<Token> {
    let name: String = row.try_get(0)?;
    let (scope, reach): (String, String) = (row.try_get(2)?, row.try_get(3)?);
    let wrong =
        |column, value: &str| row::inconsistent("access_tokens", format!("token {name}"), column, value);
    Ok(Token {
        name: name.parse().map_err(|_| wrong("name", &name))?,
        digest: row.try_get(1)?,
        scope: Scope::from_name(&scope).ok_or_else(|| wrong("scope", &scope))?,
        reach: serde_json::from_str(&reach).map_err(|_| wrong("reach", &reach))?,
        created_at: row.try_get(4)?,
        expires_at: time(row, 5)?,
        revoked_at: time(row, 6)?,
        last_used_at: time(row, 7)?,
    })
}
