//! Lines are read back unchanged, and records go to their recorded places.

use proptest::prelude::*;

use super::*;
use crate::domain::{message::Kind, round::ResponsePart};

fn record(seq: i64, exchange: i64) -> MessageRecord {
    MessageRecord {
        agent_id: "a".parse().unwrap(),
        seq,
        exchange,
        session: 1,
        begins_leg: false,
        kind: "user".to_owned(),
        format: Format::Native,
        tokens: 3,
        count_method: "o200k".to_owned(),
        client_id: None,
        said_at: Timestamp(1_795_000_000_000),
        received_at: Timestamp(1_795_000_000_250),
        payload: r#"{"kind":"user","content":"Hello"}"#.to_owned(),
    }
}

fn entry() -> LedgerEntry {
    entry_of(Kind::User)
}

fn entry_of(kind: Kind) -> LedgerEntry {
    LedgerEntry {
        is_request: kind == Kind::User,
        kind,
        interrupts: false,
        tokens: 3,
        at: Timestamp(0),
        line: "Hello".to_owned(),
        tools: Vec::new(),
        failures: 0,
        speaker: None,
        response: ResponsePart::default(),
    }
}

fn read_back(record: &MessageRecord) -> MessageRecord {
    let line = record.line();
    assert!(!line.contains(['\n', '\r']), "{line}");
    match JournalLine::parse(&line).unwrap() {
        JournalLine::Message(read) => read,
        JournalLine::Head(head) => panic!("{head:?}"),
    }
}

