//! Serves readers: keeps one immutable snapshot per agent, which is replaced as a whole and read without a lock.
//!
//! A reader never waits for a writer, the worker or a model. It gets the last good version with its age. If the database is
//! unavailable or slow, or the rendering of a document panics, the reader gets the last copy, marked stale. A panic affects only
//! that document.

mod cache;
mod change_watch;
mod derived;
pub mod project;
mod read_timeout;
mod reply;
mod running;
mod single_flight;
mod ttl;

use std::{borrow::Cow, sync::Arc, time::Duration};

use cache::{CachedSnapshot, SnapshotCache};
use change_watch::ChangeWatch;
use read_timeout::{FIRST_TIMEOUT, ReadTimeout};
use sha2::{Digest as _, Sha256};
use single_flight::SingleFlight;
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};
use ttl::{CachedRead, TimedCopy};

use recapd_core::{
    domain::{
        agent::AgentId,
        legs::RunningExchange,
        number::{count, i64_or_max},
        redaction::Redactor,
        summary::{
            item::ExchangeRange,
            line::ranges,
            pending::{PendingLine, with_pending},
            render::archived,
            section::Ageing,
        },
        time::Timestamp,
        tokens::TokenCounter,
        zone::Zone,
    },
    tokenizer::caching,
};
use recapd_platform::{
    clock::Clock,
    notice::{Change, PeerLink},
    threads,
};
use recapd_store::{Store, StoreResult, SummaryRow};

pub use derived::DerivedValue;
pub use reply::SummaryReply;
pub use running::running;

/// Limits the bytes of all snapshots by default. A full document has some 40,000.
const BYTES_MAX: usize = 128 << 20;
/// How many bytes of a document's hash its `ETag` has.
const TAG_BYTES: usize = 12;
/// Limits the time to read a changed snapshot again before a reader asks for it.
const REFRESH_TIME_MAX: Duration = Duration::from_secs(2);
/// The computation's name in errors.
const RENDERING: &str = "rendering a document";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The document as Markdown, with pending exchanges.
    pub markdown: String,
    /// Its tokens, by the exact counter.
    pub tokens: i64,
    /// The document's version; 0 if there is none yet.
    pub version: i64,
    /// Changes whenever `markdown` does.
    pub etag: String,
    /// When the version was written; if there is none yet, the time of the row.
    pub updated_at: Timestamp,
    /// The last exchange that the document covers.
    pub covers_through: i64,
    pub first_exchange: i64,
    pub pending_exchanges: i64,
    pub pending_since: Option<Timestamp>,
    /// The time zone of the times in `markdown`.
    pub zone: Zone,
    /// A value that users of the snapshot derived from it.
    pub derived: DerivedValue,
}

