//! Items, and operators' changes to them.

use recapd_core::domain::{
    summary::{
        compaction::SummaryPolicy,
        edit::ItemEdit,
        item::{Importance, Origin},
        section::Ageing,
    },
    time::DAY_MS,
};
use recapd_store::{
    EditOutcome, EditRequest, Fence, ITEM_PINS_MAX, ItemQuery, ItemRow, RollbackRequest, StoreError,
    StoreResult,
};
use serde_json::{Value, json};

use super::{
    clean,
    versions::{claimed, update},
    with_pending,
};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    conversation::{agent, minute},
};

async fn try_edit(db: &dyn Backend, name: &str, item: i64, change: Value) -> StoreResult<EditOutcome> {
    let request = EditRequest {
        agent: agent(name),
        item,
        edit: ItemEdit::parse(&change).unwrap(),
        policy: SummaryPolicy::default(),
        now: minute(100),
    };
    db.store().edit_item(request).await
}

async fn edit(db: &dyn Backend, item: i64, change: Value) -> EditOutcome {
    let edited = try_edit(db, "a", item, change).await.unwrap();
    clean(db, &agent("a")).await;
    edited
}

async fn items(db: &dyn Backend, all: bool) -> Vec<ItemRow> {
    let query = ItemQuery { after: 0, limit: 100, all };
    db.store().items(&agent("a"), query).await.unwrap()
}

async fn document(db: &dyn Backend) -> String {
    db.store().summary(&agent("a")).await.unwrap().unwrap().content
}

pub(crate) async fn items_are_listed(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    update(db, "a", 2).await;
    update(db, "a", 2).await;
    db.raw("UPDATE summary_items SET dropped_version = 2 WHERE item = 1").await;
    let told = |rows: Vec<ItemRow>| -> Vec<(i64, i64, bool)> {
        rows.iter().map(|row| (row.item.item, row.added_version, row.shown)).collect()
    };
    assert_eq!(told(items(db, true).await), [(1, 1, false), (2, 1, true), (3, 2, true), (4, 2, true)]);
    assert_eq!(told(items(db, false).await), [(2, 1, true), (3, 2, true), (4, 2, true)]);
    let query = ItemQuery { after: 2, limit: 1, all: true };
    assert_eq!(told(db.store().items(&agent("a"), query).await.unwrap()), [(3, 2, true)]);
}

pub(crate) async fn a_new_text_makes_a_new_item(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    update(db, "a", 9).await;
    let before = document(db).await;
    let edited = edit(db, 2, json!({"text": "Chose RS256", "importance": "decision"})).await;
    assert_eq!((edited.version, edited.row.added_version, edited.row.shown), (2, 2, true));
    let item = &edited.row.item;
    assert_eq!((item.item, item.origin, item.importance), (4, Origin::Edited, Importance::Decision));
    let after = document(db).await;
    assert_eq!(after, before.replace("Text of exchange 2", "Chose RS256"));
    // The old number leads to the new one.
    let error = try_edit(db, "a", 2, json!({"gist": "x"})).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no item 2; item 4 covers its exchanges now");
    // Earlier versions keep the old text.
    let request =
        RollbackRequest { agent: agent("a"), version: 1, policy: SummaryPolicy::default(), now: minute(101) };
    let revised = db.store().roll_back(request).await.unwrap();
    assert_eq!((revised.restored, revised.removed, revised.edited, revised.enqueued), (1, 1, 1, None));
    assert_eq!(document(db).await, before);
    clean(db, &agent("a")).await;
}

pub(crate) async fn an_edited_item_is_never_condensed_again(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    update(db, "a", 9).await;
    db.raw("UPDATE summary_items SET provisional = true").await;
    edit(db, 2, json!({"text": "Chose RS256"})).await;
    edit(db, 3, json!({"pinned": true})).await;
    let (lease, _) = claimed(db, "a", 9).await;
    let material = db.store().material(&lease, crate::support::conversation::ALL).await.unwrap();
    assert_eq!(material.revisited, [1]);
}

