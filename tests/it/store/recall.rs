//! Recall and expand: the archive by words and by numbers.

use recapd_api::recall::{self, ArchiveQuestion, RecallReply};
use recapd_core::domain::{
    recall::{ArchiveSearch, Query},
    time::Timestamp,
};
use recapd_store::{ExchangePlace, ExpandedExchange, MessageRange, MessageScope};

use super::{clean, lineage::step, the_lease, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{ALL, T0, agent, append, items, minute, patch, said, turns},
};
use recapd_core::domain::{lineage::Step, redaction::Redactor};

const WHOLE: MessageRange = MessageRange {
    after_seq: 0,
    messages_max: 100,
    bytes_max: 1_000_000,
    is_current: false,
    scope: MessageScope::All,
};

pub(crate) async fn index(db: &dyn Backend) -> i64 {
    let mut indexed = 0;
    loop {
        match db.store().index_messages(3).await.unwrap() {
            0 => return indexed,
            more => indexed += more,
        }
    }
}

async fn recalled(db: &dyn Backend, name: &str, words: &str, limit: i64) -> RecallReply {
    asked(db, name, &[("q", words), ("limit", &limit.to_string())]).await
}

pub(crate) async fn asked(db: &dyn Backend, name: &str, parameters: &[(&str, &str)]) -> RecallReply {
    let of = |name: &str| parameters.iter().find(|(other, _)| *other == name).map(|(_, text)| *text);
    let question = ArchiveQuestion::read(of, minute(90)).unwrap();
    let (store, agent, redactor) = (db.store(), agent(name), Redactor::standard());
    let reply = recall::search(store.as_ref(), &agent, &question, &redactor, None).await;
    reply.unwrap().unwrap()
}

/// Returns the exchanges found, best first, with their places.
async fn found(db: &dyn Backend, name: &str, words: &str) -> Vec<(i64, ExchangePlace)> {
    let reply = recalled(db, name, words, 50).await;
    reply.found.iter().map(|found| (found.exchange, found.place)).collect()
}

async fn expand(db: &dyn Backend, name: &str, exchange: i64) -> Option<ExpandedExchange> {
    db.store().expand(&agent(name), exchange, WHOLE).await.unwrap()
}

async fn say(db: &dyn Backend, name: &str, text: &str, at: i64) {
    let messages = vec![said("user", text, 40, minute(at)), said("assistant", "Done.", 60, minute(at))];
    db.store().append(append(&agent(name), messages)).await.unwrap();
}

