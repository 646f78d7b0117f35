//! Lists all metrics. The list is read from a scrape of the registry, so that it always agrees with `/metrics`.

use serde::Serialize;

use super::{Metrics, labels::Method};
use recapd_core::domain::time::Timestamp;

/// Labels whose values aren't a closed set: names from the configuration, routes, codes, versions.
const OPEN: [&str; 7] = ["provider", "model", "route", "code", "version", "revision", "rustc"];
/// The name of the model and of the route in this list.
const ANY: &str = "any";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MetricDescription {
    /// The metric's name in rules: with `_total` for a counter. A histogram's samples add `_bucket`, `_sum`, `_count`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    pub help: String,
    /// The metric's labels, in the order of a scrape.
    pub labels: Vec<Label>,
    /// A histogram's upper bounds, except the infinite one.
    pub buckets: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    pub name: String,
    /// The label's possible values; empty if they aren't a closed set.
    pub values: Vec<String>,
}

pub fn catalogue() -> Vec<MetricDescription> {
    read(&example())
}

/// Returns a scrape of a new daemon in the text format. Its model and its route are named `any`.
pub fn example() -> String {
    let metrics = Metrics::new(Timestamp(0), &[(ANY, ANY)]);
    metrics.service.route(ANY, Method::Get);
    metrics.provider.cost(ANY, ANY, 0);
    metrics.encode(None).1
}

/// Parses a scrape in the text format, where each metric's description precedes its samples.
fn read(scrape: &str) -> Vec<MetricDescription> {
    let mut all: Vec<MetricDescription> = Vec::new();
    for line in scrape.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            all.push(MetricDescription {
                name: name.to_owned(),
                kind: String::new(),
                help: help.trim_end_matches('.').to_owned(),
                labels: Vec::new(),
                buckets: Vec::new(),
            });
        } else if let Some(last) = all.last_mut() {
            match line.strip_prefix("# TYPE ") {
                Some(kind) => kind.rsplit(' ').next().unwrap_or_default().clone_into(&mut last.kind),
                None => last.sample(line),
            }
        }
    }
    all
}

impl MetricDescription {
    /// Adds the labels of a sample. Their values contain neither commas nor quotes here.
    fn sample(&mut self, line: &str) {
        let Some((_, labels)) = line.split_once('{') else {
            return;
        };
        let labels = labels.split_once('}').map_or(labels, |(labels, _)| labels);
        for (name, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
            self.label(name, value.trim_matches('"'));
        }
    }

    fn label(&mut self, name: &str, value: &str) {
        if name == "le" {
            if value != "+Inf" && !self.buckets.iter().any(|bound| bound == value) {
                self.buckets.push(value.to_owned());
            }
            return;
        }
        let index = self.labels.iter().position(|label| label.name == name);
        let index = index.unwrap_or_else(|| {
            self.labels.push(Label { name: name.to_owned(), values: Vec::new() });
            self.labels.len() - 1
        });
        let values = &mut self.labels[index].values;
        if !OPEN.contains(&name) && !values.iter().any(|existing| existing == value) {
            values.push(value.to_owned());
            values.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_read_with_labels_and_bounds() {
        let scrape = "# HELP a_total Things.\n# TYPE a_total counter\na_total{way=\"b\",model=\"x\"} 1\na_total{way=\"a\",model=\"x\"} 1\n\
                      # HELP s How long.\n# TYPE s histogram\ns_sum 0\ns_count 0\ns_bucket{le=\"0.5\"} 0\ns_bucket{le=\"+Inf\"} 0\n";
        let all = read(scrape);
        let label = |name: &str, values: &[&str]| Label {
            name: name.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        assert_eq!((all[0].name.as_str(), all[0].kind.as_str()), ("a_total", "counter"));
        assert_eq!(all[0].help, "Things");
        assert_eq!(all[0].labels, [label("way", &["a", "b"]), label("model", &[])]);
        assert_eq!((all[1].kind.as_str(), all[1].buckets.as_slice()), ("histogram", &["0.5".to_owned()][..]));
        assert!(all[1].labels.is_empty());
    }

    #[test]
    fn labels_are_bounded_and_name_no_agent() {
        for metric in catalogue() {
            let values: usize = metric.labels.iter().map(|label| label.values.len().max(1)).product();
            assert!(values <= 100, "{} has {values} series", metric.name);
            for label in &metric.labels {
                assert!(!label.name.contains("agent"), "{}", metric.name);
                // Reasons and rules are closed sets of recapd's own, and longer than others.
                let is_long = ["reason", "class", "rule"].contains(&label.name.as_str());
                assert!(is_long || label.values.len() <= 10, "{} {}", metric.name, label.name);
            }
        }
    }

    #[test]
    fn every_series_of_a_daemon_is_in_the_list() {
        let names: Vec<String> = catalogue().into_iter().map(|metric| metric.name).collect();
        let scrape = Metrics::new(Timestamp(0), &[]).encode(None).1;
        for name in scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        assert!(names.iter().any(|name| name == "recapd_provider_cost_usd_total"));
    }
}
