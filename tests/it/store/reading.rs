//! Reading: agents, exchanges, messages, summaries.

use proptest::{prelude::*, test_runner::TestRunner};
use recapd_api::context::{self, ContextError, ContextQuery, Viewer};
use recapd_core::{
    domain::{
        context::{Alternation, ContextOptions},
        exchange::ExchangeState,
        lineage::Step,
        message::{Format, Kind},
        perspective::{Mode, PerspectiveStyle},
        redaction::Redactor,
        window::Budget,
    },
    formats,
    formats::outgoing::RequestFormat,
};
use recapd_engine::snapshot;
use recapd_store::{
    ExchangeQuery, MESSAGE_BYTES, PENDING_SHOWN_MAX, PendingBefore, StoreError, StoredExchange,
    page::{PART_MESSAGES_MAX, page, part as part_behind},
};

use super::{
    clean,
    lineage::step,
    lineage_scripts::{Event, events, live},
    the_lease, with_pending,
};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    cases::cases,
    conversation::{ALL, T0, agent, append, items, minute, patch, prepared, said, turns},
};

async fn read(db: &dyn Backend, from: i64, through: i64, limit: i64) -> Vec<StoredExchange> {
    let query = ExchangeQuery { from, through, limit, bytes_max: i64::MAX };
    db.store().exchanges(&agent("a"), query).await.unwrap()
}

fn numbers(stored: &[StoredExchange]) -> Vec<i64> {
    stored.iter().map(|stored| stored.exchange.exchange).collect()
}

pub(crate) async fn an_agent_is_read_back(db: &dyn Backend) {
    assert_eq!(db.store().agent(&agent("a")).await.unwrap(), None);
    let mut request = append(&agent("a"), vec![said("system", "Be brief", 7, T0)]);
    request.messages.extend(turns(1..=3));
    request.now = minute(9);
    db.store().append(request).await.unwrap();
    let row = db.store().agent(&agent("a")).await.unwrap().unwrap();
    assert_eq!((row.agent.as_str(), row.project, row.as_of), ("a", None, None));
    assert_eq!((row.created_at, row.updated_at, row.pending_since), (minute(9), minute(9), Some(minute(9))));
    assert_eq!((row.budget_tokens, row.version, row.summary_tokens), (100, 0, 0));
    let ledger = row.ledger;
    assert_eq!((ledger.last_seq, ledger.last_exchange, ledger.session), (7, 3, 1));
    assert_eq!((ledger.first_exchange, ledger.tokens_before_window, ledger.summarized_through), (3, 200, 0));
    assert_eq!((ledger.preamble_tokens(), ledger.window_tokens()), (7, 107));
    let newest = ledger.newest.unwrap();
    assert_eq!((newest.exchange, newest.first_seq, newest.last_seq), (3, 6, 7));
    assert_eq!(
        (newest.state, newest.opened_at, newest.last_at),
        (ExchangeState::Closed, minute(3), minute(3).plus_ms(1_000))
    );
}

pub(crate) async fn agents_come_in_pages(db: &dyn Backend) {
    for name in ["b", "a", "d", "c", "A"] {
        db.store().append(append(&agent(name), turns(1..=1))).await.unwrap();
    }
    let page = async |after: Option<&str>, limit| {
        let after = after.map(agent);
        let rows = db.store().agents(after.as_ref(), limit).await.unwrap();
        rows.iter().map(|row| row.agent.as_str()).collect::<String>()
    };
    assert_eq!(page(None, 3).await, "Aab");
    assert_eq!(page(Some("b"), 3).await, "cd");
    assert_eq!(page(Some("d"), 3).await, "");
    assert_eq!(page(Some("bb"), 1).await, "c");
}

pub(crate) async fn exchanges_are_found_along_the_history_by_tokens(db: &dyn Backend) {
    let a = with_pending(db, "a", 3).await;
    let all = read(db, 1, i64::MAX, 100).await;
    let ledgers: Vec<(i64, i64)> =
        all.iter().map(|stored| (stored.exchange.exchange, stored.exchange.tokens_before)).collect();
    let (_, middle) = ledgers[1];
    let found = db.store().landmarks(&a, &[0, middle, middle + 1]).await.unwrap();
    let found: Vec<(i64, i64)> = found.iter().map(|cut| (cut.exchange, cut.tokens_before)).collect();
    assert!(found.is_sorted() && found.len() >= 2, "{found:?}");
    assert!(found.iter().all(|cut| ledgers.contains(cut)), "{found:?} {ledgers:?}");
    assert!(found.contains(&ledgers[0]) && found.contains(&ledgers[1]), "{found:?}");
}

