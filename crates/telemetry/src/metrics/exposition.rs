//! The text of a scrape, in either of Prometheus's two formats.

use std::collections::BTreeSet;

use prometheus_client::{encoding::text, registry::Registry};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn encode(registry: &Registry, accept: Option<&str>) -> (&'static str, String) {
    let mut openmetrics = String::new();
    text::encode(&mut openmetrics, registry).expect("writing to a string doesn't fail");
    if accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
        (OPENMETRICS, openmetrics)
    } else {
        (PLAIN, plain(&openmetrics))
    }
}

/// Converts to the older format. There a counter's description has the name of its sample, including `_total`, and there are no
/// units and no end mark.
fn plain(openmetrics: &str) -> String {
    let counters: BTreeSet<&str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut plain = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        let mut parts = line.splitn(4, ' ');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(keyword), Some(name), Some(rest)) if counters.contains(name) => {
                plain.extend(["# ", keyword, " ", name, "_total ", rest]);
            }
            _ => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}
