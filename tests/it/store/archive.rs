//! Complete histories: what is read can be restored, and is the same.

use std::{collections::BTreeSet, ops::Range};

use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    journal::{Head, JournalError, MessageRecord},
    lineage::Step,
    redaction::Redactor,
    settings::SettingsPatch,
    time::HOUR_MS,
};
use recapd_store::{
    ExchangeQuery, PreparedMessage,
    archive::{AgentOrigin, ArchiveError, ReadRecord, RecordRange, Restore, RestoreOutcome},
};
use serde_json::{Value, json};

use super::{clean, lineage::step, lineage_scripts::summarise};
use crate::support::{
    backend::{Backend, assert_same},
    conversation::{T0, agent, append, important, make, minute, said, turns},
};

const ALL: RecordRange =
    RecordRange { after_seq: 0, through_seq: i64::MAX, messages_max: 10_000, bytes_max: 1 << 30 };
const TOLD: [&str; 8] =
    ["marks", "pins", "notes", "message_log", "sessions", "exchange_log", "evictions", "agents"];

/// An agent with a preamble, three sessions, and exchanges behind the boundary.
async fn told(db: &dyn Backend) -> AgentId {
    let id = agent("a");
    let mut messages = vec![said("system", "Be brief", 5, T0)];
    messages.extend(turns(1..=4));
    messages.extend(turns(100..=101));
    let mut request = append(&id, messages);
    request.rules.idle_gap_ms = HOUR_MS;
    db.store().append(request).await.unwrap();
    db.store().end_session(&id, minute(200)).await.unwrap();
    db.store().append(append(&id, turns(210..=211))).await.unwrap();
    clean(db, &id).await;
    id
}

pub(super) async fn read(db: &dyn Backend, id: &AgentId) -> (Head, Vec<MessageRecord>) {
    let head = db.archive().head(id).await.unwrap().unwrap();
    (head, db.archive().records(id, ALL).await.unwrap())
}

/// Returns the same history under another name.
fn renamed(told: &(Head, Vec<MessageRecord>), id: &AgentId) -> (Head, Vec<MessageRecord>) {
    let rename = |record: &MessageRecord| MessageRecord { agent_id: id.clone(), ..record.clone() };
    let head = Head { agent_id: id.clone(), ..told.0.clone() };
    (head, told.1.iter().map(rename).collect())
}

fn text(told: &(Head, Vec<MessageRecord>)) -> String {
    let lines = told.1.iter().map(MessageRecord::line);
    std::iter::once(told.0.line()).chain(lines).collect::<Vec<_>>().join("\n")
}

fn recorded(record: MessageRecord) -> ReadRecord {
    ReadRecord::read(record, &Redactor::standard())
}

fn restore((head, records): &(Head, Vec<MessageRecord>), with_head: bool) -> Restore {
    Restore {
        agent: head.agent_id.clone(),
        head: with_head.then(|| head.clone()),
        records: records.iter().cloned().map(recorded).collect(),
        origin: Some(AgentOrigin::from(head)),
        now: T0,
    }
}

fn restored(accepted: usize, duplicates: usize, last_seq: i64) -> RestoreOutcome {
    RestoreOutcome {
        accepted: i64::try_from(accepted).unwrap(),
        duplicates: i64::try_from(duplicates).unwrap(),
        last_seq,
        lacks_head: false,
    }
}

/// Checks that client ids lead to the payloads of their agent only.
async fn ids_are_known(db: &dyn Backend) {
    let mut named = said("user", "hello", 1, minute(1));
    named.message.client_id = Some("m-1".to_owned());
    let (store, asked, payload) = (db.store(), agent("named"), named.message.payload.clone());
    store.append(append(&asked, vec![named])).await.unwrap();
    let known = store.known_payloads(&asked, &["m-1", "m-2"]).await.unwrap();
    assert_eq!((known.len(), known.get("m-1")), (1, Some(&payload)));
    let of_another = store.known_payloads(&agent("b"), &["m-1"]).await.unwrap();
    assert!(of_another.is_empty());
}

