//! The order of inserted messages, whenever their transactions commit.

use std::sync::Arc;

use async_trait::async_trait;
use recapd_core::domain::time::Timestamp;
use recapd_store::{
    AppendOutcome, AppendRequest, StoreResult,
    inbox::{ChangeListener, InboxFigures, InboxRow, InboxStore, RefusedRow},
};
use sqlx::PgConnection;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::super::inbox::{ingestor, insert, told};
use crate::support::{
    backend::{Backend as _, PostgresBackend},
    postgres::execute,
};

/// An inbox in which somebody commits as soon as the first page was read.
struct Meanwhile {
    inbox: Arc<dyn InboxStore>,
    goes_on: Mutex<Option<(PgConnection, String)>>,
}

#[async_trait]
impl InboxStore for Meanwhile {
    async fn waiting(&self, after: i64, rows_max: i64, bytes_max: i64) -> StoreResult<Vec<InboxRow>> {
        let rows = self.inbox.waiting(after, rows_max, bytes_max).await?;
        if let Some((mut connection, sql)) = self.goes_on.lock().await.take() {
            execute(&mut connection, sql).await;
        }
        Ok(rows)
    }

    async fn append_from_inbox(&self, request: AppendRequest, rows: Vec<i64>) -> StoreResult<AppendOutcome> {
        self.inbox.append_from_inbox(request, rows).await
    }

    async fn refuse(&self, rows: Vec<RefusedRow>, now: Timestamp) -> StoreResult<u64> {
        self.inbox.refuse(rows, now).await
    }

    async fn inbox_figures(&self) -> StoreResult<InboxFigures> {
        self.inbox.inbox_figures().await
    }

    async fn inbox_listener(&self) -> StoreResult<Box<dyn ChangeListener>> {
        self.inbox.inbox_listener().await
    }
}

/// Forgetting doesn't reach the planner's statistics, so no message may get there, even while it waits.
#[tokio::test]
async fn waiting_messages_stay_out_of_the_statistics() {
    let db = PostgresBackend::fresh().await;
    for number in 1..=9 {
        insert(&db, "a", "user", &format!("The secret is {number}")).await;
    }
    execute(&mut db.connect().await, "ANALYZE message_inbox").await;
    let known = "SELECT attname::text FROM pg_stats WHERE tablename = 'message_inbox' AND attname IN ('content', 'role')";
    assert_eq!(db.texts(known, " ").await, "role");
}

/// The row of a long transaction has a lower number than another agent's row that commits earlier. The next row of its own agent must not
/// overtake it.
#[tokio::test]
async fn a_row_committed_behind_a_page_is_not_overtaken() {
    let db = PostgresBackend::fresh().await;
    let of_a =
        |said: &str| format!("INSERT INTO messages (agent_id, role, content) VALUES ('a', 'user', '{said}')");
    let mut long = db.connect().await;
    execute(&mut long, format!("BEGIN; {}", of_a("one"))).await;
    insert(&db, "b", "user", "first").await;
    let inbox: Arc<dyn InboxStore> = Arc::new(Meanwhile {
        inbox: db.inbox(),
        goes_on: Mutex::new(Some((long, format!("COMMIT; {}", of_a("two"))))),
    });
    let (ingestor, stop) = (ingestor(&db).0, CancellationToken::new());
    let again = ingestor.empty_inbox(&inbox, &stop).await.unwrap();
    assert!(again, "what came to light is looked for at once");
    assert_eq!(told(&db, "b").await, "user first");
    assert_eq!(told(&db, "a").await, "", "the later one waits");
    assert!(!ingestor.empty_inbox(&inbox, &stop).await.unwrap());
    assert_eq!(told(&db, "a").await, "user one, user two");
}
