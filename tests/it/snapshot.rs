//! Cached summaries and project documents without notices of changes.

use std::{sync::Arc, time::Duration};

use recapd_core::{
    domain::{
        agent::AgentId, project::ProjectId, redaction::Redactor, summary::compaction::SummaryPolicy,
        tokens::TokenCounter,
    },
    tokenizer,
};
use recapd_engine::snapshot::{
    self, Lookup, Snapshots,
    project::{ProjectSnapshot, ProjectSnapshots},
};
use recapd_platform::{
    clock::{ManualClock, SystemClock},
    notice::Notices,
};
use recapd_store::{Store, StoreError, SummaryRow};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::support::{
    PATIENCE,
    backend::{Backend as _, SqliteBackend},
    brittle::{Brittle, POISON},
    conversation::{T0, agent, append, minute, said, turns},
    troubled_store::{Trouble, TroubledStore},
};

/// The time for which a copy is trusted.
const BELIEVED: Duration = Duration::from_mins(1);
const COPY_TIME_MAX: Duration = Duration::from_millis(300);
/// How often the database may be late before it must answer in time once.
const LOOKS_MAX: usize = 100;

fn snapshots(db: &SqliteBackend) -> Snapshots {
    counted(db, tokenizer::ceiling_counter())
}

fn counted(db: &SqliteBackend, counter: Arc<dyn TokenCounter>) -> Snapshots {
    Snapshots::new(db.store(), counter, Arc::new(SystemClock), 10_000)
}

async fn pending(snapshots: &Snapshots, agent: &AgentId) -> Option<i64> {
    let reading = snapshots.get(agent).await.unwrap()?;
    Some(reading.snapshot.pending_exchanges)
}

fn projects(store: Arc<dyn Store>) -> ProjectSnapshots {
    projects_counted(store, tokenizer::ceiling_counter())
}

fn projects_counted(store: Arc<dyn Store>, counter: Arc<dyn TokenCounter>) -> ProjectSnapshots {
    let (policy, redactor) = (SummaryPolicy::default(), Redactor::standard());
    // An hour after the messages; by the machine's clock they would some day be too old for a document.
    let clock = Arc::new(ManualClock::new(minute(60)));
    ProjectSnapshots::new(store, counter, clock, policy, redactor)
}

/// Appends a turn that can't be counted, and another one, which makes it pending.
async fn poison(db: &SqliteBackend, agent: &AgentId) {
    let mut messages = vec![said("user", POISON, 40, minute(4)), said("assistant", "Done", 60, minute(4))];
    messages.extend(turns(5..=5));
    db.store().append(append(agent, messages)).await.unwrap();
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < end, "it never came");
        tokio::task::yield_now().await;
    }
}

/// The pending exchanges of a project's only agent.
fn pending_in(reading: &Lookup<ProjectSnapshot>) -> i64 {
    reading.snapshot.members[0].pending_exchanges
}

/// Advances time until copies expire, then lets time run, for queries to the database.
async fn pass_believed() {
    tokio::time::pause();
    tokio::time::advance(BELIEVED).await;
    tokio::time::resume();
}

/// Reads after copies have expired; repeats that if the database wasn't in time.
async fn later<S>(get: impl AsyncFn() -> Option<Lookup<S>>) -> Option<Lookup<S>> {
    for _ in 0..LOOKS_MAX {
        pass_believed().await;
        let reading = get().await?;
        if reading.stale_since.is_none() {
            return Some(reading);
        }
    }
    panic!("the database was never in time");
}

/// The same as [`pending`], after copies have expired.
async fn pending_later(snapshots: &Snapshots, agent: &AgentId) -> Option<i64> {
    let reading = later(async || snapshots.get(agent).await.unwrap()).await?;
    Some(reading.snapshot.pending_exchanges)
}

