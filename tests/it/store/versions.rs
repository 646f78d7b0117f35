//! Versions: what is kept of them, rolling back to one, and rebuilding.

use recapd_core::domain::{
    lineage::Step,
    message::{Kind, tombstone},
    summary::{compaction::SummaryPolicy, item::Item, version::VersionKind},
    work::Lease,
};
use recapd_store::{
    Fence, Material, MaterialLimits, Patch, RebuildRequest, RevisionOutcome, RollbackRequest, StoreError,
    VersionFigures, VersionQuery,
};

use super::{clean, lineage::step, the_lease, with_pending};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    conversation::{ALL, agent, append, claim, items, make, minute, patch, turns},
};

/// Updates at most this many pending exchanges.
pub(super) async fn update(db: &dyn Backend, name: &str, exchanges_max: i64) {
    let (lease, patch) = claimed(db, name, exchanges_max).await;
    db.store().complete(&lease, patch).await.unwrap();
    clean(db, &agent(name)).await;
}

/// Prepares an update of at most this many pending exchanges without completing it.
pub(super) async fn claimed(db: &dyn Backend, name: &str, exchanges_max: i64) -> (Lease, Patch) {
    let (lease, material) = ready(db, name, exchanges_max).await;
    let patch = patch(&material, items(&material), minute(90));
    (lease, patch)
}

/// Claims the agent, and reads the material of such an update.
pub(super) async fn ready(db: &dyn Backend, name: &str, exchanges_max: i64) -> (Lease, Material) {
    let manual = recapd_core::domain::work::Reason::Manual;
    db.store().enqueue(&agent(name), manual, 0, minute(60)).await.unwrap();
    // Later than anything else in these tests, so that nothing has to wait.
    let leases = db.store().claim(claim("daemon", 100, minute(200_000))).await.unwrap();
    let is_of = |lease: &Lease| lease.agent == agent(name);
    let (mut own, others): (Vec<Lease>, Vec<Lease>) = leases.into_iter().partition(is_of);
    db.store().release(&others, minute(200_000)).await.unwrap();
    let lease = own.pop().unwrap();
    let limits = MaterialLimits { exchanges_max, ..ALL };
    let material = db.store().material(&lease, limits).await.unwrap();
    (lease, material)
}

async fn roll_back(db: &dyn Backend, name: &str, version: i64) -> RevisionOutcome {
    let request =
        RollbackRequest { agent: agent(name), version, policy: SummaryPolicy::default(), now: minute(100) };
    let revised = db.store().roll_back(request).await.unwrap();
    written(db, name).await;
    revised
}

/// Writes the rows of all removed items, and verifies the agent before and after.
async fn written(db: &dyn Backend, name: &str) {
    clean(db, &agent(name)).await;
    while db.store().withdraw_some(&agent(name)).await.unwrap() {}
    clean(db, &agent(name)).await;
}

fn rebuild_request(name: &str) -> RebuildRequest {
    RebuildRequest { agent: agent(name), policy: SummaryPolicy::default(), now: minute(100) }
}

pub(super) async fn rebuild(db: &dyn Backend, name: &str) -> RevisionOutcome {
    let revised = db.store().rebuild(rebuild_request(name)).await.unwrap();
    written(db, name).await;
    revised
}

async fn versions(db: &dyn Backend, name: &str) -> Vec<VersionFigures> {
    let query = VersionQuery { before: None, limit: 100 };
    db.store().versions(&agent(name), query).await.unwrap()
}

async fn content(db: &dyn Backend, name: &str, version: i64) -> String {
    let found = db.store().version(&agent(name), version).await.unwrap();
    found.unwrap().content
}

/// Returns what readers get: the version, the last exchange that it covers, its text.
async fn read(db: &dyn Backend, name: &str) -> (i64, i64, String) {
    let row = db.store().summary(&agent(name)).await.unwrap().unwrap();
    (row.version, row.summarized_through, row.content)
}

