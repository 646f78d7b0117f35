//! The shipped roles: what each may do, and nothing more. Roles belong to the server, not to a database.

use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, migrate::Migrator, postgres::PgConnectOptions};
use tokio::time::Instant;

use crate::support::{
    PATIENCE,
    backend::{Backend as _, PostgresBackend},
    conversation::{agent, append, turns},
    postgres::{Database, execute, migrations},
};

const ROLES: &str = include_str!("../../../migrations/postgres/roles.sql");
const SECURITY: &str = include_str!("../../../docs/security.md");
const TABLES: [&str; 7] = [
    "SELECT * FROM audit_events",
    "SELECT * FROM message_log",
    "SELECT * FROM message_inbox",
    "SELECT * FROM summaries",
    "SELECT * FROM agents",
    "INSERT INTO message_inbox (agent_id, received_at) VALUES ('a', now())",
    "DELETE FROM summary_update_queue",
];
const ALL: &str = "SELECT * FROM messages";
/// One exchange of each agent.
const PENDING: &str = "SELECT * FROM agent_pending";

/// Runs a statement as a role. Returns the number of rows changed or found, or the refusal.
async fn run(connection: &mut PgConnection, sql: &str) -> Result<u64, String> {
    let done = sqlx::query(AssertSqlSafe(sql)).execute(connection).await;
    done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
}

async fn allowed(connection: &mut PgConnection, sql: &str, rows: u64) {
    assert_eq!(run(connection, sql).await, Ok(rows), "{sql}");
}

async fn refused(connection: &mut PgConnection, sql: &str, words: &str) {
    let refused = run(connection, sql).await.expect_err(sql);
    assert!(refused.contains(words), "{sql}: {refused}");
}

fn insert(agent: &str) -> String {
    format!("INSERT INTO messages (agent_id, role, content) VALUES ('{agent}', 'user', 'Hello')")
}

/// Two agents with four messages each, and a login for each role.
struct Cast {
    db: PostgresBackend,
    owner: PgConnection,
    one: String,
    other: String,
    names: Vec<String>,
}

impl Cast {
    async fn new() -> Self {
        let db = PostgresBackend::fresh().await;
        let mut owner = db.connect().await;
        // As in a database that was restored without its privileges.
        let open = "GRANT EXECUTE ON FUNCTION recapd_take_message() TO PUBLIC";
        execute(&mut owner, open).await;
        for _ in 0..2 {
            execute(&mut owner, ROLES).await;
        }
        let tag = format!("{:08x}", fastrand::u32(..));
        let (one, other) = (format!("one-{tag}"), format!("other-{tag}"));
        for name in [&one, &other] {
            db.store().append(append(&agent(name), turns(1..=2))).await.unwrap();
        }
        Self { db, owner, one, other, names: Vec::new() }
    }

    async fn login(&mut self, name: &str, role: &str) -> PgConnection {
        let made = format!("CREATE ROLE \"{name}\" LOGIN PASSWORD 'secret' IN ROLE {role}");
        execute(&mut self.owner, made).await;
        self.names.push(name.to_owned());
        let options: PgConnectOptions = self.db.url().parse().unwrap();
        options.username(name).password("secret").connect().await.unwrap()
    }

    async fn leave(mut self) {
        for name in self.names {
            let gone = format!("DROP OWNED BY \"{name}\" CASCADE; DROP ROLE \"{name}\"");
            execute(&mut self.owner, gone).await;
        }
    }
}

/// No role can reach the tables under the views.
async fn is_kept_out(connection: &mut PgConnection) {
    for sql in TABLES {
        refused(connection, sql, "permission denied").await;
    }
    for sql in ["UPDATE messages SET content = 'x'", "DELETE FROM summary_documents"] {
        refused(connection, sql, "permission denied").await;
    }
    let trap = "CREATE TEMP TABLE trap (agent_id text, role text, content text, format text, speaker text, client_id text,
                created_at timestamptz)";
    allowed(connection, trap, 0).await;
    let fire = "CREATE TRIGGER t BEFORE INSERT ON trap FOR EACH ROW EXECUTE FUNCTION recapd_take_message()";
    refused(connection, fire, "permission denied").await;
    // Inserts must not land in somebody's temporary table instead.
    allowed(connection, "CREATE TEMP TABLE message_inbox (LIKE trap)", 0).await;
}

