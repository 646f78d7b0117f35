//! PostgreSQL's plans for the store's statements with many agents and messages, taken as they run, with the pages
//! they touch. Assertions are about shapes and pages, never times.
//!
//! The tests use a small database. `scripts/plans` runs them on one of a million agents and prints the plans.

mod plan;

use std::sync::Arc;

use recapd_core::{
    domain::{agent::AgentId, time::Timestamp, window::Budget},
    tokenizer,
};
use recapd_engine::snapshot::Snapshots;
use recapd_platform::clock::SystemClock;
use recapd_store::{AppendRequest, ExchangeQuery, Prune, SqlStore, Store as _, VersionQuery};
use sqlx::{Connection as _, PgConnection};
use tracing::instrument::WithSubscriber as _;

use crate::support::{
    backend::{Backend as _, PARTITION, SqliteBackend, postgres_settings},
    conversation::{ALL, append, claim, said, turns},
    postgres::{Database, execute},
};
use plan::{Plan, Plans};

const FILL: &str = include_str!("scale/fill.sql");

/// Overrides [`AGENTS`]; if set, the plans are printed, too.
const AGENTS_VARIABLE: &str = "RECAPD_TEST_SCALE_AGENTS";
const AGENTS: i64 = 2_000;

/// Most pages of a scan besides one for each returned row: the descent of an index.
const PAGES_MAX: i64 = 8;
/// Most rows that any of these statements reads.
const ROWS_MAX: i64 = 250;

/// Later than all times of the filled rows.
const NOW: Timestamp = Timestamp(1_795_000_000_000);

/// Statements that must have run: those of the queue, the window and readers.
const LABELS: [&str; 15] = [
    "postgres/queue.claim",
    "postgres/queue.renew",
    "sql/queue.enqueue",
    "sql/queue.reconcile",
    "sql/append.find_cut",
    "sql/summary.read",
    "sql/summary.next_pending",
    "sql/summary.shown_items",
    "sql/exchange.load",
    "sql/exchange.add_messages",
    "sql/exchange.session_start",
    "sql/version.list",
    "views/agent_pending",
    "views/messages",
    "views/exchanges",
];

/// Queries of SQL readers: what is pending, and the archive.
const ASKED: [&str; 3] = [
    "-- views/agent_pending\nSELECT string_agg(digest, '; ') FROM (SELECT digest FROM agent_pending \
     WHERE agent_id = 'long-0001' ORDER BY exchange_id DESC LIMIT 40) AS newest",
    "-- views/messages\nSELECT string_agg(content || ' ' || evicted_at, '; ') FROM (SELECT content, evicted_at FROM messages \
     WHERE agent_id = 'long-0001' AND exchange_id BETWEEN 401 AND 410 ORDER BY id) AS archived",
    "-- views/exchanges\nSELECT string_agg(id || ' ' || evicted_at, '; ') FROM (SELECT id, evicted_at FROM exchanges \
     WHERE agent_id = 'long-0001' AND id BETWEEN 401 AND 410 ORDER BY id) AS archived",
];