/// Returns the items in force, with the exchanges that they cover.
async fn covered(db: &dyn Backend, name: &str) -> Option<String> {
    let sql = format!(
        "SELECT i.item || ':' || r.first_exchange || '-' || r.last_exchange \
         FROM summary_items i JOIN summary_item_ranges r ON r.agent_id = i.agent_id AND r.item = i.item \
         WHERE i.agent_id = '{name}' AND i.removed_version IS NULL ORDER BY r.first_exchange"
    );
    Some(db.texts(&sql, " ").await).filter(|told| !told.is_empty())
}

pub(crate) async fn versions_are_listed_and_read(db: &dyn Backend) {
    with_pending(db, "a", 6).await;
    for _ in 0..3 {
        update(db, "a", 2).await;
    }
    let all = versions(db, "a").await;
    let told: Vec<(i64, VersionKind, i64, i64, i64)> =
        all.iter().map(|v| (v.version, v.kind, v.covers_after, v.covers_through, v.exchanges)).collect();
    assert_eq!(
        told,
        [
            (3, VersionKind::Update, 4, 6, 2),
            (2, VersionKind::Update, 2, 4, 2),
            (1, VersionKind::Update, 0, 2, 2)
        ]
    );
    let query = VersionQuery { before: Some(3), limit: 1 };
    let page = db.store().versions(&agent("a"), query).await.unwrap();
    assert_eq!(page, [all[1].clone()]);
    let newest = db.store().version(&agent("a"), 3).await.unwrap().unwrap();
    assert_eq!((&newest.figures, newest.content), (&all[0], read(db, "a").await.2));
    assert_eq!(db.store().version(&agent("a"), 4).await.unwrap(), None);
    assert_eq!(versions(db, "nobody").await, []);
}

pub(crate) async fn a_rollback_restores_the_earlier_document(db: &dyn Backend) {
    with_pending(db, "a", 6).await;
    update(db, "a", 4).await;
    update(db, "a", 9).await;
    let revised = roll_back(db, "a", 1).await;
    assert_eq!((revised.version, revised.covers_through, revised.uncovered), (3, 4, 2));
    assert_eq!((revised.restored, revised.removed, revised.edited), (0, 2, 0));
    assert!(revised.enqueued.is_some(), "what is pending again is summarised again");
    assert_eq!(content(db, "a", 3).await, content(db, "a", 1).await);
    let row = db.store().summary(&agent("a")).await.unwrap().unwrap();
    assert_eq!((row.version, row.content), (3, content(db, "a", 1).await));
    let pending: Vec<i64> = row.pending.iter().map(|exchange| exchange.exchange).collect();
    assert_eq!((pending, row.pending_since), (vec![5, 6], Some(minute(100))));
    // A context shows it at once, and the next update continues from there.
    let shown = db.store().summary_of_step(&agent("a")).await.unwrap().unwrap();
    assert_eq!(shown.version, 3);
    update(db, "a", 9).await;
    assert_eq!(covered(db, "a").await.as_deref(), Some("1:1-1 2:2-2 3:3-3 4:4-4 7:5-5 8:6-6"));
    assert_eq!(versions(db, "a").await[1].kind, VersionKind::Rollback);
}

