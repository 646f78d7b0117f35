//! What of the deleted rows is left, where the daemon's role isn't the server's first.

use recapd_store::{SqlStore, Store as _};
use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use tokio::time::Instant;

use crate::support::{
    PATIENCE,
    backend::postgres_settings,
    conversation::{T0, agent, append, turns},
    postgres::{self, Database, execute},
};

/// Deletes an agent. Says whether nothing of it is left.
pub(super) async fn is_scrubbed(store: &SqlStore) -> bool {
    let a = agent("a");
    store.append(append(&a, turns(1..=2))).await.unwrap();
    store.delete_agent(&a, T0).await.unwrap().is_scrubbed
}

/// Deletes agents until nothing of one is left: what the server does for itself holds rows for a moment, too.
pub(super) async fn until_scrubbed(store: &SqlStore, after: &str) {
    let end = Instant::now() + PATIENCE;
    while !is_scrubbed(store).await {
        assert!(Instant::now() < end, "somebody still reads after `{after}`");
    }
}

/// A database whose owner is a role like any other, and a second role.
struct Roles {
    database: Database,
    owner: String,
    other: String,
}

impl Roles {
    async fn make() -> Self {
        let database = Database::empty().await;
        let tag = fastrand::u64(..);
        let (owner, other) = (format!("owner_{tag:016x}"), format!("other_{tag:016x}"));
        let mut server = postgres::connect().await;
        for role in [&owner, &other] {
            let made = format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'");
            execute(&mut server, made).await;
        }
        let given = format!("ALTER DATABASE {} OWNER TO {owner}", database.name());
        execute(&mut server, given).await;
        Self {
            database,
            owner,
            other,
        }
    }

    fn options(&self, role: &str) -> PgConnectOptions {
        let options: PgConnectOptions = self.database.url().parse().unwrap();
        options.username(role).password("secret")
    }

    async fn leave(self) {
        drop(self.database);
        let gone = format!("DROP ROLE {}, {}", self.owner, self.other);
        execute(&mut postgres::connect().await, gone).await;
    }
}

/// The server hides from a role what other roles' sessions do.
#[tokio::test]
async fn nothing_is_called_scrubbed_that_another_role_may_still_see() {
    let roles = Roles::make().await;
    let url = roles.options(&roles.owner).to_url_lossy().into();
    let store = SqlStore::open(&postgres_settings(url).into()).await.unwrap();
    until_scrubbed(&store, "nothing").await;
    let mut superuser = roles.database.connect().await;
    let mut other = roles.options(&roles.other).connect().await.unwrap();
    let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
    // Between two statements it has no snapshot, and VACUUM keeps what it may come to see.
    let write = "BEGIN; SELECT pg_current_xact_id()";
    for reader in [&mut other, &mut superuser] {
        for sql in [snapshot, write] {
            execute(reader, sql).await;
            assert!(!is_scrubbed(&store).await, "{sql}");
            execute(reader, "ROLLBACK").await;
            until_scrubbed(&store, sql).await;
        }
    }
    store.close().await;
    roles.leave().await;
}