pub(crate) async fn exchanges_are_read_by_range(db: &dyn Backend) {
    let mut messages = vec![said("system", "s", 1, T0)];
    messages.extend(turns(1..=6));
    db.store().append(append(&agent("a"), messages)).await.unwrap();
    let lease = the_lease(db, minute(10)).await;
    let limits = recapd_store::MaterialLimits { exchanges_max: 2, ..ALL };
    let material = db.store().material(&lease, limits).await.unwrap();
    db.store().complete(&lease, patch(&material, items(&material), minute(10))).await.unwrap();
    assert_eq!(numbers(&read(db, 0, 99, 99).await), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(numbers(&read(db, 2, 4, 99).await), [2, 3, 4]);
    assert_eq!(numbers(&read(db, 1, 5, 2).await), [4, 5], "the newest ones");
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange = 3").await;
    let stored = read(db, 2, 5, 99).await;
    assert_eq!(numbers(&stored), [2, 4, 5], "live ones only");
    let versions: Vec<_> = read(db, 1, 4, 9).await.iter().map(|stored| stored.summary_version).collect();
    assert_eq!(versions, [Some(1), Some(1), None]);
    let query = ExchangeQuery { from: 2, through: 2, limit: 1, bytes_max: 0 };
    let bare = db.store().exchanges(&agent("a"), query).await.unwrap();
    assert_eq!((bare[0].exchange.exchange, bare[0].messages.len()), (2, 0));
    assert_eq!(db.store().exchanges(&agent("nobody"), query).await.unwrap(), []);
}

pub(crate) async fn no_more_bytes_are_read_than_asked_for(db: &dyn Backend) {
    let mut messages = vec![said("system", &"s".repeat(1_000), 1, T0)];
    messages.extend(turns(1..=3));
    db.store().append(append(&agent("a"), messages)).await.unwrap();
    let within = async |from: i64, bytes_max: i64| {
        let query = ExchangeQuery { from, through: 99, limit: 99, bytes_max };
        let found = db.store().exchanges(&agent("a"), query).await.unwrap();
        let told = found.iter().map(|stored| {
            let bytes: usize = stored
                .messages
                .iter()
                .map(|stored| stored.message.payload.len() + usize::try_from(MESSAGE_BYTES).unwrap())
                .sum();
            (i64::try_from(bytes).unwrap(), stored.unread_bytes)
        });
        told.collect::<Vec<(i64, Option<i64>)>>()
    };
    let bytes: Vec<i64> = within(0, i64::MAX).await.iter().map(|told| told.0).collect();
    let [preamble, one, two, three] = bytes[..] else {
        panic!("{bytes:?}");
    };
    assert!(preamble > 1_000 && one > 0);
    // The newest ones, each complete.
    assert_eq!(within(1, two + three).await, [(0, Some(one)), (two, None), (three, None)]);
    assert_eq!(within(1, two + three - 1).await, [(0, Some(one)), (0, Some(two)), (three, None)]);
    assert_eq!(
        within(0, one + two + three).await,
        [(0, Some(preamble)), (one, None), (two, None), (three, None)]
    );
    assert_eq!(within(1, 1).await, [(0, Some(one)), (0, Some(two)), (0, Some(three))]);
    assert_eq!(within(1, 0).await, [(0, None); 3], "who doesn't ask isn't told of any");
}

pub(crate) async fn the_preamble_of_a_later_session_is_read_by_its_place(db: &dyn Backend) {
    db.store().append(append(&agent("a"), turns(1..=1))).await.unwrap();
    let begin = vec![step(&Step::Clear, 2), said("system", "Be loud", 7, minute(3))];
    db.store().append(append(&agent("a"), begin)).await.unwrap();
    db.store().append(append(&agent("a"), turns(4..=4))).await.unwrap();
    let preamble = read(db, 0, 0, 1).await;
    assert_eq!(numbers(&preamble), [2]);
    assert_eq!(preamble[0].messages[0].message.text(), "Be loud");
    assert_eq!(numbers(&read(db, 0, 99, 99).await), [1, 2, 3]);
    let others = read(db, 1, 99, 99).await;
    assert_eq!(numbers(&others), [1, 3]);
    assert_eq!(others[1].messages[0].message.text(), "Question 4");
}

pub(crate) async fn an_exchange_too_big_for_a_page_comes_in_parts(db: &dyn Backend) {
    let mut messages = turns(1..=1);
    messages.push(said("user", "Go", 1, minute(2)));
    let calls = PART_MESSAGES_MAX + 10;
    messages.extend((0..calls).map(|_| said("tool_call", "bash", 0, minute(2))));
    messages.extend(turns(3..=3));
    db.store().append(append(&agent("a"), messages)).await.unwrap();
    let mut query = ExchangeQuery { from: 1, through: i64::MAX, limit: 9, bytes_max: 500 };
    let mut told = Vec::new();
    while query.through > 0 {
        let page = page(db.store().as_ref(), &agent("a"), query).await.unwrap();
        let [paged] = &page[..] else { panic!("{page:?}") };
        let number = paged.stored.exchange.exchange;
        told.push((number, paged.stored.messages.len(), paged.next_after));
        query.through = number - 1;
    }
    // The second exchange begins with message 3.
    let part = usize::try_from(PART_MESSAGES_MAX).unwrap();
    assert_eq!(told, [(3, 2, None), (2, part, Some(PART_MESSAGES_MAX + 2)), (1, 2, None)]);
    let behind = part_behind(PART_MESSAGES_MAX + 2);
    let rest = db.store().expand(&agent("a"), 2, behind).await.unwrap().unwrap();
    assert_eq!((rest.messages.len(), rest.has_more), (11, false));
}

/// Fills an agent's window: a turn, and an open exchange with a question and five calls with their results.
async fn with_big_exchange(db: &dyn Backend, result: &str) {
    let mut messages = turns(1..=1);
    messages.push(said("user", "Read them all", 10, minute(2)));
    for _ in 0..5 {
        messages.push(said("tool_call", "cat", 10, minute(2)));
        messages.push(said("tool_result", result, 700, minute(2)));
    }
    let mut request = append(&agent("a"), messages);
    request.rules.budget = Budget::unlimited();
    db.store().append(request).await.unwrap();
}

/// The material of a context is bounded, whatever the window holds.
pub(crate) async fn a_context_is_built_from_limited_bytes(db: &dyn Backend) {
    with_big_exchange(db, &"x".repeat(2_000)).await;
    let counter = recapd_core::tokenizer::ceiling_counter();
    let row = db.store().summary_of_step(&agent("a")).await.unwrap().unwrap();
    let snapshot = snapshot::render(&row, 10_000, counter.as_ref(), &Redactor::standard());
    let built = async |bytes_max: i64| {
        let (store, agent) = (db.store(), agent("a"));
        let material = context::load_within(store.as_ref(), &agent, &snapshot, None, bytes_max).await?;
        let query = ContextQuery {
            format: RequestFormat::OpenAiChat,
            budget_tokens: Some(0),
            alternation: None,
            summary_max_tokens: None,
            keeps_open_thinking: false,
        };
        Ok::<_, ContextError>(material.build(query, ContextOptions::default(), counter.as_ref()))
    };
    let whole = built(1 << 20).await.unwrap();
    assert_eq!((&whole.left_out, whole.elided.len()), (&vec![], 0));
    // The newest two results fit unshortened.
    let reply = built(5_000).await.unwrap();
    let body = reply.body.to_string();
    assert_eq!((reply.left_out, reply.first_exchange), (vec![1], 1));
    assert_eq!(body.matches("characters left out of exchange #2 …]").count(), reply.elided.len());
    assert_eq!(body.matches(&"x".repeat(2_000)).count(), 2, "{body}");
    let seqs: Vec<Option<i64>> = reply.elided.iter().map(|elision| elision.seq).collect();
    assert_eq!(seqs, [Some(5), Some(7), Some(9)]);
    for words in ["exchange #1 is left out here", "Read them all"] {
        assert!(body.contains(words), "{words}: {body}");
    }
    let [unread, shortened] = &reply.notes[..] else { panic!("{:?}", reply.notes) };
    assert!(unread.starts_with("exchange #1 is left out because of size in bytes"), "{unread}");
    assert!(shortened.contains("GET /v1/agents/a/exchanges/2 returns it"), "{shortened}");
    assert!(reply.tokens < whole.tokens);
    // If nothing can be shortened, there is nothing to build a context from.
    let refused = built(100).await;
    assert!(matches!(refused, Err(ContextError::TooLarge(2))), "{refused:?}");
}

pub(crate) async fn messages_come_back_verbatim(db: &dyn Backend) {
    let payloads = [
        (Format::OpenAiChat, r#"{"role":"user",  "content":"Grüße \u0041 – 🦀","name":"ann"}"#),
        (
            Format::Anthropic,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"ls","input":{"b":1,"a":2.50}}]}"#,
        ),
        (
            Format::Anthropic,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}"#,
        ),
        (Format::Native, r#"{"kind":"mark","content":"here","extra":[1,2,{"x":null}]}"#),
    ];
    let messages =
        payloads.map(|(format, payload)| prepared(formats::parse(format, payload).unwrap(), 3, T0));
    db.store().append(append(&agent("a"), messages.to_vec())).await.unwrap();
    let stored = read(db, 1, 1, 1).await;
    let read: Vec<_> = stored[0]
        .messages
        .iter()
        .map(|stored| (stored.message.format, stored.message.payload.as_str()))
        .collect();
    assert_eq!(read, payloads);
    assert!(stored[0].messages.iter().zip(&messages).all(|(read, given)| read.message == given.message));
    assert!(
        stored[0]
            .messages
            .iter()
            .zip(1..)
            .all(|(read, seq)| (read.seq, read.tokens, read.said_at) == (seq, 3, T0))
    );
    let columns = "SELECT kind || ' ' || speaker || ' ' || count_method FROM message_log WHERE seq = 1";
    assert_eq!(db.text(columns).await.as_deref(), Some("user ann test"));
}