pub(crate) async fn a_pin_keeps_an_item_in_the_document(db: &dyn Backend) {
    with_pending(db, "a", 3).await;
    update(db, "a", 9).await;
    let pinned = edit(db, 2, json!({"pinned": true})).await;
    assert_eq!((pinned.row.item.item, pinned.row.item.pinned, pinned.version), (2, true, 2));
    // A month later the others are too old, and old items leave the document.
    let month_later = minute(40 * 24 * 60);
    let request = EditRequest {
        agent: agent("a"),
        item: 2,
        edit: ItemEdit::parse(&json!({"pinned": true})).unwrap(),
        policy: SummaryPolicy {
            ageing: Ageing::Age {
                session_ms: DAY_MS,
                yesterday_ms: 7 * DAY_MS,
                week_ms: 14 * DAY_MS,
                drops_older: true,
            },
            ..SummaryPolicy::default()
        },
        now: month_later,
    };
    db.store().edit_item(request).await.unwrap();
    let shown: Vec<i64> = items(db, false).await.iter().map(|row| row.item.item).collect();
    assert_eq!(shown, [2]);
    assert!(document(db).await.contains("Text of exchange 2"), "in full");
    // A dropped item comes back under a new number when it is pinned; an item that is unpinned leaves.
    let back = edit(db, 3, json!({"pinned": true})).await;
    assert_eq!((back.row.item.item, back.row.shown), (4, true));
    assert_eq!(back.row.item.origin, Origin::Model);
    let gone = edit(db, 2, json!({"pinned": false})).await;
    assert_eq!((gone.row.item.item, gone.row.item.pinned), (2, false));
    // A child inherits pins.
    db.store().fork(&agent("a"), &agent("b"), minute(50)).await.unwrap();
    let sql = "SELECT count(*) FROM summary_items WHERE agent_id = 'b' AND pinned";
    assert_eq!(db.number(sql).await, Some(1));
    try_edit(db, "b", 4, json!({"text": "Said otherwise in the child"})).await.unwrap();
    clean(db, &agent("b")).await;
    db.store().fork(&agent("b"), &agent("c"), minute(51)).await.unwrap();
    clean(db, &agent("c")).await;
    try_edit(db, "c", 5, json!({"text": "And in its child"})).await.unwrap();
    clean(db, &agent("c")).await;
}

pub(crate) async fn impossible_edits_are_refused(db: &dyn Backend) {
    with_pending(db, "a", 1).await;
    update(db, "a", 9).await;
    for item in (100_i64..).take(ITEM_PINS_MAX.try_into().unwrap()) {
        db.raw(&format!(
            "INSERT INTO summary_items (agent_id, item, added_version, importance, origin, provisional, started_at, \
             ended_at, source_tokens, text, brief, gist, pinned) SELECT agent_id, {item}, added_version, importance, \
             origin, provisional, started_at, ended_at, source_tokens, text, brief, gist, true FROM summary_items \
             WHERE item = 1"
        ))
        .await;
    }
    let before = db.dump(&TABLES).await;
    let pin = || json!({"pinned": true});
    assert!(matches!(try_edit(db, "a", 1, pin()).await.unwrap_err(), StoreError::ItemPinsFull));
    for (name, item) in [("a", 2), ("a", 0), ("a", -1)] {
        let error = try_edit(db, name, item, pin()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("there is no item {item}"));
    }
    let error = try_edit(db, "nobody", 1, pin()).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownAgent(_)), "{error}");
    assert_same(&before, &db.dump(&TABLES).await, "refused");
}

pub(crate) async fn an_update_in_progress_is_fenced_by_an_edit(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    update(db, "a", 2).await;
    let (lease, stale) = claimed(db, "a", 9).await;
    edit(db, 1, json!({"text": "By hand"})).await;
    let error = db.store().complete(&lease, stale).await.unwrap_err();
    assert!(matches!(error, StoreError::Fenced(Fence::Lease)), "{error}");
    update(db, "a", 9).await;
    assert!(document(db).await.contains("- By hand"), "{}", document(db).await);
    assert_eq!(clean(db, &agent("a")).await.pending, 0);
}
