//! Exporting and importing forks together with their ancestors, as they began and lived.

use recapd_core::domain::{agent::AgentId, settings::SettingsPatch, window::Budget};

use super::{TOLD, exported, imported, rehearsed};
use crate::{
    store::lineage_scripts::summarise,
    support::{
        backend::{Backend as _, SqliteBackend, TABLES, assert_same},
        conversation::{TURN_TOKENS, agent, append, minute, said, turns},
    },
};
use recapd_store::PreparedMessage;

/// As in the daemon: a small window, so that most is evicted.
async fn say(db: &SqliteBackend, name: &str, messages: Vec<PreparedMessage>) {
    let mut request = append(&agent(name), messages);
    request.rules.budget = Budget::new(2 * TURN_TOKENS, 1.0);
    db.store().append(request).await.unwrap();
}

async fn fork(db: &SqliteBackend, parent: &str, child: &str) {
    let (parent, child) = (agent(parent), agent(child));
    db.store().fork(&parent, &child, minute(50)).await.unwrap();
}

/// A parent with a preamble, covered, pending and visible exchanges, and marks; a child and the parent, which both live on; and a
/// grandchild.
async fn family() -> SqliteBackend {
    let db = SqliteBackend::fresh().await;
    say(&db, "a", vec![said("system", "Be brief", 5, minute(0))]).await;
    say(&db, "a", turns(1..=4)).await;
    summarise(&db, &agent("a")).await;
    say(&db, "a", turns(5..=5)).await;
    say(&db, "a", vec![said("mark", "", 0, minute(6))]).await;
    say(&db, "a", turns(7..=8)).await;
    fork(&db, "a", "b").await;
    say(&db, "a", turns(60..=63)).await;
    say(&db, "b", vec![said("assistant", "Late", 5, minute(60))]).await;
    say(&db, "b", turns(61..=62)).await;
    say(&db, "b", vec![said("rewind", "", 0, minute(63))]).await;
    say(&db, "b", turns(64..=65)).await;
    fork(&db, "b", "c").await;
    say(&db, "c", turns(70..=71)).await;
    say(&db, "c", vec![said("clear", "", 0, minute(72))]).await;
    say(&db, "c", turns(73..=74)).await;
    db
}

async fn journal_of(db: &SqliteBackend, names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        text.push_str(&exported(db, &agent(name)).await);
    }
    text
}

/// All tables that an export of a family of agents covers.
const TOLD_OF_FORKS: [&str; 6] = ["forks", TOLD[0], TOLD[1], TOLD[2], TOLD[3], TOLD[4]];

#[tokio::test]
async fn a_family_comes_back_as_it_was() {
    let (one, other) = (family().await, SqliteBackend::fresh().await);
    let text = journal_of(&one, &["a", "b", "c"]).await;
    assert_eq!(rehearsed(&other, &text).await.1, Vec::<String>::new());
    let (outcome, refusals) = imported(&other, &text).await;
    assert_eq!((outcome.agents, refusals), (3, vec![]));
    assert_same(&one.dump(&TOLD_OF_FORKS).await, &other.dump(&TOLD_OF_FORKS).await, "a family");
    assert_eq!(journal_of(&other, &["a", "b", "c"]).await, text);
    for name in ["a", "b", "c"] {
        let id: AgentId = agent(name);
        assert_eq!(other.store().verify(&id).await.unwrap().breaches, []);
        assert_eq!(other.store().ancestors(&id).await.unwrap(), one.store().ancestors(&id).await.unwrap());
    }
    // A second import changes nothing.
    let before = other.dump(&TABLES).await;
    let (again, refusals) = imported(&other, &text).await;
    assert_eq!((again.accepted, refusals), (0, vec![]));
    assert_same(&before, &other.dump(&TABLES).await, "the same again");
}

#[tokio::test]
async fn an_unsummarised_child_has_the_same_document_and_continues_alike() {
    let (one, other) = (family().await, SqliteBackend::fresh().await);
    imported(&other, &journal_of(&one, &["a", "b"]).await).await;
    for table in ["summaries", "summary_items", "summary_item_ranges", "summary_facts"] {
        let of_child = async |db: &SqliteBackend| {
            let rows = db.rows(table).await.into_iter();
            rows.filter(|row| row.starts_with("[\"b\"")).collect::<Vec<_>>()
        };
        assert_eq!(of_child(&one).await, of_child(&other).await, "{table}");
    }
    for db in [&one, &other] {
        say(db, "b", turns(80..=82)).await;
        summarise(db, &agent("b")).await;
        assert_eq!(db.store().verify(&agent("b")).await.unwrap().breaches, []);
    }
    assert_eq!(exported(&one, &agent("b")).await, exported(&other, &agent("b")).await);
}

#[tokio::test]
async fn a_child_without_its_parent_is_refused_and_can_come_later() {
    let (one, other) = (family().await, SqliteBackend::fresh().await);
    let text = exported(&one, &agent("b")).await;
    for refusals in [rehearsed(&other, &text).await.1, imported(&other, &text).await.1] {
        assert!(refusals[0].contains("forked from `a`, whose messages are not there"), "{refusals:?}");
    }
    assert!(other.rows("agents").await.is_empty(), "nothing of it is written");
    imported(&other, &exported(&one, &agent("a")).await).await;
    assert_eq!(imported(&other, &text).await.1, Vec::<String>::new());
    assert_eq!(exported(&other, &agent("b")).await, text);
}

#[tokio::test]
async fn another_agent_of_that_name_is_not_taken_for_the_child() {
    let (one, other) = (family().await, SqliteBackend::fresh().await);
    imported(&other, &exported(&one, &agent("a")).await).await;
    other.store().append(append(&agent("b"), Vec::new())).await.unwrap();
    let (_, refusals) = imported(&other, &exported(&one, &agent("b")).await).await;
    assert!(refusals[0].contains("forked from another agent or place"), "{refusals:?}");
}

#[tokio::test]
async fn a_fork_before_the_first_word_and_its_settings_come_back() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    say(&one, "a", Vec::new()).await;
    fork(&one, "a", "b").await;
    let patch = serde_json::json!({"budget_tokens": 77, "on_overflow": "end"});
    let patch = SettingsPatch::parse(patch).unwrap();
    one.store().change_settings(&agent("b"), &patch, minute(51)).await.unwrap();
    say(&one, "b", turns(61..=63)).await;
    let text = journal_of(&one, &["a", "b"]).await;
    assert_eq!(imported(&other, &text).await.1, Vec::<String>::new());
    assert_eq!(journal_of(&other, &["a", "b"]).await, text);
    let settings = async |db: &SqliteBackend| {
        let row = db.store().agent(&agent("b")).await.unwrap().unwrap();
        row.settings
    };
    assert_eq!(settings(&other).await, settings(&one).await);
    assert_eq!(settings(&other).await.budget_tokens, Some(77));
    assert_same(&one.dump(&TOLD_OF_FORKS).await, &other.dump(&TOLD_OF_FORKS).await, "what came back");
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    say(&one, "a", turns(1..=1)).await;
    let text = exported(&one, &agent("a")).await;
    let broken = text.replace("\"settings\":{}", "\"settings\":{\"budget_tokens\":\"much\"}");
    assert_ne!(text, broken);
    let (_, refusals) = imported(&other, &broken).await;
    assert!(refusals[0].contains("settings can't be read"), "{refusals:?}");
    assert!(other.rows("agents").await.is_empty());
}