/// Creates three exchanges: one covered, one pending, one in the window.
async fn three(db: &dyn Backend) {
    say(db, "a", "Implement the JWT authentication", 1).await;
    say(db, "a", "Fix the café parser in src/parser.rs", 2).await;
    let lease = the_lease(db, minute(60)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let update = patch(&material, items(&material), minute(60));
    db.store().complete(&lease, update).await.unwrap();
    say(db, "a", "Authentication fails for the parser: 日本語", 3).await;
    say(db, "b", "JWT of somebody else", 3).await;
}

pub(crate) async fn messages_are_found_by_words(db: &dyn Backend) {
    three(db).await;
    assert_eq!(index(db).await, 8);
    let (covered, pending, window) = (ExchangePlace::Covered, ExchangePlace::Pending, ExchangePlace::Window);
    for (words, expected) in [
        ("jwt", &[(1, covered)][..]),
        ("authentication parser", &[(3, window), (2, pending), (1, covered)]),
        ("AUTH fail", &[(3, window), (1, covered)]),
        ("Which parsers did we implement, and why?", &[(1, covered), (3, window), (2, pending)]),
        ("cafe", &[(2, pending)]),
        ("src/parser.rs", &[(2, pending)]),
        ("\"the parser\"", &[(3, window)]),
        ("\"parser the\"", &[]),
        ("本語", &[(3, window)]),
        ("somebody", &[]),
        ("who:a NOT said*", &[]),
    ] {
        let mut found = found(db, "a", words).await;
        let mut expected = expected.to_vec();
        if expected.len() == 3 {
            // How exchanges with one word each rank is the domain's matter.
            found.sort_by_key(|(exchange, _)| *exchange);
            expected.sort_by_key(|(exchange, _)| *exchange);
        }
        assert_eq!(found, expected, "{words}");
    }
    let query = ArchiveSearch::new(Query::parse("jwt").unwrap(), 10);
    assert_eq!(db.store().search(&agent("nobody"), &query).await.unwrap(), None);
}

/// Of more words than a search takes, the rarest count: a word that no message has takes no other's place.
pub(crate) async fn of_many_words_the_rarest_count(db: &dyn Backend) {
    three(db).await;
    index(db).await;
    let mut words: Vec<String> = (0..40).map(|number| format!("unknown{number}")).collect();
    words.push("jwt".to_owned());
    let found = found(db, "a", &words.join(" ")).await;
    assert_eq!(found, [(1, ExchangePlace::Covered)]);
}

pub(crate) async fn unindexed_messages_are_found_too(db: &dyn Backend) {
    say(db, "a", "The token is ghp_0123456789abcdefghijABCDEFGHIJ012345 for deploy", 1).await;
    index(db).await;
    say(db, "a", "Deploy again", 2).await;
    let reply = recalled(db, "a", "deploy token", 1).await;
    assert_eq!((reply.found[0].exchange, reply.has_more), (1, true));
    assert_eq!(reply.terms, ["deploy", "token"]);
    assert!(reply.found[0].missing.is_empty());
    let excerpt = &reply.found[0].excerpts[0];
    assert_eq!((excerpt.seq, excerpt.kind.as_str()), (1, "user"));
    assert!(excerpt.text.contains("for deploy") && !excerpt.text.contains("0123456789"), "{}", excerpt.text);
    assert!(!reply.found[0].title.contains("0123456789"), "{}", reply.found[0].title);
    // Among equals, newer ones come first.
    assert_eq!(found(db, "a", "deploy").await.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2, 1]);
}

pub(crate) async fn a_search_is_filtered(db: &dyn Backend) {
    for (number, text) in [(1, "Open the door"), (2, "Close the door"), (3, "Paint the door")] {
        say(db, "a", text, number).await;
    }
    for _ in 0..2 {
        let until = minute(3).to_string();
        for (filter, expected) in [
            (("until", until.as_str()), &[2, 1][..]),
            (("since", &until), &[3]),
            // The one in the middle has two neighbours.
            (("role", "user"), &[2, 3, 1]),
            (("role", "assistant"), &[]),
            (("tool", "bash"), &[]),
            (("session", "1"), &[2, 3, 1]),
            (("session", "2"), &[]),
            (("order", "recent"), &[3, 2, 1]),
        ] {
            let reply = asked(db, "a", &[("q", "doors"), filter]).await;
            let numbers: Vec<i64> = reply.found.iter().map(|found| found.exchange).collect();
            assert_eq!(numbers, expected, "{filter:?}");
        }
        let reply = asked(db, "a", &[("q", "What did we do today?"), ("limit", "2")]).await;
        let numbers: Vec<i64> = reply.found.iter().map(|found| found.exchange).collect();
        assert_eq!((numbers, reply.has_more), (vec![3, 2], true));
        assert_eq!(reply.time.unwrap().words, "today");
        index(db).await;
    }
}

