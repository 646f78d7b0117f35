//! A rollback, a rebuild and a forgetting take several transactions. A daemon that is killed between them leaves work to the next one,
//! which ends as if nothing had happened.

use std::process::Stdio;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};
use tempfile::TempDir;

use super::{Daemon, spawn};
use crate::{
    store::{clean, withdrawals::with_two_versions},
    support::{
        backend::{Backend, PostgresBackend, SqliteBackend},
        conversation::agent,
        fake_provider::FakeProvider,
        postgres::{Database, execute},
    },
};

/// The exchanges that each of two versions covers: the rows of their items take four transactions.
const EXCHANGES: [i64; 2] = [40, 900];
/// How often the daemon is killed, each time after at least one more transaction.
const KILLS: i64 = 3;
/// The newest exchanges that are forgotten: at least five transactions.
const FORGOTTEN: std::ops::RangeInclusive<i64> = 801..=920;
/// The name of the trigger that halts the daemon.
const HALT: &str = "halt";

#[derive(Clone, Copy, Debug)]
enum Change {
    RollBack,
    Rebuild,
    Forget,
}

impl Change {
    const ALL: [Self; 3] = [Self::RollBack, Self::Rebuild, Self::Forget];

    /// Two agents of the same history: one is changed without a disturbance, the other one by daemons that are killed.
    fn agents(self) -> [String; 2] {
        ["whole", "torn"].map(|fate| format!("{self:?}-{fate}").to_lowercase())
    }

    fn path(self, agent: &str) -> String {
        let what = match self {
            Self::RollBack => "rollback",
            Self::Rebuild => "rebuild",
            Self::Forget => "forget",
        };
        format!("/v1/agents/{agent}/{what}")
    }

    fn body(self) -> Value {
        match self {
            Self::RollBack => json!({ "version": 1 }),
            Self::Rebuild => json!({}),
            Self::Forget => json!({ "exchanges": FORGOTTEN.collect::<Vec<_>>() }),
        }
    }

    /// The table and the column whose rows show how far it is, and the rows of one transaction.
    fn rows(self) -> (&'static str, &'static str, i64) {
        match self {
            Self::RollBack | Self::Rebuild => ("summary_items", "removed_version", 256),
            Self::Forget => ("message_log", "forgotten_at", 48),
        }
    }

    /// A query for how much is done.
    fn done(self, agent: &str) -> String {
        let (table, column, _) = self.rows();
        format!("SELECT count(*) FROM {table} WHERE agent_id = '{agent}' AND {column} IS NOT NULL")
    }

    /// A query for how much is left to be done.
    fn left(agent: &str) -> String {
        format!(
            "SELECT (SELECT count(*) FROM withdrawals WHERE agent_id = '{agent}') \
             + (SELECT count(*) FROM forgettings WHERE agent_id = '{agent}') \
             + (SELECT count(*) FROM agents WHERE agent_id = '{agent}' AND totals_from IS NOT NULL)"
        )
    }
}

/// A database that no store of this process has open.
enum Place {
    Sqlite(TempDir, String),
    Postgres(Box<Database>),
}

impl Place {
    fn daemon(&self, fake: &FakeProvider) -> Daemon {
        match self {
            Self::Sqlite(_, url) => Daemon::start(fake, &[format!("database.url={url}").as_str()]),
            Self::Postgres(database) => Daemon::start_on(Some(database), fake, &[], &[], Stdio::inherit()),
        }
    }

    async fn execute(&self, sql: String) {
        match self {
            Self::Sqlite(_, url) => {
                let mut past = SqliteConnection::connect(url).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut past).await.unwrap();
                past.close().await.unwrap();
            }
            Self::Postgres(database) => execute(&mut database.connect().await, sql).await,
        }
    }

    async fn number(&self, sql: String) -> i64 {
        match self {
            Self::Sqlite(_, url) => {
                let mut past = SqliteConnection::connect(url).await.unwrap();
                sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut past).await.unwrap().get(0)
            }
            Self::Postgres(database) => {
                let mut past = database.connect().await;
                sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut past).await.unwrap().get(0)
            }
        }
    }

    /// Halts whoever writes more than so many rows of a change, within a transaction.
    async fn halt(&self, change: Change, agent: &str, rows: i64) {
        let (table, column, _) = change.rows();
        let count = change.done(agent);
        let sql = match self {
            Self::Sqlite(..) => format!(
                "CREATE TRIGGER {HALT} AFTER UPDATE OF {column} ON {table} WHEN NEW.agent_id = '{agent}' AND ({count}) > {rows} \
                 BEGIN SELECT count(*) FROM message_log a, message_log b, message_log c, message_log d; END"
            ),
            Self::Postgres(_) => format!(
                "CREATE FUNCTION {HALT}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF ({count}) > {rows} THEN \
                 PERFORM pg_sleep(600); END IF; RETURN NULL; END $$; \
                 CREATE TRIGGER {HALT} AFTER UPDATE OF {column} ON {table} FOR EACH ROW \
                 WHEN (NEW.agent_id = '{agent}') EXECUTE FUNCTION {HALT}()"
            ),
        };
        self.execute(sql).await;
    }

    /// Undoes [`Self::halt`], and what a killed daemon left behind on a server.
    async fn go_on(&self, change: Change) {
        let sql = match self {
            Self::Sqlite(..) => format!("DROP TRIGGER {HALT}"),
            Self::Postgres(database) => {
                database.cut("").await;
                format!("DROP TRIGGER {HALT} ON {}; DROP FUNCTION {HALT}()", change.rows().0)
            }
        };
        self.execute(sql).await;
    }

    async fn opened(self) -> Box<dyn Backend> {
        match self {
            Self::Sqlite(folder, _) => Box::new(SqliteBackend::over(folder).await),
            Self::Postgres(database) => Box::new(PostgresBackend::over(*database).await),
        }
    }
}

