//! The keeper: what it adds to a message before the store gets it.

use recapd::{
    domain::{
        convergence::{Rules, State, WINDOW_MESSAGES},
        message::{Format, Message},
        time::HOUR_MS,
    },
    formats,
    store::ExchangeQuery,
};

use crate::support::{
    conversation::{T0, minute, native},
    flaky_store::When,
    rig::{Rig, config},
};

/// So much text that counting is shared out among threads.
const WORDS: usize = 4_000;

fn messages() -> Vec<Message> {
    let kinds = ["user", "assistant"].into_iter().cycle();
    let messages = kinds.take(40).enumerate().map(|(n, kind)| {
        let mut message = native(kind, &"word ".repeat(WORDS));
        // One in ten brings a time.
        message.at = (n % 10 == 0).then(|| minute(-1_000 + i64::try_from(n).unwrap()));
        message
    });
    messages.collect()
}

/// A message without a time was said when the one before it was, wherever the threads' shares begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_do_not_depend_on_how_the_counting_is_shared_out() {
    let mut config = config();
    config.window.budget_tokens = 0;
    let rig = Rig::new(&config).await;
    rig.clock.set(T0.plus_ms(HOUR_MS));
    rig.parts.keeper.replay(&rig.agent, messages()).await.unwrap();
    let query = ExchangeQuery {
        from: 1,
        through: i64::MAX,
        limit: 100,
        messages: true,
    };
    let stored = rig.parts.store.exchanges(&rig.agent, query).await.unwrap();
    let said_at: Vec<_> = stored
        .iter()
        .flat_map(|stored| stored.messages.iter().map(|message| message.said_at))
        .collect();
    let expected: Vec<_> = (0..40).map(|n| minute(-1_000 + n / 10 * 10)).collect();
    assert_eq!(said_at, expected);
    assert_eq!(rig.row().await.as_of, Some(minute(-970)));
    let per_message = stored[0].messages[0].tokens;
    let tokens: i64 = stored.iter().map(|stored| stored.exchange.tokens).sum();
    assert_eq!(tokens, 40 * per_message, "each is counted once");
    rig.verify().await;
}

/// Without any time the messages were said now.
#[tokio::test]
async fn what_brings_no_time_was_said_now() {
    let rig = Rig::new(&config()).await;
    rig.parts
        .keeper
        .append(&rig.agent, vec![native("user", "Hi")])
        .await
        .unwrap();
    let row = rig.row().await;
    assert_eq!(
        (row.ledger.newest.map(|newest| newest.opened_at), row.as_of),
        (Some(T0), None)
    );
}

fn says(speaker: &str, text: &str) -> Message {
    let payload = serde_json::json!({"kind": "assistant", "speaker": speaker, "content": text});
    formats::parse(Format::Native, &payload.to_string()).unwrap()
}

/// However long two have talked, an append reads the last messages once, and nothing else of the history.
#[tokio::test]
async fn convergence_holds_no_more_than_the_last_messages() {
    let rig = Rig::new(&config()).await;
    let needed = Rules::default().messages_needed();
    assert_eq!(usize::try_from(needed).unwrap(), WINDOW_MESSAGES + 6);
    for turn in 0..100_usize {
        let talk = vec![says("a", &format!("Thought {turn}")), says("b", "Hm.")];
        let (calls, exchanges) = (rig.flaky.calls("last_said"), rig.flaky.calls("exchanges"));
        let (outcome, reading) = rig
            .parts
            .keeper
            .append_and_listen(&rig.agent, talk)
            .await
            .unwrap();
        assert_eq!(outcome.accepted, 2);
        assert!(reading.is_some_and(|reading| reading.is_fresh));
        assert_eq!(rig.flaky.calls("last_said"), calls + 1);
        assert_eq!(rig.flaky.calls("exchanges"), exchanges);
        let held = rig.parts.store.last_said(&rig.agent, needed).await.unwrap();
        assert_eq!(held.len(), (2 * turn + 2).min(WINDOW_MESSAGES + 6));
    }
    // Nobody is compared in a conversation with one.
    let calls = rig.flaky.calls("last_said");
    let alone = vec![native("user", "Hi"), native("assistant", "Ho")];
    let (_, reading) = rig
        .parts
        .keeper
        .append_and_listen(&rig.agent, alone)
        .await
        .unwrap();
    assert_eq!((reading, rig.flaky.calls("last_said")), (None, calls));
}

/// A stop is said, and nothing is refused because of it, or because it can't be told.
#[tokio::test]
async fn convergence_stops_nobody() {
    let rig = Rig::new(&config()).await;
    for turn in 0..3 {
        let talk = vec![says("a", "Yes, just so!"), says("b", "Yes, just so!")];
        let (outcome, reading) = rig
            .parts
            .keeper
            .append_and_listen(&rig.agent, talk)
            .await
            .unwrap();
        assert_eq!(
            (outcome.accepted, reading.unwrap().score.state),
            (2, State::Stop),
            "{turn}"
        );
    }
    rig.flaky.fail("last_said", 1, When::Before);
    let (outcome, reading) = rig
        .parts
        .keeper
        .append_and_listen(&rig.agent, vec![says("a", "Yes?")])
        .await
        .unwrap();
    assert_eq!((outcome.accepted, reading), (1, None));
    rig.verify().await;
}
