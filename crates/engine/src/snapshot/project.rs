//! Serves projects' documents. They are composed of the items of the project's agents and kept in memory like agents' documents.
//!
//! Readers get the copy in memory. Shortly after changes the document is composed again, once for many changes, and only if the
//! project's stamp, which identifies its state, has changed. When a reader asks for an old copy, the copy's stamp is compared with
//! the database's.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hashlink::LruCache;
use serde::Serialize;
use tokio::sync::broadcast::{
    Receiver,
    error::{RecvError, TryRecvError},
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    Lookup, RENDERING, fingerprint,
    read_timeout::{FIRST_TIMEOUT, ReadTimeout},
    single_flight::SingleFlight,
    ttl::{CachedRead, TimedCopy},
};
use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    project::ProjectId,
    redaction::Redactor,
    summary::{
        compaction::SummaryPolicy,
        coverage::digest_items,
        item::{ExchangeRange, Importance, Item, Origin},
        shared::{Contribution, compose_shared},
    },
    time::Timestamp,
    tokens::TokenCounter,
};
use recapd_platform::{
    clock::Clock,
    notice::{Change, PeerLink},
    threads,
};
use recapd_store::{ProjectMember, ProjectRow, ProjectStamp, Store, StoreError, StoreResult};

/// Limits how many documents are in memory. Beyond it, the least recently used ones are dropped.
const DOCUMENTS_MAX: usize = 1_000;
/// How long to wait for further changes before a document is composed again.
const SETTLE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectSnapshot {
    /// The document as Markdown.
    pub markdown: String,
    /// Its tokens, by the exact counter.
    pub tokens: i64,
    /// Changes whenever `markdown` does.
    pub etag: String,
    /// When an agent of the project was last active.
    pub updated_at: Timestamp,
    /// How many agents belong to the project.
    pub agents: i64,
    /// The agents that contribute to the document.
    pub members: Vec<MemberFigures>,
}

/// An agent's contribution to a project's document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct MemberFigures {
    /// The agent.
    pub agent_id: AgentId,
    /// The version of the agent's own document.
    pub version: i64,
    /// The last exchange that its items cover.
    pub covers_through: i64,
    /// How many of its exchanges wait to be summarised.
    pub pending_exchanges: i64,
    /// How many items it contributes, digests of pending exchanges included.
    pub items: usize,
    /// How many of these are in the project's document.
    pub shown_items: usize,
    /// When it was last active.
    pub updated_at: Timestamp,
}

struct CachedProject {
    copy: TimedCopy<ProjectSnapshot>,
    stamp: ProjectStamp,
    /// True if composing the next document panicked. Then only a reader's request triggers another try.
    awaits_reader: bool,
}

impl CachedProject {
    fn new(copy: TimedCopy<ProjectSnapshot>, stamp: ProjectStamp) -> Arc<Self> {
        Arc::new(Self { copy, stamp, awaits_reader: false })
    }

    fn outdated(&self, awaits_reader: bool) -> Arc<Self> {
        Arc::new(Self { copy: self.copy.outdated(), stamp: self.stamp, awaits_reader })
    }
}

/// The documents of all projects that a reader asked for. Clones share them.
#[derive(Clone)]
pub struct ProjectSnapshots {
    store: Arc<dyn Store>,
    counter: Arc<dyn TokenCounter>,
    clock: Arc<dyn Clock>,
    policy: SummaryPolicy,
    redactor: Redactor,
    cache: Arc<Mutex<LruCache<ProjectId, Arc<CachedProject>>>>,
    loads: SingleFlight<ProjectId, Arc<ProjectSnapshot>>,
    contact: PeerLink,
    first_timeout: Duration,
}

impl ProjectSnapshots {
    /// Makes documents composed by `policy`. `redactor` redacts secrets in pending exchanges.
    pub fn new(
        store: Arc<dyn Store>,
        counter: Arc<dyn TokenCounter>,
        clock: Arc<dyn Clock>,
        policy: SummaryPolicy,
        redactor: Redactor,
    ) -> Self {
        Self {
            store,
            counter,
            clock,
            policy,
            redactor,
            cache: Arc::new(Mutex::new(LruCache::new(DOCUMENTS_MAX))),
            loads: SingleFlight::default(),
            contact: PeerLink::default(),
            first_timeout: FIRST_TIMEOUT,
        }
    }

    #[must_use]
    pub fn holding(self, documents_max: usize) -> Self {
        self.lock().set_capacity(documents_max);
        self
    }

    /// Treats copies as stale while `contact` is lost with other daemons, which may change documents, too.
    #[must_use]
    pub fn in_contact(self, contact: PeerLink) -> Self {
        Self { contact, ..self }
    }

