//! The database: is it there, is it this version's, does its clock agree with ours?

use super::Check;
use crate::{
    assembly,
    clock::{Clock as _, SystemClock},
    config::Config,
    domain::time::{SECOND_MS, Timestamp},
    store::{
        SqlStore, StoreError,
        operate::{OperatorStore as _, RunQuery},
        schema,
    },
};

/// How far the database's clock may be off.
const SKEW_MS_MAX: i64 = 5 * SECOND_MS;
/// How far ahead of our clock what is stored may be.
const AHEAD_MS_MAX: i64 = 60 * SECOND_MS;

/// Whether it can be used, and the database if so.
pub(super) async fn checks(config: &Config) -> (Vec<Check>, Option<SqlStore>) {
    let url = &config.database.url;
    let settings = assembly::database_settings(&config.database);
    let schema = match schema::status(&settings).await {
        Ok(schema) => schema,
        Err(error) => return (vec![unreachable(config, &error)], None),
    };
    let mut checks = vec![Check::ok("database", url)];
    let (version, pending) = (schema.version(), schema.pending());
    if let Err(error) = schema.can_go_on() {
        let fix = "use the recapd that made it, or name another database with --db";
        checks.push(Check::fail("schema", error.to_string(), fix));
    } else if pending > 0 {
        let detail = format!("version {version}, {pending} migrations are missing");
        checks.push(Check::fail("schema", detail, "recapd migrate up"));
    } else {
        checks.push(Check::ok("schema", format!("version {version}")));
    }
    let store = SqlStore::look(&settings).await.ok();
    (checks, store)
}

fn unreachable(config: &Config, error: &StoreError) -> Check {
    let url = &config.database.url;
    let fix = if config.database.is_postgres() {
        "is the server running there, and is the password in PGPASSFILE or PGPASSWORD? see database.url"
    } else {
        "`recapd serve` or `recapd migrate up` makes it; or name another one with --db or database.url"
    };
    Check::fail("database", format!("{url}: {error}"), fix)
}

/// Whether times can be believed: the server's clock is ours, and nothing was written in the future.
pub(super) async fn clock(store: Option<&SqlStore>, now: Timestamp) -> Check {
    let name = "clock";
    let Some(store) = store else {
        return Check::skip(name, "there is no database to compare it with");
    };
    let fix = "set the clocks right (timedatectl status): leases and ageing go by them";
    match store.clock(SystemClock.now()).await {
        Err(error) => return Check::fail(name, error.to_string(), "see the check of the database"),
        Ok(theirs) => {
            let skew = theirs.since_ms(SystemClock.now());
            if skew.abs() > SKEW_MS_MAX {
                let way = if skew > 0 { "ahead" } else { "behind" };
                return Check::warn(
                    name,
                    format!("the database is {} ms {way} of this machine", skew.abs()),
                    fix,
                );
            }
        }
    }
    let newest = RunQuery {
        limit: 1,
        ..RunQuery::default()
    };
    let ended = store
        .runs(newest)
        .await
        .unwrap_or_default()
        .first()
        .map(|run| run.finished_at);
    match ended.filter(|ended| ended.since_ms(now) > AHEAD_MS_MAX) {
        Some(ended) => Check::warn(
            name,
            format!("the newest run ended at {ended}, which is to come"),
            fix,
        ),
        None => Check::ok(name, format!("{now}")),
    }
}