#[tokio::test]
async fn a_change_without_a_notice_is_seen_by_a_later_read() {
    let db = SqliteBackend::fresh().await;
    let (snapshots, agent) = (snapshots(&db), agent("a"));
    db.store().append(append(&agent, turns(1..=3))).await.unwrap();
    assert_eq!(pending(&snapshots, &agent).await, Some(2));
    db.store().append(append(&agent, turns(4..=4))).await.unwrap();
    assert_eq!(pending(&snapshots, &agent).await, Some(2), "it is believed");
    assert_eq!(pending_later(&snapshots, &agent).await, Some(3));

    db.store().delete_agent(&agent, T0).await.unwrap();
    assert_eq!(pending_later(&snapshots, &agent).await, None);
    assert_eq!(pending(&snapshots, &agent).await, None, "nothing is left of it");
}

#[tokio::test]
async fn a_projects_document_is_refreshed_like_a_summary() {
    let db = SqliteBackend::fresh().await;
    let (store, agent, project): (_, _, ProjectId) = (db.store(), agent("a"), "web".parse().unwrap());
    store.append(append(&agent, turns(1..=3))).await.unwrap();
    store.set_project(&agent, Some(&project), T0).await.unwrap();
    let projects = projects(db.store());
    let get = async || projects.get(&project).await.unwrap();
    let first = get().await.unwrap();
    assert_eq!(pending_in(&first), 2);
    let same = later(&get).await.unwrap();
    assert!(Arc::ptr_eq(&same.snapshot, &first.snapshot), "it still holds");

    store.append(append(&agent, turns(4..=4))).await.unwrap();
    assert_eq!(pending_in(&get().await.unwrap()), 2, "it is believed");
    assert_eq!(pending_in(&later(&get).await.unwrap()), 3);
    store.delete_agent(&agent, T0).await.unwrap();
    assert!(later(&get).await.is_none());
}

/// Reading a large project takes longer than any reader waits: composing continues, and is abandoned only if it hangs.
#[tokio::test]
async fn a_changed_project_is_composed_even_if_that_is_slow() {
    let db = SqliteBackend::fresh().await;
    let (store, agent, project): (_, _, ProjectId) = (db.store(), agent("a"), "web".parse().unwrap());
    store.append(append(&agent, turns(1..=3))).await.unwrap();
    store.set_project(&agent, Some(&project), T0).await.unwrap();
    let slow = Arc::new(TroubledStore::new(db.store()));
    let projects = projects(Arc::<TroubledStore>::clone(&slow));
    let get = async || projects.get(&project).await.unwrap().unwrap();
    let mut seen = pending_in(&get().await);
    assert_eq!(seen, 2);
    store.append(append(&agent, turns(4..=4))).await.unwrap();
    for _ in 0..LOOKS_MAX {
        if seen == 2 {
            pass_believed().await;
            slow.trouble("project", Trouble::Hang);
            assert!(get().await.stale_since.is_some(), "it isn't composed in time");
            slow.recover();
            pass_believed().await;
            seen = pending_in(&get().await);
        }
    }
    assert_eq!(seen, 3);
}