pub(crate) async fn a_rollback_brings_back_replaced_and_dropped_items(db: &dyn Backend) {
    with_pending(db, "a", 5).await;
    update(db, "a", 4).await;
    // One item for two exchanges, and one that leaves the document.
    let (lease, plain) = claimed(db, "a", 9).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let mut merged =
        Item { ended_at: material.items[1].ended_at, source_tokens: 200, ..material.items[0].clone() };
    merged.ranges[0].last = 2;
    let mut update = Patch { removed: vec![1, 2], dropped: vec![3], ..plain };
    update.added.push((merged, false));
    db.store().complete(&lease, update).await.unwrap();
    clean(db, &agent("a")).await;
    assert_eq!(covered(db, "a").await.as_deref(), Some("6:1-2 3:3-3 4:4-4 5:5-5"));
    let revised = roll_back(db, "a", 1).await;
    assert_eq!((revised.restored, revised.removed, revised.uncovered), (3, 3, 1));
    assert_eq!(content(db, "a", 3).await, content(db, "a", 1).await);
    assert_eq!(covered(db, "a").await.as_deref(), Some("7:1-1 8:2-2 9:3-3 4:4-4"));
    // Forward again, to a version in between.
    let revised = roll_back(db, "a", 2).await;
    assert_eq!((revised.covers_through, revised.uncovered), (5, 0));
    assert!(content(db, "a", 4).await.contains("#1–#2)"));
    assert_eq!(covered(db, "a").await.as_deref(), Some("11:1-2 12:3-3 4:4-4 10:5-5"));
    let hidden = "SELECT count(*) FROM summary_items WHERE item = 12 AND dropped_version = 4";
    assert_eq!(db.number(hidden).await, Some(1), "what was dropped stays so");
}

pub(crate) async fn a_rollback_omits_set_aside_exchanges(db: &dyn Backend) {
    let a = agent("a");
    db.store().append(append(&a, turns(1..=2))).await.unwrap();
    db.store().append(append(&a, vec![step(&Step::Mark(None), 2)])).await.unwrap();
    db.store().append(append(&a, turns(3..=5))).await.unwrap();
    // One item for the mark's exchange and the one after it.
    let (lease, plain) = claimed(db, "a", 9).await;
    let mut update = plain;
    let third = update.added.remove(2).0;
    let second = &mut update.added[1].0;
    second.ranges[0].last = 3;
    (second.ended_at, second.source_tokens) = (third.ended_at, 200);
    db.store().complete(&lease, update).await.unwrap();
    clean(db, &a).await;
    db.store().append(append(&a, vec![step(&Step::Rewind(None), 6)])).await.unwrap();
    db.store().append(append(&a, turns(7..=8))).await.unwrap();
    self::update(db, "a", 9).await;
    let revised = roll_back(db, "a", 1).await;
    assert_eq!(revised.covers_through, 4);
    // #1 is back; half of the second item is set aside, so a digest covers #2.
    let digests = "SELECT count(*) FROM summary_items i JOIN summary_item_ranges r ON r.agent_id = i.agent_id \
                   AND r.item = i.item WHERE i.removed_version IS NULL AND i.origin = 'digest' AND r.last_exchange = 2";
    assert_eq!(db.number(digests).await, Some(1));
    // A model condenses it again.
    assert!(revised.enqueued.is_some());
}

pub(crate) async fn a_rollback_brings_nothing_forgotten_back(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    update(db, "a", 9).await;
    let tombstone = tombstone(&Kind::User);
    db.raw(&format!(
        "UPDATE message_log SET forgotten_at = received_at, payload = '{tombstone}' WHERE exchange = 2"
    ))
    .await;
    rebuild(db, "a").await;
    let revised = roll_back(db, "a", 1).await;
    assert_eq!((revised.restored, revised.covers_through), (2, 3));
    assert!(!content(db, "a", 3).await.contains("Text of exchange 2"));
    assert!(revised.enqueued.is_some(), "its digest is to be condensed");
}

pub(crate) async fn a_rollback_to_an_unknown_version_changes_nothing(db: &dyn Backend) {
    with_pending(db, "a", 2).await;
    let request = |name: &str, version| RollbackRequest {
        agent: agent(name),
        version,
        policy: SummaryPolicy::default(),
        now: minute(100),
    };
    let error = db.store().roll_back(request("a", 1)).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownVersion { version: 1, kept: None }), "{error}");
    update(db, "a", 1).await;
    update(db, "a", 1).await;
    db.raw("DELETE FROM summary_versions WHERE version = 1").await;
    let before = db.dump(&TABLES).await;
    for version in [-1, 0, 1, 3] {
        let error = db.store().roll_back(request("a", version)).await.unwrap_err();
        assert_eq!(error.to_string(), format!("there is no version {version}: 2 to 2 are kept"));
    }
    let error = db.store().roll_back(request("nobody", 1)).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownAgent(_)), "{error}");
    assert_same(&before, &db.dump(&TABLES).await, "refused");
}