pub(crate) async fn accents_make_no_difference(db: &dyn Backend) {
    let far = "x ".repeat(300);
    say(db, "a", &format!("{far}Ask Zoë"), 1).await;
    say(db, "a", &format!("{far}Open Re\u{301}sume\u{301}.pdf"), 2).await;
    for state in ["not indexed", "indexed"] {
        for (words, exchange, shown) in [
            ("Zoe", 1, "Ask Zoë"),
            ("ask ZOË", 1, "Ask Zoë"),
            ("zoe\u{308}", 1, "Ask Zoë"),
            ("resume.pdf", 2, "Open Re\u{301}sume\u{301}.pdf"),
            ("\"open Résumé\"", 2, "Open Re\u{301}sume\u{301}.pdf"),
        ] {
            let reply = recalled(db, "a", words, 50).await;
            let numbers: Vec<i64> = reply.found.iter().map(|found| found.exchange).collect();
            assert_eq!(numbers, [exchange], "{words}, {state}");
            let found = &reply.found[0];
            assert!(found.missing.is_empty(), "{words}, {state}: {:?}", found.missing);
            let excerpt = &found.excerpts[0].text;
            assert!(excerpt.contains(shown), "{words}, {state}: {excerpt}");
        }
        index(db).await;
    }
}

pub(crate) async fn each_message_is_indexed_once(db: &dyn Backend) {
    db.store().append(append(&agent("a"), turns(1..=5))).await.unwrap();
    let store = db.store();
    let (one, other) = tokio::join!(store.index_messages(4), store.index_messages(4));
    // The second one finds that the first is at work, or has finished.
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!([one, other].contains(&4) && one.max(other) <= 4, "{one} {other}");
    index(db).await;
    assert_eq!(db.indexed(None).await, 10);
    assert_eq!(index(db).await, 0);
    assert_eq!(found(db, "a", "question").await.len(), 5);
}

pub(crate) async fn set_aside_messages_are_not_found(db: &dyn Backend) {
    say(db, "a", "First apple", 1).await;
    let mark = step(&Step::Mark(None), 1);
    db.store().append(append(&agent("a"), vec![mark])).await.unwrap();
    say(db, "a", "Second apple", 2).await;
    index(db).await;
    let back = step(&Step::Rewind(None), 3);
    db.store().append(append(&agent("a"), vec![back])).await.unwrap();
    assert_eq!(found(db, "a", "apple").await, [(1, ExchangePlace::Window)]);
    let expanded = expand(db, "a", 2).await.unwrap();
    assert_eq!((expanded.placed.place, expanded.messages.len()), (ExchangePlace::SetAside, 3));
}

pub(crate) async fn a_fork_finds_what_it_inherited_and_nothing_later(db: &dyn Backend) {
    three(db).await;
    let (parent, child) = (agent("a"), agent("child"));
    db.store().fork(&parent, &child, minute(70)).await.unwrap();
    say(db, "a", "JWT in the parent's later life", 80).await;
    say(db, "child", "JWT in the child", 81).await;
    db.store().fork(&child, &agent("grandchild"), minute(90)).await.unwrap();
    for _ in 0..2 {
        let numbers = |found: Vec<(i64, ExchangePlace)>| {
            let mut numbers: Vec<i64> = found.iter().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(numbers(found(db, "a", "jwt").await), [1, 4]);
        assert_eq!(numbers(found(db, "child", "jwt").await), [1, 4]);
        assert_eq!(numbers(found(db, "grandchild", "jwt").await), [1, 4]);
        assert_eq!(found(db, "child", "later").await, []);
        assert_eq!(found(db, "a", "child").await, []);
        index(db).await;
    }
    // A covered exchange comes from the parent, its own rows from the child.
    let covered = expand(db, "grandchild", 1).await.unwrap();
    assert_eq!((covered.placed.place, &covered.placed.source), (ExchangePlace::Covered, &parent));
    let own = expand(db, "grandchild", 4).await.unwrap();
    assert_eq!((&own.placed.source, own.messages[0].message.text()), (&child, "JWT in the child".to_owned()));
    assert_eq!(expand(db, "grandchild", 5).await, None);
    for name in ["a", "child", "grandchild"] {
        clean(db, &agent(name)).await;
    }
}

pub(crate) async fn an_exchange_is_read_as_it_was(db: &dyn Backend) {
    let a = with_pending(db, "a", 2).await;
    let expanded = expand(db, "a", 2).await.unwrap();
    assert_eq!((expanded.placed.place, expanded.has_more), (ExchangePlace::Pending, false));
    assert_eq!(expanded.placed.source, a);
    assert!(expanded.placed.evicted_at > Some(T0));
    let texts: Vec<String> = expanded.messages.iter().map(|stored| stored.message.text()).collect();
    assert_eq!(texts, ["Question 2", "Answer 2"]);
    assert_eq!(expand(db, "a", 4).await, None);
    assert_eq!(expand(db, "a", 0).await, None);
    assert_eq!(expand(db, "nobody", 1).await, None);
}

pub(crate) async fn a_long_exchange_is_read_in_parts(db: &dyn Backend) {
    let mut messages = vec![said("user", "Go", 1, Timestamp(0))];
    messages.extend((0..6).map(|_| said("tool_call", "bash", 1, Timestamp(0))));
    db.store().append(append(&agent("a"), messages)).await.unwrap();
    let (mut after_seq, mut seqs) = (0, Vec::new());
    loop {
        let range = MessageRange { after_seq, messages_max: 3, ..WHOLE };
        let part = db.store().expand(&agent("a"), 1, range).await.unwrap().unwrap();
        seqs.extend(part.messages.iter().map(|stored| stored.seq));
        if !part.has_more {
            break;
        }
        after_seq = *seqs.last().unwrap();
    }
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7]);
    let range = MessageRange { bytes_max: 1, ..WHOLE };
    let part = db.store().expand(&agent("a"), 1, range).await.unwrap().unwrap();
    assert_eq!((part.messages.len(), part.has_more), (1, true));
}

