//! Which statements run, by the labels that they begin with.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{Mutex, Once, PoisonError},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::Targets,
    layer::{Context, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

/// Set to a filter (`sqlx::query=debug`), it logs the statements that run.
pub(crate) const STATEMENT_LOG: &str = "RECAPD_TEST_STATEMENT_LOG";

static RAN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// From now on, remembers the statements that run in this process, or writes them to standard error, if
/// [`STATEMENT_LOG`] says so.
pub(crate) fn watch_statements() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(filter) = EnvFilter::try_from_env(STATEMENT_LOG) {
            tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_ansi(false)
                .with_writer(std::io::stderr)
                .init();
        } else {
            let statements = Targets::new().with_target("sqlx::query", Level::DEBUG);
            tracing_subscriber::registry()
                .with(Memory.with_filter(statements))
                .init();
        }
    });
}

/// The labels of the statements that ran in this process.
pub(crate) fn statements_that_ran() -> BTreeSet<String> {
    RAN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The labels of statements in a text.
pub(crate) fn labels(text: &str) -> Vec<String> {
    let label = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !['.', '_', '/'].contains(&c));
        rest.split_at(end.unwrap_or(rest.len())).0.to_owned()
    };
    text.split("-- ")
        .skip(1)
        .map(label)
        .filter(|label| {
            ["sql/", "sqlite/", "postgres/"]
                .iter()
                .any(|prefix| label.starts_with(prefix))
        })
        .collect()
}

/// Remembers labels.
struct Memory;

impl<S: Subscriber> Layer<S> for Memory {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        event.record(&mut Remember);
    }
}

struct Remember;

impl Visit for Remember {
    fn record_str(&mut self, _field: &Field, value: &str) {
        let labels = labels(value);
        if !labels.is_empty() {
            RAN.lock().unwrap_or_else(PoisonError::into_inner).extend(labels);
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}