#[tokio::test]
async fn statements_find_their_rows_by_indexes_however_many_there_are() {
    let agents = agents();
    let is_big = agents > AGENTS;
    let database = Database::create().await;
    fill(&database, agents, is_big).await;
    let settings = postgres_settings(database.url());
    let store = SqlStore::open(&settings.into()).await.unwrap();

    let plans = Plans::default();
    work(&store).with_subscriber(plans.subscriber()).await;
    let mut reader = database.connect().await;
    for asked in ASKED {
        // A connection's first query also reads the catalogue.
        text(&mut reader, asked).await;
        text(&mut reader, asked).with_subscriber(plans.subscriber()).await;
    }
    let plans = plans.take();
    if is_big {
        for plan in &plans {
            eprintln!("{plan}");
        }
    }
    for label in LABELS {
        assert!(plans.iter().any(|plan| plan.label == label), "{label} didn't run");
    }
    // With these indexes, finding an item's exchanges would read those of all other items, and an exchange's eviction
    // all others.
    let astray = |plan: &&Plan| {
        plan.scans.iter().any(|scan| match plan.label.as_str() {
            "sql/summary.shown_items" => scan.name == "summary_item_ranges_exchange",
            "sql/exchange.load" | "views/messages" | "views/exchanges" => scan.name == "evictions_pkey",
            _ => false,
        })
    };
    let astray: Vec<String> = plans.iter().filter(astray).map(Plan::to_string).collect();
    assert!(astray.is_empty(), "{}", astray.join("\n"));
    let bad: Vec<String> = plans.iter().filter_map(complaint).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// However many versions are stored, pruning searches for obsolete ones agent by agent.
#[tokio::test]
async fn pruning_reads_only_what_it_deletes() {
    let database = Database::create().await;
    fill(&database, AGENTS, false).await;
    let mut connection = database.connect().await;
    // Like a sequential scan in a small table: these joins read all of one table.
    for join in ["enable_hashjoin", "enable_mergejoin"] {
        set(&mut connection, &database, join, "off").await;
    }
    connection.close().await.unwrap();
    let settings = postgres_settings(database.url());
    let store = SqlStore::open(&settings.into()).await.unwrap();
    let prune = Prune { runs_before: NOW, answers_before: NOW, versions_keep: 10, limit: 1_000 };
    let plans = Plans::default();
    let pruned = store.prune(prune).with_subscriber(plans.subscriber()).await;
    assert_eq!(pruned.unwrap(), 0);
    let plans = plans.take();
    let looks = plans.iter().filter(|plan| plan.label == "sql/prune.versions");
    assert!(looks.count() > 1, "{plans:?}");
    let bad: Vec<String> = plans.iter().filter_map(complaint).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[tokio::test]
async fn partitioning_keeps_every_message_and_the_views() {
    let database = Database::create().await;
    let mut connection = database.connect().await;
    execute(&mut connection, "SET scale.agents = 100").await;
    execute(&mut connection, FILL).await;
    let view = "CREATE VIEW latest WITH (security_barrier = true) AS SELECT agent_id, max(seq) AS seq FROM message_log GROUP BY 1";
    execute(&mut connection, view).await;
    let contents =
        "SELECT count(*) || md5(string_agg(message_log::text, ',' ORDER BY agent_id, seq)) FROM message_log";
    let before = text(&mut connection, contents).await;
    execute(&mut connection, PARTITION).await;
    assert_eq!(text(&mut connection, contents).await, before);

    let used = "SELECT count(DISTINCT tableoid)::text FROM message_log";
    assert_eq!(text(&mut connection, used).await, "16");
    let last = "SELECT seq::text FROM latest WHERE agent_id = 'agent-00000007'";
    assert_eq!(text(&mut connection, last).await, "8");
    let options = "SELECT array_to_string(reloptions, '') FROM pg_class WHERE relname = 'latest'";
    assert_eq!(text(&mut connection, options).await, "security_barrier=true");
    let again = sqlx::raw_sql(PARTITION).execute(&mut connection).await.unwrap_err();
    assert!(again.to_string().contains("partitioned already"), "{again}");
}

/// Forgetting doesn't reach the planner's statistics, so no message text may get there.
#[tokio::test]
async fn partitioning_keeps_message_texts_out_of_the_statistics() {
    let database = Database::create().await;
    let mut connection = database.connect().await;
    execute(&mut connection, "SET scale.agents = 100").await;
    execute(&mut connection, FILL).await;
    execute(&mut connection, "ANALYZE message_log").await;
    let known = "SELECT coalesce(string_agg(DISTINCT attname::text, ' ' ORDER BY attname::text), '') FROM pg_stats \
                 WHERE tablename LIKE 'message\\_log%' AND attname IN ('payload', 'agent_id')";
    assert_eq!(text(&mut connection, known).await, "agent_id");
    execute(&mut connection, PARTITION).await;
    assert_eq!(text(&mut connection, known).await, "agent_id");
    // Nor later, when a single partition is analysed.
    execute(&mut connection, "VACUUM ANALYZE message_log_0003").await;
    assert_eq!(text(&mut connection, known).await, "agent_id");
}

#[tokio::test]
async fn the_cache_of_summaries_stays_within_its_limit() {
    let db = SqliteBackend::fresh().await;
    let (counter, clock) = (tokenizer::counter_for("openai", "gpt-4o"), Arc::new(SystemClock));
    let bytes_max = 1_000;
    let snapshots = Snapshots::new(db.store(), counter, clock, 10_000).with_bytes_max(bytes_max);
    let mut bytes = 0;
    for number in 1..=50 {
        let agent: AgentId = format!("agent-{number}").parse().unwrap();
        db.store().append(append(&agent, turns(1..=4))).await.unwrap();
        let read = snapshots.get(&agent).await.unwrap().unwrap();
        bytes += read.snapshot.markdown.len();
    }
    assert!(bytes > 3 * bytes_max, "{bytes}");
    assert!((1..50).contains(&snapshots.cached_count()), "{} are held", snapshots.cached_count());
}

async fn text(connection: &mut PgConnection, sql: &'static str) -> String {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

fn agents() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "a test's setting")]
    let given = std::env::var(AGENTS_VARIABLE);
    given.map_or(AGENTS, |agents| agents.parse().unwrap())
}

