//! The views that agents read by plain SQL.

use recapd_core::domain::{lineage::Step, redaction::Redactor};
use recapd_store::{Forget, Forgettable};

use super::{
    clean,
    inbox::{empty, ingestor},
    lineage::step,
    with_pending,
};
use crate::support::{
    backend::Backend,
    conversation::{agent, append, minute, rules, turns},
};

/// Seed 000's two queries, and its table of exchanges.
pub(crate) async fn views_show_where_messages_stand(db: &dyn Backend) {
    with_pending(db, "a", 2).await;
    let window = "SELECT min(exchange_id) FROM messages WHERE agent_id = 'a' AND in_sliding_window = TRUE AND evicted_at IS NULL";
    assert_eq!(db.number(window).await, Some(3));
    let archive = "SELECT count(*) FROM messages WHERE agent_id = 'a' AND in_sliding_window = FALSE AND evicted_at IS NOT NULL";
    assert_eq!(db.number(archive).await, Some(4));
    let first = "SELECT role || ' ' || content || ' ' || token_count || ' ' || exchange_id FROM messages WHERE id = 1";
    assert_eq!(db.text(first).await.as_deref(), Some("user Question 1 40 1"));
    assert_eq!(db.number("SELECT created_at FROM messages WHERE id = 1").await, Some(minute(1).0));
    let exchange = "SELECT start_msg_id || '-' || end_msg_id || ' ' || token_count || ' ' || (evicted_at IS NULL) || ' ' \
                    || state FROM exchanges WHERE agent_id = 'a' AND id = 3";
    let told = db.text(exchange).await.unwrap().replace("true", "1");
    assert_eq!(told, "5-6 100 1 closed");
    let evicted = "SELECT evicted_at FROM exchanges WHERE agent_id = 'a' AND id = 1";
    assert_eq!(db.number(evicted).await, db.number("SELECT min(evicted_at) FROM evictions").await);
    let summary = "SELECT agent_id || ' ' || version || ' ' || first_exchange FROM agent_summary";
    assert_eq!(db.text(summary).await.as_deref(), Some("a 0 3"));
    assert_eq!(db.number("SELECT count(*) FROM summary_documents WHERE content = ''").await, Some(1));
}

pub(crate) async fn views_show_the_effects_of_lineage(db: &dyn Backend) {
    let mark = step(&Step::Mark(Some("here".to_owned())), 1);
    let rewind = step(&Step::Rewind(Some("here".to_owned())), 9);
    let said = [turns(1..=1), vec![mark], turns(2..=3), vec![rewind]].concat();
    let mut request = append(&agent("a"), said);
    request.rules.budget = recapd_core::domain::window::Budget::unlimited();
    db.store().append(request).await.unwrap();
    let aside = "SELECT count(*) FROM messages WHERE kind IN ('user', 'assistant') AND set_aside_at IS NOT NULL AND NOT in_sliding_window AND evicted_at IS NULL";
    assert_eq!(db.number(aside).await, Some(4));
    db.store().fork(&agent("a"), &agent("child"), minute(10)).await.unwrap();
    let inherited =
        "SELECT content FROM messages WHERE agent_id = 'child' AND id = 1 AND in_sliding_window = TRUE";
    assert_eq!(db.text(inherited).await.as_deref(), Some("Question 1"));
    let forget = Forget {
        agent: agent("a"),
        what: Forgettable::Message(1),
        rules: rules(),
        redactor: Redactor::standard(),
        now: minute(11),
    };
    db.store().forget(forget).await.unwrap();
    assert_eq!(db.text("SELECT content FROM messages WHERE agent_id = 'a' AND id = 1").await, None);
    assert_eq!(
        db.text("SELECT role FROM messages WHERE agent_id = 'a' AND id = 1").await.as_deref(),
        Some("user")
    );
}

pub(crate) async fn views_can_only_be_read(db: &dyn Backend) {
    with_pending(db, "a", 1).await;
    for (sql, words) in [
        ("UPDATE messages SET evicted_at = NULL, in_sliding_window = TRUE", "messages are never changed"),
        ("DELETE FROM messages WHERE id = 1", "messages are never deleted; recapd forget"),
        (
            "INSERT INTO exchanges (agent_id) VALUES ('a')",
            "exchanges are made by recapd: insert into messages",
        ),
        ("DELETE FROM exchanges WHERE agent_id = 'a'", "exchanges are made by recapd"),
        (
            "UPDATE summary_documents SET content = 'x' WHERE agent_id = 'a'",
            "summaries are written by recapd",
        ),
        ("DELETE FROM summary_documents", "summaries are written by recapd"),
        ("UPDATE agent_summary SET content = 'x'", "summaries are written by recapd"),
        ("UPDATE agent_pending SET digest = 'x'", "what is pending is told by recapd"),
        ("DELETE FROM agent_pending WHERE agent_id = 'a'", "what is pending is told by recapd"),
        ("INSERT INTO refused_messages (agent_id) VALUES ('a')", "insert into messages"),
    ] {
        let refused = db.speak(sql).await.unwrap_err();
        assert!(refused.contains(words), "{sql}: {refused}");
    }
    clean(db, &agent("a")).await;
}

/// Some clients fail on all rows of a query because of one with invalid UTF-8.
pub(crate) async fn half_an_emoji_is_read_as_it_was_sent(db: &dyn Backend) {
    let sent = [r"Whole \ud83d\ude00 \ufffd", r"Half \ud83d", r"\u0000 \uDE00", r"Spelt \\ud83d"]
        .map(|text| format!(r#"{{"role":"user","content":"{text}"}}"#));
    for content in &sent {
        let sql = format!("INSERT INTO messages (agent_id, content) VALUES ('a', '{content}')");
        db.speak(&sql).await.unwrap();
    }
    empty(db, &ingestor(db).0).await;
    let content = "SELECT content FROM messages WHERE agent_id = 'a' ORDER BY id";
    let read: Vec<String> = db.column(content).await.into_iter().flatten().collect();
    assert_eq!(read, ["Whole \u{1f600} \u{fffd}", sent[1].as_str(), sent[2].as_str(), r"Spelt \ud83d"]);
}
