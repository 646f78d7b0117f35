//! A model that takes some time, and fails in every way.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::world::World;
use recapd_core::domain::{
    reply::OPERATIONS,
    time::{MINUTE_MS, SECOND_MS},
};
use recapd_llm::{Cause, ChatModel, LlmError, ModelAnswer, ModelRequest, TransientFailure, Wait};

pub(super) struct Thinker {
    pub(super) world: Arc<World>,
}

impl Thinker {
    fn fault(&self) -> Option<LlmError> {
        let fault = match self.world.draw(|random| random.u8(..100)) {
            0..=7 => LlmError::Transient(TransientFailure::new(Cause::Network, "connection reset")),
            8..=9 => LlmError::RateLimited {
                retry_after: Some(Duration::from_secs(20)),
                message: "too many requests".to_owned(),
            },
            10..=11 => LlmError::ContextOverflow("too long".to_owned()),
            12 => LlmError::Refused { message: "I can't help with that".to_owned(), usage: None },
            13 => LlmError::Auth("no such key".to_owned()),
            14..=16 => LlmError::Waiting { wait: Duration::from_secs(5), why: Wait::Rate },
            _ => return None,
        };
        Some(fault)
    }
}

#[async_trait]
impl ChatModel for Thinker {
    fn provider(&self) -> &'static str {
        "simulated"
    }

    fn model(&self) -> &'static str {
        "thinker"
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let is_troubled = {
            let mut inner = self.world.inner();
            inner.counts.model_calls += 1;
            inner.is_troubled
        };
        // Some answers take longer than a lease: a heartbeat keeps it.
        let thinking_ms = self.world.draw(|random| match random.u8(..8) {
            0 => random.i64(10 * SECOND_MS..MINUTE_MS),
            _ => random.i64(100..5 * SECOND_MS),
        });
        self.world.pause(thinking_ms).await;
        if is_troubled && let Some(fault) = self.fault() {
            return Err(fault);
        }
        let is_nonsense = is_troubled && self.world.draw(|random| random.u8(..16)) == 0;
        let text = if is_nonsense {
            "I would rather talk about the weather.".to_owned()
        } else if request.prompt.schema == OPERATIONS {
            operations(&request.prompt.user)
        } else {
            items(request)
        };
        Ok(ModelAnswer { text, input_tokens: 100, output_tokens: 10, ..ModelAnswer::default() })
    }
}

/// One item for every two exchanges.
fn items(request: &ModelRequest) -> String {
    let exchanges: Vec<i64> = request.transcripts.iter().map(|transcript| transcript.exchange).collect();
    let item = |pair: &[i64]| {
        let (first, last) = (pair.first()?, pair.last()?);
        let text = format!("Worked on exchanges {first} to {last}");
        Some(json!({"exchanges": {"first": first, "last": last}, "importance": "fix",
                    "text": text, "brief": text, "gist": text}))
    };
    let items: Vec<Value> = exchanges.chunks(2).filter_map(item).collect();
    // Each answer opens a fact, and closes the oldest one.
    let last = exchanges.last();
    let add = last
        .map(|last| json!({"kind": "open", "text": format!("what exchange {last} left"), "exchange": last}));
    let ended = request.facts.first().zip(last);
    let close = ended.map(|(fact, last)| json!({"fact": fact.fact, "exchange": last}));
    let changes = |change: Option<Value>| change.into_iter().collect::<Vec<Value>>();
    json!({"items": items, "facts": {"add": changes(add), "replace": [], "close": changes(close)}})
        .to_string()
}

fn operations(question: &str) -> String {
    let label = |line: &str| line.split_once(". ")?.0.parse::<i64>().ok();
    let labels: Vec<i64> = question.lines().filter_map(label).collect();
    let merge = |pair: &[i64]| json!({"items": pair, "text": "Both", "brief": "Both", "gist": "Both"});
    let merges: Vec<Value> = labels.chunks_exact(2).map(merge).collect();
    json!({"merge": merges, "shorten": [], "drop": []}).to_string()
}
