//! Facts: written by updates, and undone with their sources.

use recapd_core::domain::{
    lineage::Step,
    summary::{
        compaction::SummaryPolicy,
        fact::{
            Fact, FactChanges, FactClosing, FactDraft, FactKind, FactReplacement,
            edit::{FactEdit, NewFact},
        },
        state::FactRefusal,
    },
    transcript::Voice,
};
use recapd_store::{
    FactChange, FactEdited, FactFault, FactQuery, FactRequest, FactRow, RollbackRequest, StoreError,
    verify::Invariant,
};
use serde_json::json;

use super::{
    clean,
    lineage::step,
    verify::finds_in,
    versions::{ready, rebuild},
    with_pending,
};
use crate::support::{
    backend::Backend,
    conversation::{T0, added, agent, append, items, minute, stating, turns},
};

/// Makes an update of at most two pending exchanges, with these changes of the facts.
async fn update(db: &dyn Backend, name: &str, changes: FactChanges) {
    let (lease, material) = ready(db, name, 2).await;
    let patch = stating(&material, items(&material), &changes, minute(90));
    assert!(patch.facts.refused.is_empty(), "{:?}", patch.facts.refused);
    db.store().complete(&lease, patch).await.unwrap();
    clean(db, &agent(name)).await;
}

fn adding(add: Vec<FactDraft>) -> FactChanges {
    FactChanges { add, ..FactChanges::default() }
}

/// Makes versions 1 and 2 of #1 to #4. Version 1 has the user's demand and two open questions; version 2 closes one of these and replaces
/// the other.
pub(super) async fn stated(db: &dyn Backend, name: &str) {
    let first = vec![
        added(FactKind::Demand, "Question 1", 1),
        added(FactKind::Open, "the tests fail", 2),
        added(FactKind::Open, "who reviews it", 2),
    ];
    update(db, name, adding(first)).await;
    let second = FactChanges {
        add: vec![added(FactKind::Decision, "Answer 3", 3)],
        replace: vec![FactReplacement { fact: 2, text: "the tests pass on Linux".to_owned(), exchange: 3 }],
        close: vec![FactClosing { fact: 3, exchange: 4 }],
    };
    update(db, name, second).await;
}

async fn rows(db: &dyn Backend, name: &str, all: bool) -> Vec<FactRow> {
    let query = FactQuery { after: 0, limit: 100, all };
    db.store().facts(&agent(name), query).await.unwrap()
}

/// Returns the numbers and texts of the facts that hold.
async fn holding(db: &dyn Backend, name: &str) -> Vec<String> {
    let rows = rows(db, name, false).await;
    rows.iter().map(|row| format!("{} {}", row.fact.fact, row.fact.text)).collect()
}

async fn document(db: &dyn Backend, name: &str) -> String {
    db.store().summary(&agent(name)).await.unwrap().unwrap().content
}