pub(crate) async fn an_unreadable_message_is_shown_without_content(db: &dyn Backend) {
    db.store().append(append(&agent("a"), turns(1..=1))).await.unwrap();
    db.raw("UPDATE message_log SET payload = 'no JSON' WHERE seq = 2").await;
    let stored = read(db, 1, 1, 1).await;
    let message = &stored[0].messages[1].message;
    assert_eq!(
        (&message.kind, message.payload.as_str(), message.parts.len()),
        (&Kind::Assistant, "no JSON", 0)
    );
}

pub(crate) async fn a_summary_names_what_is_pending(db: &dyn Backend) {
    assert_eq!(db.store().summary(&agent("a")).await.unwrap(), None);
    with_pending(db, "a", 4).await;
    let summary = db.store().summary(&agent("a")).await.unwrap().unwrap();
    assert_eq!((summary.version, summary.content.as_str(), summary.token_count), (0, "", 0));
    assert_eq!((summary.summarized_through, summary.first_exchange, summary.pending_since), (0, 5, Some(T0)));
    let named = |pending: &[recapd_core::domain::exchange::Exchange]| {
        pending.iter().map(|e| e.exchange).collect::<Vec<_>>()
    };
    assert_eq!(named(&summary.pending), [1, 2, 3, 4]);
    assert_eq!(summary.pending[1].headline.digest(), "Question 2 → Answer 2");
    assert_eq!(summary.pending_before, PendingBefore::default());
    db.raw("UPDATE exchange_log SET set_aside_at = opened_at WHERE exchange = 2").await;
    db.raw("UPDATE agents SET summarized_through = 1").await;
    let summary = db.store().summary(&agent("a")).await.unwrap().unwrap();
    assert_eq!(named(&summary.pending), [3, 4]);
}

