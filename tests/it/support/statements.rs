//! Records the labels of the store's statements that have run, for `scripts/check-statements`.

use std::{
    collections::HashSet,
    fmt,
    fs::OpenOptions,
    io::Write as _,
    path::PathBuf,
    sync::{Mutex, Once},
    thread,
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{EnvFilter, Layer, layer::Context, prelude::*};

/// The variable that names a folder for one file per database, with a line for each statement that has run there.
const FOLDER: &str = "RECAPD_TEST_STATEMENTS";

/// sqlx's events, and those of the SQLite writer.
const FILTER: &str = "sqlx::query=debug,recapd_store::sql::direct=trace";

/// Prefixes of labels: the folder of the statement's source.
const LABELS: [&str; 3] = ["sql/", "sqlite/", "postgres/"];

/// Starts recording the statements of this process, if [`FOLDER`] is set.
pub(crate) fn note_statements() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[expect(clippy::disallowed_methods, reason = "a test's setting")]
        if let Some(folder) = std::env::var_os(FOLDER) {
            let labels = Labels { folder: folder.into(), noted: Mutex::default() };
            let filter = EnvFilter::new(FILTER);
            tracing_subscriber::registry().with(labels.with_filter(filter)).init();
        }
    });
}

/// Appends each label once to its database's file, which other processes write as well.
struct Labels {
    folder: PathBuf,
    noted: Mutex<HashSet<(&'static str, String)>>,
}

impl<S: Subscriber> Layer<S> for Labels {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut statement = Statement::default();
        event.record(&mut statement);
        // sqlx calls SQLite on threads with that name.
        let is_sqlite = event.metadata().target() != "sqlx::query"
            || thread::current().name().is_some_and(|name| name.starts_with("sqlx-sqlite"));
        let database = if is_sqlite { "sqlite" } else { "postgres" };
        let mut noted = self.noted.lock().unwrap();
        for label in labels(&statement.0) {
            if noted.insert((database, label.to_owned())) {
                let file = OpenOptions::new().create(true).append(true).open(self.folder.join(database));
                file.unwrap().write_all(format!("{label}\n").as_bytes()).unwrap();
            }
        }
    }
}

/// The text of a statement: sqlx has a short one in `summary`, and the longer one in `db.statement` if that isn't all.
#[derive(Default)]
struct Statement(String);

impl Visit for Statement {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_str(&mut self, _: &Field, value: &str) {
        self.0.push_str(value);
        self.0.push('\n');
    }
}

fn labels(text: &str) -> impl Iterator<Item = &str> {
    text.split("-- ").skip(1).filter(|rest| LABELS.iter().any(|prefix| rest.starts_with(prefix))).map(
        |rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !['.', '_', '/'].contains(&c));
            rest.split_at(end.unwrap_or(rest.len())).0
        },
    )
}
