//! The files for Prometheus and Grafana refer only to metrics and pages that exist. Whether alerts fire when they
//! should is checked by `scripts/check-monitoring`, which needs promtool.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use recapd_telemetry::metrics::catalogue;
use serde_json::Value;

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap()
}

/// The names of metrics and of recording rules in `text`.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter(|word| {
            ["recapd_", "process_", "job:recapd_"].iter().any(|begin| word.starts_with(begin))
                && !word.starts_with("recapd_record")
        })
        .collect()
}

fn known() -> BTreeSet<String> {
    let rules = text("monitoring/alerts.yml");
    let recorded = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: "));
    let mut known: BTreeSet<String> = recorded.map(str::to_owned).collect();
    for metric in catalogue() {
        if metric.kind == "histogram" {
            known.extend(["bucket", "sum", "count"].map(|part| format!("{}_{part}", metric.name)));
        }
        known.insert(metric.name);
    }
    known
}

fn alerts() -> Vec<String> {
    let rules = text("monitoring/alerts.yml");
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let known = known();
    for path in ["monitoring/alerts.yml", "monitoring/dashboard.json"] {
        let text = text(path);
        let names = names(&text);
        assert!(names.len() > 15, "{path}: {names:?}");
        for name in names {
            assert!(known.contains(name), "{path} uses {name}, which there isn't");
        }
    }
}

#[test]
fn runbooks_name_metrics_that_exist() {
    let known = known();
    for page in fs::read_dir(file("docs/runbooks")).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&page).unwrap();
        for name in names(&text) {
            assert!(known.contains(name), "{}: {name}", page.display());
        }
    }
}

/// A bare POST without a content type would be refused (415), and whoever is on call copies what a page says.
#[test]
fn runbooks_use_commands_instead_of_requests() {
    for page in fs::read_dir(file("docs/runbooks")).unwrap() {
        let page = page.unwrap().path();
        for line in fs::read_to_string(&page).unwrap().lines() {
            let is_refused = line.contains("curl") && !line.contains("--json") || line.contains("POST /v1/");
            assert!(!is_refused, "{}: {line}", page.display());
        }
    }
}

#[test]
fn every_alert_has_a_page_that_says_what_to_do() {
    let rules = text("monitoring/alerts.yml");
    let pages: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")).collect();
    assert_eq!(pages.len(), alerts().len());
    for (alert, page) in alerts().iter().zip(&pages) {
        let begin = page.trim_start_matches("docs/runbooks/").trim_end_matches(".md");
        assert!(alert.starts_with(begin), "{alert}: {page}");
        let text = text(page);
        for part in ["# ", "**Impact.**", "## Check", "## Fix"] {
            assert!(text.contains(part), "{page} lacks {part}");
        }
    }
    let all = fs::read_dir(file("docs/runbooks")).unwrap();
    for page in all.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        assert!(pages.iter().any(|named| named.ends_with(&page)), "{page} belongs to no alert");
    }
}

#[test]
fn every_alert_fires_in_some_test() {
    let tests = fs::read_dir(file("monitoring/tests")).unwrap();
    let all: String = tests.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    for alert in alerts() {
        assert!(all.contains(&format!("alertname=\"{alert}\"")), "{alert}");
    }
}

#[test]
fn the_dashboard_has_the_alerts_thresholds() {
    let dashboard: Value = serde_json::from_str(&text("monitoring/dashboard.json")).unwrap();
    let threshold = |title: &str| {
        let panels = dashboard["panels"].as_array().unwrap();
        let panel = panels.iter().find(|panel| panel["title"] == title).unwrap();
        panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"].to_string()
    };
    let rules = text("monitoring/alerts.yml");
    for (title, rule) in [
        ("Failed (24 h)", "[30m]))) > "),
        ("Mean duration (30 min)", "duration_seconds:mean30m > "),
        ("Mean size (1 h)", "document_tokens:mean1h > "),
        ("Queue", "queue_depth:max > "),
        ("Oldest unsummarised", "_timestamp_seconds) > 0) > "),
    ] {
        let rule = format!("{rule}{}", threshold(title));
        assert!(rules.contains(&rule), "{title}: no alert has `{rule}`");
    }
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].to_string()), "{panel}");
    }
}