pub(crate) async fn pending_exchanges_too_many_to_list_are_counted(db: &dyn Backend) {
    let more = 17;
    with_pending(db, "a", PENDING_SHOWN_MAX + more).await;
    let summary = db.store().summary(&agent("a")).await.unwrap().unwrap();
    assert_eq!(i64::try_from(summary.pending.len()), Ok(PENDING_SHOWN_MAX));
    assert_eq!(
        (summary.pending[0].exchange, summary.pending.last().unwrap().exchange),
        (more + 1, PENDING_SHOWN_MAX + more)
    );
    let before = PendingBefore { exchanges: more, tokens: more * 100 };
    assert_eq!(summary.pending_before, before);
    assert_eq!(clean(db, &agent("a")).await.pending, PENDING_SHOWN_MAX + more);
}

pub(crate) async fn impossible_data_is_named(db: &dyn Backend) {
    with_pending(db, "a", 1).await;
    db.raw("UPDATE exchange_log SET headline = 'gone' WHERE exchange = 2").await;
    let error = db.store().agent(&agent("a")).await.unwrap_err();
    insta::allow_duplicates!(
        insta::assert_snapshot!(error, @"table exchange_log, exchange 2: column headline holds `gone`")
    );
    db.raw("UPDATE exchange_log SET headline = '{\"title\":\"\",\"tools\":[],\"answer\":\"\"}'").await;
    db.raw("UPDATE message_log SET format = 'telex' WHERE seq = 1").await;
    let query = ExchangeQuery { from: 1, through: 1, limit: 1, bytes_max: i64::MAX };
    let error = db.store().exchanges(&agent("a"), query).await.unwrap_err();
    insta::allow_duplicates!(
        insta::assert_snapshot!(error, @"table message_log, seq 1: column format holds `telex`")
    );
    let unknown = matches!(db.store().verify(&agent("b")).await, Err(StoreError::UnknownAgent(_)));
    assert!(unknown);
}