/// A copy is returned at once, however long the database takes and whatever is known about the copy.
#[tokio::test]
async fn an_outdated_copy_is_read_without_waiting_for_the_database() {
    let db = SqliteBackend::fresh().await;
    let (store, agent, project): (_, _, ProjectId) = (db.store(), agent("a"), "web".parse().unwrap());
    store.append(append(&agent, turns(1..=3))).await.unwrap();
    store.set_project(&agent, Some(&project), T0).await.unwrap();
    let slow = Arc::new(TroubledStore::new(db.store()));
    let counter = tokenizer::ceiling_counter();
    let snapshots =
        Snapshots::new(Arc::<TroubledStore>::clone(&slow), counter, Arc::new(SystemClock), 10_000);
    let projects = Arc::new(projects(Arc::<TroubledStore>::clone(&slow)));
    let snapshots = Arc::new(snapshots);
    let (notices, stop, tasks) = (Notices::default(), CancellationToken::new(), TaskTracker::new());
    let (following, changes, until_then) = (Arc::clone(&snapshots), notices.changes(), stop.clone());
    let followed = tasks.spawn(async move { following.follow(changes, until_then).await });
    assert_eq!(pending(&snapshots, &agent).await, Some(2));
    assert_eq!(pending_in(&projects.get(&project).await.unwrap().unwrap()), 2);

    store.append(append(&agent, turns(4..=4))).await.unwrap();
    slow.trouble("summary", Trouble::Hang);
    slow.trouble("project", Trouble::Hang);
    slow.trouble("project_stamp", Trouble::Hang);
    notices.all_changed();
    let stale = async || snapshots.get(&agent).await.unwrap().unwrap().stale_since.is_some();
    until(stale).await;
    pass_believed().await;
    for _ in 0..3 {
        let began = Instant::now();
        let reading = snapshots.get(&agent).await.unwrap().unwrap();
        assert_eq!(reading.snapshot.pending_exchanges, 2);
        assert!(reading.stale_since.is_some());
        let of_project = projects.get(&project).await.unwrap().unwrap();
        assert_eq!(pending_in(&of_project), 2);
        assert!(began.elapsed() < 2 * COPY_TIME_MAX, "{:?}", began.elapsed());
    }
    // A reader without a copy soon gets an error.
    let other = "b".parse().unwrap();
    let began = Instant::now();
    let none = snapshots.get(&other).await.unwrap_err();
    assert!(matches!(none, StoreError::Unavailable(_)), "{none}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());

    // The hanging query is abandoned, and the next reader gets everything.
    slow.recover();
    pass_believed().await;
    until(async || pending(&snapshots, &agent).await == Some(3)).await;
    stop.cancel();
    followed.await.unwrap();
}

#[tokio::test]
async fn the_tag_changes_whenever_the_document_does() {
    let db = SqliteBackend::fresh().await;
    let agent = agent("a");
    db.store().append(append(&agent, turns(1..=3))).await.unwrap();
    let row = db.store().summary(&agent).await.unwrap().unwrap();
    let counter = tokenizer::ceiling_counter();
    let render =
        |row: &SummaryRow, redactor: &Redactor| snapshot::render(row, 10_000, counter.as_ref(), redactor);
    let redactor = Redactor::standard();
    let before = render(&row, &redactor);
    assert_eq!(render(&row, &redactor).etag, before.etag);

    let mut shorter = row.clone();
    shorter.pending.pop();
    let stricter = redactor.clone().with_patterns(&["Question"]).unwrap();
    for after in [render(&shorter, &redactor), render(&row, &stricter)] {
        assert_ne!(after.markdown, before.markdown);
        assert_ne!(after.etag, before.etag);
    }
}

/// A reader learns which exchanges are pending, even if they are too many to list.
#[tokio::test]
async fn exchanges_too_many_to_list_are_named_as_a_range() {
    let db = SqliteBackend::fresh().await;
    let agent = agent("a");
    db.store().append(append(&agent, turns(1..=5))).await.unwrap();
    let mut row = db.store().summary(&agent).await.unwrap().unwrap();
    let listed = row.pending.split_off(3);
    assert_eq!((row.pending.len(), listed.len()), (3, 1));
    row.pending_before.exchanges = 3;
    row.pending_before.tokens = row.pending.iter().map(|exchange| exchange.tokens).sum();
    row.pending = listed;
    let redactor = Redactor::standard();
    let rendered = snapshot::render(&row, 10_000, tokenizer::ceiling_counter().as_ref(), &redactor);
    for line in ["#1–#3: 3 exchanges wait to be summarised", "#4"] {
        assert!(rendered.markdown.contains(line), "{line}: {}", rendered.markdown);
    }
}

#[tokio::test]
async fn a_panic_over_a_summary_makes_only_that_one_stale() {
    let db = SqliteBackend::fresh().await;
    let snapshots = Arc::new(counted(&db, Brittle::counter()));
    let (notices, stop, tasks) = (Notices::default(), CancellationToken::new(), TaskTracker::new());
    let (following, changes, until_then) = (Arc::clone(&snapshots), notices.changes(), stop.clone());
    let followed = tasks.spawn(async move { following.follow(changes, until_then).await });
    let (bad, good) = (agent("bad"), agent("good"));
    for agent in [&bad, &good] {
        db.store().append(append(agent, turns(1..=3))).await.unwrap();
        assert_eq!(pending(&snapshots, agent).await, Some(2));
    }
    poison(&db, &bad).await;
    db.store().append(append(&good, turns(4..=4))).await.unwrap();
    notices.agent_changed(&bad);
    notices.agent_changed(&good);
    until(async || pending(&snapshots, &good).await == Some(3)).await;
    let stale = snapshots.get(&bad).await.unwrap().unwrap();
    assert_eq!(stale.snapshot.pending_exchanges, 2);
    assert!(stale.stale_since.is_some());

    let anew = counted(&db, Brittle::counter());
    let read = [
        anew.get(&bad).await.map(drop),
        anew.of_step(&bad).await.map(drop),
        anew.from_database(&bad).await.map(drop),
    ];
    for read in read {
        assert!(matches!(read, Err(StoreError::Panicked(_))), "{read:?}");
    }
    stop.cancel();
    followed.await.unwrap();
}

#[tokio::test]
async fn a_panic_over_a_projects_document_makes_only_that_one_stale() {
    let db = SqliteBackend::fresh().await;
    let projects = Arc::new(projects_counted(db.store(), Brittle::counter()));
    let (notices, stop, tasks) = (Notices::default(), CancellationToken::new(), TaskTracker::new());
    let (following, changes, until_then) = (Arc::clone(&projects), notices.changes(), stop.clone());
    let followed = tasks.spawn(async move { following.follow(changes, until_then).await });
    let get = async |project: &ProjectId| projects.get(project).await.unwrap().unwrap();
    let names = ["bad", "good"];
    let [bad, good]: [ProjectId; 2] = names.map(|name| name.parse().unwrap());
    for (name, project) in names.into_iter().zip([&bad, &good]) {
        let (store, agent) = (db.store(), agent(name));
        store.append(append(&agent, turns(1..=3))).await.unwrap();
        store.set_project(&agent, Some(project), T0).await.unwrap();
        assert_eq!(pending_in(&get(project).await), 2);
    }
    poison(&db, &agent("bad")).await;
    for number in 4..=5 {
        let more = append(&agent("good"), turns(number..=number));
        db.store().append(more).await.unwrap();
        notices.agent_changed(&agent("good"));
        until(async || pending_in(&get(&good).await) == number - 1).await;
        until(async || get(&bad).await.stale_since.is_some()).await;
        assert_eq!(pending_in(&get(&bad).await), 2);
    }
    let anew = projects_counted(db.store(), Brittle::counter());
    assert!(matches!(anew.get(&bad).await, Err(StoreError::Panicked(_))));
    stop.cancel();
    followed.await.unwrap();
}

#[tokio::test]
async fn the_least_recently_read_documents_of_projects_are_dropped() {
    let db = SqliteBackend::fresh().await;
    let projects = projects(db.store()).holding(2);
    let names = ["a", "b", "c"];
    let [first, second, third]: [ProjectId; 3] = names.map(|name| name.parse().unwrap());
    for (name, project) in names.into_iter().zip([&first, &second, &third]) {
        let (store, agent) = (db.store(), agent(name));
        store.append(append(&agent, turns(1..=3))).await.unwrap();
        store.set_project(&agent, Some(project), T0).await.unwrap();
    }
    let get = async |project: &ProjectId| projects.get(project).await.unwrap().unwrap().snapshot;
    let (kept, forgotten) = (get(&first).await, get(&second).await);
    get(&first).await;
    get(&third).await;
    assert!(Arc::ptr_eq(&get(&first).await, &kept));
    assert!(!Arc::ptr_eq(&get(&second).await, &forgotten));
    assert!(Arc::ptr_eq(&get(&first).await, &kept), "the third one wasn't asked for since");
}
