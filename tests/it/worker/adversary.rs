//! An adversarial model, through worker and database: whatever it answers, the data keep all guarantees.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use recapd_core::{
    domain::{reply::OPERATIONS, time::MINUTE_MS},
    tokenizer,
};
use recapd_engine::assembly::Parts;
use recapd_llm::{ChatModel, LlmError, ModelAnswer, ModelRequest};
use recapd_platform::clock::{Clock, ManualClock};
use recapd_selftest::selftest::updates::Adversary;

use crate::support::{
    backend::{Backend as _, SqliteBackend},
    cases::cases,
    conversation::{T0, agent, native},
    rig::{Rig, config},
};

const LIVES: u32 = 3;
const UPDATES_OF_LIFE: usize = 12;

struct Worst(Mutex<Adversary>);

impl Worst {
    fn with<T>(&self, answer: impl FnOnce(&mut Adversary) -> T) -> T {
        answer(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl ChatModel for Worst {
    fn provider(&self) -> &'static str {
        "worst"
    }

    fn model(&self) -> &'static str {
        "worst"
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let exchanges: Vec<i64> = request.transcripts.iter().map(|transcript| transcript.exchange).collect();
        let text = self.with(|worst| {
            if request.prompt.schema == OPERATIONS {
                worst.operations(i64::try_from(request.prompt.user.lines().count()).unwrap())
            } else {
                worst.items(&exchanges)
            }
        });
        Ok(ModelAnswer { text, ..ModelAnswer::default() })
    }
}

/// Runs some updates, and returns how many items others replaced.
async fn live(seed: u64) -> i64 {
    let db = SqliteBackend::fresh().await;
    let model = Arc::new(Worst(Mutex::new(Adversary::new(seed))));
    let clock = Arc::new(ManualClock::new(T0));
    let mut config = config();
    config.summary.max_tokens = [300, 900, 1_500][usize::try_from(seed % 3).unwrap()];
    let (asked, time) = (Arc::<Worst>::clone(&model), Arc::<ManualClock>::clone(&clock));
    let time: Arc<dyn Clock> = time;
    let prices = config.spend.prices().unwrap();
    let parts = Parts::new((&config, prices), db.store(), asked, time, "daemon", seed);
    let counter = tokenizer::ceiling_counter();
    for _ in 0..UPDATES_OF_LIFE {
        for _ in 0..4 {
            let said = model.with(|worst| [worst.text(60), worst.text(90)]);
            let [question, answer] = said.map(|said| said.chars().take(2_000).collect::<String>());
            let turn = vec![native("user", &question), native("assistant", &answer)];
            parts.ingestor.append(&agent("a"), turn).await.unwrap();
            clock.advance_ms(MINUTE_MS);
        }
        clock.advance_ms(20 * MINUTE_MS);
        parts.worker.drain().await.unwrap();
        Rig::assert_clean(&db.store().verify(&agent("a")).await.unwrap());
        let document = db.store().summary(&agent("a")).await.unwrap().unwrap();
        assert_eq!(document.token_count, counter.count(&document.content));
        assert!(document.token_count <= config.summary.max_tokens);
    }
    let replaced = "SELECT count(*) FROM summary_items WHERE removed_version IS NOT NULL AND provisional = 0";
    db.number(replaced).await.unwrap()
}

#[tokio::test]
async fn any_answer_of_a_model_keeps_all_guarantees() {
    let mut replaced = 0;
    for seed in 0..cases(LIVES).cases {
        replaced += live(seed.into()).await;
    }
    assert!(replaced > 0, "no item was ever replaced");
}