    /// Lets a reader without a copy wait this long, because nobody waits for the reader.
    #[must_use]
    pub fn with_first_timeout(self, first_timeout: Duration) -> Self {
        Self { first_timeout, ..self }
    }

    /// Returns the summary of `project`; `None` if no agent belongs to it. If there is a copy, a reader waits at most a fraction
    /// of a second for an unresponsive or slow database.
    ///
    /// # Errors
    /// When the database fails or doesn't answer within two seconds, or rendering panics, and there is no copy.
    pub async fn get(&self, project: &ProjectId) -> StoreResult<Option<Lookup<ProjectSnapshot>>> {
        let entry = self.lock().get(project).map(Arc::clone);
        let lost_since = self.contact.lost_since();
        let due = match entry.as_ref().map(|entry| entry.copy.cached(lost_since)) {
            Some(CachedRead::Hit(lookup)) => return Ok(Some(lookup)),
            Some(CachedRead::Due) => entry.clone(),
            Some(CachedRead::Outdated) | None => None,
        };
        let load = || self.load_of(project, due.clone());
        let read = self.loads.read(project, load, || self.cached_of(project));
        let read = ReadTimeout::of(entry.is_some(), self.first_timeout).wait(read).await;
        let copy = self.lock().peek(project).map(|entry| entry.copy.snapshot_and_time());
        Lookup::or_copy(read, copy)
    }

    fn cached_of(&self, project: &ProjectId) -> Option<CachedRead<ProjectSnapshot>> {
        let entry = self.lock().peek(project).map(Arc::clone);
        entry.map(|entry| entry.copy.cached(self.contact.lost_since()))
    }

    /// Returns a load that continues even if no reader waits for it any more.
    fn load_of(
        &self,
        project: &ProjectId,
        due: Option<Arc<CachedProject>>,
    ) -> impl Future<Output = StoreResult<Option<Arc<ProjectSnapshot>>>> + Send + use<> {
        let (projects, project) = (self.clone(), project.clone());
        async move {
            let loaded = match &due {
                Some(entry) => projects.check_stamp(&project, entry).await,
                None => projects.load(&project).await,
            };
            Ok(loaded?.map(|entry| Arc::clone(&entry.copy.snapshot)))
        }
    }

    /// Returns the copy, dated now, if the stamp is unchanged; otherwise loads the document as [`Self::load`] does.
    async fn check_stamp(
        &self,
        project: &ProjectId,
        entry: &Arc<CachedProject>,
    ) -> StoreResult<Option<Arc<CachedProject>>> {
        let now = self.clock.now();
        if self.store.project_stamp(project).await? != Some(entry.stamp) {
            // Composing may take longer than this reader waits. Later readers wait for the same load.
            self.replace(project, entry, &entry.outdated(false));
            return self.load(project).await;
        }
        let copy = TimedCopy::new(Arc::clone(&entry.copy.snapshot), now, false);
        let renewed = CachedProject::new(copy, entry.stamp);
        self.replace(project, entry, &renewed);
        Ok(Some(renewed))
    }

    /// Replaces `entry` with `new`, unless a newer document has replaced `entry` meanwhile.
    fn replace(&self, project: &ProjectId, entry: &Arc<CachedProject>, new: &Arc<CachedProject>) {
        let mut all = self.lock();
        if let Some(current) = all.peek_mut(project)
            && Arc::ptr_eq(current, entry)
        {
            *current = Arc::clone(new);
        }
    }

    /// Stores `new`. If it replaces an earlier document, this doesn't count as a use, because only readers use documents.
    fn hold(&self, project: &ProjectId, new: &Arc<CachedProject>) {
        let mut all = self.lock();
        if let Some(current) = all.peek_mut(project) {
            *current = Arc::clone(new);
        } else {
            all.insert(project.clone(), Arc::clone(new));
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<ProjectId, Arc<CachedProject>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Composes the document. Composes it once more if the project changed before the document was stored, because the notice of
    /// that change found nothing to refresh.
    async fn load(&self, project: &ProjectId) -> StoreResult<Option<Arc<CachedProject>>> {
        let Some(entry) = self.compose(project).await? else {
            return Ok(None);
        };
        if self.store.project_stamp(project).await? == Some(entry.stamp) {
            return Ok(Some(entry));
        }
        self.compose(project).await
    }

    async fn compose(&self, project: &ProjectId) -> StoreResult<Option<Arc<CachedProject>>> {
        let now = self.clock.now();
        let Some((stamp, row)) = self.store.project(project).await? else {
            self.lock().remove(project);
            return Ok(None);
        };
        let (counter, redactor, policy) = (Arc::clone(&self.counter), self.redactor.clone(), self.policy);
        let rendering = move || render(row, now, &policy, counter.as_ref(), &redactor);
        let snapshot = threads::computed(RENDERING, rendering)
            .await
            .inspect_err(|error| error!(%project, %error, "project.panicked"))?;
        let entry = CachedProject::new(TimedCopy::new(Arc::new(snapshot), now, false), stamp);
        self.hold(project, &entry);
        Ok(Some(entry))
    }

    /// Keeps the documents fresh until `stop`: composes changed ones again before the next reader asks.
    pub async fn follow(&self, mut changes: Receiver<Change>, stop: CancellationToken) {
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = stop.cancelled() => return,
            };
            if matches!(change, Err(RecvError::Closed)) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(SETTLE) => {}
                () = stop.cancelled() => return,
            }
            while !matches!(changes.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {}
            self.refresh().await;
        }
    }

