//! Journals: exported and imported unchanged, and read from broken files.

mod fork;
mod live;

use std::{collections::BTreeSet, sync::Mutex};

use proptest::prelude::*;
use recapd_core::{
    domain::{agent::AgentId, redaction::Redactor, time::MINUTE_MS, window::Budget},
    formats,
};
use recapd_engine::journal::{
    export::export,
    import::{Import, ImportReport},
};
use recapd_platform::clock::ManualClock;
use recapd_store::PreparedMessage;

use crate::support::{
    backend::{Backend as _, SqliteBackend, TABLES, assert_same},
    conversation::{T0, agent, append, minute, prepared, said, turns},
};
use recapd_core::domain::message::Format;

/// The tables that an export contains and an import must restore.
const TOLD: [&str; 5] = ["message_log", "sessions", "exchange_log", "evictions", "marks"];

pub(super) async fn exported(db: &SqliteBackend, id: &AgentId) -> String {
    let mut out = Vec::new();
    let target = db.target();
    export(target.as_ref(), id, &mut out, &|_| ()).await.unwrap().unwrap();
    String::from_utf8(out).unwrap()
}

/// Imports a journal into `db`. Returns the report and the refusals.
pub(super) async fn imported(db: &SqliteBackend, text: &str) -> (ImportReport, Vec<String>) {
    read(import_into(db), text).await
}

fn import_into(db: &SqliteBackend) -> Import {
    let clock = std::sync::Arc::new(ManualClock::new(T0));
    Import::new(db.target(), clock, Redactor::standard())
}

fn rehearsal(db: &SqliteBackend) -> Import {
    let clock = std::sync::Arc::new(ManualClock::new(T0));
    Import::dry(Some(db.target()), clock, Redactor::standard())
}

pub(super) async fn rehearsed(db: &SqliteBackend, text: &str) -> (ImportReport, Vec<String>) {
    read(rehearsal(db), text).await
}

async fn read(import: Import, text: &str) -> (ImportReport, Vec<String>) {
    read_all(import, &[text]).await
}

async fn read_all(mut import: Import, pieces: &[&str]) -> (ImportReport, Vec<String>) {
    let refusals = Mutex::new(Vec::new());
    let refused = |line, refusal: &recapd_engine::journal::import::LineRefusal| {
        refusals.lock().unwrap().push(format!("{line}: {refusal}"));
    };
    for piece in pieces {
        import.read(&mut piece.as_bytes(), &refused, &|_| ()).await.unwrap();
    }
    let refusals = refusals.into_inner().unwrap();
    (import.imported().clone(), refusals)
}

/// A message of any kind, in one or several lines, some minutes after the one before.
fn message() -> impl Strategy<Value = (u8, String, i64, i64, bool)> {
    (0..10_u8, ".{0,12}", 0..40_i64, 0..200_i64, any::<bool>())
}

fn conversation(drawn: Vec<(u8, String, i64, i64, bool)>) -> Vec<PreparedMessage> {
    let mut at = T0;
    let messages = drawn.into_iter().enumerate();
    let prepare = |(number, (kind, content, tokens, minutes, is_pretty))| {
        let kinds = [
            "system",
            "user",
            "assistant",
            "tool_call",
            "tool_result",
            "mark",
            "user",
            "clear",
            "rewind",
            "user",
        ];
        let value = serde_json::json!({
            "kind": kinds[usize::from(kind)], "content": content, "name": "bash", "id": format!("id-{number}"),
            "speaker": "ann", "interrupted": tokens == 7, "label": (tokens % 3 == 0).then_some("here"),
        });
        let json =
            if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        at = at.plus_ms(minutes * MINUTE_MS - MINUTE_MS);
        prepared(formats::parse(Format::Native, &json.unwrap()).unwrap(), tokens, at)
    };
    messages.map(prepare).collect()
}

/// Sizes of legs: legs that are never, always, and sometimes full after a message.
fn leg_tokens() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), Just(1), 20..80_i64]
}

