//! Checks of the surroundings: disk, files, window, time zone, daemon, service manager.

use std::{os::unix::net::UnixDatagram, path::Path};

use super::{Check, GlobalOptions};
use crate::cli::backend::{api, cure, target};
use recapd_config::{Ageing, Config, Environment};
use recapd_core::domain::{time::Timestamp, zone::Zone};
use recapd_store::sqlite;

/// Less free space than this is a failure, because a commit may not fit.
const FREE_BYTES_MIN: u64 = 100 << 20;
/// Less free space than this causes a warning.
const FREE_BYTES_FEW: u64 = 1 << 30;

pub(super) fn disk(config: &Config) -> Check {
    let name = "disk";
    let Some(file) = cure::file(&config.database.url) else {
        return Check::skip(name, "the database is on a server");
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // The daemon creates the user's state folder. Until then, the nearest folder above it that exists is checked.
    let mut ancestors = folder.ancestors().filter(|_| config.database.is_in_state_folder);
    let folder = ancestors.find(|folder| folder.exists()).unwrap_or(folder);
    let stats = match rustix::fs::statvfs(folder) {
        Ok(stats) => stats,
        Err(error) => {
            let fix = format!("create {} and let the service's user write to it", folder.display());
            return Check::fail(name, format!("{}: {error}", folder.display()), fix);
        }
    };
    let free = stats.f_bavail.saturating_mul(stats.f_frsize);
    let detail = format!("{} MiB free in {}", free >> 20, folder.display());
    let writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK);
    let fix = "free some space, or move the database to a larger disk";
    if writable.is_err() {
        let fix = "let the service's user write to it (chown recapd:recapd)";
        Check::fail(name, format!("{} can't be written to", folder.display()), fix)
    } else if free < FREE_BYTES_MIN {
        Check::fail(name, detail, fix)
    } else if free < FREE_BYTES_FEW {
        Check::warn(name, detail, fix)
    } else {
        Check::ok(name, detail)
    }
}

/// Checks that only the owner can read the database's files.
pub(super) fn files(config: &Config) -> Check {
    let name = "files";
    let Some(file) = cure::file(&config.database.url) else {
        return Check::skip(name, "the database is on a server");
    };
    let exposed = sqlite::exposed(&file);
    if exposed.is_empty() {
        return Check::ok(name, "other users cannot read the database");
    }
    let names: Vec<String> = exposed.iter().map(|file| file.display().to_string()).collect();
    let names = names.join(" ");
    let fix = format!(
        "chmod go= {names}; if a group shares the database: chmod 2770 its folder, chmod 660 its files"
    );
    Check::warn(name, format!("other users can read the conversations: {names}"), fix)
}

/// Checks that a full window fits into a request. What doesn't fit is neither sent nor summarised.
pub(super) fn window(config: &Config) -> Check {
    let name = "window";
    let budget_tokens = config.window.budget_tokens;
    let room = config.context.options().limit_tokens().unwrap_or(i64::MAX);
    if budget_tokens > room {
        let detail = format!("it may have {budget_tokens} tokens, but a request has room for {room}");
        let fix = "lower window.budget_tokens, or raise context.max_tokens";
        return Check::warn(name, detail, fix);
    }
    Check::ok(name, "it fits into a request")
}

/// Shows the time zone whose days the summaries follow.
pub(super) fn time_zone(config: &Config, now: Timestamp) -> Check {
    let name = "time zone";
    let zone = &config.summary.time_zone;
    // The configuration's check has already refused an unknown zone.
    let Some(parsed) = Zone::parse(zone) else {
        return Check::fail(
            name,
            format!("{zone} isn't a time zone"),
            "set summary.time_zone, such as Europe/Berlin",
        );
    };
    let description = format!("{zone}, where it is {}", parsed.wall(now).format("%Y-%m-%d %H:%M"));
    if config.summary.ageing == Ageing::Calendar && parsed == Zone::default() {
        let fix =
            "set summary.time_zone, or an agent's time_zone, to where people work, such as Europe/Berlin";
        return Check::warn(name, format!("{description}; summaries age by calendar days in this zone"), fix);
    }
    Check::ok(name, description)
}