/// Fills the database, and has it log the plans of later connections. Reading all of a small table is cheaper, so
/// sequential scans are made expensive: one that remains has no usable index.
async fn fill(database: &Database, agents: i64, is_big: bool) {
    let mut connection = database.connect().await;
    execute(&mut connection, format!("SET scale.agents = {agents}")).await;
    execute(&mut connection, FILL).await;
    execute(&mut connection, "VACUUM ANALYZE").await;
    set(&mut connection, database, "session_preload_libraries", "auto_explain").await;
    set(&mut connection, database, "auto_explain.log_min_duration", "0").await;
    set(&mut connection, database, "auto_explain.log_analyze", "on").await;
    set(&mut connection, database, "auto_explain.log_buffers", "on").await;
    set(&mut connection, database, "auto_explain.log_format", "json").await;
    set(&mut connection, database, "client_min_messages", "log").await;
    let scans = if is_big { "on" } else { "off" };
    set(&mut connection, database, "enable_seqscan", scans).await;
    connection.close().await.unwrap();
}

async fn set(connection: &mut PgConnection, database: &Database, name: &str, value: &str) {
    let sql = format!("ALTER DATABASE {} SET {name} = '{value}'", database.name());
    execute(connection, sql).await;
}

/// Runs the usual operations of daemons and readers. Twice, since a connection's first query also reads the catalogue.
async fn work(store: &SqlStore) {
    for round in 1..=2 {
        let long: AgentId = "long-0001".parse().unwrap();
        let outcome = store.append(next_turn(&long, round)).await.unwrap();
        assert_eq!(outcome.evictions.len(), 1, "the window is over its budget");
        let leases = store.claim(claim("daemon", 8, NOW)).await.unwrap();
        assert_eq!(leases.len(), 8);
        for lease in &leases {
            store.material(lease, ALL).await.unwrap();
        }
        store.renew(&leases, NOW, 15_000).await.unwrap();
        store.summary(&long).await.unwrap().unwrap();
        store.summary_of_step(&long).await.unwrap().unwrap();
        let window = ExchangeQuery {
            from: outcome.first_exchange,
            through: outcome.exchange,
            limit: 10,
            bytes_max: i64::MAX,
        };
        assert_eq!(store.exchanges(&long, window).await.unwrap().len(), 10);
        let archive = ExchangeQuery { from: 401, through: 410, ..window };
        let archived = store.exchanges(&long, archive).await.unwrap();
        let evicted = archived.iter().filter(|stored| stored.evicted_at.is_some());
        assert_eq!(evicted.count(), 10);
        let start = store.session_start(&long, 1).await.unwrap();
        assert!(start.is_some(), "a session has exchanges");
        store.versions(&long, VersionQuery { before: None, limit: 10 }).await.unwrap();
        store.agents(Some(&long), 10).await.unwrap();
        // Only the oldest pending ones.
        let pending_before = Timestamp(1_767_225_600_000).plus_ms(101 * round);
        store.reconcile(pending_before, NOW).await.unwrap();
        store.release(&leases, NOW).await.unwrap();
    }
}

/// A turn that begins an exchange and puts the window of a hundred exchanges over its budget.
fn next_turn(agent: &AgentId, round: i64) -> AppendRequest {
    let text = format!("Question {round}");
    let mut request = append(agent, vec![said("user", &text, 400, NOW)]);
    request.rules.budget = Budget::new(40_000, 1.0);
    request
}

/// Says what is wrong with a plan: a table is read as a whole, or more pages are touched than the rows need. Pages
/// are compared for all scans together, because a subquery counts for the scan that first evaluates it.
fn complaint(plan: &Plan) -> Option<String> {
    let worst = plan.scans.iter().find(|scan| scan.is_sequential && scan.pages > 0 || scan.rows > ROWS_MAX);
    if let Some(scan) = worst {
        return Some(format!("{plan}\n  because of {scan:?}"));
    }
    let pages: i64 = plan.scans.iter().map(|scan| scan.pages).sum();
    let allowed: i64 = plan.scans.iter().map(|scan| PAGES_MAX * scan.loops + scan.rows).sum();
    (pages > allowed).then(|| format!("{plan}\n  because {pages} pages are more than {allowed}"))
}