    async fn refresh(&self) {
        let entries: Vec<(ProjectId, Arc<CachedProject>)> =
            self.lock().iter().map(|(project, entry)| (project.clone(), Arc::clone(entry))).collect();
        for (project, entry) in entries {
            if entry.awaits_reader {
                continue;
            }
            let is_same = match self.store.project_stamp(&project).await {
                Ok(stamp) => !entry.copy.outdated && stamp == Some(entry.stamp),
                Err(_) => false,
            };
            if !is_same && let Err(error) = self.compose(&project).await {
                let awaits_reader = matches!(error, StoreError::Panicked(_));
                self.replace(&project, &entry, &entry.outdated(awaits_reader));
            }
        }
    }
}

pub fn render(
    row: ProjectRow,
    now: Timestamp,
    policy: &SummaryPolicy,
    counter: &dyn TokenCounter,
    redactor: &Redactor,
) -> ProjectSnapshot {
    // Live agents age by the clock. A project of replayed agents uses the latest of their times.
    let times = row.members.iter().map(|member| member.as_of.unwrap_or(now));
    let as_of = times.max().unwrap_or(now);
    let (members, items): (Vec<MemberFigures>, Vec<Vec<Item>>) =
        row.members.into_iter().map(|member| (member_figures(&member), items(member, redactor))).unzip();
    let contributions: Vec<Contribution<'_>> = members
        .iter()
        .zip(&items)
        .map(|(member, items)| Contribution { agent: &member.agent_id, items })
        .collect();
    let mut shared = compose_shared(&contributions, as_of, policy, counter);
    if members.iter().any(|member| member.covers_through > 0) {
        shared = shared.or_archived(policy, counter);
    }
    let mut shown_items = shared.shown_items.into_iter();
    let mut contributed = items.iter().map(Vec::len);
    ProjectSnapshot {
        etag: format!("\"{}\"", fingerprint(&shared.document)),
        markdown: shared.document,
        tokens: shared.tokens,
        agents: row.agents,
        updated_at: members.iter().map(|member| member.updated_at).max().unwrap_or_default(),
        members: members
            .into_iter()
            .map(|member| MemberFigures {
                items: contributed.next().unwrap_or_default(),
                shown_items: shown_items.next().unwrap_or_default(),
                ..member
            })
            .collect(),
    }
}

fn member_figures(member: &ProjectMember) -> MemberFigures {
    let listed = i64_or_max(member.pending.len());
    MemberFigures {
        agent_id: member.agent.clone(),
        version: member.version,
        covers_through: member.covers_through,
        pending_exchanges: member.pending_before.exchanges + listed,
        items: 0,
        shown_items: 0,
        updated_at: member.updated_at,
    }
}

/// Returns the items of `member` and digests of its pending exchanges, so that no exchange is missing.
fn items(member: ProjectMember, redactor: &Redactor) -> Vec<Item> {
    let mut items = member.items;
    let mut pending = member.pending;
    for exchange in &mut pending {
        // Redacted again by today's rules, because the stored headline was redacted by earlier rules.
        exchange.headline = std::mem::take(&mut exchange.headline).redacted(redactor);
    }
    if let Some(first) = pending.first().filter(|_| member.pending_before.exchanges > 0) {
        let text = format!("{} exchanges wait to be summarised", member.pending_before.exchanges);
        items.push(Item {
            item: 0,
            ranges: vec![ExchangeRange { first: member.covers_through + 1, last: first.exchange - 1 }],
            started_at: first.opened_at,
            ended_at: first.opened_at,
            source_tokens: member.pending_before.tokens,
            importance: Importance::Fix,
            brief: text.clone(),
            gist: text.clone(),
            text,
            origin: Origin::Digest,
            provisional: true,
            pinned: false,
        });
    }
    items.extend(digest_items(&pending));
    items
}