/// Checks whether a daemon runs and is ready.
pub(super) async fn daemon(config: &Config, options: &GlobalOptions) -> Check {
    let name = "daemon";
    let address = match &options.server {
        Some(server) => server.base.clone(),
        None => target::base(&config.http),
    };
    match api::answers(options.server.as_ref(), &config.http, "/readyz").await {
        Ok(()) => Check::ok(name, format!("ready at {address}")),
        Err(api::NotReady::Away) if options.server.is_some() => {
            Check::fail(name, format!("no daemon answers at {address}"), "is the daemon running there?")
        }
        Err(api::NotReady::Away) => {
            let fix = "start it: `systemctl start recapd`, or `recapd serve`";
            Check::warn(name, format!("no daemon runs at {address}"), fix)
        }
        Err(api::NotReady::Silent(why)) => Check::fail(
            name,
            format!("a program listens at {address} but doesn't answer: {why}"),
            "see its log: `journalctl -u recapd`; if it is stuck, `systemctl restart recapd`",
        ),
        Err(api::NotReady::Says(why)) => {
            Check::fail(name, format!("{address} isn't ready: {why}"), "see its log: `journalctl -u recapd`")
        }
    }
}

/// Checks whether the service manager can be notified.
pub(super) fn notify_socket(environment: &Environment) -> Check {
    let name = "notify";
    let Some(path) = environment.get("NOTIFY_SOCKET") else {
        return Check::skip(name, "no service manager started this process (NOTIFY_SOCKET isn't set)");
    };
    // Abstract sockets have no file.
    if path.starts_with('@') {
        return Check::ok(name, path);
    }
    let reached = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    match reached {
        Ok(()) => Check::ok(name, path),
        Err(error) => {
            let fix = "run it as a unit with Type=notify and NotifyAccess=main, or unset NOTIFY_SOCKET";
            Check::fail(name, format!("{path}: {error}"), fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::super::Verdict;
    use super::*;

    #[test]
    fn the_disk_of_the_database_is_checked() {
        let mut config = Config::default();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("50% off");
        fs::create_dir(&path).unwrap();
        config.database.url = sqlite::url_of(&path.join("recapd.db"));
        let found = disk(&config).detail;
        assert!(found.ends_with("50% off"), "{found}");
        config.database.url = "sqlite:/nowhere/at/all/recapd.db".to_owned();
        assert_eq!(disk(&config).verdict, Verdict::Fail);
        config.database.url = "postgres://recapd@db/recapd".to_owned();
        assert_eq!(disk(&config).verdict, Verdict::Skip);
    }

    #[test]
    fn files_that_others_can_read_give_a_warning() {
        let mut config = Config::default();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recapd.db");
        config.database.url = sqlite::url_of(&file);
        for (mode, verdict) in [(0o600, Verdict::Ok), (0o640, Verdict::Warn), (0o604, Verdict::Warn)] {
            for name in ["recapd.db", "recapd.db-wal"] {
                let file = folder.path().join(name);
                fs::write(&file, "").unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            }
            let found = files(&config);
            assert_eq!(found.verdict, verdict, "{mode:o} {}", found.detail);
            assert_eq!(found.detail.contains("recapd.db-wal"), verdict == Verdict::Warn);
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o2770)).unwrap();
        for name in ["recapd.db", "recapd.db-wal"] {
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o660)).unwrap();
        }
        assert_eq!(files(&config).verdict, Verdict::Ok);
        config.database.url = "postgres://recapd@db/recapd".to_owned();
        assert_eq!(files(&config).verdict, Verdict::Skip);
    }

    #[test]
    fn a_request_has_room_for_the_window() {
        let mut config = Config::default();
        assert_eq!(window(&config).verdict, Verdict::Ok);
        config.window.budget_tokens = 200_000;
        let found = window(&config);
        assert_eq!(found.verdict, Verdict::Warn);
        assert!(found.detail.contains("room for 152000"), "{}", found.detail);
        config.context.max_tokens = 208_000;
        assert_eq!(window(&config).verdict, Verdict::Ok);
    }

    #[test]
    fn calendar_ageing_needs_a_time_zone() {
        let mut config = Config::default();
        assert_eq!(time_zone(&config, Timestamp(0)).verdict, Verdict::Ok);
        config.summary.ageing = Ageing::Calendar;
        assert_eq!(time_zone(&config, Timestamp(0)).verdict, Verdict::Warn);
        config.summary.time_zone = "Europe/Berlin".to_owned();
        let found = time_zone(&config, Timestamp(0));
        assert_eq!((found.verdict, found.detail.contains("1970-01-01 01:00")), (Verdict::Ok, true));
    }

    #[test]
    fn a_notify_socket_must_be_a_socket() {
        let found = |path: &str| notify_socket(&std::iter::once(("NOTIFY_SOCKET", path)).collect()).verdict;
        assert_eq!(notify_socket(&Environment::default()).verdict, Verdict::Skip);
        assert_eq!(found("/nowhere/notify"), Verdict::Fail);
        assert_eq!(found("@systemd"), Verdict::Ok);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _socket = UnixDatagram::bind(&path).unwrap();
        assert_eq!(found(path.to_str().unwrap()), Verdict::Ok);
    }
}
