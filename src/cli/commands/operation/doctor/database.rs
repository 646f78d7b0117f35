//! Checks of the database: reachable, right schema version, writable, undamaged, right time.

use super::Check;
use crate::cli::backend::cure;
use recapd_config::Config;
use recapd_core::domain::time::{SECOND_MS, Timestamp};
use recapd_engine::assembly;
use recapd_platform::clock::{Clock as _, SystemClock};
use recapd_store::{
    DatabaseSettings, SqlStore, StoreError, examine,
    operate::{OperatorStore as _, RunQuery},
    schema::{self, Schema, UTF8_CURE},
};

/// Largest accepted difference between the database's clock and this machine's.
const SKEW_MS_MAX: i64 = 5 * SECOND_MS;
/// Largest accepted lead of stored times over this machine's clock.
const AHEAD_MS_MAX: i64 = 60 * SECOND_MS;
/// Larger files aren't read completely: that would take long, and slow the daemon's disk.
const READ_BYTES_MAX: u64 = 1 << 30;

/// Checks whether the database can be used. Also opens it, if possible.
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
        let fix = "use the version of recapd that created it, or name another database with --db";
        checks.push(Check::fail("schema", error.to_string(), fix));
    } else if pending > 0 {
        let detail = format!("version {version}, {pending} migrations are missing");
        checks.push(Check::fail("schema", detail, "recapd migrate up"));
    } else {
        checks.push(Check::ok("schema", format!("version {version}")));
    }
    checks.extend(encoding(&settings, &schema).await);
    checks.extend(rights(&settings).await);
    if let Some(file) = cure::file(url) {
        let bytes = file.metadata().map_or(0, |found| found.len());
        checks.push(writing(url, &settings).await);
        checks.push(pages(url, &settings, bytes).await);
    }
    let store = SqlStore::look(&settings).await.ok();
    (checks, store)
}

fn unreachable(config: &Config, error: &StoreError) -> Check {
    let url = &config.database.url;
    Check::fail("database", format!("{url}: {error}"), cure::hint(url, error))
}

async fn encoding(settings: &DatabaseSettings, schema: &Schema) -> Option<Check> {
    let encoding = examine::non_utf8_encoding(settings).await.ok()??;
    if !schema.may_keep_encoding(&encoding) {
        let detail = format!("{encoding}, and recapd needs UTF8");
        return Some(Check::fail("encoding", detail, UTF8_CURE));
    }
    let detail = format!(
        "{encoding}: a text inserted by SQL that isn't UTF-8 blocks all messages after it in the inbox"
    );
    let fix = format!("`recapd export`, and `recapd import` into another one: {UTF8_CURE}");
    Some(Check::warn("encoding", detail, fix))
}

/// Fails for a server's database in which every role may create functions.
async fn rights(settings: &DatabaseSettings) -> Option<Check> {
    let open = examine::open_schemas(settings).await.ok()?.join(", ");
    (!open.is_empty()).then(|| {
        let detail = format!("every role may create functions in {open}, and so make recapd call them");
        let fix = format!("REVOKE CREATE ON SCHEMA {open} FROM PUBLIC");
        Check::fail("rights", detail, fix)
    })
}

async fn writing(url: &str, settings: &DatabaseSettings) -> Check {
    let name = "writing";
    match examine::can_be_written(settings).await {
        Ok(()) => Check::ok(name, "this user can write"),
        Err(error) if error.class() == Some("busy") => {
            Check::warn(name, error.to_string(), cure::hint(url, &error))
        }
        Err(error) => Check::fail(name, error.to_string(), cure::hint(url, &error)),
    }
}

/// Checks the pages of a file. If a page is damaged, appends of some agents fail while everything else works.
async fn pages(url: &str, settings: &DatabaseSettings, bytes: u64) -> Check {
    let (name, size) = ("pages", format!("{} MiB", bytes >> 20));
    if bytes > READ_BYTES_MAX {
        let detail = format!("{size} are too much to read here; `recapd backup` reads all pages");
        return Check::skip(name, detail);
    }
    match examine::damage(settings).await {
        Ok(None) => Check::ok(name, format!("all {size} read; nothing is damaged")),
        Ok(Some(damage)) => Check::fail(name, damage.replace('\n', " "), cure::RESTORE),
        Err(error) => Check::fail(name, error.to_string(), cure::hint(url, &error)),
    }
}

/// Checks whether times are plausible: the server's clock agrees with this machine's, and no stored time is in the
/// future.
pub(super) async fn clock(store: Option<&SqlStore>, now: Timestamp) -> Check {
    let name = "clock";
    let Some(store) = store else {
        return Check::skip(name, "there is no database to compare with");
    };
    let fix = "correct the clocks (timedatectl status): leases and ageing depend on them";
    match store.clock(SystemClock.now()).await {
        Err(error) => return Check::fail(name, error.to_string(), "see the check of the database"),
        Ok(database_time) => {
            let skew = database_time.since_ms(SystemClock.now());
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
    let newest = RunQuery { limit: 1, ..RunQuery::default() };
    let ended = store.runs(newest).await.unwrap_or_default().first().map(|run| run.finished_at);
    match ended.filter(|ended| ended.since_ms(now) > AHEAD_MS_MAX) {
        Some(ended) => {
            Check::warn(name, format!("the newest run ended at {ended}, which is in the future"), fix)
        }
        None => Check::ok(name, format!("{now}")),
    }
}