/// An update that was in progress when an operator changed the document is refused, and must read again.
pub(crate) async fn an_update_in_progress_comes_too_late(db: &dyn Backend) {
    for (name, by_rebuild) in [("a", false), ("b", true)] {
        with_pending(db, name, 4).await;
        update(db, name, 2).await;
        let (lease, stale) = claimed(db, name, 9).await;
        if by_rebuild {
            rebuild(db, name).await;
        } else {
            roll_back(db, name, 1).await;
        }
        let before = db.dump(&TABLES).await;
        let error = db.store().complete(&lease, stale.clone()).await.unwrap_err();
        assert!(matches!(error, StoreError::Fenced(Fence::Lease)), "{error}");
        assert_same(&before, &db.dump(&TABLES).await, "too late");
        // With a new lease it is refused for the version that it read.
        let lease = the_lease(db, minute(100)).await;
        let error = db.store().complete(&lease, stale).await.unwrap_err();
        assert!(matches!(error, StoreError::Fenced(Fence::Version)), "{error}");
        assert_eq!((lease.attempt, lease.crashes), (1, 0), "no attempt is burnt");
        db.store().release(&[lease], minute(100)).await.unwrap();
        update(db, name, 9).await;
        assert_eq!(clean(db, &agent(name)).await.pending, 0);
    }
}

pub(crate) async fn a_rebuild_makes_everything_again(db: &dyn Backend) {
    with_pending(db, "a", 6).await;
    update(db, "a", 6).await;
    let old = read(db, "a").await;
    let revised = rebuild(db, "a").await;
    assert_eq!((revised.version, revised.covers_through, revised.uncovered), (2, 0, 6));
    assert_eq!((revised.restored, revised.removed), (0, 6));
    // Readers get the old document, without pending exchanges, until the new one covers as much.
    for exchanges in [2, 2] {
        let row = db.store().summary(&agent("a")).await.unwrap().unwrap();
        assert_eq!((row.version, row.summarized_through, row.content), old);
        assert_eq!((row.pending, row.pending_since), (vec![], None));
        let shown = db.store().summary_of_step(&agent("a")).await.unwrap().unwrap();
        assert_eq!((shown.version, shown.content), (1, old.2.clone()));
        update(db, "a", exchanges).await;
    }
    let project = "garden".parse().unwrap();
    let store = db.store();
    store.set_project(&agent("a"), Some(&project), minute(100)).await.unwrap();
    let (_, row) = store.project(&project).await.unwrap().unwrap();
    let [member] = row.members.try_into().unwrap();
    assert_eq!(
        (member.items.len(), member.covers_through, member.pending.len()),
        (4, 4, 2),
        "a project is told the items as they are, and what is pending"
    );
    let by_sql = "SELECT version || ' ' || covers_through FROM agent_summary";
    assert_eq!(db.text(by_sql).await.as_deref(), Some("1 6"));
    update(db, "a", 9).await;
    let (version, through, text) = read(db, "a").await;
    assert_eq!((version, through), (5, 6));
    assert_eq!(text, content(db, "a", 5).await);
    let kinds: Vec<VersionKind> = versions(db, "a").await.iter().map(|v| v.kind).collect();
    let update = VersionKind::Update;
    assert_eq!(kinds, [update, update, update, VersionKind::Rebuild, update]);
    // It can be undone.
    let revised = roll_back(db, "a", 1).await;
    assert_eq!((revised.restored, revised.removed, revised.uncovered), (6, 6, 0));
    assert_eq!(revised.enqueued, None);
}

