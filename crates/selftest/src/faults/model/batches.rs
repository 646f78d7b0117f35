//! Anthropic's batches: created (sometimes without a confirmation), listed, polled, and ended after a while.

use std::time::Duration;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Model, good, message, nonsense};
use recapd_core::domain::time::Timestamp;
use recapd_platform::clock::{Clock as _, SystemClock};

const SPAN_MS_MAX: u64 = 4_000;
/// One in so many creations returns an error, whether or not the batch was created.
const FAILS: u8 = 8;

pub(super) struct Batch {
    id: String,
    made_at: Timestamp,
    ends: Instant,
    lines: Vec<BatchQuestion>,
}

struct BatchQuestion {
    key: String,
    params: Value,
    fate: BatchFate,
}

#[derive(Clone, Copy)]
enum BatchFate {
    Good,
    Nonsense,
    Errored,
    Expired,
    Missing,
}

pub(super) fn routes() -> Router<Model> {
    const AT: &str = "/{daemon}/v1/messages/batches";
    Router::new()
        .route(AT, post(create).get(list))
        .route(&format!("{AT}/{{id}}"), get(look))
        .route(&format!("{AT}/{{id}}/results"), get(results))
}

fn draw(random: &mut Rng) -> BatchFate {
    match random.u8(..20) {
        0..=13 => BatchFate::Good,
        14 | 15 => BatchFate::Nonsense,
        16 | 17 => BatchFate::Errored,
        18 => BatchFate::Expired,
        _ => BatchFate::Missing,
    }
}

async fn create(State(model): State<Model>, body: Bytes) -> Response {
    let mut state = model.state();
    let fails = !state.is_calm && state.random.u8(..FAILS) == 0;
    let is_made = !fails || state.random.bool();
    let shown = is_made.then(|| {
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let requests = body["requests"].as_array().cloned().unwrap_or_default();
        let lines = requests.into_iter().map(|request| BatchQuestion {
            key: request["custom_id"].as_str().unwrap_or_default().to_owned(),
            params: request["params"].clone(),
            fate: draw(&mut state.random),
        });
        let lines = lines.collect();
        let span_ms = state.random.u64(..SPAN_MS_MAX);
        let batch = Batch {
            id: format!("msgbatch_{}", state.batches.len() + 1),
            made_at: SystemClock.now(),
            ends: Instant::now() + Duration::from_millis(span_ms),
            lines,
        };
        let shown = batch.shown(state.is_calm);
        state.batches.push(batch);
        shown
    });
    let told = match (fails, is_made) {
        (false, _) => "batch",
        (true, true) => "batch, unanswered",
        (true, false) => "batch, refused",
    };
    *state.told.calls.entry(told.to_owned()).or_default() += 1;
    match shown.filter(|_| !fails) {
        Some(shown) => Json(shown).into_response(),
        None => (StatusCode::GATEWAY_TIMEOUT, "nobody knows").into_response(),
    }
}

async fn list(State(model): State<Model>) -> Json<Value> {
    let state = model.state();
    let newest_first = state.batches.iter().rev();
    let shown: Vec<Value> = newest_first.map(|batch| batch.shown(state.is_calm)).collect();
    Json(json!({"data": shown, "has_more": false}))
}

async fn look(State(model): State<Model>, Path((_, id)): Path<(usize, String)>) -> Response {
    let state = model.state();
    match state.batches.iter().find(|batch| batch.id == id) {
        Some(batch) => Json(batch.shown(state.is_calm)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn results(State(model): State<Model>, Path((_, id)): Path<(usize, String)>) -> Response {
    let mut state = model.state();
    let Some(place) = state.batches.iter().position(|batch| batch.id == id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut text = String::new();
    for line in std::mem::take(&mut state.batches[place].lines) {
        let asked = super::asked(&line.params, 0);
        let result = match line.fate {
            BatchFate::Good => json!({"type": "succeeded", "message": message(&good(&asked))}),
            BatchFate::Nonsense => {
                let said = nonsense(&mut state.adversary, &asked);
                json!({"type": "succeeded", "message": message(&said)})
            }
            BatchFate::Errored => json!({"type": "errored", "error": {"type": "error",
                "error": {"type": "invalid_request_error", "message": "no"}}}),
            BatchFate::Expired => json!({"type": "expired"}),
            BatchFate::Missing => Value::Null,
        };
        if !result.is_null() {
            text += &json!({"custom_id": line.key, "result": result}).to_string();
            text.push('\n');
        }
        state.batches[place].lines.push(line);
    }
    text.into_response()
}

impl Batch {
    fn shown(&self, is_calm: bool) -> Value {
        let is_ended = is_calm || Instant::now() >= self.ends;
        json!({
            "id": self.id, "type": "message_batch", "created_at": self.made_at,
            "processing_status": if is_ended { "ended" } else { "in_progress" },
            "request_counts": {"processing": if is_ended { 0 } else { self.lines.len() },
                               "succeeded": if is_ended { self.lines.len() } else { 0 }},
        })
    }
}
