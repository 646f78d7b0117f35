//! `?view=brief`, `?max_tokens=` and `?max_chars=`: returns a part of a summary, for readers without room for the whole.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::problem::Problem;
use crate::http::{
    SharedApp,
    request::extract::{Parameters, invalid},
};
use recapd_core::domain::{
    agent::AgentId,
    neutralize::neutralize_document,
    note::listing,
    number::usize_or_max,
    summary::brief::{BriefOptions, Excerpt},
};
use recapd_engine::snapshot::Lookup;
use recapd_platform::threads;
use recapd_store::{NoteQuery, StoreResult};

pub(crate) const VIEW: &str = "view";
pub(crate) const MAX_TOKENS: &str = "max_tokens";
pub(crate) const MAX_CHARS: &str = "max_chars";
/// The largest limit that can be requested: far more than a document has.
const TOKENS_MAX: i64 = 1_000_000;
const CHARS_MAX: i64 = 10_000_000;

/// A reader waits this long for optional data.
const EXTRA_TIME_MAX: Duration = Duration::from_millis(50);

/// Returns the excerpt that the parameters ask for; `None` for the whole summary.
pub(crate) fn read_options(parameters: &Parameters) -> Result<Option<BriefOptions>, Problem> {
    let is_brief = match parameters.text(VIEW) {
        None | Some("full") => false,
        Some("brief") => true,
        Some(other) => {
            return Err(invalid(VIEW, &format!("can't be `{other}`"), "give brief or full"));
        }
    };
    let chars_max = parameters.integer(MAX_CHARS, 1..=CHARS_MAX)?.map(usize_or_max);
    let tokens_max = parameters.integer(MAX_TOKENS, 1..=TOKENS_MAX)?;
    Ok(BriefOptions::new(is_brief, chars_max, tokens_max))
}

/// Cuts the excerpt in another thread, because that takes a while. A brief also names the running exchange and the
/// notes, unless the database is unavailable.
pub(crate) async fn cut(
    options: BriefOptions,
    app: &SharedApp,
    agent: &AgentId,
    reading: &Lookup,
) -> Result<Excerpt, Problem> {
    let (mut running, mut notes) = (None, String::new());
    if options.is_brief() && reading.stale_since.is_none() {
        running = app.parts.snapshots.running(agent).await;
        let every = NoteQuery::default();
        let found = read_optional(app.parts.store.notes(agent, &every)).await;
        let redactor = app.parts.snapshots.redactor();
        let clean = |title: &str| neutralize_document(&redactor.redact(title));
        // Without the notes, a brief is shorter.
        notes = listing(&found.unwrap_or_default(), clean);
    }
    let (counter, snapshot) = (Arc::clone(app.parts.snapshots.counter()), Arc::clone(&reading.snapshot));
    let agent = agent.clone();
    let cut = move || {
        let (document, counter) = (&snapshot.markdown, counter.as_ref());
        options.with_head(running.as_ref(), &notes, &agent, document, counter)
    };
    Ok(threads::computed("cutting an excerpt", cut).await?)
}

/// Reads optional data. Returns `None` if the database fails or doesn't answer within the timeout.
pub(crate) async fn read_optional<T>(read: impl Future<Output = StoreResult<T>>) -> Option<T> {
    timeout(EXTRA_TIME_MAX, read).await.ok()?.ok()
}