pub(crate) async fn a_history_comes_back_as_it_was(db: &dyn Backend) {
    ids_are_known(db).await;
    let given = read(db, &told(db).await).await;
    assert_eq!((given.0.sessions.len(), given.0.first_exchange), (3, 8));
    let copy = renamed(&given, &agent("b"));
    let outcome = db.archive().restore(restore(&copy, true)).await.unwrap();
    assert_eq!(outcome, restored(given.1.len(), 0, given.0.last_seq));
    assert_eq!(text(&read(db, &agent("b")).await), text(&copy));
    let report = clean(db, &agent("b")).await;
    assert_eq!((report.exchanges, report.pending, report.in_window), (8, 7, 1));
    // Pending exchanges are queued.
    let queued = "SELECT count(*) FROM summary_update_queue WHERE agent_id = 'b'";
    assert_eq!(db.number(queued).await, Some(1));

    // Restoring again changes nothing, whatever has happened since.
    db.store().end_session(&agent("b"), minute(300)).await.unwrap();
    let before = db.dump(&TOLD).await;
    let again = db.archive().restore(restore(&copy, true)).await.unwrap();
    assert_eq!(again, restored(0, given.1.len(), given.0.last_seq));
    assert_same(&before, &db.dump(&TOLD).await, "a second import");
}

/// Works like [`restore`] for a part of the records: the head stands only before the first part.
fn piece(head: &Head, records: &[MessageRecord]) -> Restore {
    let whole = restore(&(head.clone(), records.to_vec()), true);
    let is_first = records.first().is_some_and(|record| record.seq == 1);
    Restore { head: whole.head.filter(|_| is_first), origin: whole.origin.filter(|_| is_first), ..whole }
}

pub(crate) async fn a_history_restored_in_pieces_gets_its_head_later(db: &dyn Backend) {
    let given = read(db, &told(db).await).await;
    let all = given.1.len();
    for (name, is_lived) in [("b", false), ("c", true)] {
        let id = agent(name);
        let copy = renamed(&given, &id);
        let (first, rest) = copy.1.split_at(5);
        // Each in its own import: the head isn't there when the last message comes.
        for part in [first, rest] {
            db.archive().restore(piece(&copy.0, part)).await.unwrap();
        }
        if is_lived {
            db.store().end_session(&id, minute(300)).await.unwrap();
        }
        assert_ne!(text(&read(db, &id).await), text(&copy));
        let queued = format!("SELECT count(*) FROM summary_update_queue WHERE agent_id = '{name}'");
        assert_eq!(db.number(&queued).await, Some(0));

        // The end of the journal isn't compared.
        let before = db.dump(&TOLD).await;
        let open =
            |duplicates| RestoreOutcome { lacks_head: true, ..restored(0, duplicates, copy.0.last_seq) };
        let alone = db.archive().restore(piece(&copy.0, first)).await.unwrap();
        assert_eq!(alone, open(first.len()));
        assert_same(&before, &db.dump(&TOLD).await, "the first piece alone");

        let whole = db.archive().restore(restore(&copy, true)).await.unwrap();
        if is_lived {
            // Otherwise a session that was ended there would be undone.
            assert_eq!(whole, open(all));
            assert_same(&before, &db.dump(&TOLD).await, "a life of its own");
        } else {
            assert_eq!(whole, restored(0, all, copy.0.last_seq));
            assert_eq!(text(&read(db, &id).await), text(&copy));
            // Pending exchanges are queued.
            assert_eq!(db.number(&queued).await, Some(1));
        }
        clean(db, &id).await;
    }
}

pub(crate) async fn a_history_comes_back_in_chunks(db: &dyn Backend) {
    let given = read(db, &told(db).await).await;
    comes_back_in_chunks(db, &given).await;
}

pub(crate) async fn steps_come_back_in_chunks(db: &dyn Backend) {
    let id = told(db).await;
    let mut messages = Vec::new();
    for (kind, at) in [("mark", 300), ("rewind", 310), ("clear", 320), ("system", 330), ("mark", 340)] {
        messages.push(said(kind, "", 3, minute(at)));
        messages.extend(turns(at + 1..=at + 2));
    }
    db.store().append(append(&id, messages)).await.unwrap();
    let given = read(db, &id).await;
    assert_eq!((given.0.sessions.len(), given.0.marks.len()), (4, 1));
    comes_back_in_chunks(db, &given).await;
}

pub(crate) async fn pins_come_back_in_chunks(db: &dyn Backend) {
    let id = told(db).await;
    let mut messages = vec![important("user", "Rule", 3, minute(300))];
    for (taken, at) in [
        (Step::Pin(2), 301),
        (Step::Mark(None), 302),
        (Step::Pin(3), 303),
        (Step::Unpin(2), 304),
        (Step::Pin(99), 305),
        (Step::Rewind(None), 306),
    ] {
        messages.push(step(&taken, at));
        messages.push(important("user", "Another rule", 3, minute(at)));
    }
    db.store().append(append(&id, messages)).await.unwrap();
    comes_back_in_chunks(db, &read(db, &id).await).await;
    let pins = db.store().pins(&id, 50).await.unwrap();
    assert!(pins.pins.len() > 2, "{pins:?}");
    for name in ["ones", "sevens"] {
        assert_eq!(db.store().pins(&agent(name), 50).await.unwrap(), pins);
    }
}