/// `legs` are the successive settings: they change whenever a session ends.
async fn goes_out_and_comes_back(drawn: Vec<(u8, String, i64, i64, bool)>, legs: Vec<i64>) {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    let messages = conversation(drawn);
    for (part, &leg_tokens) in messages.chunks(messages.len().div_ceil(legs.len())).zip(&legs) {
        let mut request = append(&id, part.to_vec());
        request.rules.idle_gap_ms = 120 * MINUTE_MS;
        request.rules.budget = Budget::new(90, 0.7).with_leg_tokens(leg_tokens);
        request.replayed = legs.len() == 2;
        one.store().append(request).await.unwrap();
        one.store().end_session(&id, T0).await.unwrap();
    }
    let text = exported(&one, &id).await;
    assert_eq!(rehearsed(&other, &text).await.1, Vec::<String>::new());
    let (outcome, refusals) = imported(&other, &text).await;
    assert_eq!(refusals, Vec::<String>::new());
    assert_eq!(outcome.accepted, i64::try_from(messages.len()).unwrap());
    assert_eq!(exported(&other, &id).await, text);
    assert_same(&one.dump(&TOLD).await, &other.dump(&TOLD).await, "what came back");
    assert_eq!(other.store().verify(&id).await.unwrap().breaches, []);
    let (a, b) = (one.store().agent(&id).await, other.store().agent(&id).await);
    assert_eq!(a.unwrap().unwrap().ledger, b.unwrap().unwrap().ledger);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_export_is_imported_unchanged(
        drawn in proptest::collection::vec(message(), 1..40),
        legs in proptest::collection::vec(leg_tokens(), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(goes_out_and_comes_back(drawn, legs));
    }
}

/// A conversation that marks, rewinds, clears, and begins again with a preamble; far over its window's budget.
fn stepped() -> Vec<PreparedMessage> {
    let mut messages = vec![said("system", "Be brief", 5, T0)];
    messages.extend(turns(1..=3));
    messages.push(said("mark", "", 0, minute(4)));
    messages.extend(turns(5..=7));
    messages.push(said("rewind", "", 0, minute(8)));
    messages.extend(turns(9..=10));
    messages.push(said("clear", "", 0, minute(11)));
    messages.push(said("system", "Be briefer", 7, minute(12)));
    messages.push(said("mark", "", 0, minute(12)));
    messages.extend(turns(13..=15));
    messages
}

#[tokio::test]
async fn clears_marks_and_rewinds_are_imported() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    one.store().append(append(&id, stepped())).await.unwrap();
    let text = exported(&one, &id).await;
    let set_aside = "SELECT count(*) FROM exchange_log WHERE set_aside_at IS NOT NULL";
    let preamble = "SELECT preamble_exchange FROM agents";
    assert_eq!(one.number(set_aside).await, Some(3));
    assert_eq!(imported(&other, &text).await.1, Vec::<String>::new());
    assert_eq!(exported(&other, &id).await, text);
    assert_same(&one.dump(&TOLD).await, &other.dump(&TOLD).await, "what came back");
    assert_eq!(other.number(preamble).await, one.number(preamble).await);
    assert_eq!(other.store().verify(&id).await.unwrap().breaches, []);
    // Both continue in the same way.
    let rewind = || append(&id, vec![said("rewind", "", 0, minute(16)), said("user", "On", 9, minute(17))]);
    one.store().append(rewind()).await.unwrap();
    other.store().append(rewind()).await.unwrap();
    assert_eq!(exported(&other, &id).await, exported(&one, &id).await);
}

#[tokio::test]
async fn a_rewind_of_summarised_messages_is_refused_whole() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    let messages = stepped();
    let (before, after) = messages.split_at(14);
    one.store().append(append(&id, before.to_vec())).await.unwrap();
    assert_eq!(imported(&other, &exported(&one, &id).await).await.1, Vec::<String>::new());
    other.raw("UPDATE agents SET summarized_through = first_exchange - 1").await;
    one.store().append(append(&id, after.to_vec())).await.unwrap();
    let found = other.dump(&TOLD).await;
    let (outcome, refusals) = imported(&other, &exported(&one, &id).await).await;
    assert_eq!((outcome.accepted, outcome.refused), (0, 1));
    assert!(refusals[0].contains("message 15 rewinds what is summarised"), "{refusals:?}");
    assert_same(&found, &other.dump(&TOLD).await, "a refused import");
}