pub(crate) async fn facts_come_and_go_with_an_update(db: &dyn Backend) {
    with_pending(db, "a", 6).await;
    stated(db, "a").await;
    let all = rows(db, "a", true).await;
    let told: Vec<_> = all
        .iter()
        .map(|row| {
            (
                row.fact.fact,
                (row.added_version, row.closed_version),
                (row.closed_by_exchange, row.replaced_by),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (1, (1, None), (None, None)),
            (2, (1, Some(2)), (Some(3), Some(4))),
            (3, (1, Some(2)), (Some(4), None)),
            (4, (2, None), (None, None)),
            (5, (2, None), (None, None)),
        ]
    );
    let demand = Fact {
        fact: 1,
        kind: FactKind::Demand,
        text: "Question 1".to_owned(),
        voice: Some(Voice::User),
        speaker: String::new(),
        since: minute(1),
        exchange: 1,
        pinned: false,
    };
    assert_eq!(all[0].fact, demand);
    assert_eq!(all[4].fact.voice, Some(Voice::Assistant));
    assert_eq!(all[3].fact.kind, FactKind::Open);
    assert_eq!(holding(db, "a").await, ["1 Question 1", "4 the tests pass on Linux", "5 Answer 3"]);
    let page = FactQuery { after: 1, limit: 2, all: true };
    assert_eq!(db.store().facts(&agent("a"), page).await.unwrap(), all[1..3]);
    let document = document(db, "a").await;
    assert!(
        document.starts_with("## Where Things Stand\n- The user demands (#1): “Question 1”\n"),
        "{document}"
    );
    assert!(!document.contains("who reviews it"));
    // The next update reads the facts that hold.
    let (_, material) = ready(db, "a", 2).await;
    let read: Vec<i64> = material.facts.iter().map(|fact| fact.fact).collect();
    assert_eq!(read, [1, 4, 5]);
}

pub(crate) async fn a_rollback_restores_the_facts_that_held(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    stated(db, "a").await;
    let back = async |version| {
        let request = RollbackRequest {
            agent: agent("a"),
            version,
            policy: SummaryPolicy::default(),
            now: minute(100),
        };
        db.store().roll_back(request).await.unwrap();
        clean(db, &agent("a")).await;
    };
    let before = rows(db, "a", false).await;
    back(1).await;
    assert_eq!(holding(db, "a").await, ["1 Question 1", "6 the tests fail", "7 who reviews it"]);
    assert!(document(db, "a").await.contains("who reviews it"));
    // The update about #3 is asked for again, and closes the copy.
    let again = FactChanges { close: vec![FactClosing { fact: 7, exchange: 4 }], ..FactChanges::default() };
    update(db, "a", again).await;
    assert_eq!(holding(db, "a").await, ["1 Question 1", "6 the tests fail"]);
    back(2).await;
    let texts = |rows: Vec<FactRow>| rows.into_iter().map(|row| row.fact.text).collect::<Vec<_>>();
    assert_eq!(texts(rows(db, "a", false).await), texts(before));
}

pub(crate) async fn a_rewind_withdraws_facts(db: &dyn Backend) {
    let mut messages = turns(1..=2);
    messages.push(step(&Step::Mark(Some("here".to_owned())), 2));
    messages.extend(turns(3..=5));
    db.store().append(append(&agent("a"), messages)).await.unwrap();
    stated(db, "a").await;
    let rewind = async |at| {
        let back = vec![step(&Step::Rewind(Some("here".to_owned())), at)];
        db.store().append(append(&agent("a"), back)).await.unwrap();
        clean(db, &agent("a")).await;
    };
    rewind(9).await;
    // The window begins where it began at the mark, so only #1 is covered.
    assert_eq!(holding(db, "a").await, ["1 Question 1"]);
    assert!(document(db, "a").await.contains("“Question 1”"));
    db.store().append(append(&agent("a"), turns(10..=13))).await.unwrap();
    let changes = FactChanges {
        close: vec![FactClosing { fact: 1, exchange: 2 }],
        ..adding(vec![added(FactKind::Open, "who reviews it", 2)])
    };
    update(db, "a", changes).await;
    assert_eq!(holding(db, "a").await, ["6 who reviews it"]);
    // The fact that #2 closed is open again, once.
    for at in [20, 30] {
        rewind(at).await;
        assert_eq!(holding(db, "a").await, ["7 Question 1"], "{at}");
        let all = rows(db, "a", true).await;
        assert_eq!((all[0].closed_by_exchange, all[0].replaced_by), (None, Some(7)));
        let more = append(&agent("a"), turns(at + 1..=at + 4));
        db.store().append(more).await.unwrap();
        update(db, "a", FactChanges::default()).await;
    }
}

pub(crate) async fn a_rebuild_begins_without_facts(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    stated(db, "a").await;
    rebuild(db, "a").await;
    assert_eq!(holding(db, "a").await, Vec::<String>::new());
    update(db, "a", adding(vec![added(FactKind::Demand, "Question 1", 1)])).await;
    assert_eq!(holding(db, "a").await, ["6 Question 1"]);
}

pub(crate) async fn a_child_has_its_parents_facts(db: &dyn Backend) {
    with_pending(db, "a", 6).await;
    stated(db, "a").await;
    let fork = async |from, to| {
        db.store().fork(&agent(from), &agent(to), minute(95)).await.unwrap();
        clean(db, &agent(to)).await;
    };
    fork("a", "b").await;
    assert_eq!(holding(db, "b").await, holding(db, "a").await);
    assert_eq!(document(db, "b").await, document(db, "a").await);
    let of_parent = rows(db, "a", true).await;
    let changes = FactChanges {
        close: vec![FactClosing { fact: 1, exchange: 5 }],
        ..adding(vec![added(FactKind::Goal, "Question 6", 6)])
    };
    update(db, "b", changes).await;
    assert_eq!(holding(db, "b").await, ["4 the tests pass on Linux", "5 Answer 3", "6 Question 6"]);
    fork("b", "c").await;
    rebuild(db, "b").await;
    // Inherited facts stay, and those closed since are open again.
    assert_eq!(holding(db, "b").await, ["4 the tests pass on Linux", "5 Answer 3", "7 Question 1"]);
    let sources = db
        .texts(
            "SELECT agent_id || fact || source_agent_id || coalesce(source_fact, 0) FROM summary_facts \
             WHERE source_agent_id IS NOT NULL ORDER BY agent_id, fact",
            " ",
        )
        .await;
    assert_eq!(sources, "b1a0 b4a0 b5a0 b7a1 c4a0 c5a0 c6b0");
    for name in ["c", "b"] {
        db.store().delete_agent(&agent(name), T0).await.unwrap();
        assert_eq!(rows(db, name, true).await, []);
    }
    assert_eq!(rows(db, "a", true).await, of_parent);
}

pub(crate) async fn forgetting_a_source_withdraws_its_facts(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    stated(db, "a").await;
    super::forget::forget(db, "a", &[3]).await;
    clean(db, &agent("a")).await;
    assert_eq!(holding(db, "a").await, ["1 Question 1"]);
    let texts = "SELECT fact || ':' || text FROM summary_facts ORDER BY fact";
    assert_eq!(db.texts(texts, ", ").await, "1:Question 1, 2:the tests fail, 3:who reviews it, 4:, 5:");
    // A rollback doesn't restore it.
    let request =
        RollbackRequest { agent: agent("a"), version: 2, policy: SummaryPolicy::default(), now: minute(300) };
    db.store().roll_back(request).await.unwrap();
    clean(db, &agent("a")).await;
    assert_eq!(holding(db, "a").await, ["1 Question 1"]);
}

pub(crate) async fn facts_can_only_be_read_by_sql(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    stated(db, "a").await;
    let told = "SELECT fact || ' ' || kind || ' ' || text || ' ' || coalesce(voice, '-') || ' ' || exchange_id \
                FROM agent_facts WHERE agent_id = 'a' ORDER BY fact";
    assert_eq!(
        db.texts(told, "; ").await,
        "1 demand Question 1 user 1; 4 open the tests pass on Linux - 3; 5 decision Answer 3 assistant 3"
    );
    for change in [
        "INSERT INTO agent_facts (agent_id, fact) VALUES ('a', 9)",
        "UPDATE agent_facts SET text = 'x'",
        "DELETE FROM agent_facts",
    ] {
        let refused = db.speak(change).await.unwrap_err();
        assert!(refused.contains("can only be read"), "{refused}");
    }
}

pub(crate) async fn false_facts_are_found(db: &dyn Backend) {
    with_pending(db, "a", 4).await;
    stated(db, "a").await;
    let set = |column: &str, value: &str, fact: i64| {
        format!("UPDATE summary_facts SET {column} = {value} WHERE fact = {fact}")
    };
    let versions = [
        (set("added_version", "3", 1), set("added_version", "1", 1)),
        (set("closed_version", "1", 2), set("closed_version", "2", 2)),
        (set("closed_version", "3", 2), set("closed_version", "2", 2)),
        (set("replaced_by", "4", 1), set("replaced_by", "NULL", 1)),
        ("UPDATE agents SET last_fact = 4".to_owned(), "UPDATE agents SET last_fact = 5".to_owned()),
    ];
    let exchanges = [
        (set("exchange", "5", 1), set("exchange", "1", 1)),
        (set("exchange", "-1", 1), set("exchange", "1", 1)),
    ];
    for (invariant, breaks) in
        [(Invariant::ExactlyOnce, versions.as_slice()), (Invariant::OneState, exchanges.as_slice())]
    {
        let breaks: Vec<(&str, &str)> =
            breaks.iter().map(|(break_it, mend_it)| (break_it.as_str(), mend_it.as_str())).collect();
        finds_in(db, invariant, &breaks).await;
    }
}

async fn by_hand(db: &dyn Backend, hand: FactChange) -> Result<FactEdited, FactFault> {
    let request = FactRequest { agent: agent("a"), hand, policy: SummaryPolicy::default(), now: minute(100) };
    let changed = db.store().change_fact(request).await;
    clean(db, &agent("a")).await;
    changed.map_err(|error| match error {
        StoreError::Fact(fault) => fault,
        other => panic!("{other}"),
    })
}

pub(crate) async fn an_operator_changes_facts(db: &dyn Backend) {
    with_pending(db, "a", 6).await;
    stated(db, "a").await;
    let add = |kind, text: &str| FactChange::Add(NewFact { kind, text: text.to_owned() });
    let edit =
        |fact, change: serde_json::Value| FactChange::Edit { fact, edit: FactEdit::parse(&change).unwrap() };
    let added = by_hand(db, add(FactKind::Demand, "You must always ask first")).await.unwrap();
    assert_eq!((added.version, added.row.fact.fact, added.row.fact.exchange), (3, 6, 0));
    let line = "- Demand (by hand): “You must always ask first”\n";
    assert!(document(db, "a").await.contains(line));
    let reworded = by_hand(db, edit(4, json!({"text": "the tests pass everywhere", "pinned": true}))).await;
    let fact = reworded.unwrap().row.fact;
    assert_eq!((fact.fact, fact.exchange, fact.voice, fact.pinned), (7, 3, None, true));
    by_hand(db, edit(5, json!({"pinned": true}))).await.unwrap();
    let closed = by_hand(db, edit(1, json!({"closed": true}))).await.unwrap();
    assert_eq!((closed.row.closed_version, closed.row.replaced_by), (Some(6), None));
    assert_eq!(
        holding(db, "a").await,
        ["5 Answer 3", "6 You must always ask first", "7 the tests pass everywhere"]
    );
    for (hand, fault) in [
        (edit(1, json!({"pinned": true})), FactFault::Unknown(1)),
        (edit(99, json!({"text": "x"})), FactFault::Unknown(99)),
        (add(FactKind::Decision, "Answer 3"), FactFault::Duplicate(5)),
        (edit(7, json!({"text": "the tests pass everywhere"})), FactFault::Duplicate(7)),
    ] {
        assert_eq!(by_hand(db, hand).await.unwrap_err(), fault);
    }
    // A model can't close a pinned fact.
    let (_, material) = ready(db, "a", 2).await;
    let changes = FactChanges { close: vec![FactClosing { fact: 5, exchange: 5 }], ..FactChanges::default() };
    let refused = stating(&material, items(&material), &changes, minute(110)).facts.refused;
    assert_eq!(refused, [FactRefusal::Pinned]);
}