#[tokio::test]
async fn each_role_has_its_own_rights_and_no_more() {
    let mut cast = Cast::new().await;
    let (one, other) = (cast.one.clone(), cast.other.clone());
    let mut rw = cast.login(&format!("rw-{one}"), "agent_rw").await;
    let mut reader = cast.login(&format!("reader-{one}"), "reader").await;
    is_kept_out(&mut rw).await;
    is_kept_out(&mut reader).await;

    allowed(&mut rw, &insert(&one), 1).await;
    allowed(&mut rw, &insert(&other), 1).await;
    let waiting = cast.db.inbox().waiting(0, 10, 1_000).await.unwrap();
    assert_eq!(waiting.len(), 2);
    allowed(&mut rw, ALL, 8).await;
    refused(&mut reader, &insert(&one), "permission denied").await;
    allowed(&mut reader, ALL, 8).await;
    allowed(&mut reader, "SELECT * FROM agent_summary", 2).await;
    allowed(&mut reader, PENDING, 2).await;
    allowed(&mut rw, PENDING, 2).await;

    // For programs that act for one agent at a time.
    allowed(&mut rw, &format!("SET recapd.agent = '{one}'"), 0).await;
    allowed(&mut rw, ALL, 4).await;
    allowed(&mut rw, PENDING, 1).await;
    refused(&mut rw, &insert(&other), "may not write messages of agent").await;
    cast.leave().await;
}

#[tokio::test]
async fn the_role_of_an_agent_reaches_no_other_agent() {
    let mut cast = Cast::new().await;
    let (one, other) = (cast.one.clone(), cast.other.clone());
    let mut own = cast.login(&one, "agent_own").await;
    is_kept_out(&mut own).await;
    for sql in ["SELECT 1", "SET recapd.agent = ''"] {
        run(&mut own, sql).await.unwrap();
        allowed(&mut own, &insert(&one), 1).await;
        refused(&mut own, &insert(&other), "may not write messages of agent").await;
        let nobody = "INSERT INTO messages (role, content) VALUES ('user', 'x')";
        refused(&mut own, nobody, "may not write messages of agent").await;
        allowed(&mut own, ALL, 4).await;
        for view in [
            "messages",
            "exchanges",
            "agent_summary",
            "agent_pending",
            "summary_documents",
            "refused_messages",
        ] {
            allowed(&mut own, &format!("SELECT * FROM {view} WHERE agent_id = '{other}'"), 0).await;
        }
        allowed(&mut own, "SELECT * FROM summary_documents", 1).await;
        allowed(&mut own, PENDING, 1).await;
    }
    // The setting can narrow access, but never widen it.
    run(&mut own, &format!("SET recapd.agent = '{other}'")).await.unwrap();
    allowed(&mut own, ALL, 0).await;
    allowed(&mut own, PENDING, 0).await;
    refused(&mut own, &insert(&other), "may not write").await;
    refused(&mut own, &insert(&one), "may not write").await;
    run(&mut own, "RESET recapd.agent").await.unwrap();

    // A reader's own function doesn't see rows before they are filtered.
    let spy = "CREATE FUNCTION pg_temp.spy(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
               'BEGIN RAISE EXCEPTION ''saw %'', $1; END'";
    run(&mut own, spy).await.unwrap();
    let look = "SELECT * FROM messages WHERE pg_temp.spy(agent_id)";
    refused(&mut own, look, &format!("saw {one}")).await;
    let look = format!("SELECT * FROM messages WHERE agent_id = '{other}' AND pg_temp.spy(content)");
    allowed(&mut own, &look, 0).await;
    let look = format!("SELECT * FROM agent_pending WHERE agent_id = '{other}' AND pg_temp.spy(digest)");
    allowed(&mut own, &look, 0).await;
    cast.leave().await;
}

