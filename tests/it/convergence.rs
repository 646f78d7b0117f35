//! Convergence over a store: what it reads, and that it refuses no append.

use recapd_core::{
    domain::{
        convergence::{ConvergenceState, Rules, WINDOW_MESSAGES},
        message::{Format, Message},
    },
    formats,
};

use crate::support::{
    conversation::native,
    flaky_store::When,
    rig::{Rig, config},
};

fn says(speaker: &str, text: &str) -> Message {
    let payload = serde_json::json!({"kind": "assistant", "speaker": speaker, "content": text});
    formats::parse(Format::Native, &payload.to_string()).unwrap()
}

/// Even after a long conversation, an append reads the last messages once, and nothing else of the history.
#[tokio::test]
async fn convergence_holds_no_more_than_the_last_messages() {
    let rig = Rig::new(&config()).await;
    let needed = Rules::default().messages_needed();
    assert_eq!(usize::try_from(needed).unwrap(), WINDOW_MESSAGES + 6);
    for turn in 0..100_usize {
        let talk = vec![says("a", &format!("Thought {turn}")), says("b", "Hm.")];
        let (calls, exchanges) = (rig.flaky.calls("last_said"), rig.flaky.calls("exchanges"));
        let (outcome, reading) =
            rig.parts.ingestor.append_and_score(&rig.agent, talk, None, None).await.unwrap();
        assert_eq!(outcome.accepted, 2);
        assert!(reading.is_some_and(|reading| reading.is_fresh));
        assert_eq!(rig.flaky.calls("last_said"), calls + 1);
        assert_eq!(rig.flaky.calls("exchanges"), exchanges);
        let held = rig.parts.store.last_said(&rig.agent, needed).await.unwrap();
        assert_eq!(held.len(), (2 * turn + 2).min(WINDOW_MESSAGES + 6));
    }
    // A conversation with one speaker isn't compared.
    let calls = rig.flaky.calls("last_said");
    let alone = vec![native("user", "Hi"), native("assistant", "Ho")];
    let (_, reading) = rig.parts.ingestor.append_and_score(&rig.agent, alone, None, None).await.unwrap();
    assert_eq!((reading, rig.flaky.calls("last_said")), (None, calls));
}

/// A stop is reported, but refuses nothing; nor does a failure to compute it.
#[tokio::test]
async fn convergence_blocks_no_append() {
    let rig = Rig::new(&config()).await;
    for turn in 0..3 {
        let talk = vec![says("a", "Yes, just so!"), says("b", "Yes, just so!")];
        let (outcome, reading) =
            rig.parts.ingestor.append_and_score(&rig.agent, talk, None, None).await.unwrap();
        assert_eq!((outcome.accepted, reading.unwrap().score.state), (2, ConvergenceState::Stop), "{turn}");
    }
    rig.flaky.fail("last_said", 1, When::Before);
    let (outcome, reading) =
        rig.parts.ingestor.append_and_score(&rig.agent, vec![says("a", "Yes?")], None, None).await.unwrap();
    assert_eq!((outcome.accepted, reading), (1, None));
    rig.verify().await;
}