/// Returns the live rows of an agent's exchanges and legs.
async fn rows(db: &dyn Backend, id: &AgentId) -> Vec<Exchange> {
    let query = ExchangeQuery { from: 1, through: i64::MAX, limit: 1_000, bytes_max: 0 };
    let stored = db.store().exchanges(id, query).await.unwrap();
    stored.into_iter().map(|stored| stored.exchange).collect()
}

/// Returns rounds with these numbers, of 100 tokens each.
fn rounds(numbers: Range<i64>) -> Vec<PreparedMessage> {
    let round = |number| {
        [
            said("tool_call", "run", 10, minute(number)),
            said("tool_result", &format!("Result {number}"), 90, minute(number)),
        ]
    };
    numbers.flat_map(round).collect()
}

async fn set(db: &dyn Backend, id: &AgentId, patch: Value) {
    let patch = SettingsPatch::parse(patch).unwrap();
    db.store().change_settings(id, &patch, T0).await.unwrap();
}

/// The messages store where legs begin; an export only has the last settings.
pub(crate) async fn legs_of_changing_settings_come_back(db: &dyn Backend) {
    let id = agent("a");
    let asked = || vec![said("user", "Migrate all modules", 50, minute(0))];
    db.store().append(append(&id, asked())).await.unwrap();
    set(db, &id, json!({"budget_tokens": 1_000, "low_water": 0.8})).await;
    for (leg_tokens, from) in [(300, 0), (0, 10), (150, 22), (-1, 30), (700, 60)] {
        set(db, &id, json!({"leg_tokens": leg_tokens})).await;
        let until = [10, 22, 30, 60, 80].into_iter().find(|&until| until > from).unwrap();
        db.store().append(append(&id, rounds(from..until))).await.unwrap();
        clean(db, &id).await;
    }
    let lived = rows(db, &id).await;
    // Each setting makes legs of its own size: the first includes the request, and the one under 0 grows until it is cut.
    let sizes: BTreeSet<i64> = lived.iter().map(|row| row.tokens).collect();
    assert_eq!(sizes, BTreeSet::from([100, 200, 300, 350, 700, 1_000, 1_300]));
    comes_back_in_chunks(db, &read(db, &id).await).await;
    let ledger = async |id: &AgentId| db.store().agent(id).await.unwrap().unwrap().ledger;
    for name in ["ones", "sevens"] {
        let copy = agent(name);
        assert_eq!(rows(db, &copy).await, lived);
        assert_eq!(ledger(&copy).await, ledger(&id).await);
    }
    // They continue in the same way.
    for name in ["a", "ones", "sevens"] {
        db.store().append(append(&agent(name), rounds(80..100))).await.unwrap();
        clean(db, &agent(name)).await;
    }
    let lived = rows(db, &id).await;
    assert_eq!(rows(db, &agent("ones")).await, lived);
    assert_eq!(rows(db, &agent("sevens")).await, lived);
    // From the messages alone the legs follow the last settings.
    let bare = agent("bare");
    make(db, "bare").await;
    set(db, &bare, json!({"budget_tokens": 1_000, "low_water": 0.8, "leg_tokens": 700})).await;
    db.store().append(append(&bare, [asked(), rounds(0..100)].concat())).await.unwrap();
    assert_ne!(rows(db, &bare).await, lived);
}

pub(super) async fn comes_back_in_chunks(db: &dyn Backend, given: &(Head, Vec<MessageRecord>)) {
    for (name, size) in [("ones", 1), ("sevens", 7)] {
        let (head, records) = renamed(given, &agent(name));
        for chunk in records.chunks(size) {
            let is_last = chunk.last() == records.last();
            let request = restore(&(head.clone(), chunk.to_vec()), is_last);
            // An interrupted import sends a chunk again.
            db.archive().restore(request.clone()).await.unwrap();
            let again = db.archive().restore(request).await.unwrap();
            assert_eq!(again, restored(0, chunk.len(), chunk[chunk.len() - 1].seq));
            clean(db, &head.agent_id).await;
        }
        assert_eq!(text(&read(db, &agent(name)).await), text(&(head, records)));
    }
}

