//! Append: placing, counting, evicting, waking.

use futures::future::join_all;
use recapd_core::domain::{ledger::Eviction, message::Format, time::MINUTE_MS, window::Budget};
use recapd_store::{AppendRequest, PreparedMessage, Prune, RequestKey, StoreError};
use serde_json::json;

use super::{clean, forget::forget, with_pending};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    conversation::{T0, TURN_TOKENS, agent, append, minute, said, turn, turns},
};

/// Describes the exchanges as `number: messages from-to, tokens after tokens, state, digest`.
async fn told(db: &dyn Backend, name: &str) -> String {
    let query = recapd_store::ExchangeQuery { from: 0, through: i64::MAX, limit: 100, bytes_max: i64::MAX };
    let stored = db.store().exchanges(&agent(name), query).await.unwrap();
    let lines = stored.iter().map(|stored| {
        let e = &stored.exchange;
        assert_eq!(usize::try_from(e.last_seq - e.first_seq + 1), Ok(stored.messages.len()));
        format!(
            "#{}: {}-{}, {} after {}, {}, {}",
            e.exchange,
            e.first_seq,
            e.last_seq,
            e.tokens,
            e.tokens_before,
            e.state.name(),
            e.headline.digest()
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) async fn messages_become_exchanges(db: &dyn Backend) {
    let messages = vec![
        said("system", "Be brief", 5, minute(0)),
        said("mark", "start", 0, minute(0)),
        said("user", "Fix it", 10, minute(1)),
        said("tool_call", "bash", 20, minute(2)),
        said("tool_result", "5 errors", 30, minute(3)),
        said("system", "Be quick", 1, minute(3)),
        said("assistant", "Fixed", 40, minute(4)),
        said("mark", "done", 0, minute(4)),
        said("user", "Thanks", 2, minute(5)),
        said("interrupted", "", 0, minute(6)),
        said("user", "Go on", 3, minute(7)),
    ];
    let outcome = db.store().append(append(&agent("a"), messages)).await.unwrap();
    let told = told(db, "a").await;
    insta::allow_duplicates!(insta::assert_snapshot!(told, @r"
    #0: 1-2, 5 after 0, open, (no text)
    #1: 3-8, 101 after 0, closed, Fix it → bash → Fixed
    #2: 9-10, 2 after 101, interrupted, Thanks
    #3: 11-11, 3 after 103, open, Go on
    "));
    // The preamble counts: with it the first exchange no longer fits.
    assert_eq!((outcome.accepted, outcome.duplicates, outcome.exchange), (11, 0, 3));
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (2, 5 + 2 + 3));
    let report = clean(db, &agent("a")).await;
    assert_eq!((report.messages, report.exchanges, report.pending, report.in_window), (11, 3, 1, 2));
}

fn with_id(mut prepared: PreparedMessage, id: &str) -> PreparedMessage {
    prepared.message.client_id = Some(id.to_owned());
    prepared
}

pub(crate) async fn a_client_id_is_taken_once(db: &dyn Backend) {
    let message = |id: &str| with_id(said("user", "Hi", 1, T0), id);
    let (a, b) = (agent("a"), agent("b"));
    for (agent, ids, counts) in [
        (&a, vec!["1", "2", "1"], (2, 1)),
        (&a, vec!["2", "3", "3", "1"], (1, 3)),
        (&a, vec!["1", "2", "3"], (0, 3)),
        (&b, vec!["1"], (1, 0)),
    ] {
        let messages = ids.into_iter().map(message).collect();
        let outcome = db.store().append(append(agent, messages)).await.unwrap();
        assert_eq!((outcome.accepted, outcome.duplicates), counts);
    }
    // Messages without an id are never duplicates of one another.
    let nameless = vec![said("user", "Hi", 1, T0), said("user", "Hi", 1, T0)];
    assert_eq!(db.store().append(append(&a, nameless)).await.unwrap().accepted, 2);
    assert_eq!((clean(db, &a).await.messages, clean(db, &b).await.messages), (5, 1));
}

pub(crate) async fn another_spelling_is_the_same_message(db: &dyn Backend) {
    let message = |payload: &str| {
        let mut prepared = with_id(said("user", "Hi", 1, T0), "1");
        payload.clone_into(&mut prepared.message.payload);
        append(&agent("a"), vec![prepared])
    };
    let first = r#"{"role":"user","content":"Où?","n":1}"#;
    db.store().append(message(first)).await.unwrap();
    for again in [first, r#" {"content": "O\u00f9?", "n":1, "role":"user" }"#] {
        let outcome = db.store().append(message(again)).await.unwrap();
        assert_eq!((outcome.accepted, outcome.duplicates), (0, 1), "{again}");
        let mut replayed = message(again);
        replayed.replayed = true;
        assert_eq!(db.store().append(replayed).await.unwrap().duplicates, 1, "{again}");
    }
    for other in [r#"{"role":"user","content":"Où?","n":1.0}"#, r#"{"role":"user","content":"Où?"}"#] {
        let refused = db.store().append(message(other)).await;
        assert!(matches!(refused, Err(StoreError::ClientIdReused(_))), "{refused:?}");
    }
    let stored = "SELECT payload FROM message_log WHERE agent_id = 'a'";
    assert_eq!(db.text(stored).await.unwrap(), first, "as it came first");
    clean(db, &agent("a")).await;
}

pub(crate) async fn a_replay_keeps_each_message_of_an_id_once(db: &dyn Backend) {
    let a = agent("a");
    let messages = |texts: &[&str]| -> Vec<PreparedMessage> {
        let said = texts.iter().map(|text| said("user", text, 1, T0));
        said.map(|prepared| with_id(prepared, "1")).collect()
    };
    for (texts, counts) in [
        (&["one", "two", "two"][..], (2, 1)),
        (&["one", "two", "two"], (0, 3)),
        (&["two", "three"], (1, 1)),
        (&["three", "one"], (0, 2)),
    ] {
        let mut request = append(&a, messages(texts));
        request.replayed = true;
        let outcome = db.store().append(request).await.unwrap();
        assert_eq!((outcome.accepted, outcome.duplicates), counts, "{texts:?}");
    }
    let others =
        "SELECT count(*) FROM message_log WHERE client_id LIKE 'replayed:%' AND length(client_id) = 41";
    assert_eq!(db.number(others).await, Some(2));
    // A live client learns that the id is taken.
    let live = db.store().append(append(&a, messages(&["two"]))).await;
    assert!(matches!(live, Err(StoreError::ClientIdReused(_))), "{live:?}");
    assert_eq!(clean(db, &a).await.messages, 3);
}

/// A resumed session's transcript repeats earlier lines, which must be stored once.
pub(crate) async fn a_line_copied_from_another_session_is_known(db: &dyn Backend) {
    let a = agent("a");
    let line = |session: &str, text: &str| {
        let mut prepared = with_id(said("user", text, 1, T0), "u1");
        prepared.message.format = Format::ClaudeCode;
        prepared.message.payload = json!({
            "type": "user", "uuid": "u1", "timestamp": "2026-11-20T08:40:00Z", "sessionId": session,
            "message": {"role": "user", "content": text},
        })
        .to_string();
        prepared
    };
    for (session, counts) in [("one", (1, 0)), ("two", (0, 1))] {
        let outcome = db.store().append(append(&a, vec![line(session, "Hi")])).await.unwrap();
        assert_eq!((outcome.accepted, outcome.duplicates), counts, "{session}");
    }
    let other = db.store().append(append(&a, vec![line("two", "Bye")])).await;
    assert!(matches!(other, Err(StoreError::ClientIdReused(_))), "{other:?}");
}

pub(crate) async fn duplicates_change_nothing(db: &dyn Backend) {
    let ids = |messages: Vec<PreparedMessage>| -> Vec<PreparedMessage> {
        (0..).zip(messages).map(|(n, m)| with_id(m, &format!("id-{n}"))).collect()
    };
    let mut request = append(&agent("a"), ids(turns(1..=5)));
    request.rules.budget = Budget::new(250, 1.0);
    request.replayed = true;
    db.store().append(request.clone()).await.unwrap();
    let before = db.dump(&TABLES).await;
    // With another budget, at another time, and not as a replay.
    request.rules.budget = Budget::new(100, 0.5);
    request.now = minute(60);
    for replayed in [true, false] {
        request.replayed = replayed;
        let outcome = db.store().append(request.clone()).await.unwrap();
        assert_eq!((outcome.accepted, outcome.duplicates, outcome.enqueued), (0, 10, None));
    }
    assert_same(&before, &db.dump(&TABLES).await, "duplicates");
    clean(db, &agent("a")).await;
}

pub(crate) async fn an_empty_append_creates_the_agent(db: &dyn Backend) {
    let a = agent("a");
    let outcome = db.store().append(append(&a, Vec::new())).await.unwrap();
    assert_eq!((outcome.accepted, outcome.exchange, outcome.window_tokens), (0, 0, 0));
    assert_eq!(db.store().summary(&a).await.unwrap().unwrap().version, 0);
    clean(db, &a).await;
    db.store().append(append(&a, turns(1..=1))).await.unwrap();
    let opened =
        "SELECT count(*) FROM sessions WHERE session = 1 AND first_exchange = 1 AND ended_at IS NULL";
    assert_eq!(db.number(opened).await, Some(1));
}

pub(crate) async fn late_messages_continue_behind_the_boundary(db: &dyn Backend) {
    let a = with_pending(db, "a", 1).await;
    // As after a clear: everything leaves, even the newest turn.
    db.raw("UPDATE agents SET first_exchange = 3, tokens_before_window = 200, last_eviction = 2").await;
    db.raw(
        "INSERT INTO evictions (agent_id, eviction, from_exchange, through_exchange, tokens, evicted_at) \
         SELECT agent_id, 2, 2, 2, tokens, evicted_at FROM evictions",
    )
    .await;
    while db.store().seal_rows(10).await.unwrap() > 0 {}
    let late = vec![
        said("tool_result", "late", 7, minute(4)),
        said("assistant", "So late", 8, minute(5)),
        said("user", "Next", 9, minute(6)),
    ];
    let outcome = db.store().append(append(&a, late)).await.unwrap();
    let told = told(db, "a").await;
    insta::allow_duplicates!(insta::assert_snapshot!(told, @r"
    #1: 1-2, 100 after 0, closed, Question 1 → Answer 1
    #2: 3-4, 100 after 100, closed, Question 2 → Answer 2
    #3: 5-6, 15 after 200, closed, So late
    #4: 7-7, 9 after 215, open, Next
    "));
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (3, 24));
    clean(db, &a).await;
}

pub(crate) async fn evictions_are_recorded(db: &dyn Backend) {
    let a = agent("a");
    let outcome = db.store().append(append(&a, turns(1..=3))).await.unwrap();
    let left = |exchange: i64| Eviction {
        from_exchange: exchange,
        through_exchange: exchange,
        tokens: 100,
        at: minute(exchange + 1),
    };
    // A turn leaves when the next one's question exceeds the budget.
    assert_eq!(outcome.evictions, [left(1), left(2)]);
    let more = db.store().append(append(&a, turns(4..=4))).await.unwrap();
    assert_eq!(more.evictions, [left(3)]);
    let recorded = "SELECT CAST(sum(eviction * 1000 + from_exchange * 100 + through_exchange * 10 + tokens) AS bigint) FROM evictions";
    assert_eq!(db.number(recorded).await, Some(1110 + 2220 + 3330 + 300));
    let query = recapd_store::ExchangeQuery { from: 1, through: 4, limit: 10, bytes_max: 0 };
    let stored = db.store().exchanges(&a, query).await.unwrap();
    let evicted_at: Vec<_> = stored.iter().map(|stored| stored.evicted_at).collect();
    assert_eq!(evicted_at, [Some(minute(2)), Some(minute(3)), Some(minute(4)), None]);
    assert_eq!(db.store().agent(&a).await.unwrap().unwrap().pending_since, Some(T0));
}

pub(crate) async fn low_water_evicts_in_steps(db: &dyn Backend) {
    let mut request = append(&agent("a"), turns(1..=12));
    request.rules.budget = Budget::new(500, 0.6);
    let outcome = db.store().append(request).await.unwrap();
    let steps: Vec<(i64, i64)> = outcome
        .evictions
        .iter()
        .map(|eviction| (eviction.from_exchange, eviction.through_exchange))
        .collect();
    // 540 tokens with the sixth question: down to 240; then again after three more turns.
    assert_eq!(steps, [(1, 3), (4, 6), (7, 9)]);
    assert_eq!(outcome.window_tokens, 300);
    clean(db, &agent("a")).await;
}

pub(crate) async fn the_newest_turn_stays_even_over_budget(db: &dyn Backend) {
    let messages = vec![
        said("system", "s", 30, T0),
        said("user", "a", 10, T0),
        said("assistant", "b", 500, T0),
        said("tool_result", "c", 500, T0),
    ];
    let outcome = db.store().append(append(&agent("a"), messages)).await.unwrap();
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (1, 1_040));
    assert_eq!((outcome.evictions, outcome.enqueued), (Vec::new(), None));
    let next = db.store().append(append(&agent("a"), turns(1..=1))).await.unwrap();
    assert_eq!((next.first_exchange, next.window_tokens), (2, 130));
    clean(db, &agent("a")).await;
}

pub(crate) async fn zero_disables(db: &dyn Backend) {
    let mut request = append(&agent("a"), turns(1..=50));
    request.rules.budget = Budget::new(0, 0.8);
    let outcome = db.store().append(request).await.unwrap();
    assert_eq!((outcome.first_exchange, outcome.window_tokens), (1, 5_000));
    assert_eq!(db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
    clean(db, &agent("a")).await;
}

/// All kinds of messages, some with known ids, with silences and times that go back.
fn a_long_day() -> Vec<PreparedMessage> {
    let mut messages = vec![said("system", "s", 5, minute(0)), said("mark", "m", 0, minute(0))];
    for number in 1..=20 {
        let at = |minutes: i64| minute(number * 10 + minutes - (number % 3) * 7 + (number / 8) * 500);
        messages.push(with_id(
            said("user", &format!("Question {number}"), number, at(0)),
            &format!("{}", number % 13),
        ));
        for step in 0..number % 4 {
            messages.push(said("tool_call", "bash", 3, at(step)));
            messages.push(said("tool_result", "ok", number * 2, at(step)));
        }
        messages.push(said("assistant", "Answer", 11, at(5)));
    }
    messages
}

/// Dumps everything that an append writes, except how often it woke the queue.
async fn outcome_of(db: &dyn Backend) -> String {
    let tables = ["agents", "message_log", "sessions", "exchange_log", "evictions", "summaries"];
    let state = db.dump(&tables).await;
    db.raw("UPDATE summary_update_queue SET wake_seq = 1").await;
    let queue = db.dump(&["summary_update_queue"]).await;
    for table in tables.into_iter().rev().chain(["summary_update_queue"]) {
        db.raw(&format!("DELETE FROM {table}")).await;
    }
    state + &queue
}

pub(crate) async fn the_result_does_not_depend_on_batching(db: &dyn Backend) {
    let request = |messages: Vec<PreparedMessage>| {
        let mut request = append(&agent("a"), messages);
        request.rules.budget = Budget::new(200, 0.5);
        request.rules.idle_gap_ms = 60 * MINUTE_MS;
        request.replayed = true;
        request
    };
    let mut expected = None;
    for size in [1_000, 1, 2, 3, 7, 40] {
        let mut messages = a_long_day();
        // Appending other sizes would change the ids of the payloads' rows.
        while !messages.is_empty() {
            let rest = messages.split_off(size.min(messages.len()));
            db.store().append(request(messages)).await.unwrap();
            messages = rest;
        }
        let report = clean(db, &agent("a")).await;
        assert!(report.pending > 3, "{report:?}");
        let state = outcome_of(db).await;
        let expected = expected.get_or_insert_with(|| state.clone());
        assert_same(expected, &state, &format!("in batches of {size}"));
    }
}

pub(crate) async fn an_eviction_wakes_the_queue(db: &dyn Backend) {
    let a = agent("a");
    let store = db.store();
    let one = store.append(append(&a, turns(1..=2))).await.unwrap().enqueued.unwrap();
    assert_eq!((one.is_new, one.revived, one.visible_at), (true, false, T0.plus_ms(2 * MINUTE_MS)));
    let two = store.append(append(&a, turns(3..=3))).await.unwrap().enqueued.unwrap();
    assert_eq!((two.is_new, two.visible_at), (false, T0.plus_ms(2 * MINUTE_MS)));
    // A full batch only waits for the debounce.
    let full = store.append(append(&a, turns(4..=4))).await.unwrap().enqueued.unwrap();
    assert_eq!((full.is_new, full.visible_at), (false, T0.plus_ms(2_000)));
    let more = store.append(append(&a, vec![said("assistant", "x", 1, T0)])).await.unwrap();
    assert_eq!(more.enqueued, None);
}

/// Three small exchanges are no batch: most of such a call would be its instructions.
pub(crate) async fn a_batch_has_enough_tokens(db: &dyn Backend) {
    let a = agent("a");
    let append_turn = async |number: i64| {
        let mut request = append(&a, turns(number..=number));
        request.rules.batch_tokens_min = 4 * TURN_TOKENS;
        let outcome = db.store().append(request).await.unwrap();
        outcome.enqueued.map(|enqueued| enqueued.visible_at)
    };
    assert_eq!(append_turn(1).await, None);
    let wait = Some(T0.plus_ms(2 * MINUTE_MS));
    for number in 2..=4 {
        assert_eq!(append_turn(number).await, wait, "{number}");
    }
    assert_eq!(append_turn(5).await, Some(T0.plus_ms(2_000)), "400 tokens are pending");
}

pub(crate) async fn a_replay_ages_by_the_messages(db: &dyn Backend) {
    let a = agent("a");
    let replay = |numbers: &[i64]| {
        let messages = numbers.iter().copied().flat_map(turn).collect();
        AppendRequest { replayed: true, now: minute(10_000), ..append(&a, messages) }
    };
    let as_of = async || db.store().agent(&a).await.unwrap().unwrap().as_of;
    db.store().append(replay(&[5, 3])).await.unwrap();
    assert_eq!(as_of().await, Some(minute(5).plus_ms(1_000)));
    db.store().append(replay(&[4])).await.unwrap();
    assert_eq!(as_of().await, Some(minute(5).plus_ms(1_000)));
    db.store().append(append(&a, turns(6..=6))).await.unwrap();
    assert_eq!(as_of().await, None);
}

pub(crate) async fn concurrent_appends_all_count(db: &dyn Backend) {
    let store = db.store();
    let names: Vec<_> = (0..40).map(|n| agent(&format!("agent-{}", n % 4))).collect();
    let appends = names.iter().map(|agent| store.append(append(agent, turns(1..=2))));
    for outcome in join_all(appends).await {
        assert_eq!(outcome.unwrap().accepted, 4);
    }
    for agent in names.iter().take(4) {
        let report = clean(db, agent).await;
        assert_eq!((report.messages, report.exchanges, report.pending), (40, 20, 19));
    }
}

/// Appends one message under a key that belongs to the request `asked`.
fn keyed(key: &str, asked: char, id: &str) -> AppendRequest {
    let mut message = said("user", "Fix it", 10, minute(1));
    message.message.client_id = Some(id.to_owned());
    AppendRequest {
        key: Some(RequestKey { key: key.to_owned(), digest: asked.to_string().repeat(64) }),
        ..append(&agent("a"), vec![message])
    }
}

pub(crate) async fn a_key_belongs_to_one_request(db: &dyn Backend) {
    let store = db.store();
    let told = async |request| {
        let outcome = store.append(request).await;
        outcome.map(|outcome| (outcome.accepted, outcome.duplicates))
    };
    assert_eq!(told(keyed("k", 'a', "1")).await.unwrap(), (1, 0));
    assert_eq!(told(keyed("k", 'a', "1")).await.unwrap(), (0, 1));
    let before = db.dump(&TABLES).await;
    for id in ["1", "2"] {
        let refused = told(keyed("k", 'b', id)).await;
        assert!(matches!(&refused, Err(StoreError::KeyReused(key)) if key == "k"), "{refused:?}");
    }
    assert_same(&before, &db.dump(&TABLES).await, "what is refused");
    // Another key, and another agent, are other requests.
    assert_eq!(told(keyed("K", 'b', "2")).await.unwrap(), (1, 0));
    let elsewhere = AppendRequest { agent: agent("b"), ..keyed("k", 'b', "1") };
    assert_eq!(told(elsewhere).await.unwrap(), (1, 0));
    // A rolled-back append keeps no key.
    let failing = AppendRequest {
        messages: vec![said("user", "x", 10, minute(1)); 2]
            .into_iter()
            .zip(["3", "1"])
            .map(|(mut prepared, id)| {
                prepared.message.client_id = Some(id.to_owned());
                prepared
            })
            .collect(),
        ..keyed("later", 'c', "3")
    };
    let undone = told(failing).await;
    assert!(matches!(undone, Err(StoreError::ClientIdReused(_))), "{undone:?}");
    assert_eq!(told(keyed("later", 'd', "4")).await.unwrap(), (1, 0));
}

pub(crate) async fn a_key_is_kept_for_a_time_only(db: &dyn Backend) {
    let store = db.store();
    let at = |minutes, key| AppendRequest { now: minute(minutes), ..keyed(key, 'a', "1") };
    for (minutes, key) in [(1, "old"), (1, "again"), (9, "again"), (9, "new")] {
        let outcome = store.append(at(minutes, key)).await.unwrap();
        assert_eq!(outcome.created_at, minute(1), "of the agent, which stays");
    }
    let prune = Prune { runs_before: minute(5), answers_before: minute(0), versions_keep: 10, limit: 10 };
    assert_eq!(store.prune(prune).await.unwrap(), 1);
    let keys = "SELECT key FROM idempotency_keys ORDER BY key";
    assert_eq!(db.texts(keys, " ").await, "again new");
    // The digest of a request must not confirm a guess at forgotten content.
    forget(db, "a", &[1]).await;
    assert_eq!(db.texts(keys, " ").await, "");
}
