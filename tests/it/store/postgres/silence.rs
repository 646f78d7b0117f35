//! Dead connections that nobody reports, as behind a router that forgot them.

use std::{future::pending, sync::Arc};

use recapd_store::{SqlStore, Store as _, StoreError, inbox::InboxStore as _, postgres::PostgresSettings};
use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{daemon, until_waiting};
use crate::support::{
    PATIENCE,
    backend::postgres_settings,
    conversation::{T0, agent, append, claim, turns},
    postgres::{Database, execute},
};

/// A proxy to the server that forgets its connections on request, and accepts new ones afterwards.
struct Way {
    url: String,
    forgets: Arc<Notify>,
}

impl Way {
    async fn to(database: &Database) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = listener.local_addr().unwrap();
        let options: PgConnectOptions = database.url().parse().unwrap();
        let server = (options.get_host().to_owned(), options.get_port());
        let url = options.host("127.0.0.1").port(near.port()).to_url_lossy().into();
        let forgets = Arc::new(Notify::new());
        let (connections, forgotten) = (TaskTracker::new(), Arc::clone(&forgets));
        connections.clone().spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect((server.0.as_str(), server.1)).await;
                connections.spawn(pass_on(near, far.unwrap(), Arc::clone(&forgotten)));
            }
        });
        Self { url, forgets }
    }

    /// From now on nothing passes on open connections.
    fn forget(&self) {
        self.forgets.notify_waiters();
    }
}

async fn pass_on(mut near: TcpStream, mut far: TcpStream, forgotten: Arc<Notify>) {
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        // Both stay open.
        () = forgotten.notified() => pending().await,
    }
}

#[tokio::test]
async fn a_listener_reports_its_dead_connection() {
    let database = Database::create().await;
    let way = Way::to(&database).await;
    let far = SqlStore::open(&postgres_settings(way.url.clone()).into()).await.unwrap();
    let near = daemon(&database).await;
    let mut deaf = far.inbox_listener().await.unwrap();
    let mut good = near.inbox_listener().await.unwrap();
    way.forget();
    tokio::select! {
        rung = good.wait_for_change() => panic!("nothing was inserted: {rung:?}"),
        lost = timeout(PATIENCE, deaf.wait_for_change()) => {
            let lost = lost.expect("it is found out");
            assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        }
    }
    // As the ingestor does.
    let mut again = far.inbox_listener().await.unwrap();
    let insert = "INSERT INTO messages (agent_id, role, content) VALUES ('a', 'user', 'Hello')";
    execute(&mut database.connect().await, insert).await;
    for bell in [&mut good, &mut again] {
        let rung = timeout(PATIENCE, bell.wait_for_change()).await;
        rung.expect("the bell rings").unwrap();
    }
}

/// TCP would wait for a quarter of an hour, and each connection would keep its place in the pool, even that of an operation that was
/// given up.
#[tokio::test]
async fn an_answer_that_never_comes_times_out() {
    let database = Database::create().await;
    let way = Way::to(&database).await;
    let settings = PostgresSettings {
        connections: 3,
        statement_timeout_ms: 5_000,
        ..postgres_settings(way.url.clone())
    };
    let store = SqlStore::open(&settings.into()).await.unwrap();
    let a = agent("a");
    store.append(append(&a, turns(1..=1))).await.unwrap();
    let (mut holder, mut look) = (database.connect().await, database.connect().await);
    execute(&mut holder, "BEGIN; LOCK TABLE agents, summary_update_queue").await;
    let forgotten = async {
        until_waiting(&mut look, 3).await;
        way.forget();
    };
    let given_up = async {
        tokio::select! {
            seen = store.agent(&a) => panic!("the table is held: {seen:?}"),
            () = forgotten => {}
        }
    };
    let turn = || append(&a, turns(2..=2));
    let answers = async { tokio::join!(store.append(turn()), store.claim(claim("one", 10, T0)), given_up) };
    let (appended, claimed, ()) = timeout(PATIENCE, answers).await.expect("it is found out");
    for silent in [appended.map(drop), claimed.map(drop)] {
        let told = silent.expect_err("nobody answers").to_string();
        assert!(told.contains("no answer within"), "{told}");
    }
    // Nothing was done, and there is room for new connections, which get through.
    execute(&mut holder, "ROLLBACK").await;
    assert_eq!(store.append(turn()).await.unwrap().exchange, 2);
    store.claim(claim("one", 10, T0)).await.unwrap();
    let closed = timeout(PATIENCE, store.close()).await;
    closed.expect("no connection is waited for that doesn't come back");
}
