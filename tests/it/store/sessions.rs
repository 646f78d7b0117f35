//! Sessions: begun by silence or by an end, and the effect of an end on the queue.

use recapd_core::domain::{
    lineage::Step,
    time::{HOUR_MS, MINUTE_MS, Timestamp},
    work::Lease,
};
use recapd_store::{PreparedMessage, StoreError};

use super::{clean, lineage::step, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{T0, agent, append, claim, minute, said, turns},
};

const GAP_MS: i64 = HOUR_MS;

async fn say(db: &dyn Backend, messages: Vec<PreparedMessage>) {
    let mut request = append(&agent("a"), messages);
    request.rules.idle_gap_ms = GAP_MS;
    db.store().append(request).await.unwrap();
    clean(db, &agent("a")).await;
}

fn user(at: Timestamp) -> PreparedMessage {
    said("user", "Hello", 1, at)
}

/// Describes sessions as `number from #exchange, minutes open or until the end, why`.
async fn told(db: &dyn Backend) -> Vec<String> {
    let count = db.number("SELECT count(*) FROM sessions").await.unwrap();
    let mut told = Vec::new();
    for session in 1..=count {
        let row = format!("FROM sessions WHERE session = {session}");
        let first = db.number(&format!("SELECT first_exchange {row}")).await.unwrap();
        let why = db.text(&format!("SELECT end_reason {row}")).await;
        let backwards = db.number(&format!("SELECT count(*) {row} AND ended_at < opened_at")).await;
        assert_eq!(backwards, Some(0), "session {session} ends before it begins");
        told.push(format!("{session} from #{first} {}", why.as_deref().unwrap_or("runs")));
    }
    told
}

pub(crate) async fn a_silence_begins_a_session(db: &dyn Backend) {
    say(db, vec![user(T0), said("assistant", "Hi", 1, T0.plus_ms(MINUTE_MS))]).await;
    // The silence counts from the last message, and must be longer than the gap.
    say(db, vec![user(T0.plus_ms(MINUTE_MS + GAP_MS))]).await;
    assert_eq!(told(db).await, ["1 from #1 runs"]);
    // A message that joins an exchange begins no session, and times that go back are no silence.
    say(db, vec![said("tool_call", "bash", 1, T0.plus_ms(5 * GAP_MS)), user(T0)]).await;
    assert_eq!(told(db).await, ["1 from #1 runs"]);
    say(db, vec![user(T0.plus_ms(9 * GAP_MS)), user(T0.plus_ms(20 * GAP_MS))]).await;
    assert_eq!(told(db).await, ["1 from #1 idle", "2 from #4 idle", "3 from #5 runs"]);
    let ended = "SELECT count(*) FROM sessions s JOIN exchange_log e ON e.exchange = 4 WHERE s.session = 2 AND s.ended_at = e.last_at";
    assert_eq!(db.number(ended).await, Some(1));
    // Without a gap, no silence is too long.
    db.store().append(append(&agent("a"), vec![user(T0.plus_ms(99 * GAP_MS))])).await.unwrap();
    assert_eq!(db.number("SELECT max(session) FROM exchange_log").await, Some(3));
}

pub(crate) async fn an_end_begins_a_session(db: &dyn Backend) {
    say(db, vec![user(T0)]).await;
    let end = async |now| db.store().end_session(&agent("a"), now).await.unwrap();
    let ended = end(minute(1)).await;
    assert_eq!((ended.session, ended.enqueued), (1, None));
    // An empty session isn't ended.
    end(minute(2)).await;
    assert_eq!(told(db).await, ["1 from #1 end", "2 from #2 runs"]);
    say(db, vec![said("assistant", "Late", 1, minute(3)), user(minute(4))]).await;
    assert_eq!(db.number("SELECT session FROM exchange_log WHERE exchange = 1").await, Some(1));
    assert_eq!(db.number("SELECT session FROM exchange_log WHERE exchange = 2").await, Some(2));
    assert_eq!(end(minute(5)).await.session, 2);
    assert_eq!(told(db).await, ["1 from #1 end", "2 from #2 end", "3 from #3 runs"]);
    let unknown = db.store().end_session(&agent("nobody"), T0).await;
    assert!(matches!(unknown, Err(StoreError::UnknownAgent(name)) if name == agent("nobody")));
}

pub(crate) async fn an_end_and_a_silence_begin_one_session(db: &dyn Backend) {
    say(db, vec![user(T0)]).await;
    db.store().end_session(&agent("a"), minute(1)).await.unwrap();
    say(db, vec![user(T0.plus_ms(3 * GAP_MS))]).await;
    assert_eq!(told(db).await, ["1 from #1 end", "2 from #2 runs"]);
}

pub(crate) async fn an_end_makes_what_is_pending_urgent(db: &dyn Backend) {
    let a = with_pending(db, "a", 1).await;
    let store = db.store();
    assert!(store.has_evicted(&a).await.unwrap());
    assert!(!store.has_evicted(&agent("b")).await.unwrap());
    assert_eq!(store.claim(claim("daemon", 1, T0)).await.unwrap(), []);
    let enqueued = store.end_session(&a, T0).await.unwrap().enqueued.unwrap();
    assert_eq!((enqueued.is_new, enqueued.visible_at), (false, T0));
    let leases = store.claim(claim("daemon", 1, T0)).await.unwrap();
    assert_eq!(leases.first().map(Lease::trigger), Some("session_end"));
}

pub(crate) async fn a_session_starts_with_its_first_live_exchange(db: &dyn Backend) {
    let start = async |name: &str, session| {
        let found = db.store().session_start(&agent(name), session).await;
        found.unwrap()
    };
    assert_eq!(start("a", 1).await, None);
    let mut messages = vec![said("system", "Be brief", 1, T0)];
    messages.extend(turns(1..=3));
    say(db, messages).await;
    db.store().end_session(&agent("a"), minute(4)).await.unwrap();
    assert_eq!((start("a", 1).await, start("a", 2).await), (Some(1), None));
    say(db, turns(5..=7)).await;
    assert_eq!((start("a", 1).await, start("a", 2).await), (Some(1), Some(4)));
    // A child only has the row of the running session, but exchanges of both.
    db.store().fork(&agent("a"), &agent("b"), minute(8)).await.unwrap();
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange IN (1, 4)").await;
    for name in ["a", "b"] {
        let starts = (start(name, 1).await, start(name, 2).await, start(name, 3).await);
        assert_eq!(starts, (Some(2), Some(5), None), "{name}");
    }
}

pub(crate) async fn a_cleared_session_starts_behind_its_preamble(db: &dyn Backend) {
    say(db, turns(1..=1)).await;
    say(db, vec![step(&Step::Clear, 2), said("system", "Be loud", 7, minute(3))]).await;
    let start = async || db.store().session_start(&agent("a"), 2).await.unwrap();
    assert_eq!(start().await, None);
    say(db, turns(4..=4)).await;
    assert_eq!(start().await, Some(3));
}