pub(crate) async fn a_contradicting_history_changes_nothing(db: &dyn Backend) {
    let (head, records) = read(db, &told(db).await).await;
    let mut other = records.clone();
    other[3].payload.push(' ');
    let fresh = renamed(&(head.clone(), records.clone()), &agent("b"));
    let mut misplaced = fresh.clone();
    misplaced.1[5].exchange = 40;
    let mut far = fresh.clone();
    far.0.first_exchange = 10;
    let before = db.dump(&TOLD).await;
    for (request, error) in [
        (restore(&(head, other), true), JournalError::Differs { seq: records[3].seq }),
        (
            restore(&(fresh.0.clone(), fresh.1[1..].to_vec()), true),
            JournalError::Gap { expected: 1, found: 2 },
        ),
        (restore(&misplaced, true), JournalError::Misplaced { seq: 6, exchange: 40 }),
        (restore(&far, true), JournalError::WrongBoundary { first_exchange: 10 }),
    ] {
        match db.archive().restore(request).await {
            Err(ArchiveError::Journal(found)) => assert_eq!(found, error),
            other => panic!("{other:?}"),
        }
        assert_same(&before, &db.dump(&TOLD).await, &error.to_string());
    }
}

pub(crate) async fn a_fork_without_a_record_is_refused(db: &dyn Backend) {
    let id = told(db).await;
    db.store().fork(&id, &agent("child"), T0).await.unwrap();
    let head = db.archive().head(&agent("child")).await.unwrap().unwrap();
    let fork = head.fork.unwrap();
    assert_eq!((fork.parent, fork.last_seq), (id.clone(), head.last_seq));
    assert_eq!(fork.exchanges.len(), 9, "eight exchanges and the preamble");
    // As forked by an older recapd.
    db.raw("DELETE FROM forks").await;
    let refused = db.archive().head(&agent("child")).await;
    assert!(matches!(&refused, Err(ArchiveError::Forked(child)) if *child == agent("child")), "{refused:?}");
    assert!(db.archive().head(&id).await.unwrap().is_some());
    assert!(db.archive().head(&agent("nobody")).await.unwrap().is_none());
}

pub(crate) async fn a_fork_comes_back_as_it_began(db: &dyn Backend) {
    let id = told(db).await;
    let pinned = step(&Step::Pin(2), 390);
    let rule = important("user", "Rule", 3, minute(390));
    db.store().append(append(&id, vec![pinned, rule])).await.unwrap();
    summarise(db, &id).await;
    db.store().fork(&id, &agent("child"), T0).await.unwrap();
    db.store().append(append(&agent("child"), turns(400..=401))).await.unwrap();
    let given = read(db, &agent("child")).await;
    let copy = renamed(&given, &agent("copy"));
    db.archive().restore(restore(&copy, true)).await.unwrap();
    assert_eq!(text(&read(db, &agent("copy")).await), text(&copy));
    clean(db, &agent("copy")).await;
    let pins = db.store().pins(&agent("child"), 50).await.unwrap();
    assert_eq!(pins.pins.len(), 2);
    assert_eq!(db.store().pins(&agent("copy"), 50).await.unwrap(), pins);
    // It can't be restored without the messages that it shares.
    let mut lost = renamed(&given, &agent("lost"));
    let fork = lost.0.fork.as_mut().unwrap();
    fork.exchanges[1].source = agent("gone");
    let refused = db.archive().restore(restore(&lost, true)).await;
    let error = JournalError::NoParent { from: agent("gone") };
    assert!(matches!(&refused, Err(ArchiveError::Journal(found)) if *found == error), "{refused:?}");
    assert!(db.store().agent(&agent("lost")).await.unwrap().is_none());
}

pub(crate) async fn records_come_in_chunks(db: &dyn Backend) {
    let id = told(db).await;
    let all = db.archive().records(&id, ALL).await.unwrap();
    let seqs = async |range| {
        let records = db.archive().records(&id, range).await.unwrap();
        records.iter().map(|record| record.seq).collect::<Vec<_>>()
    };
    let two = all[2].payload.len() + 1;
    for (range, expected) in [
        (RecordRange { after_seq: 2, through_seq: 4, ..ALL }, vec![3, 4]),
        (RecordRange { messages_max: 2, ..ALL }, vec![1, 2]),
        (RecordRange { bytes_max: 1, ..ALL }, vec![1]),
        (RecordRange { after_seq: 2, bytes_max: two, ..ALL }, vec![3, 4]),
        (RecordRange { after_seq: 17, ..ALL }, vec![]),
    ] {
        assert_eq!(seqs(range).await, expected, "{range:?}");
    }
}