impl Snapshot {
    /// Returns when the version was written; `None` if there is none yet.
    pub fn written_at(&self) -> Option<Timestamp> {
        (self.version > 0).then_some(self.updated_at)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup<S = Snapshot> {
    pub snapshot: Arc<S>,
    /// Set if the copy is stale, because the database is unavailable or slow, or contact with other daemons is lost: the time
    /// until which the copy is known to be current.
    pub stale_since: Option<Timestamp>,
}

impl<S> Lookup<S> {
    fn fresh(snapshot: Arc<S>) -> Self {
        Self { snapshot, stale_since: None }
    }

    /// Returns what was `read`. If the read failed, returns the copy, if there is one, marked stale as of its time.
    fn or_copy(
        read: StoreResult<Option<Self>>,
        copy: Option<(Arc<S>, Timestamp)>,
    ) -> StoreResult<Option<Self>> {
        match (read, copy) {
            (Err(_), Some((snapshot, read_at))) => Ok(Some(Self { snapshot, stale_since: Some(read_at) })),
            (read, _) => read,
        }
    }
}

/// The snapshots of all agents that a reader asked for. Clones share them.
#[derive(Clone)]
pub struct Snapshots {
    store: Arc<dyn Store>,
    counter: Arc<dyn TokenCounter>,
    clock: Arc<dyn Clock>,
    tokens_max: i64,
    redactor: Redactor,
    ageing: Ageing,
    cache: Arc<SnapshotCache>,
    loads: SingleFlight<AgentId, Arc<Snapshot>>,
    waiting: Arc<ChangeWatch>,
    contact: PeerLink,
    first_timeout: Duration,
}

impl Snapshots {
    /// Makes snapshots of at most `tokens_max` tokens, counted by `counter`.
    pub fn new(
        store: Arc<dyn Store>,
        counter: Arc<dyn TokenCounter>,
        clock: Arc<dyn Clock>,
        tokens_max: i64,
    ) -> Self {
        Self {
            store,
            counter,
            clock,
            tokens_max,
            redactor: Redactor::standard(),
            ageing: Ageing::default(),
            cache: Arc::new(SnapshotCache::with_bytes_max(BYTES_MAX)),
            loads: SingleFlight::default(),
            waiting: Arc::default(),
            contact: PeerLink::default(),
            first_timeout: FIRST_TIMEOUT,
        }
    }

    /// Redacts secrets in pending exchanges with `redactor`.
    #[must_use]
    pub fn redacting(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    /// Limits memory to about `bytes_max` bytes. The least recently used snapshots are dropped.
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { cache: Arc::new(SnapshotCache::with_bytes_max(bytes_max)), ..self }
    }

    /// Lets a reader without a copy wait this long, because nobody waits for the reader.
    #[must_use]
    pub fn with_first_timeout(self, first_timeout: Duration) -> Self {
        Self { first_timeout, ..self }
    }

    /// Records that the value kept with `snapshot` needs `bytes` more bytes.
    pub fn grew(&self, snapshot: &Snapshot, bytes: usize) {
        self.cache.note_growth(snapshot, bytes);
    }

    /// The number of snapshots in memory.
    pub fn cached_count(&self) -> usize {
        self.cache.len()
    }

    /// Treats copies as stale while `contact` is lost with other daemons, which may change documents, too.
    #[must_use]
    pub fn in_contact(self, contact: PeerLink) -> Self {
        Self { contact, ..self }
    }

    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub fn counter(&self) -> &Arc<dyn TokenCounter> {
        &self.counter
    }

    #[must_use]
    pub fn ageing(self, ageing: Ageing) -> Self {
        Self { ageing, ..self }
    }

    /// Returns the summary of `agent`; `None` if there is no such agent. If there is a copy, a reader waits at most a fraction of
    /// a second for an unresponsive or slow database.
    ///
    /// # Errors
    /// When the database fails or doesn't answer within two seconds (see [`Self::with_first_timeout`]), or rendering panics, and
    /// there is no copy.
    pub async fn get(&self, agent: &AgentId) -> StoreResult<Option<Lookup>> {
        let has_copy = match self.cached_of(agent) {
            Some(CachedRead::Hit(lookup)) => return Ok(Some(lookup)),
            due_or_outdated => due_or_outdated.is_some(),
        };
        let load = || {
            let (snapshots, agent) = (self.clone(), agent.clone());
            async move { snapshots.load(&agent, true).await }
        };
        let read = self.loads.read(agent, load, || self.cached_of(agent));
        let read = ReadTimeout::of(has_copy, self.first_timeout).wait(read).await;
        Lookup::or_copy(read, self.cache.use_copy(agent, |entry| entry.copy.snapshot_and_time()))
    }

    fn cached_of(&self, agent: &AgentId) -> Option<CachedRead<Snapshot>> {
        let lost_since = self.contact.lost_since();
        self.cache.use_copy(agent, |entry| entry.copy.cached(lost_since))
    }

    /// Reads the exchange that `agent` works on from the database. Returns `None` also if the read fails or takes too long,
    /// because a brief can do without the exchange.
    pub async fn running(&self, agent: &AgentId) -> Option<RunningExchange> {
        let read = running(self.store.as_ref(), agent, self.ageing, &self.redactor);
        let exchange = ReadTimeout::Short
            .wait(read)
            .await
            .inspect_err(|error| debug!(agent_id = %agent, %error, "snapshot.running_unknown"));
        exchange.ok().flatten()
    }

    /// Returns the summary of `agent` if it is in memory and needs no check.
    pub fn cached(&self, agent: &AgentId) -> Option<Lookup> {
        let lost_since = self.contact.lost_since();
        self.cache.use_copy(agent, |entry| entry.copy.at_once(lost_since))?
    }

    /// Works like [`Self::get`], but if the reader already has that version (`is_known` checks its `ETag`), waits for a change
    /// until `deadline` or `stop`. May return without a change.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_changed(
        &self,
        agent: &AgentId,
        is_known: impl Fn(&str) -> bool + Send,
        deadline: Instant,
        stop: &CancellationToken,
    ) -> StoreResult<Option<Lookup>> {
        loop {
            let change = self.waiting.change(agent);
            tokio::pin!(change);
            change.as_mut().enable();
            let lookup = self.get(agent).await?;
            match &lookup {
                Some(lookup) if is_known(&lookup.snapshot.etag) => {}
                _ => return Ok(lookup),
            }
            tokio::select! {
                () = change => {}
                () = tokio::time::sleep_until(deadline) => return Ok(lookup),
                () = stop.cancelled() => return Ok(lookup),
            }
        }
    }

    /// Reads the summary of `agent` for a context ([`Store::summary_of_step`]) from the database; `None` if there is no such agent.
    ///
    /// # Errors
    /// When the database fails, because then there is no context either, or when rendering panics.
    pub async fn of_step(&self, agent: &AgentId) -> StoreResult<Option<Snapshot>> {
        let row = self.store.summary_of_step(agent).await?;
        row.map(|row| self.render_row(agent, row)).transpose()
    }

    /// Reads the summary of `agent` from the database, for callers that receive no notices of changes. `None` if there is no such
    /// agent.
    ///
    /// # Errors
    /// When the database fails, or rendering panics.
    pub async fn from_database(&self, agent: &AgentId) -> StoreResult<Option<Snapshot>> {
        let row = self.store.summary(agent).await?;
        row.map(|row| self.render_row(agent, row)).transpose()
    }

    fn render_row(&self, agent: &AgentId, row: SummaryRow) -> StoreResult<Snapshot> {
        let rendering = || {
            let row = row.rendered_by(self.ageing);
            render(&row, self.tokens_max, &caching(self.counter.as_ref()), &self.redactor)
        };
        let rendered = threads::computed_here(RENDERING, rendering);
        Ok(rendered.inspect_err(|error| error!(agent_id = %agent, %error, "snapshot.panicked"))?)
    }

    async fn load(&self, agent: &AgentId, is_asked: bool) -> StoreResult<Option<Arc<Snapshot>>> {
        let read_at = self.clock.now();
        let changes = self.cache.changes();
        let Some(row) = self.store.summary(agent).await? else {
            // The agent was deleted.
            self.cache.forget(agent);
            return Ok(None);
        };
        let snapshot = Arc::new(self.render_row(agent, row)?);
        // A notice of a change during the read found no copy to mark, or marked one that this copy replaces. So this copy is
        // outdated from the start.
        let outdated = self.cache.has_changed(changes);
        let entry = CachedSnapshot::new(TimedCopy::new(Arc::clone(&snapshot), read_at, outdated));
        self.cache.hold(agent, entry, changes, is_asked);
        Ok(Some(snapshot))
    }

    /// Keeps the snapshots fresh until `stop`: reads a changed one again at once, so that the next reader needn't wait.
    pub async fn follow(&self, mut changes: Receiver<Change>, stop: CancellationToken) {
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = stop.cancelled() => return,
            };
            self.cache.count_change();
            match change {
                Ok(Change::Agent(agent)) => {
                    self.refresh(&agent).await;
                    self.waiting.wake(&agent);
                }
                // Any agent may have changed: each is read again when a reader asks for it.
                Ok(Change::All) | Err(RecvError::Lagged(_)) => {
                    self.cache.outdate_all();
                    self.waiting.wake_all();
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    async fn refresh(&self, agent: &AgentId) {
        if !self.cache.has(agent) {
            return;
        }
        // The time is limited, because no other change is handled meanwhile.
        let refreshed = timeout(REFRESH_TIME_MAX, self.load(agent, false)).await;
        if !matches!(refreshed, Ok(Ok(_))) {
            self.cache.outdate(agent);
        }
    }
}

/// Renders the summary of `row` with times in its zone.
pub fn render(
    row: &SummaryRow,
    tokens_max: i64,
    counter: &dyn TokenCounter,
    redactor: &Redactor,
) -> Snapshot {
    let lines = pending_lines(row, redactor);
    let (markdown, tokens) = with_pending(&document(row), &lines, tokens_max, counter);
    let listed = i64_or_max(row.pending.len());
    Snapshot {
        // The text can change while the version's figures stay the same, by another token counter, zone or redaction rule. So the
        // `ETag` also contains a hash of the text.
        etag: format!(
            "\"{}.{}.{:x}.{}\"",
            row.version,
            row.first_exchange,
            row.updated_at.0,
            fingerprint(&markdown)
        ),
        markdown,
        tokens,
        version: row.version,
        updated_at: row.updated_at,
        covers_through: row.summarized_through,
        first_exchange: row.first_exchange,
        pending_exchanges: row.pending_before.exchanges + listed,
        pending_since: row.pending_since,
        zone: row.zone.unwrap_or_default(),
        derived: DerivedValue::default(),
    }
}

/// Returns the stored document. If it is empty although it covers exchanges, returns a line that says so.
fn document(row: &SummaryRow) -> Cow<'_, str> {
    if row.content.is_empty() && row.summarized_through > 0 {
        archived(row.summarized_through).into()
    } else {
        row.content.as_str().into()
    }
}

/// Returns the beginning of the document's hash, in hexadecimal digits.
fn fingerprint(markdown: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(markdown.as_bytes()).into();
    let number = hash.iter().take(TAG_BYTES).fold(0, |number, &byte| number << 8 | u128::from(byte));
    format!("{number:x}")
}

/// Returns one line for each of the newest pending exchanges, after one line for all earlier ones, which are too many to list.
fn pending_lines(row: &SummaryRow, redactor: &Redactor) -> Vec<PendingLine> {
    let zone = row.zone.unwrap_or_default();
    let listed = row.pending.iter().map(|exchange| PendingLine {
        exchange: exchange.exchange,
        at: zone.wall(exchange.opened_at),
        tokens: exchange.tokens,
        // Redacted again by today's rules, because the stored headline was redacted by earlier rules.
        digest: redactor.redact(&exchange.digest()).into_owned(),
    });
    let earlier = row.pending.first().filter(|_| row.pending_before.exchanges > 0).map(|first| PendingLine {
        exchange: row.summarized_through + 1,
        at: zone.wall(first.opened_at),
        tokens: row.pending_before.tokens,
        digest: format!(
            "{}: {} wait to be summarised",
            ranges(&[ExchangeRange { first: row.summarized_through + 1, last: first.exchange - 1 }]),
            count(row.pending_before.exchanges, "exchange"),
        ),
    });
    earlier.into_iter().chain(listed).collect()
}
