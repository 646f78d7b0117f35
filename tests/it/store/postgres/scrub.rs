//! What is left of deleted rows if the daemon's role isn't a superuser.

use recapd_store::{SqlStore, Store as _};
use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use tokio::time::Instant;

use crate::support::{
    PATIENCE,
    backend::postgres_settings,
    conversation::{T0, agent, append, turns},
    postgres::{self, Database, execute},
};

/// Deletes an agent. Returns true if nothing of it is left.
pub(super) async fn is_scrubbed(store: &SqlStore) -> bool {
    let a = agent("a");
    store.append(append(&a, turns(1..=2))).await.unwrap();
    store.delete_agent(&a, T0).await.unwrap().is_scrubbed
}

/// Deletes agents until nothing of one is left: the server's own work holds rows for a moment, too.
pub(super) async fn until_scrubbed(store: &SqlStore, after: &str) {
    let end = Instant::now() + PATIENCE;
    while !is_scrubbed(store).await {
        assert!(Instant::now() < end, "somebody still reads after `{after}`");
    }
}

/// A database owned by an ordinary role, and a second role.
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
        Self { database, owner, other }
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

/// The server hides other roles' activity from a role.
#[tokio::test]
async fn scrubbing_is_not_confirmed_while_another_role_may_see_the_rows() {
    let roles = Roles::make().await;
    let url = roles.options(&roles.owner).to_url_lossy().into();
    let store = SqlStore::open(&postgres_settings(url).into()).await.unwrap();
    until_scrubbed(&store, "nothing").await;
    let mut superuser = roles.database.connect().await;
    let mut other = roles.options(&roles.other).connect().await.unwrap();
    let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
    // Between two statements it has no snapshot, but VACUUM keeps what it may still see.
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