pub(crate) async fn a_rebuild_can_be_asked_for_twice_and_given_up(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    update(db, "a", 4).await;
    let old = read(db, "a").await;
    rebuild(db, "a").await;
    update(db, "a", 2).await;
    rebuild(db, "a").await;
    assert_eq!(read(db, "a").await, old);
    let revised = roll_back(db, "a", 1).await;
    assert_eq!((revised.covers_through, revised.uncovered, revised.enqueued), (4, 0, None));
    assert_eq!(read(db, "a").await, (5, 4, old.2));
    let version = "SELECT covers_after || ' ' || covers_through || ' ' || exchanges FROM summary_versions WHERE version = 5";
    assert_eq!(db.text(version).await.as_deref(), Some("0 4 4"));
}

pub(crate) async fn a_rebuild_mends_emptied_tables(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    for table in ["summary_item_ranges", "summary_items", "summary_versions", "summaries"] {
        update(db, "a", 9).await;
        db.raw(&format!("DELETE FROM {table}")).await;
        rebuild(db, "a").await;
        update(db, "a", 9).await;
        let report = clean(db, &agent("a")).await;
        assert_eq!((report.covered, report.pending), (4, 0), "{table}");
    }
    for table in ["summary_item_ranges", "summary_items", "summary_versions", "summaries"] {
        db.raw(&format!("DELETE FROM {table}")).await;
    }
    let revised = rebuild(db, "a").await;
    assert_eq!((revised.version, revised.uncovered), (1, 4));
    assert_eq!(db.store().summary(&agent("a")).await.unwrap().unwrap().pending.len(), 4);
    update(db, "a", 9).await;
    assert_eq!(clean(db, &agent("a")).await.covered, 4);
}

pub(crate) async fn a_rebuild_of_nothing_needs_no_work(db: &dyn Backend) {
    make(db, "a").await;
    let revised = rebuild(db, "a").await;
    assert_eq!((revised.version, revised.uncovered, revised.enqueued), (1, 0, None));
    let error = db.store().rebuild(rebuild_request("nobody")).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownAgent(_)), "{error}");
}

/// A fork has no rows of exchanges that its parent had covered: their items stay, or come back as they were at the fork.
pub(crate) async fn a_rebuild_keeps_inherited_items(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    update(db, "a", 3).await;
    db.store().fork(&agent("a"), &agent("b"), minute(50)).await.unwrap();
    update(db, "b", 9).await;
    assert_eq!(covered(db, "b").await.as_deref(), Some("1:1-1 2:2-2 3:3-3 4:4-4"));
    let revised = rebuild(db, "b").await;
    assert_eq!((revised.covers_through, revised.uncovered, revised.removed), (3, 1, 1));
    assert_eq!(covered(db, "b").await.as_deref(), Some("1:1-1 2:2-2 3:3-3"));
    for table in ["summary_item_ranges", "summary_items", "summary_versions", "summaries"] {
        db.raw(&format!("DELETE FROM {table} WHERE agent_id = 'b'")).await;
    }
    let revised = rebuild(db, "b").await;
    assert_eq!((revised.restored, revised.covers_through), (3, 3));
    update(db, "b", 9).await;
    assert_eq!(covered(db, "b").await.as_deref(), Some("5:1-1 6:2-2 7:3-3 8:4-4"));
    // A child of that child has them, too.
    db.store().fork(&agent("b"), &agent("c"), minute(50)).await.unwrap();
    clean(db, &agent("c")).await;
}

pub(crate) async fn a_rewind_during_a_rebuild_ends_the_hold(db: &dyn Backend) {
    let a = agent("a");
    db.store().append(append(&a, turns(1..=2))).await.unwrap();
    db.store().append(append(&a, vec![step(&Step::Mark(None), 2)])).await.unwrap();
    db.store().append(append(&a, turns(3..=5))).await.unwrap();
    update(db, "a", 9).await;
    rebuild(db, "a").await;
    db.store().append(append(&a, vec![step(&Step::Rewind(None), 6)])).await.unwrap();
    clean(db, &a).await;
    let (version, through, text) = read(db, "a").await;
    assert_eq!((version, through, text.as_str()), (2, 0, ""), "nothing that was set aside is told");
}