/// An operator grants privileges once; a view of a later version gets them by itself in databases that have the roles.
#[tokio::test]
async fn a_later_view_is_readable_by_roles_that_read_the_others() {
    let (make, _) = ROLES.split_once("\nGRANT ").unwrap();
    let may = "SELECT CAST(has_table_privilege('reader', 'agent_pending', 'SELECT') AS integer)
               + 2 * CAST(has_table_privilege('agent_rw', 'agent_pending', 'SELECT') AS integer)";
    for (before, after) in [("GRANT SELECT ON agent_summary TO reader", 1), ("SELECT 1", 0)] {
        let database = Database::empty().await;
        let mut owner = database.connect().await;
        let all = migrations().await;
        let known = all.iter().filter(|migration| migration.version < 11);
        let earlier = Migrator::with_migrations(known.cloned().collect());
        earlier.run(&mut owner).await.unwrap();
        execute(&mut owner, make).await;
        execute(&mut owner, before).await;
        all.run(&mut owner).await.unwrap();
        let given: i32 = sqlx::query_scalar(may).fetch_one(&mut owner).await.unwrap();
        assert_eq!(given, after, "{before}");
    }
}

/// Finds unqualified names in functions that run as their owner, which another role could define: things called, read, written or cast
/// to.
const UNQUALIFIED: &str = r"
    SELECT p.proname || ': ' || found[1] FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace,
      regexp_replace(regexp_replace(p.prosrc, '--[^\n]*', '', 'g'), '''[^'']*''', '''''', 'g') AS source,
      LATERAL (SELECT regexp_matches(source, '(?<![.\w])([a-z_]\w*)\s*\(', 'gi') UNION ALL
               SELECT regexp_matches(source, '\y(?:from|join|into|update)\s+([a-z_]\w*)(?![\w.])', 'gi') UNION ALL
               SELECT regexp_matches(source, '::\s*([a-z_]\w*)(?![\w.])', 'gi')) AS names (found)
    WHERE p.prosecdef AND n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema'
      AND lower(found[1]) NOT IN ('if', 'or', 'and', 'in', 'not', 'exists', 'values', 'coalesce', 'nullif')
    UNION ALL
    SELECT p.proname || ' is set to ' || coalesce(array_to_string(p.proconfig, '; '), 'nothing')
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE p.prosecdef AND n.nspname NOT LIKE 'pg_%'
      AND p.proconfig IS DISTINCT FROM ARRAY['search_path=pg_catalog, pg_temp']
    ORDER BY 1";

/// A closer match for a function's call than PostgreSQL's own function, because it takes any integer.
const PLANTED: &str =
    "CREATE FUNCTION public.hashtextextended(text, integer) RETURNS bigint LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION ''taken over as %'', current_user; END'";

async fn unqualified(owner: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(UNQUALIFIED).fetch_all(owner).await.unwrap()
}

/// Applies the migrations before 16.
async fn migrate_before(owner: &mut PgConnection) {
    let all = migrations().await;
    let known = all.iter().filter(|migration| migration.version < 16);
    let earlier = Migrator::with_migrations(known.cloned().collect());
    earlier.run(owner).await.unwrap();
}

#[tokio::test]
async fn functions_that_run_as_their_owner_use_no_unqualified_names() {
    let database = Database::empty().await;
    let mut owner = database.connect().await;
    migrate_before(&mut owner).await;
    let before = unqualified(&mut owner).await;
    for name in ["hashtextextended", "recapd_scope", "message_inbox", "pg_notify"] {
        let line = format!("recapd_take_message: {name}");
        assert!(before.contains(&line), "the look misses {name}: {before:?}");
    }
    migrations().await.run(&mut owner).await.unwrap();
    assert_eq!(unqualified(&mut owner).await, [""; 0]);
    let definers = "SELECT count(*) FROM pg_proc WHERE prosecdef AND proname LIKE 'recapd%'";
    let definers: i64 = sqlx::query_scalar(definers).fetch_one(&mut owner).await.unwrap();
    assert_eq!(definers, 1);
}

