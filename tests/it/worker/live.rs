//! A live conversation, turn by turn, with a good, a middling and a hostile model: the cost of each answer.

use recapd_config::Config;
use recapd_core::{domain::time::MINUTE_MS, tokenizer};
use recapd_engine::worker::Outcome;

use crate::support::{
    rig::{Rig, config},
    scripted::Reply,
};

const TURNS: usize = 45;
/// Two turns per minute.
const TURN_MS: i64 = MINUTE_MS / 2;
/// A batch holds several turns, which are short.
const BATCH_TOKENS: i64 = 80;
/// A document that is full after some updates.
const DOCUMENT_TOKENS: i64 = 600;

fn live_config() -> Config {
    let mut config = config();
    config.queue.batch_tokens_min = BATCH_TOKENS;
    config.summary.max_tokens = DOCUMENT_TOKENS;
    config.summary.compact_by_model = false;
    config
}

struct Talk {
    rig: Rig,
    outcomes: Vec<Outcome>,
}

impl Talk {
    /// Runs a conversation with a model that always answers the same way.
    async fn with(reply: Reply) -> Self {
        let rig = Rig::new(&live_config()).await;
        rig.model.plan_then([], reply);
        let mut talk = Self { rig, outcomes: Vec::new() };
        for _ in 0..TURNS {
            talk.turn().await;
        }
        talk.outcomes.extend(talk.rig.drain_on(6).await);
        talk
    }

    /// One turn, and the updates due after it. Whatever was answered, the document is valid and under its ceiling.
    async fn turn(&mut self) {
        let rig = &self.rig;
        rig.say(1).await;
        rig.clock.advance_ms(TURN_MS);
        let outcomes = rig.drain().await;
        if !outcomes.is_empty() {
            rig.verify().await;
            let tokens = tokenizer::ceiling_counter().count(&rig.content().await);
            assert!(tokens <= DOCUMENT_TOKENS, "{tokens}");
        }
        self.outcomes.extend(outcomes);
    }

    /// Checks that everything that left the window has its item, and no digest is provisional.
    async fn assert_whole(&self) {
        let report = self.rig.verify().await;
        assert_eq!(report.covered + report.in_window, report.exchanges);
        assert_eq!((report.pending, self.rig.digests().await), (0, 0));
    }

    fn completed(&self) -> usize {
        let completed = |outcome: &&Outcome| **outcome == Outcome::Completed;
        self.outcomes.iter().filter(completed).count()
    }

    /// How often each covered exchange was asked about, oldest first.
    async fn asked(&self) -> Vec<usize> {
        let covered = self.rig.row().await.ledger.summarized_through;
        (1..=covered).map(|exchange| self.rig.model.asked_with(exchange)).collect()
    }
}

/// A conversation in which each update takes one call and each exchange is asked about once. Returns the number of updates.
async fn talk_of_one_call_an_update(reply: Reply) -> usize {
    let talk = Talk::with(reply).await;
    let updates = talk.completed();
    assert_eq!((updates, talk.rig.model.calls()), (talk.outcomes.len(), updates), "{reply:?}");
    assert!(talk.asked().await.iter().all(|asked| *asked == 1), "{reply:?}");
    talk.assert_whole().await;
    assert_eq!(talk.rig.lasting_digests().await, 0);
    updates
}

#[tokio::test]
async fn a_good_answer_costs_one_call() {
    for reply in [Reply::Good, Reply::Stating] {
        let updates = talk_of_one_call_an_update(reply).await;
        assert!((5..=TURNS / 3).contains(&updates), "{updates}: in batches");
    }
}

#[tokio::test]
async fn plain_answers_cost_one_call() {
    for reply in [Reply::Sloppy, Reply::Overlapping, Reply::Oversize, Reply::Claiming("Never ask twice.")] {
        talk_of_one_call_an_update(reply).await;
    }
}

/// Each answer leaves out the last exchange, which is then asked about alone.
#[tokio::test]
async fn only_gaps_are_asked_about_twice() {
    let talk = Talk::with(Reply::Middling).await;
    let (updates, model) = (talk.completed(), &talk.rig.model);
    assert_eq!((updates, model.calls()), (talk.outcomes.len(), 2 * updates));
    let asked = talk.asked().await;
    assert_eq!(asked.iter().filter(|asked| **asked == 2).count(), updates);
    assert!(asked.iter().all(|asked| (1..=2).contains(asked)), "{asked:?}");
    let alone = (1..).zip(&asked).filter(|(exchange, _)| model.asked_about(&[*exchange]) == 1);
    assert!(alone.clone().all(|(_, asked)| *asked == 2));
    assert_eq!(alone.count(), updates);
    talk.assert_whole().await;
    assert_eq!(talk.rig.lasting_digests().await, 0);
}

/// The model always leaves out the last exchange, even alone: that costs four questions about it, two of them alone after it is revisited.
/// Then its digest stays.
#[tokio::test]
async fn a_model_that_always_leaves_gaps_is_not_asked_for_ever() {
    let talk = Talk::with(Reply::Partial).await;
    assert!(talk.outcomes.iter().all(|outcome| *outcome == Outcome::Completed));
    let asked = talk.asked().await;
    assert!(asked.iter().all(|asked| (1..=5).contains(asked)), "{asked:?}");
    let calls = talk.rig.model.calls();
    assert!(calls <= 3 * talk.completed(), "{calls}");
    assert!(talk.rig.lasting_digests().await > 0 && talk.rig.digests().await <= 1);
}

#[tokio::test]
async fn a_hostile_model_costs_a_bounded_number_of_calls() {
    for reply in [Reply::Garbage, Reply::WrongExchanges, Reply::Flood, Reply::Empty] {
        let mut talk = Talk::with(reply).await;
        let calls = talk.rig.model.calls();
        // Two calls per attempt, and five attempts until the row is parked, which is revived every ten minutes.
        let minutes = (TURNS / 2 + 20).div_ceil(10);
        assert!(calls <= minutes * 2 * 5, "{reply:?}: {calls}");
        assert!(talk.outcomes.contains(&Outcome::Parked), "{reply:?}: {:?}", talk.outcomes);
        // The next turn revives the row, and by then the model is good.
        talk.rig.model.plan([]);
        talk.turn().await;
        talk.outcomes.extend(talk.rig.drain_on(3).await);
        talk.assert_whole().await;
        assert_eq!(talk.rig.lasting_digests().await, 0, "{reply:?}");
    }
}

/// A good answer follows each kind of nonsense, and replaces the digests.
#[tokio::test]
async fn after_every_kind_of_nonsense_the_summary_is_whole() {
    let mut talk = Talk::with(Reply::Good).await;
    for reply in Reply::ALL {
        talk.rig.model.plan_then([reply, reply], Reply::Good);
        for _ in 0..6 {
            talk.turn().await;
        }
    }
    talk.rig.model.plan([]);
    for _ in 0..30 {
        talk.turn().await;
    }
    talk.outcomes.extend(talk.rig.drain_on(3).await);
    talk.assert_whole().await;
}
