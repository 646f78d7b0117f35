//! Which agents are revived.

use sqlx::{Connection as _, SqliteConnection};

use super::*;
use recapd_store::sqlite::{MissingFolder, SqliteSettings, Synchronous};

/// Agents with and without pending exchanges, and their rows.
const LIVES: &str = "
    INSERT INTO agents (agent_id, created_at, updated_at, first_exchange, pending_since) VALUES
      ('lost', 0, 0, 2, 1), ('parked', 0, 0, 2, NULL), ('parked-and-pending', 0, 0, 2, 1), ('waiting', 0, 0, 2, 1);
    INSERT INTO summary_update_queue (agent_id, queued_at, visible_at, due_at, parked_at) VALUES
      ('parked', 1, 1, 1, 2), ('parked-and-pending', 1, 1, 1, 2), ('waiting', 1, 1, 1, NULL);
";

#[tokio::test]
async fn an_agent_without_a_row_is_not_revived() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("recapd.db").display());
    let settings = SqliteSettings {
        url: url.clone(),
        readers: 1,
        group_commit_max: 1,
        busy_timeout_ms: 5_000,
        synchronous: Synchronous::Off,
        missing_folder: MissingFolder::Refuse,
    };
    let store = SqlStore::open(&settings.into()).await.unwrap();
    let mut past = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(LIVES).execute(&mut past).await.unwrap();
    let found = parked_and_pending(&store, Timestamp(9)).await.unwrap();
    let names: Vec<&str> = found.iter().map(AgentId::as_str).collect();
    assert_eq!(names, ["parked-and-pending"]);
    store.close().await;
}
