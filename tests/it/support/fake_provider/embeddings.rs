//! The answers to requests for embeddings. A fixed rule stands for a model: texts about cats have one direction, the others another.

use std::sync::Mutex;

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

/// A text with this word is too long for the model.
pub(crate) const TOO_LONG: &str = "endless";

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum VectorAnswer {
    #[default]
    Good,
    /// This status, with no body.
    Status(u16),
    /// Vectors of this length.
    Length(usize),
    /// Success without vectors.
    Garbage,
    /// One vector too few.
    Missing,
    /// No answer, ever.
    Hang,
}

#[derive(Debug, Default)]
pub(crate) struct Embeddings {
    answer: Mutex<VectorAnswer>,
    requests: Mutex<Vec<Value>>,
}

impl Embeddings {
    /// The length of good vectors.
    pub(crate) const DIMENSIONS: usize = 3;

    pub(crate) fn answer(&self, answer: VectorAnswer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// The bodies of the requests so far, oldest first.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) async fn respond(&self, headers: &HeaderMap, body: Value) -> Response {
        self.requests.lock().unwrap().push(body.clone());
        let is_well_formed = body["model"].is_string()
            && body["encoding_format"] == "float"
            && headers.get("content-type").is_some_and(|kind| kind == "application/json");
        let texts: Vec<&str> =
            body["input"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !is_well_formed || texts.is_empty() {
            return StatusCode::BAD_REQUEST.into_response();
        }
        if texts.iter().any(|text| text.contains(TOO_LONG)) {
            let words = "input (9000 tokens) is too large to process. increase the physical batch size";
            let error = json!({"error": {"code": 500, "message": words, "type": "server_error"}});
            return (StatusCode::INTERNAL_SERVER_ERROR, Json(error)).into_response();
        }
        let answer = *self.answer.lock().unwrap();
        match answer {
            VectorAnswer::Good => list(&texts, Self::DIMENSIONS),
            VectorAnswer::Length(length) => list(&texts, length),
            VectorAnswer::Missing => list(texts.split_last().unwrap().1, Self::DIMENSIONS),
            VectorAnswer::Garbage => Json(json!({"object": "list", "data": "none"})).into_response(),
            VectorAnswer::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
            VectorAnswer::Hang => std::future::pending().await,
        }
    }
}

/// As OpenAI answers, but in another order.
fn list(texts: &[&str], length: usize) -> Response {
    let vector = |text: &str| {
        let is_about_cats = text.contains("cat") || text.contains("feline");
        let mut vector = vec![0.0; length];
        *vector.get_mut(usize::from(is_about_cats)).unwrap() = 0.5;
        vector
    };
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text)}))
        .collect();
    Json(json!({"object": "list", "data": data, "model": "fake", "usage": {"prompt_tokens": 1, "total_tokens": 1}}))
        .into_response()
}