/// As with an append, the importer decides what is redacted in headlines.
#[tokio::test]
async fn headlines_are_redacted_by_the_imports_redactor() {
    let (one, id) = (SqliteBackend::fresh().await, agent("a"));
    let question = said("user", "Question 1: why is password=\"hunter2\" refused?", 40, T0);
    one.store().append(append(&id, vec![question])).await.unwrap();
    let text = exported(&one, &id).await;
    let standard = Redactor::standard();
    for (redactor, [keeps_question, keeps_password]) in [
        (standard.clone(), [true, false]),
        (standard.with_patterns(&["Question"]).unwrap(), [false, false]),
        (Redactor::off(), [true, true]),
    ] {
        let other = SqliteBackend::fresh().await;
        let clock = std::sync::Arc::new(ManualClock::new(T0));
        let (_, refusals) = read(Import::new(other.target(), clock, redactor), &text).await;
        assert_eq!(refusals, [""; 0]);
        let row = other.store().agent(&id).await.unwrap().unwrap();
        let title = row.ledger.newest.unwrap().headline.title;
        assert_eq!(title.contains("Question"), keeps_question, "{title}");
        assert_eq!(title.contains("hunter2"), keeps_password, "{title}");
    }
}

#[tokio::test]
async fn the_head_of_a_refused_piece_takes_no_effect() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    one.store().append(append(&id, turns(1..=5))).await.unwrap();
    let text = exported(&one, &id).await;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (first, rest) = lines.split_at(5);
    // The target has other messages in place of the first four.
    other.store().append(append(&id, turns(7..=8))).await.unwrap();
    let (outcome, refusals) = read_all(import_into(&other), &[&first.concat(), &rest.concat()]).await;
    assert_eq!(outcome.refused, 1, "{refusals:?}");
    assert_eq!(outcome.unfinished, [id].into(), "{refusals:?}");
}

#[tokio::test]
async fn a_long_history_takes_several_chunks() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    one.store().append(append(&id, turns(1..=400))).await.unwrap();
    let text = exported(&one, &id).await;
    assert_eq!(imported(&other, &text).await.0.accepted, 800);
    assert_eq!(exported(&other, &id).await, text);
}

#[tokio::test]
async fn several_agents_in_one_file_are_imported_once() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let mut text = String::new();
    for name in ["a", "b", "c"] {
        one.store().append(append(&agent(name), turns(1..=3))).await.unwrap();
        text.push_str(&exported(&one, &agent(name)).await);
    }
    let expected =
        |accepted, duplicates| ImportReport { agents: 3, accepted, duplicates, ..ImportReport::default() };
    assert_eq!(rehearsed(&other, &text).await.0, expected(18, 0));
    assert!(other.rows("agents").await.is_empty(), "a dry run writes nothing");
    assert_eq!(imported(&other, &text).await.0, expected(18, 0));
    assert_eq!(rehearsed(&other, &text).await.0, expected(0, 18));
    assert_eq!(imported(&other, &text).await.0, expected(0, 18));
}

#[tokio::test]
async fn an_interrupted_import_continues() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    one.store().append(append(&id, turns(1..=5))).await.unwrap();
    let text = exported(&one, &id).await;
    let (torn, _) = text.split_at(text.len() * 2 / 3);
    let (first, refusals) = imported(&other, torn).await;
    assert_eq!((first.accepted > 2, first.refused), (true, 1), "{refusals:?}");
    assert_eq!(other.store().verify(&id).await.unwrap().breaches, []);
    let (second, _) = imported(&other, &text).await;
    assert_eq!((second.accepted + first.accepted, second.duplicates), (10, first.accepted));
    assert_eq!(exported(&other, &id).await, text);
}