pub(crate) async fn an_exchange_is_read_without_what_hosts_add(db: &dyn Backend) {
    let kinds = ["user", "system", "attachment", "tool_call", "usage", "tool_result", "assistant"];
    let messages = kinds.map(|kind| said(kind, kind, 1, Timestamp(0)));
    db.store().append(append(&agent("a"), messages.to_vec())).await.unwrap();
    let (mut after_seq, mut told) = (0, Vec::new());
    while told.len() < 4 {
        let range = MessageRange { after_seq, messages_max: 2, scope: MessageScope::Conversation, ..WHOLE };
        let part = db.store().expand(&agent("a"), 1, range).await.unwrap().unwrap();
        let kinds = part.messages.iter().map(|stored| stored.message.kind.name());
        told.extend(kinds.map(str::to_owned));
        after_seq = part.messages.last().unwrap().seq;
        assert_eq!(part.has_more, told.len() < 4);
    }
    assert_eq!(told, ["user", "tool_call", "tool_result", "assistant"]);
}

pub(crate) async fn messages_too_many_to_search_are_counted(db: &dyn Backend) {
    db.store().append(append(&agent("a"), turns(1..=2))).await.unwrap();
    // As if thirty thousand messages lay between the first exchange and the second.
    for sql in [
        "UPDATE message_log SET seq = seq + 30000 WHERE seq > 2",
        "UPDATE exchange_log SET first_seq = first_seq + 30000, last_seq = last_seq + 30000 WHERE exchange = 2",
        "UPDATE agents SET last_seq = last_seq + 30000",
    ] {
        db.raw(sql).await;
    }
    let query = ArchiveSearch::new(Query::parse("question").unwrap(), 10);
    let searched = async |name: &str| {
        let searched = db.store().search(&agent(name), &query).await.unwrap().unwrap();
        (searched.found.len(), searched.unsearched)
    };
    assert_eq!(searched("a").await, (1, 10_004));
    // Another agent isn't affected.
    say(db, "b", "A question of another", 3).await;
    assert_eq!(searched("b").await, (1, 0));
    index(db).await;
    assert_eq!(searched("a").await, (2, 0));
    // It counts only up to a limit, to save time.
    db.raw("UPDATE agents SET last_seq = last_seq + 1000000 WHERE agent_id = 'a'").await;
    assert_eq!(searched("a").await.1, 80_000);
}
