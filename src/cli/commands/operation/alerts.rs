//! `recapd alerts`: prints the Prometheus rules that recapd ships.

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;

use crate::cli::{GlobalOptions, exit::CommandFailure, terminal::answer};

/// The rules, with links to pages in this repository.
const SHIPPED: &str = include_str!("../../../../monitoring/alerts.yml");
/// The beginning of a rule's link.
const PAGE: &str = "runbook_url: docs/runbooks/";

#[derive(Debug, Args)]
#[command(after_help = "\
Prometheus must scrape /metrics with the job name `recapd`. Examples:
  recapd alerts > /etc/prometheus/recapd.yml
  recapd alerts --runbooks https://docs.example.com/runbooks > recapd.yml    links that a pager can open
  recapd alerts --json                                                       rule by rule, for programs")]
pub(crate) struct Alerts {
    /// URL of the folder docs/runbooks; its pages say what an alert means and what to do
    #[arg(long, value_name = "URL", value_parser = base_url)]
    runbooks: Option<String>,
}

/// Checks that YAML reads an address as a plain string. Returns the address without the slash at its end.
fn base_url(text: &str) -> Result<String, String> {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/')
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain
        .then(|| text.trim_end_matches('/').to_owned())
        .ok_or_else(|| "expected an address such as https://docs.example.com/runbooks".to_owned())
}

impl Alerts {
    pub(crate) fn run(self, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let text = match self.runbooks {
            Some(base_url) => SHIPPED.replace(PAGE, &format!("runbook_url: {base_url}/")),
            None => SHIPPED.to_owned(),
        };
        answer::print(options, &rules(&text), &text)
    }
}

/// Parses the shipped rules one by one. Relies on their form: each value is on one line.
fn rules(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut rules: Vec<BTreeMap<&str, &str>> = Vec::new();
    let mut group = "";
    let lines = text.lines().map(str::trim_start);
    for line in lines.filter(|line| !line.starts_with('#')) {
        let Some((key, value)) = line.split_once(": ") else {
            continue;
        };
        match key.strip_prefix("- ") {
            Some("name") => group = value,
            Some(key) => rules.push(BTreeMap::from([("group", group), (key, value)])),
            None => {
                if let Some(rule) = rules.last_mut() {
                    rule.extend(pairs(key, value));
                }
            }
        }
    }
    rules
}

/// Returns the pairs of key and value in a line. Labels and annotations have several.
fn pairs<'t>(key: &'t str, value: &'t str) -> Vec<(&'t str, &'t str)> {
    let inner = |opening: char, closing: char| value.strip_prefix(opening)?.strip_suffix(closing);
    match (inner('{', '}'), inner('"', '"')) {
        (Some(labels), _) => labels.split(", ").filter_map(|label| label.split_once(": ")).collect(),
        (None, quoted) => vec![(key, quoted.unwrap_or(value))],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_is_parsed_in_full() {
        let rules = rules(SHIPPED);
        let marked = |mark: &str| SHIPPED.matches(mark).count();
        let (recorded, alerts): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| rule.contains_key("record"));
        assert_eq!(recorded.len(), marked("- record: "));
        assert_eq!(alerts.len(), marked("- alert: "));
        assert_eq!(alerts.len(), marked(PAGE));
        for rule in recorded {
            assert_eq!(rule.len(), 3, "{rule:?}");
        }
        let names = "alert description expr for group runbook_url service severity summary";
        for rule in alerts {
            // Some rules have no `for`.
            let all: BTreeSet<&str> = rule.keys().copied().chain(["for"]).collect();
            assert_eq!(all, names.split(' ').collect::<BTreeSet<_>>(), "{rule:?}");
        }
    }
}