#[tokio::test]
async fn a_piece_without_a_head_continues_from_stored_messages() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    one.store().append(append(&id, turns(1..=3))).await.unwrap();
    let text = exported(&one, &id).await;
    let (first, rest) = text.split_at(text.match_indices('\n').nth(2).unwrap().0 + 1);
    for refusals in [rehearsed(&other, rest).await.1, imported(&other, rest).await.1] {
        let wanted = "message 3 comes where message 1 should; import what comes before it first";
        assert!(refusals[0].contains(wanted), "{refusals:?}");
    }
    assert!(other.rows("agents").await.is_empty(), "nothing of it is written");
    let unfinished = BTreeSet::from([id.clone()]);
    let (outcome, _) = imported(&other, first).await;
    assert_eq!((outcome.accepted, &outcome.unfinished), (2, &unfinished));
    for (outcome, refusals) in [rehearsed(&other, rest).await, imported(&other, rest).await] {
        assert_eq!((outcome.accepted, outcome.duplicates, refusals), (4, 0, vec![]));
        assert_eq!(outcome.unfinished, unfinished, "the head came in another import");
    }
    let lines = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&exported(&other, &id).await), lines(&text));
    assert_eq!(other.store().verify(&id).await.unwrap().breaches, []);
}

/// State that only the head describes is set with its last message, in whichever piece that comes.
#[tokio::test]
async fn pieces_imported_together_are_complete() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    one.store().append(append(&id, stepped())).await.unwrap();
    one.store().end_session(&id, minute(20)).await.unwrap();
    let text = exported(&one, &id).await;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let pieces: Vec<String> = lines.chunks(6).map(<[&str]>::concat).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    assert!(pieces.len() > 2);
    for import in [rehearsal(&other), import_into(&other)] {
        let (outcome, refusals) = read_all(import, &pieces).await;
        assert_eq!((outcome.unfinished, refusals), (BTreeSet::new(), vec![]));
    }
    assert_eq!(exported(&other, &id).await, text);
    assert_same(&one.dump(&TOLD).await, &other.dump(&TOLD).await, "what came back");
    let queued = "SELECT count(*) FROM summary_update_queue";
    assert_eq!(other.number(queued).await, Some(1), "what is pending is queued");
}

/// Unless the agent has changed meanwhile in ways that the journal doesn't contain.
#[tokio::test]
async fn pieces_imported_separately_are_complete_after_a_joint_import() {
    let id = agent("a");
    let one = SqliteBackend::fresh().await;
    one.store().append(append(&id, stepped())).await.unwrap();
    one.store().end_session(&id, minute(20)).await.unwrap();
    let text = exported(&one, &id).await;
    let (first, rest) = text.split_at(text.match_indices('\n').nth(6).unwrap().0 + 1);
    let unfinished = BTreeSet::from([id.clone()]);
    for is_lived in [false, true] {
        let other = SqliteBackend::fresh().await;
        for piece in [first, rest] {
            assert_eq!(imported(&other, piece).await.0.unfinished, unfinished);
        }
        if is_lived {
            other.store().end_session(&id, minute(30)).await.unwrap();
        }
        // The head arrives, but not the journal's end.
        let before = other.dump(&TABLES).await;
        for (outcome, refusals) in [rehearsed(&other, first).await, imported(&other, first).await] {
            assert_eq!((outcome.unfinished, refusals), (unfinished.clone(), vec![]));
        }
        assert_same(&before, &other.dump(&TABLES).await, "the first piece alone");
        let lacking = if is_lived { unfinished.clone() } else { BTreeSet::new() };
        for (outcome, refusals) in [rehearsed(&other, &text).await, imported(&other, &text).await] {
            assert_eq!((outcome.accepted, refusals), (0, vec![]));
            assert_eq!(outcome.unfinished, lacking);
        }
        if is_lived {
            assert_same(&before, &other.dump(&TABLES).await, "a life of its own");
        } else {
            assert_eq!(exported(&other, &id).await, text);
            assert_same(&one.dump(&TOLD).await, &other.dump(&TOLD).await, "what came back");
        }
        assert_eq!(other.store().verify(&id).await.unwrap().breaches, []);
    }
}

