//! Packaged and mounted files exist. `scripts/package` tests the package itself, in a clean Debian.

use std::{fs, path::Path};

use recapd_platform::threads;
use serde_json::Value;

/// Spare tasks for processes of a reload, and for what isn't counted.
const TASKS_SPARE: usize = 16;

fn text(path: &str) -> String {
    fs::read_to_string(at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn at(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The values after `key` in lines that begin with it, without quotes.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines()
        .filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key))
        .map(|value| value.trim().trim_matches('"'))
        .collect()
}

/// Host and container paths of the repository's mounts in `compose.yaml`.
fn mounts(compose: &str) -> Vec<(String, &str)> {
    let pairs = compose.lines().filter_map(|line| {
        let (host, rest) = line.trim().strip_prefix("- ")?.split_once(':')?;
        let container = rest.split(':').next()?;
        host.starts_with('.').then(|| (format!("packaging/{host}"), container))
    });
    pairs.collect()
}

#[test]
fn plugins_have_the_version_of_the_program_and_call_it() {
    for file in [".claude-plugin", ".codex-plugin"] {
        let plugin: Value =
            serde_json::from_str(&text(&format!("plugins/recapd/{file}/plugin.json"))).unwrap();
        assert_eq!(plugin["version"], env!("CARGO_PKG_VERSION"), "{file}");
    }
    let hooks: Value = serde_json::from_str(&text("plugins/recapd/hooks/hooks.json")).unwrap();
    let events = hooks["hooks"].as_object().unwrap();
    assert_eq!(events.len(), 6, "{events:?}");
    for (event, entries) in events {
        let command = format!("recapd hook {event} --host claude-code");
        assert_eq!(entries[0]["hooks"][0]["command"], command, "{event}");
    }
}

#[test]
fn the_composed_containers_find_what_they_mount() {
    let compose = text("packaging/compose.yaml");
    let mounts = mounts(&compose);
    assert_eq!(mounts.len(), 5, "{mounts:?}");
    for (host, _) in &mounts {
        // The token is made by the user, as the file's head says.
        assert!(at(host).exists() || host.ends_with("/token"), "{host}");
    }
    let mounted = |container: &str| {
        let found = mounts.iter().find(|(_, at)| container.starts_with(*at));
        found.map(|(host, at)| container.replacen(at, host, 1))
    };
    let prometheus = text("packaging/prometheus.yml");
    assert!(prometheus.contains("rule_files: [/etc/prometheus/recapd/*.yml]"));
    assert!(at(&mounted("/etc/prometheus/recapd/alerts.yml").unwrap()).exists());
    assert!(
        mounted("/etc/prometheus/recapd-token").is_some()
            && prometheus.contains("/etc/prometheus/recapd-token")
    );
    let provisioned = text("packaging/grafana/provisioning/dashboards/recapd.yml");
    assert!(provisioned.contains("{ path: /var/lib/grafana/dashboards }"));
    assert!(at(&mounted("/var/lib/grafana/dashboards/dashboard.json").unwrap()).exists());
    let source = text("packaging/grafana/provisioning/datasources/prometheus.yml");
    assert!(source.contains("http://prometheus:9090") && compose.contains("\n  prometheus:\n"));
}

#[test]
fn the_containers_use_the_same_port_and_files() {
    let (file, compose) = (text("Containerfile"), text("packaging/compose.yaml"));
    assert!(compose.contains("build: { context: .., dockerfile: Containerfile }"));
    assert!(file.contains("EXPOSE 7411") && file.contains("\"--listen\", \"0.0.0.0:7411\""));
    assert!(
        compose.contains("127.0.0.1:7411:7411") && text("packaging/prometheus.yml").contains("recapd:7411")
    );
    assert!(file.contains("/src/packaged.toml /etc/recapd/config.toml"));
    let built = format!("rust:{}-", env!("CARGO_PKG_RUST_VERSION"));
    assert!(file.contains(&built), "the image builds with another Rust than {built}");
}

#[test]
fn the_package_contains_what_it_names() {
    let manifest = text("Cargo.toml");
    let assets = manifest.lines().filter_map(|line| line.trim().strip_prefix("[\""));
    let sources: Vec<&str> = assets.filter_map(|line| line.split('"').next()).collect();
    assert!(sources.len() >= 4, "{sources:?}");
    for source in sources.into_iter().filter(|source| !source.starts_with("target/")) {
        assert!(at(source).exists(), "{source}");
    }
    for script in ["postinst", "postrm"] {
        assert!(text(&format!("packaging/deb/{script}")).contains("#DEBHELPER#"), "{script}");
    }
}

/// Without this setting each user's commands would look in that user's folder. Other settings would override a preset.
#[test]
fn packaged_files_set_the_services_database_only() {
    let nobodys = "#url = \"\"";
    let begun = recapd_config::starting();
    assert!(begun.lines().any(|line| line == nobodys));
    assert!(begun.lines().all(|line| line.is_empty() || line.starts_with(['#', '['])));
    let command = format!("init - | sed 's|^{nobodys}$|url = \"sqlite:/var/lib/recapd/recapd.db\"|'");
    for file in ["scripts/package", "Containerfile", "docs/operations.md"] {
        assert!(text(file).contains(&command), "{file}");
    }
    let asset = "[\"target/package/config.toml\", \"etc/recapd/config.toml\", \"644\"]";
    assert!(text("Cargo.toml").contains(asset));
}

/// A reload's command has no credentials of the service: systemd keeps them in the daemon's own namespace.
#[test]
fn a_reload_checks_without_keys() {
    for unit in ["systemd/recapd.service", "systemd/recapd@.service"] {
        let text = text(unit);
        let commands = values(&text, "ExecReload=");
        assert_eq!(commands.len(), 2, "{unit}: {commands:?}");
        assert!(commands[0].contains(" config check --without-keys "), "{unit}: {commands:?}");
    }
}

#[test]
fn the_services_task_limit_covers_all_threads() {
    let most = threads::ALL_MAX;
    for unit in ["systemd/recapd.service", "systemd/recapd@.service"] {
        let text = text(unit);
        let tasks: Vec<usize> =
            values(&text, "TasksMax=").iter().map(|tasks| tasks.parse().unwrap()).collect();
        assert!(
            matches!(tasks[..], [tasks] if tasks >= most + TASKS_SPARE),
            "{unit}: {tasks:?} for {most} threads"
        );
    }
    let page = text("docs/operations.md");
    assert!(page.contains(&format!("{most} at most")), "{most}");
}

#[test]
fn units_refer_to_existing_pages() {
    for unit in [
        "systemd/recapd.service",
        "systemd/recapd@.service",
        "systemd/recapd-proxy.service",
        "systemd/recapd-proxy.socket",
    ] {
        let text = text(unit);
        let pages = values(&text, "Documentation=");
        let pages = pages.iter().flat_map(|line| line.split_whitespace());
        let pages: Vec<&str> =
            pages.filter_map(|page| page.strip_prefix("file:/usr/share/doc/recapd/")).collect();
        assert!(!pages.is_empty(), "{unit}");
        for page in pages {
            assert!(at(page).exists(), "{unit}: {page}");
        }
    }
}