#[tokio::test]
async fn a_planted_function_is_not_called_as_the_owner() {
    let database = Database::empty().await;
    let mut owner = database.connect().await;
    migrate_before(&mut owner).await;
    execute(&mut owner, PLANTED).await;
    refused(&mut owner, &insert("a"), "taken over").await;
    migrations().await.run(&mut owner).await.unwrap();
    allowed(&mut owner, &insert("a"), 1).await;
    // Also if recapd has a schema of its own, and the other one is in the search path.
    execute(&mut owner, r#"CREATE SCHEMA "Own's"; SET search_path = "Own's", public"#).await;
    migrations().await.run(&mut owner).await.unwrap();
    allowed(&mut owner, &insert("a"), 1).await;
    let kept = r#"SELECT 1 FROM "Own's".message_inbox WHERE content = 'Hello'"#;
    allowed(&mut owner, kept, 1).await;
}

/// All agents' roles are members of the group, so without this check each could act as the agent of that name.
#[tokio::test]
async fn taking_on_the_group_role_gives_no_access_to_another_agent() {
    let mut cast = Cast::new().await;
    let one = cast.one.clone();
    let team = format!("team-{one}");
    execute(&mut cast.owner, format!("CREATE ROLE \"{team}\" IN ROLE agent_own")).await;
    cast.names.push(team.clone());
    let mut own = cast.login(&one, &format!("agent_own, \"{team}\"")).await;
    for taken in ["agent_own", &team] {
        run(&mut own, &format!("SET ROLE \"{taken}\"")).await.unwrap();
        refused(&mut own, &insert(taken), "may not write messages of agent").await;
        allowed(&mut own, &insert(&one), 1).await;
        allowed(&mut own, ALL, 4).await;
    }
    cast.leave().await;
}

/// A program for several agents acts as the one whose role it has taken on, and as none before that.
#[tokio::test]
async fn a_program_for_several_agents_acts_as_one_at_a_time() {
    let mut cast = Cast::new().await;
    let (one, other) = (cast.one.clone(), cast.other.clone());
    drop(cast.login(&one, "agent_own").await);
    let gateway = format!("gateway-{one}");
    let mut several = cast.login(&gateway, &format!("\"{one}\"")).await;
    execute(&mut cast.owner, format!("ALTER ROLE \"{gateway}\" NOINHERIT")).await;
    refused(&mut several, ALL, "permission denied").await;
    run(&mut several, &format!("SET ROLE \"{one}\"")).await.unwrap();
    allowed(&mut several, ALL, 4).await;
    allowed(&mut several, &insert(&one), 1).await;
    refused(&mut several, &insert(&other), "may not write messages of agent").await;

    // A name that has become nobody's isn't everybody's.
    let renamed = format!("renamed-{one}");
    let rename = format!("ALTER ROLE \"{one}\" RENAME TO \"{renamed}\"");
    execute(&mut cast.owner, rename).await;
    for name in cast.names.iter_mut().filter(|name| **name == one) {
        name.clone_from(&renamed);
    }
    allowed(&mut several, ALL, 0).await;
    refused(&mut several, &insert(&one), "may not write messages of agent").await;
    drop(several);
    cast.leave().await;
}

/// As described on the page about security.
#[tokio::test]
async fn locks_can_be_taken_away_from_roles() {
    let mut cast = Cast::new().await;
    let one = cast.one.clone();
    let mut own = cast.login(&one, "agent_own").await;
    let lock = "SELECT pg_try_advisory_lock(1)";
    allowed(&mut own, lock, 1).await;
    let block = SECURITY.split("```sql\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    execute(&mut cast.owner, block.replace("TO recapd", "TO CURRENT_USER")).await;
    refused(&mut own, lock, "permission denied").await;
    allowed(&mut own, &insert(&one), 1).await;
    cast.leave().await;
}

/// Writers for the same agent wait for each other's commits, so that the messages of one transaction stay together.
#[tokio::test]
async fn transactions_of_the_same_agent_follow_each_other() {
    let db = PostgresBackend::fresh().await;
    let (mut one, mut other) = (db.connect().await, db.connect().await);
    let insert =
        |said: &str| format!("INSERT INTO messages (agent_id, role, content) VALUES ('a', 'user', '{said}')");
    execute(&mut one, format!("BEGIN; {}", insert("one"))).await;
    let waits = execute(&mut other, format!("BEGIN; {}; COMMIT", insert("three")));
    let blocked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let goes_on = async {
        let end = Instant::now() + PATIENCE;
        while db.number(blocked).await != Some(1) {
            assert!(Instant::now() < end, "the other one doesn't wait");
            tokio::task::yield_now().await;
        }
        execute(&mut one, format!("{}; COMMIT", insert("two"))).await;
    };
    tokio::join!(waits, goes_on);
    let rows = db.inbox().waiting(0, 10, 1_000).await.unwrap();
    let said: Vec<_> = rows.iter().map(|row| row.content.as_deref().unwrap()).collect();
    assert_eq!(said, ["one", "two", "three"]);
}
