//! The providers' batches: created, listed, read, and ended when a test says so.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard},
};

use axum::{
    body::Bytes,
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use recapd_core::domain::time::Timestamp;
use serde_json::{Value, json};

use super::{Recorded, Shape, answer, faults, shape::Ending};

const PAGE: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchCall {
    Upload,
    Create,
    List,
    Look,
    Results,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hitch {
    /// Nothing is done; this status is returned.
    Refused(u16),
    /// It is done, but the answer is lost.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Good,
    /// The last exchange is missing.
    Partial,
    Garbage,
    /// Cut off at the output limit.
    Truncated,
    Declined,
    Errored,
    Expired,
    Canceled,
    /// The results have no line for it.
    Missing,
}

/// Outcomes that the provider bills.
const ANSWERED: [Fate; 5] = [Fate::Good, Fate::Partial, Fate::Garbage, Fate::Truncated, Fate::Declined];

#[derive(Debug, Default)]
pub(crate) struct Batches(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    now: Timestamp,
    batches: Vec<Batch>,
    files: HashMap<String, String>,
    hitches: VecDeque<(BatchCall, Hitch)>,
    faults: Vec<String>,
}

#[derive(Clone, Debug)]
struct Batch {
    shape: Shape,
    id: String,
    name: String,
    made_at: Timestamp,
    lines: Vec<(String, Value)>,
    fates: Option<Vec<Fate>>,
}

impl Batches {
    pub(crate) fn set_clock(&self, now: Timestamp) {
        self.state().now = now;
    }

    pub(crate) fn hitch(&self, call: BatchCall, hitch: Hitch) {
        self.state().hitches.push_back((call, hitch));
    }

    /// Ends all batches. Questions get these fates in order, and further ones the last fate.
    pub(crate) fn end(&self, fates: &[Fate]) {
        for batch in self.state().batches.iter_mut().filter(|batch| batch.fates.is_none()) {
            let fate = |index: usize| *fates.get(index).or(fates.last()).unwrap();
            batch.fates = Some((0..batch.lines.len()).map(fate).collect());
        }
    }

    pub(crate) fn forget(&self) {
        self.state().batches.clear();
    }

    /// Adds another client's batch of this many questions.
    pub(crate) fn foreign(&self, shape: Shape, questions: usize) {
        let line = |number| (format!("foreign-{number}"), json!({}));
        let batch = Batch {
            shape,
            id: id(shape, self.made() + 900),
            name: "theirs".to_owned(),
            made_at: self.state().now,
            lines: (0..questions).map(line).collect(),
            fates: Some(vec![Fate::Expired; questions]),
        };
        self.state().batches.push(batch);
    }

    pub(crate) fn made(&self) -> usize {
        self.state().batches.len()
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.state().batches.iter().map(|batch| batch.lines.len()).collect()
    }

    pub(crate) fn billed(&self) -> usize {
        let state = self.state();
        let fates = state.batches.iter().filter_map(|batch| batch.fates.as_ref());
        fates.flatten().filter(|fate| ANSWERED.contains(fate)).count()
    }

    /// Fails the test if any question was malformed.
    pub(crate) fn assert_well_formed(&self) {
        assert_eq!(self.state().faults, [""; 0]);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Answers a call about batches; `None` if the request isn't one.
    pub(super) fn respond(
        &self,
        method: &Method,
        path: &str,
        query: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Option<Response> {
        let (shape, call, name) = recognised(method, path)?;
        let mut state = self.state();
        let hitch = state.hitches.iter().position(|(on, _)| *on == call);
        let hitch = hitch.and_then(|place| state.hitches.remove(place)).map(|(_, hitch)| hitch);
        if let Some(Hitch::Refused(status)) = hitch {
            return Some(echo(status, headers, body));
        }

        let done = match call {
            BatchCall::Upload => state.upload(headers, body),
            BatchCall::Create => state.create(shape, headers, body),
            BatchCall::List => Some(state.list(shape, query)),
            BatchCall::Look => state.look(name),
            BatchCall::Results => state.results(name),
        };
        Some(match (hitch, done) {
            (Some(_), _) => trouble(504),
            (None, Some(text)) => text.into_response(),
            (None, None) => trouble(404),
        })
    }
}

fn trouble(status: u16) -> Response {
    let body = json!({"error": {"type": "a_trouble", "message": "Something went wrong."}});
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

/// Refuses a request with an error that quotes its keys and body.
fn echo(status: u16, headers: &HeaderMap, body: &Bytes) -> Response {
    let keys = ["x-api-key", "authorization", "x-goog-api-key"].map(|name| headers.get(name));
    let message = format!("I can't read {keys:?} {}", String::from_utf8_lossy(body));
    let body = json!({"error": {"type": "a_trouble", "message": message}});
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

fn recognised<'a>(method: &Method, path: &'a str) -> Option<(Shape, BatchCall, &'a str)> {
    let is_post = method == Method::POST;
    let made = |shape| {
        let call = if is_post { BatchCall::Create } else { BatchCall::List };
        Some((shape, call, ""))
    };
    match path {
        "/v1/messages/batches" => return made(Shape::Anthropic),
        "/v1/batches" => return made(Shape::OpenAi),
        "/v1beta/batches" => return made(Shape::Gemini),
        "/v1/files" if is_post => return Some((Shape::OpenAi, BatchCall::Upload, "")),
        _ if path.ends_with(":batchGenerateContent") => return Some((Shape::Gemini, BatchCall::Create, "")),
        _ => {}
    }
    if let Some(rest) = path.strip_prefix("/v1/messages/batches/") {
        return Some(match rest.strip_suffix("/results") {
            Some(id) => (Shape::Anthropic, BatchCall::Results, id),
            None => (Shape::Anthropic, BatchCall::Look, rest),
        });
    }
    if let Some(rest) = path.strip_prefix("/v1/files/") {
        return Some((Shape::OpenAi, BatchCall::Results, rest.strip_suffix("/content")?));
    }
    let looked = path.strip_prefix("/v1/batches/").map(|id| (Shape::OpenAi, BatchCall::Look, id));
    looked
        .or_else(|| Some((Shape::Gemini, BatchCall::Look, path.strip_prefix("/v1beta/")?.split_once('/')?.1)))
        .filter(|(shape, ..)| *shape == Shape::OpenAi || path.starts_with("/v1beta/batches/"))
}

fn id(shape: Shape, number: usize) -> String {
    match shape {
        Shape::Anthropic => format!("msgbatch_{number}"),
        Shape::Gemini => format!("{number}"),
        _ => format!("batch_{number}"),
    }
}

impl State {
    fn upload(&mut self, headers: &HeaderMap, body: &Bytes) -> Option<String> {
        let kind = headers.get("content-type")?.to_str().ok()?;
        let boundary = kind.strip_prefix("multipart/form-data; boundary=")?;
        let text = std::str::from_utf8(body).ok()?;
        let boundary = format!("--{boundary}");
        let purpose = text.split(&boundary).find(|part| part.contains("name=\"purpose\""))?;
        let file = text.split(&boundary).find(|part| part.contains("filename=\""))?;
        let (_, content) = file.split_once("\r\n\r\n")?;
        if !purpose.ends_with("\r\n\r\nbatch\r\n") || !text.ends_with(&format!("{boundary}--\r\n")) {
            return None;
        }
        let id = format!("file-{}", self.files.len() + 1);
        self.files.insert(id.clone(), content.strip_suffix("\r\n")?.to_owned());
        Some(json!({"id": id, "object": "file", "purpose": "batch", "bytes": content.len(), "created_at": self.now.0 / 1_000,
                    "filename": "f.jsonl", "status": "processed"}).to_string())
    }

    fn create(&mut self, shape: Shape, headers: &HeaderMap, body: &Bytes) -> Option<String> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let (shape, name, lines) = match shape {
            Shape::Anthropic => (shape, String::new(), anthropic_lines(&body)?),
            Shape::Gemini => {
                let name = body["batch"]["displayName"].as_str()?.to_owned();
                (shape, name, gemini_lines(&body)?)
            }
            _ => {
                let file = self.files.get(body["input_file_id"].as_str()?)?;
                let shape = match body["endpoint"].as_str()? {
                    "/v1/responses" => Shape::Responses,
                    "/v1/chat/completions" => Shape::OpenAi,
                    _ => return None,
                };
                let name = body["metadata"]["recapd_batch"].as_str()?.to_owned();
                let is_right = body["completion_window"] == "24h";
                (shape, name, is_right.then(|| openai_lines(file, &body["endpoint"]))??)
            }
        };
        for (key, request) in &lines {
            let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if !(1..=64).contains(&key.len()) || !key.chars().all(is_key) {
                self.faults.push(format!("no key: {key}"));
            }
            self.faults.extend(faults::of(shape, headers, request));
        }
        let batch = Batch {
            shape,
            id: id(shape, self.batches.len() + 1),
            name,
            made_at: self.now,
            lines,
            fates: None,
        };
        self.batches.push(batch.clone());
        Some(batch.shown().to_string())
    }

    fn list(&self, shape: Shape, query: &str) -> String {
        let of_api = |batch: &&Batch| batch.api() == shape;
        let all: Vec<&Batch> = self.batches.iter().rev().filter(of_api).collect();
        let after = query.split('&').find_map(|pair| {
            pair.strip_prefix("after_id=").or(pair.strip_prefix("after=")).or(pair.strip_prefix("pageToken="))
        });
        let from = after.map_or(0, |after| all.iter().position(|batch| batch.id == after).unwrap() + 1);
        let page: Vec<&Batch> = all.iter().skip(from).take(PAGE).copied().collect();
        let has_more = from + page.len() < all.len();
        let shown: Vec<Value> = page.iter().map(|batch| batch.shown()).collect();
        let last = page.last().map(|batch| batch.id.clone());
        if shape == Shape::Gemini {
            return json!({"operations": shown, "nextPageToken": last.filter(|_| has_more)}).to_string();
        }
        json!({"object": "list", "data": shown, "has_more": has_more, "first_id": page.first().map(|batch| batch.id.clone()),
               "last_id": last}).to_string()
    }

    fn look(&self, id: &str) -> Option<String> {
        let batch = self.batches.iter().find(|batch| batch.id == id)?;
        Some(batch.shown().to_string())
    }

    fn results(&self, name: &str) -> Option<String> {
        let (id, wants_errors) = match name.split_once("-of-") {
            Some((kind, id)) => (id, kind == "file-errors"),
            None => (name, false),
        };
        let batch = self.batches.iter().find(|batch| batch.id == id)?;
        let mut lines: Vec<String> = batch
            .outcomes()
            .filter(|(fate, _)| batch.shape == Shape::Anthropic || (*fate == Fate::Expired) == wants_errors)
            .map(|(_, line)| line.to_string())
            .collect();
        // Results come in no particular order.
        lines.reverse();
        Some(lines.join("\n"))
    }
}

fn anthropic_lines(body: &Value) -> Option<Vec<(String, Value)>> {
    let requests = body["requests"].as_array()?.iter();
    requests.map(|line| Some((line["custom_id"].as_str()?.to_owned(), line["params"].clone()))).collect()
}

fn openai_lines(file: &str, endpoint: &Value) -> Option<Vec<(String, Value)>> {
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let is_right = line["method"] == "POST" && line["url"] == *endpoint;
        is_right.then(|| Some((line["custom_id"].as_str()?.to_owned(), line["body"].clone())))?
    };
    file.lines().map(line).collect()
}

fn gemini_lines(body: &Value) -> Option<Vec<(String, Value)>> {
    let requests = body["batch"]["inputConfig"]["requests"]["requests"].as_array()?.iter();
    requests
        .map(|line| Some((line["metadata"]["key"].as_str()?.to_owned(), line["request"].clone())))
        .collect()
}

impl Batch {
    /// The API whose list has this batch: OpenAI has one list for all its APIs.
    fn api(&self) -> Shape {
        match self.shape {
            Shape::Responses => Shape::OpenAi,
            shape => shape,
        }
    }

    fn shown(&self) -> Value {
        match self.shape {
            Shape::Anthropic => self.shown_by_anthropic(),
            Shape::Gemini => self.shown_by_gemini(),
            _ => self.shown_by_openai(),
        }
    }

    fn shown_by_anthropic(&self) -> Value {
        let count = |wanted: &[Fate]| {
            let fates = self.fates.iter().flatten();
            fates.filter(|fate| wanted.contains(fate)).count()
        };
        let running = if self.fates.is_none() { self.lines.len() } else { 0 };
        json!({
            "id": self.id, "type": "message_batch", "created_at": self.made_at, "expires_at": self.made_at.plus_ms(86_400_000),
            "processing_status": if self.fates.is_some() { "ended" } else { "in_progress" },
            "request_counts": {"processing": running, "succeeded": count(&ANSWERED),
                               "errored": count(&[Fate::Errored, Fate::Missing]), "canceled": count(&[Fate::Canceled]),
                               "expired": count(&[Fate::Expired])},
            "ended_at": self.fates.is_some().then_some(self.made_at), "archived_at": null, "cancel_initiated_at": null,
            "results_url": self.fates.is_some().then_some("https://elsewhere.example/results"),
        })
    }

    fn shown_by_openai(&self) -> Value {
        let has = |expired: bool| self.fates.iter().flatten().any(|fate| (*fate == Fate::Expired) == expired);
        let status = match &self.fates {
            None => "in_progress",
            Some(fates) if fates.contains(&Fate::Expired) => "expired",
            Some(_) => "completed",
        };
        json!({
            "id": self.id, "object": "batch", "endpoint": "/v1/responses", "completion_window": "24h",
            "input_file_id": "file-1", "created_at": self.made_at.0 / 1_000, "status": status,
            "metadata": {"recapd_batch": self.name},
            "request_counts": {"total": self.lines.len(), "completed": 0, "failed": 0},
            "output_file_id": has(false).then(|| format!("file-answers-of-{}", self.id)),
            "error_file_id": has(true).then(|| format!("file-errors-of-{}", self.id)),
        })
    }

    fn shown_by_gemini(&self) -> Value {
        let state = match &self.fates {
            None => "BATCH_STATE_RUNNING",
            Some(fates) if fates.contains(&Fate::Expired) => "BATCH_STATE_EXPIRED",
            Some(_) => "BATCH_STATE_SUCCEEDED",
        };
        let mut lines: Vec<Value> = self.outcomes().map(|(_, line)| line).collect();
        lines.reverse();
        let output = (state == "BATCH_STATE_SUCCEEDED")
            .then(|| json!({"inlinedResponses": {"inlinedResponses": lines}}));
        json!({
            "name": format!("batches/{}", self.id), "done": self.fates.is_some(),
            "metadata": {
                "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
                "name": format!("batches/{}", self.id), "model": "models/small-model", "displayName": self.name,
                "state": state, "createTime": self.made_at, "updateTime": self.made_at, "output": output,
                "batchStats": {"requestCount": self.lines.len().to_string()},
            },
        })
    }

    /// The fate and the answer of each question.
    fn outcomes(&self) -> impl Iterator<Item = (Fate, Value)> {
        let fates = self.fates.iter().flatten();
        self.lines
            .iter()
            .zip(fates)
            .filter_map(|((key, body), fate)| Some((*fate, self.outcome(key, body, *fate)?)))
    }

    fn outcome(&self, key: &str, body: &Value, fate: Fate) -> Option<Value> {
        let request = Recorded {
            shape: self.shape,
            path: String::new(),
            headers: HeaderMap::new(),
            body: body.clone(),
            faults: Vec::new(),
        };
        let said = match fate {
            Fate::Good => Some((answer::items(&request.exchanges(), "served"), Ending::Done)),
            Fate::Partial => {
                let mut exchanges = request.exchanges();
                exchanges.pop();
                Some((answer::items(&exchanges, "served"), Ending::Done))
            }
            Fate::Garbage => Some(("I would rather not.".to_owned(), Ending::Done)),
            Fate::Truncated => Some(("{\"items\": [{\"exch".to_owned(), Ending::Length)),
            Fate::Declined => Some((String::new(), Ending::Refusal)),
            Fate::Missing => return None,
            _ => None,
        };
        let answer = said.map(|(text, ending)| self.shape.answer(body, &text, ending));
        Some(match self.shape {
            Shape::Anthropic => {
                let result = match (fate, answer) {
                    (_, Some(message)) => json!({"type": "succeeded", "message": message}),
                    (Fate::Expired, _) => json!({"type": "expired"}),
                    (Fate::Canceled, _) => json!({"type": "canceled"}),
                    _ => json!({"type": "errored", "error": {"type": "error", "request_id": null,
                                "error": {"type": "invalid_request_error", "message": "max_tokens: too large"}}}),
                };
                json!({"custom_id": key, "result": result})
            }
            Shape::Gemini => match answer {
                Some(response) => json!({"metadata": {"key": key}, "response": response}),
                None => json!({"metadata": {"key": key}, "error": {"code": 3, "message": "bad request"}}),
            },
            _ => {
                let (response, error) = match (fate, answer) {
                    (_, Some(body)) => {
                        (json!({"status_code": 200, "request_id": "r", "body": body}), Value::Null)
                    }
                    (Fate::Expired, _) => {
                        (Value::Null, json!({"code": "batch_expired", "message": "too late"}))
                    }
                    (Fate::Canceled, _) => (Value::Null, json!({"code": "batch_cancelled", "message": "no"})),
                    _ => (
                        json!({"status_code": 400, "request_id": "r",
                                 "body": {"error": {"type": "invalid_request_error", "message": "bad"}}}),
                        Value::Null,
                    ),
                };
                json!({"id": "batch_req_1", "custom_id": key, "response": response, "error": error})
            }
        })
    }
}