pub(crate) async fn a_database_answers(db: &dyn Backend) {
    db.store().ping().await.unwrap();
}

/// Returns a native message of `kind` by `speaker`.
fn by(kind: &str, speaker: &str, text: &str) -> recapd_store::PreparedMessage {
    let payload = serde_json::json!({"kind": kind, "speaker": speaker, "content": text});
    let message = formats::parse(Format::Native, &payload.to_string()).unwrap();
    prepared(message, 10, T0)
}

pub(crate) async fn the_last_words_of_speakers_are_read(db: &dyn Backend) {
    let words = async |limit| -> Vec<String> {
        let said = db.store().last_said(&agent("a"), limit).await.unwrap();
        let word = |said: &recapd_store::SaidMessage| {
            let message = &said.stored.message;
            let speaker = message.speaker.clone().unwrap_or_default();
            format!("#{} {speaker}: {}", said.exchange, message.text())
        };
        said.iter().map(word).collect()
    };
    assert_eq!(words(9).await, Vec::<String>::new());
    let mut messages = vec![
        by("system", "ada", "You are bold"),
        by("user", "human", "Talk"),
        said("user", "Anybody?", 5, T0),
        by("user", "ada", "One"),
        by("tool_result", "bob", "a file"),
        by("assistant", "bob", "Two"),
        step(&Step::Mark(None), 1),
    ];
    messages.extend([by("assistant", "ada", "Three"), by("assistant", "bob", "Four")]);
    db.store().append(append(&agent("a"), messages)).await.unwrap();
    // Most of it has left the window, which makes no difference; no more is read than asked for.
    assert_eq!(words(9).await, ["#3 ada: One", "#3 bob: Two", "#4 ada: Three", "#4 bob: Four"]);
    assert_eq!(words(3).await, ["#3 bob: Two", "#4 ada: Three", "#4 bob: Four"]);
    // A child knows what was said before it; set-aside messages are left out.
    db.store().fork(&agent("a"), &agent("b"), minute(5)).await.unwrap();
    let back = append(&agent("a"), vec![step(&Step::Rewind(None), 6)]);
    db.store().rewind(back).await.unwrap();
    assert_eq!(words(9).await, ["#3 ada: One", "#3 bob: Two"]);
    let child = db.store().last_said(&agent("b"), 9).await.unwrap();
    assert_eq!(child.len(), 4);
    clean(db, &agent("a")).await;
}

/// Messages that are made up for a request (summary, acknowledgements, missing results, a silence) are never stored.
pub(crate) async fn synthetic_messages_are_never_stored(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let build = |(events, max_tokens): (Vec<_>, i64)| {
        case.set(case.get() + 1);
        let agent = agent(&format!("life-{}", case.get()));
        tokio::runtime::Handle::current().block_on(async {
            let events: Vec<_> = std::iter::once(Event::Said("user", 10)).chain(events).collect();
            live(db, &agent, &events, 200).await;
            let talk = vec![by("user", "ada", "One"), by("assistant", "bob", "Two")];
            db.store().append(append(&agent, talk)).await.unwrap();
            let before = db.dump(&TABLES).await;
            let row = db.store().summary(&agent).await.unwrap().unwrap();
            let counter = recapd_core::tokenizer::ceiling_counter();
            let snapshot = snapshot::render(&row, 10_000, counter.as_ref(), &Redactor::standard());
            let viewer = |speaker: &str| Viewer {
                speaker: speaker.to_owned(),
                telling: PerspectiveStyle { mode: Mode::Meditation, ..PerspectiveStyle::default() },
            };
            for viewer in [None, Some(viewer("ada")), Some(viewer("bob"))] {
                let material = context::load(db.store().as_ref(), &agent, &snapshot, viewer).await.unwrap();
                for format in RequestFormat::ALL {
                    let query = ContextQuery {
                        format,
                        budget_tokens: Some(max_tokens),
                        alternation: Some(Alternation::Ack),
                        summary_max_tokens: None,
                        keeps_open_thinking: false,
                    };
                    let reply = material.build(query, ContextOptions::default(), counter.as_ref());
                    assert!(reply.tokens > 0);
                }
            }
            assert_same(&before, &db.dump(&TABLES).await, "after contexts");
        });
        Ok(())
    };
    let mut runner = TestRunner::new(cases(12));
    let lives = (events(), prop_oneof![Just(0), 1..400_i64]);
    tokio::task::block_in_place(|| runner.run(&lives, build)).unwrap();
}