async fn post(daemon: &Daemon, path: &str, body: &Value) -> bool {
    let request = daemon.client.post(daemon.url(path));
    let request = request.header("content-type", "application/json");
    let sent = request.body(body.to_string()).send().await;
    sent.is_ok_and(|reply| reply.status().is_success())
}

/// Makes a change by daemons that are killed between its transactions, and waits until the last one has finished it.
async fn torn(place: &Place, daemon: &mut Daemon, change: Change, agent: &str) {
    let (_, _, step) = change.rows();
    let mut done = 0;
    for kill in 1..=KILLS {
        place.halt(change, agent, step * kill + step / 4).await;
        let further = async |daemon: &Daemon| {
            daemon
                .until("a transaction is done", async |_: &Daemon| {
                    place.number(change.done(agent)).await >= done + step / 4
                })
                .await;
        };
        if kill == 1 {
            let (path, body) = (change.path(agent), change.body());
            let asked = post(&*daemon, &path, &body);
            tokio::select! {
                is_answered = asked => assert!(!is_answered, "it can't be finished"),
                () = further(&*daemon) => {}
            }
        } else {
            daemon.child = spawn(&daemon.settings, &daemon.environment, Stdio::inherit());
            further(&*daemon).await;
        }
        daemon.kill();
        place.go_on(change).await;
        done = place.number(change.done(agent)).await;
        assert!(place.number(Change::left(agent)).await > 0, "{change:?}: it isn't finished");
    }
    daemon.revive().await;
    daemon
        .until("the next daemon has finished it", async |_: &Daemon| {
            place.number(Change::left(agent)).await == 0
        })
        .await;
}

/// What there is of an agent, without times and random salts.
async fn told(db: &dyn Backend, name: &str) -> Vec<String> {
    let mut told = Vec::new();
    for (columns, table) in [
        ("version || ' ' || token_count || ' ' || content", "summaries"),
        (
            "version || ' ' || kind || ' ' || covers_through || ' ' || token_count || ' ' || content",
            "summary_versions",
        ),
        (
            "item || ' ' || added_version || ' ' || coalesce(dropped_version, 0) || ' ' || coalesce(removed_version, 0) \
             || ' ' || provisional || ' ' || text",
            "summary_items",
        ),
        (
            "exchange || ' ' || state || ' ' || tokens || ' ' || tokens_before || ' ' || headline",
            "exchange_log",
        ),
        ("seq || ' ' || kind || ' ' || tokens || ' ' || payload", "message_log"),
        ("first_exchange || ' ' || summarized_through || ' ' || last_seq", "agents"),
    ] {
        let sql = format!("SELECT {columns} FROM {table} WHERE agent_id = '{name}' ORDER BY 1");
        told.extend(db.column(&sql).await.into_iter().flatten());
    }
    told
}

async fn the_next_daemon_finishes_what_was_begun(place: Place) {
    let fake = FakeProvider::start();
    let mut daemon = place.daemon(&fake);
    daemon.until_ready().await;
    // So that what is pending stays so.
    assert!(post(&daemon, "/v1/queue/pause", &json!({})).await);
    for change in Change::ALL {
        let [whole, victim] = change.agents();
        assert!(post(&daemon, &change.path(&whole), &change.body()).await);
        torn(&place, &mut daemon, change, &victim).await;
    }
    daemon.end().await;
    let db = place.opened().await;
    for change in Change::ALL {
        let [whole, victim] = change.agents();
        for name in [&whole, &victim] {
            clean(db.as_ref(), &agent(name)).await;
        }
        let (undisturbed, resumed) = (told(db.as_ref(), &whole).await, told(db.as_ref(), &victim).await);
        assert!(undisturbed.len() > 1_000 && undisturbed == resumed, "{change:?}");
    }
}

async fn with_agents(db: &dyn Backend) {
    for name in Change::ALL.iter().flat_map(|change| change.agents()) {
        with_two_versions(db, &name, EXCHANGES).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_daemon_finishes_what_was_begun_on_sqlite() {
    let db = SqliteBackend::fresh().await;
    with_agents(&db).await;
    let url = format!("sqlite:{}", db.path().display());
    the_next_daemon_finishes_what_was_begun(Place::Sqlite(db.closed().await, url)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_daemon_finishes_what_was_begun_on_postgres() {
    let db = PostgresBackend::fresh().await;
    with_agents(&db).await;
    the_next_daemon_finishes_what_was_begun(Place::Postgres(Box::new(db.closed().await))).await;
}