#[test]
fn a_message_is_one_line_with_its_payload_verbatim() {
    insta::assert_snapshot!(record(1, 1).line(), @r#"{"agent_id":"a","seq":1,"exchange":1,"session":1,"kind":"user","format":"native","tokens":3,"count_method":"o200k","client_id":null,"said_at":"2026-11-18T11:06:40Z","received_at":"2026-11-18T11:06:40.250Z","payload":{"kind":"user","content":"Hello"}}"#);
}

#[test]
fn numbers_out_of_range_are_refused_with_their_field() {
    type Change = fn(&mut MessageRecord);
    let changes: [(&str, Change); 5] = [
        ("seq", |record| record.seq = i64::MAX),
        ("exchange", |record| record.exchange = i64::MAX - 1),
        ("session", |record| record.session = i64::MIN),
        ("tokens", |record| record.tokens = i64::MAX),
        ("tokens", |record| record.tokens = -1),
    ];
    for (field, change) in changes {
        let mut wrong = record(1, 1);
        change(&mut wrong);
        let error = JournalLine::parse(&wrong.line()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{field}` is ")), "{error}");
    }
    let head = r#"{"journal":1,"agent_id":"a","project":null,"settings":{"n":9223372036854775807},
        "created_at":9223372036854775807,"as_of":null,"budget_tokens":5,"last_seq":3,"last_exchange":2,"first_exchange":1,
        "sessions":[{"session":7,"first_exchange":1,"opened_at":0,"ended_at":null,"end_reason":null}],"evictions":[],"marks":[]}"#;
    assert!(matches!(JournalLine::parse(head), Ok(JournalLine::Head(_))), "times and settings may be any");
    for (from, to, field) in [
        ("\"last_seq\":3", "\"last_seq\":9223372036854775807", "last_seq"),
        ("\"budget_tokens\":5", "\"budget_tokens\":4611686018427387904", "budget_tokens"),
        ("\"session\":7", "\"session\":9223372036854775806", "sessions.0.session"),
    ] {
        let error = JournalLine::parse(&head.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(&format!("`{field}` is ")), "{error}");
    }
}

#[test]
fn every_payload_is_read_back_byte_for_byte() {
    for payload in [
        r#"{"a": 1.0, "b":1e400,  "a":"\u0041\/"}"#,
        "{\n  \"kind\": \"user\"\r\n}",
        " {\"kind\":\"user\"} ",
        "null",
        "not JSON at all",
        "",
        "{\"torn",
        "\"ä\u{2028}\u{0}👩‍👩‍👧\"",
    ] {
        let written = MessageRecord { payload: payload.to_owned(), ..record(1, 1) };
        assert_eq!(read_back(&written), written, "{payload}");
    }
}

#[test]
fn an_invalid_line_has_a_reason() {
    for (line, why) in [
        ("", "EOF"),
        ("[1]", "no line of a journal"),
        (r#"{"journal":2}"#, "newer recapd"),
        (r#"{"journal":1}"#, "missing field"),
        (r#"{"seq":1}"#, "missing field"),
        (&record(7, 1).line().replace("\"payload\"", "\"other\""), "message 7 has no payload"),
    ] {
        let error = JournalLine::parse(line).unwrap_err().to_string();
        assert!(error.contains(why), "{line}: {error}");
    }
}

/// A journal doesn't record which exchange a row continues; the messages show it.
#[test]
fn a_continuation_is_restored() {
    let mut ledger = Ledger::default();
    add_recorded(&mut ledger, &record(1, 1), &entry()).unwrap();
    // As after a fork: message 2 belongs to the parent.
    ledger.last_seq = 2;
    add_recorded(&mut ledger, &record(3, 2), &entry_of(Kind::ToolResult)).unwrap();
    assert_eq!((ledger.last_exchange, ledger.floor()), (2, Some(1)));
}

#[test]
fn records_go_to_their_place_or_are_refused() {
    let mut ledger = Ledger::default();
    for (seq, exchange, kind) in
        [(1, 0, Kind::System), (2, 1, Kind::User), (3, 1, Kind::Assistant), (4, 2, Kind::User)]
    {
        let left = add_recorded(&mut ledger, &record(seq, exchange), &entry_of(kind)).unwrap();
        assert_eq!(left.map(|left| left.exchange), (seq == 4).then_some(1));
    }
    let before = ledger.clone();
    for (seq, exchange, error) in [
        (6, 2, JournalError::Gap { expected: 5, found: 6 }),
        (4, 2, JournalError::Gap { expected: 5, found: 4 }),
        (5, 1, JournalError::Misplaced { seq: 5, exchange: 1 }),
        (5, 4, JournalError::Misplaced { seq: 5, exchange: 4 }),
    ] {
        assert_eq!(add_recorded(&mut ledger, &record(seq, exchange), &entry()), Err(error));
        assert_eq!(ledger, before);
    }
    let newest = ledger.newest.unwrap();
    assert_eq!((newest.exchange, newest.tokens_before, newest.tokens), (2, 6, 3));
}

#[test]
fn a_session_after_a_clear_has_a_preamble_of_its_own_number() {
    let mut ledger = Ledger::default();
    add_recorded(&mut ledger, &record(1, 1), &entry()).unwrap();
    ledger.clear(Timestamp(0));
    for (seq, exchange, kind) in [(2, 2, Kind::System), (3, 2, Kind::System), (4, 3, Kind::User)] {
        let after = MessageRecord { session: 2, ..record(seq, exchange) };
        assert_eq!(add_recorded(&mut ledger, &after, &entry_of(kind)), Ok(None));
    }
    let (preamble, newest) = (ledger.preamble.unwrap(), ledger.newest.unwrap());
    assert_eq!((preamble.exchange, preamble.tokens, preamble.tokens_before), (2, 6, 0));
    assert_eq!((newest.exchange, newest.tokens_before), (3, 3));
}

fn session(number: i64, end_reason: Option<&str>) -> SessionRecord {
    SessionRecord {
        session: number,
        first_exchange: number,
        opened_at: Timestamp(number),
        ended_at: end_reason.map(|_| Timestamp(number + 1)),
        end_reason: end_reason.map(str::to_owned),
    }
}

fn eviction(exchange: i64) -> EvictionRecord {
    EvictionRecord {
        from_exchange: exchange,
        through_exchange: exchange,
        tokens: 3,
        evicted_at: Timestamp(4),
    }
}

/// An agent whose second session was ended explicitly, with one evicted exchange.
fn full_head() -> Head {
    Head {
        journal: JOURNAL_VERSION,
        agent_id: "a".parse().unwrap(),
        project: None,
        settings: RawValue::from_string("{\"model\":\"m\"}".to_owned()).unwrap(),
        created_at: Timestamp(1),
        as_of: Some(Timestamp(9)),
        budget_tokens: 100,
        max_messages: 0,
        last_seq: 9,
        last_exchange: 3,
        first_exchange: 2,
        sessions: vec![session(1, Some("idle")), session(2, Some("end")), session(3, None)],
        evictions: vec![eviction(1)],
        marks: Vec::new(),
        fork: None,
    }
}

/// The same agent, as far as its messages alone show it.
fn head_from_messages() -> Head {
    Head {
        settings: RawValue::from_string("{ \"model\": \"m\" }".to_owned()).unwrap(),
        as_of: None,
        budget_tokens: 0,
        first_exchange: 1,
        sessions: vec![session(1, Some("idle")), session(2, Some("idle")), session(3, None)],
        evictions: Vec::new(),
        ..full_head()
    }
}

#[test]
fn a_head_is_due_if_only_its_state_is_missing() {
    // A live journal continues after its head.
    for compared_through in [9, 12] {
        let standing = full_head().compare(&head_from_messages(), compared_through);
        assert_eq!(standing, ImportState::Due, "{compared_through}");
    }
    // The end of the journal wasn't compared.
    assert_eq!(full_head().compare(&head_from_messages(), 8), ImportState::Open);
    let changes: [fn(&mut Head); 9] = [
        |there| there.last_seq = 8,
        |there| there.created_at = Timestamp(2),
        |there| there.project = Some("p".to_owned()),
        |there| there.settings = RawValue::from_string("{}".to_owned()).unwrap(),
        |there| there.as_of = Some(Timestamp(8)),
        |there| there.budget_tokens = 70,
        |there| there.max_messages = 7,
        |there| there.evictions = vec![eviction(1), eviction(2)],
        |there| there.sessions[2] = session(3, Some("end")),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut there = head_from_messages();
        change(&mut there);
        assert_eq!(full_head().compare(&there, 9), ImportState::Open, "{number}");
    }
}

#[test]
fn an_applied_head_is_not_applied_again() {
    let changes: [fn(&mut Head); 6] = [
        |_| (),
        |there| there.last_seq = 10,
        |there| there.project = Some("p".to_owned()),
        |there| there.settings = RawValue::from_string("{}".to_owned()).unwrap(),
        |there| there.evictions.push(eviction(2)),
        |there| there.sessions[2] = session(3, Some("end")),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut there = full_head();
        change(&mut there);
        assert_eq!(full_head().compare(&there, 9), ImportState::Settled, "{number}");
    }
}

#[test]
fn an_applied_head_stays_settled_when_the_agent_goes_on() {
    let continued = Head {
        last_seq: 12,
        as_of: Some(Timestamp(12)),
        budget_tokens: 70,
        max_messages: 7,
        sessions: vec![
            session(1, Some("idle")),
            session(2, Some("end")),
            session(3, Some("clear")),
            session(4, None),
        ],
        evictions: vec![eviction(1), eviction(2)],
        ..full_head()
    };
    for compared_through in [0, 8, 9] {
        assert_eq!(full_head().compare(&continued, compared_through), ImportState::Settled);
    }
}

#[test]
fn a_head_stays_open_for_an_agent_that_went_on_without_it() {
    let changes: [fn(&mut Head); 6] = [
        |there| *there = head_from_messages(),
        |there| there.created_at = Timestamp(2),
        |there| there.evictions.clear(),
        |there| there.evictions = vec![eviction(2)],
        |there| there.sessions[1] = session(2, Some("idle")),
        |there| drop(there.sessions.remove(1)),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut there = full_head();
        change(&mut there);
        there.last_seq = 10;
        // Also if the journal itself continues, and the state is as of its beginning.
        for compared_through in [9, 10] {
            let standing = full_head().compare(&there, compared_through);
            assert_eq!(standing, ImportState::Open, "{number}: {compared_through}");
        }
    }
}

proptest! {
    #[test]
    fn any_message_is_read_back(payload in ".*", id in proptest::option::of(".*"), at in any::<i64>(), received in any::<i64>()) {
        let written = MessageRecord { payload, client_id: id, said_at: Timestamp(at), received_at: Timestamp(received), ..record(1, 1) };
        prop_assert_eq!(read_back(&written), written);
    }
}
