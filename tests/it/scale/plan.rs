//! Plans of executed statements, as PostgreSQL's `auto_explain` reports them to the client.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The statement's label in the source.
    pub(super) label: String,
    /// All pages that it touched, of tables and indexes.
    pages: i64,
    took_ms: f64,
    pub(super) scans: Vec<Scan>,
}

/// A table or index that is read.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// The index's name, otherwise the table's.
    pub(super) name: String,
    pub(super) is_sequential: bool,
    /// Over all loops, without those of its subqueries.
    pub(super) pages: i64,
    /// Over all loops, without rows that a filter removed.
    pub(super) rows: i64,
    pub(super) loops: i64,
}

/// Collects plans from the connections' notices.
#[derive(Clone, Default)]
pub(super) struct Plans(Arc<Mutex<Vec<Plan>>>);

impl Plans {
    /// Returns a subscriber that hears the notices.
    pub(super) fn subscriber(&self) -> impl Subscriber + Send + Sync + 'static {
        Notices(self.clone())
    }

    /// Returns the collected plans, in order.
    pub(super) fn take(&self) -> Vec<Plan> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Notices(Plans);

impl Subscriber for Notices {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::postgres::notice" && *metadata.level() == Level::TRACE
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        let plan = message.0.split_once("plan:").and_then(|(_, json)| Plan::parse(json));
        self.0.0.lock().unwrap().extend(plan);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.0);
        }
    }
}

impl Plan {
    /// Parses the plan of one of the store's statements, which have labels.
    fn parse(json: &str) -> Option<Self> {
        let told: Value = serde_json::from_str(json.trim()).ok()?;
        let (_, text) = told["Query Text"].as_str()?.split_once("-- ")?;
        let root = &told["Plan"];
        let mut scans = Vec::new();
        collect(root, &mut scans);
        Some(Self {
            label: text.split_whitespace().next()?.to_owned(),
            pages: pages(root),
            took_ms: root["Actual Total Time"].as_f64()?,
            scans,
        })
    }
}

fn collect(node: &Value, scans: &mut Vec<Scan>) {
    scans.extend(Scan::of(node));
    children(node).for_each(|child| collect(child, scans));
}

fn children(node: &Value) -> impl Iterator<Item = &Value> {
    node["Plans"].as_array().into_iter().flatten()
}

impl Scan {
    /// `None` if a node reads neither a table nor an index.
    fn of(node: &Value) -> Option<Self> {
        let (kind, loops) = (node["Node Type"].as_str()?, node["Actual Loops"].as_i64()?);
        let name = node["Index Name"].as_str().or(node["Relation Name"].as_str())?;
        let is_scan = kind.ends_with("Scan") && kind != "Bitmap Heap Scan";
        is_scan.then(|| Self {
            name: name.to_owned(),
            is_sequential: kind == "Seq Scan",
            pages: pages(node) - children(node).map(pages).sum::<i64>(),
            rows: node["Actual Rows"].as_i64().unwrap_or(0) * loops,
            loops,
        })
    }
}

/// Includes the nodes below.
fn pages(node: &Value) -> i64 {
    let read = ["Shared Hit Blocks", "Shared Read Blocks"].map(|name| node[name].as_i64().unwrap_or(0));
    read.iter().sum()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} pages, {:.2} ms", self.label, self.pages, self.took_ms)?;
        for scan in &self.scans {
            let how = if scan.is_sequential { "all of " } else { "" };
            let Scan { name, pages, rows, loops, .. } = scan;
            write!(f, "; {how}{name}: {pages} pages for {rows} rows in {loops} loops")?;
        }
        Ok(())
    }
}