/// An agent that was appended to before the pieces came together no longer matches the head, which can't be applied
/// any more. An agent that already had it continues.
#[tokio::test]
async fn pieces_imported_together_too_late_are_reported() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let id = agent("a");
    one.store().append(append(&id, stepped())).await.unwrap();
    one.store().end_session(&id, minute(20)).await.unwrap();
    let text = exported(&one, &id).await;
    let (first, rest) = text.split_at(text.match_indices('\n').nth(6).unwrap().0 + 1);
    let unfinished = BTreeSet::from([id.clone()]);
    for piece in [first, rest] {
        assert_eq!(imported(&other, piece).await.0.unfinished, unfinished);
    }
    for (db, lacking) in [(&one, BTreeSet::new()), (&other, unfinished)] {
        db.store().append(append(&id, turns(21..=21))).await.unwrap();
        let before = db.dump(&TABLES).await;
        for (outcome, refusals) in [rehearsed(db, &text).await, imported(db, &text).await] {
            assert_eq!((outcome.accepted, refusals), (0, vec![]));
            assert_eq!(outcome.unfinished, lacking);
        }
        let (outcome, _) = read_all(import_into(db), &[first, rest]).await;
        assert_eq!(outcome.unfinished, lacking);
        assert_same(&before, &db.dump(&TABLES).await, "an import that comes too late");
    }
}

/// Its messages may look like today's, and mean something else.
#[tokio::test]
async fn a_newer_journal_is_refused_once_and_whole() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let mut text = String::new();
    for name in ["a", "b", "c"] {
        one.store().append(append(&agent(name), turns(1..=3))).await.unwrap();
        let lines = exported(&one, &agent(name)).await;
        text.push_str(&match name {
            "b" => lines.replace("\"journal\":1", "\"journal\":2"),
            _ => lines,
        });
    }
    for look in [true, false] {
        let (outcome, refusals) =
            if look { rehearsed(&other, &text).await } else { imported(&other, &text).await };
        assert_eq!((outcome.agents, outcome.accepted, outcome.refused), (2, 12, 1));
        assert!(refusals[0].starts_with("8: written by a newer recapd, in version 2"), "{refusals:?}");
    }
    assert!(other.store().agent(&agent("b")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_line_that_does_not_fit_is_named_and_other_agents_are_imported() {
    let (one, other) = (SqliteBackend::fresh().await, SqliteBackend::fresh().await);
    let mut text = String::new();
    for name in ["a", "b"] {
        one.store().append(append(&agent(name), turns(1..=3))).await.unwrap();
        text.push_str(&exported(&one, &agent(name)).await);
    }
    // Agent a lacks its third message; an unrelated line is in its place.
    let mut lines: Vec<&str> = text.lines().collect();
    lines[3] = "{\"level\":\"info\"}";
    let broken = lines.join("\n");
    for look in [true, false] {
        let (outcome, refusals) =
            if look { rehearsed(&other, &broken).await } else { imported(&other, &broken).await };
        assert_eq!((outcome.agents, outcome.accepted, outcome.refused), (2, 6, 2));
        assert!(refusals[0].starts_with("4: no line of a journal"), "{refusals:?}");
        assert!(refusals[1].contains("agent `a`: message 4 comes where message 3 should"), "{refusals:?}");
    }
    // And an agent that has diverged in the target.
    other.store().append(append(&agent("c"), turns(7..=8))).await.unwrap();
    one.store().append(append(&agent("c"), turns(1..=2))).await.unwrap();
    let text = exported(&one, &agent("c")).await;
    for refusals in [rehearsed(&other, &text).await.1, imported(&other, &text).await.1] {
        assert!(refusals[0].contains("message 1 is another one"), "{refusals:?}");
    }
}
