//! The common part of batches at all providers that are called over the network.

use std::{io::Write as _, time::Duration};

use async_trait::async_trait;
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::Value;

use super::{Protocol, RemoteModel, address};
use crate::{
    Cause, LlmError, ModelAnswer, ModelRequest, TransientFailure,
    batch::{BatchCall, BatchModel, BatchResult, BatchStatus, FinishedBatch, RESULTS_BYTES_MAX, Results},
    fault,
    http::{self, HttpReply},
};
use recapd_core::domain::batch::{BatchIdentity, ListedBatch};

/// Limits the time of a call about a batch. Some calls carry all its questions or answers.
const CALL_TIMEOUT: Duration = Duration::from_mins(5);
/// Limits how many pages of the list are read, each with a hundred batches.
const LIST_PAGES_MAX: usize = 10;
/// The boundary between the parts of an upload. A boundary has a line of its own, and each line of the file is a JSON
/// object, so no line of the file is taken for a boundary.
const BOUNDARY: &str = "recapd-part-7b1f4e0c9a52";

pub trait BatchProtocol: Protocol {
    /// Returns the path and content of the file with the questions, if the provider wants it uploaded before the batch is
    /// created.
    fn upload(&self, _calls: &[BatchCall]) -> serde_json::Result<Option<(&'static str, Vec<u8>)>> {
        Ok(None)
    }

    /// Returns the path and the body of the call that creates a batch. `file` is the id of the uploaded file.
    fn create(
        &self,
        model: &str,
        name: &str,
        calls: &[BatchCall],
        file: Option<&str>,
    ) -> serde_json::Result<(String, Vec<u8>)>;

    /// Returns the path of the list's page after `after`, or of the first page.
    fn list(&self, after: Option<&str>) -> String;

    /// Reads a page of the list, and the `after` of the next page.
    fn read_list(&self, page: &Value) -> (Vec<ListedBatch>, Option<String>);

    /// Returns the path of the batch with this id.
    fn path_of(&self, id: &str) -> String;

    /// Reads the id of a new batch or file.
    fn read_id(&self, created: &Value) -> Option<String>;

    /// Reads the state of a batch; `None` if `batch` isn't one.
    fn read_batch(&self, id: &str, batch: &Value) -> Option<BatchStatus>;

    /// Reads a result's key and outcome.
    fn read_result(&self, result: &Value) -> Option<(String, Outcome)>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The body of an answer.
    Body(Value),
    /// The body of an error, and its status if it is known.
    Error(Option<u16>, Value),
    /// There is no result, for this reason, in a word such as `expired`.
    None(&'static str),
}

#[async_trait]
impl<P: BatchProtocol> BatchModel for RemoteModel<P> {
    fn provider(&self) -> &'static str {
        P::PROVIDER
    }

    fn model(&self) -> &str {
        &self.settings.model
    }

    fn body(&self, request: &ModelRequest) -> Result<String, LlmError> {
        let body =
            self.protocol.body(&self.settings, request, self.dialect()).map_err(|error| permanent(&error))?;
        let body = String::from_utf8(body).map_err(|error| LlmError::Permanent(error.to_string()))?;
        // JSON escapes line breaks in texts, so the remaining ones are between tokens, in the schema.
        Ok(body.replace(['\n', '\r'], ""))
    }

    async fn submit(&self, name: &str, calls: &[BatchCall]) -> Result<String, LlmError> {
        let file = match self.protocol.upload(calls).map_err(|error| permanent(&error))? {
            Some((path, lines)) => Some(self.upload(path, name, &lines).await?),
            None => None,
        };
        let model = &self.settings.model;
        let created = self.protocol.create(model, name, calls, file.as_deref());
        let (path, body) = created.map_err(|error| permanent(&error))?;
        let reply = self.send(&path, self.headers.clone(), body).await?;
        self.id_of(&reply)
    }

    async fn find(&self, wanted: &BatchIdentity) -> Result<Vec<ListedBatch>, LlmError> {
        let (mut found, mut after) = (Vec::new(), None);
        for _ in 0..LIST_PAGES_MAX {
            let page = self.get(&self.protocol.list(after.as_deref())).await?;
            let page = json(&page)?;
            let (batches, next) = self.protocol.read_list(&page);
            let is_beyond = batches.iter().any(|listed| wanted.is_newer_than(listed));
            found.extend(batches.into_iter().filter(|listed| wanted.is(listed)));
            after = next;
            if is_beyond || after.is_none() {
                break;
            }
        }
        Ok(found)
    }

    async fn look(&self, id: &str) -> Result<BatchStatus, LlmError> {
        let reply = self.request(&self.protocol.path_of(id)).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(BatchStatus::Gone);
        }
        let batch = json(&self.success_or_error(reply)?)?;
        self.protocol.read_batch(id, &batch).ok_or_else(|| unexpected_reply("the answer is no batch"))
    }

    async fn results(&self, ended: &FinishedBatch) -> Result<Vec<BatchResult>, LlmError> {
        let mut results = Vec::new();
        for source in &ended.results {
            match source {
                Results::Here(lines) => results.extend(lines.iter().filter_map(|line| self.result(line))),
                Results::At(path) => {
                    let file = self.get(path).await?;
                    let lines = file.body.split(|byte| *byte == b'\n');
                    let lines = lines.filter_map(|line| serde_json::from_slice(line).ok());
                    results.extend(lines.filter_map(|line: Value| self.result(&line)));
                }
            }
        }
        Ok(results)
    }
}

impl<P: BatchProtocol> RemoteModel<P> {
    async fn upload(&self, path: &str, name: &str, lines: &[u8]) -> Result<String, LlmError> {
        let mut headers = self.headers.clone();
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::try_from(kind).map_err(|error| LlmError::Permanent(error.to_string()))?,
        );
        let reply = self.send(path, headers, form(name, lines)).await?;
        self.id_of(&reply)
    }

    async fn send(&self, path: &str, headers: HeaderMap, body: Vec<u8>) -> Result<HttpReply, LlmError> {
        let call = self
            .client
            .post(address::endpoint(&self.address, path)?)
            .headers(headers)
            .timeout(CALL_TIMEOUT)
            .body(body);
        self.success_or_error(http::send(call).await?)
    }

    async fn request(&self, path: &str) -> Result<HttpReply, LlmError> {
        let call = self
            .client
            .get(address::endpoint(&self.address, path)?)
            .headers(self.headers.clone())
            .timeout(CALL_TIMEOUT);
        http::send_for(call, RESULTS_BYTES_MAX).await
    }

    async fn get(&self, path: &str) -> Result<HttpReply, LlmError> {
        self.success_or_error(self.request(path).await?)
    }

    /// Returns a successful reply unchanged. Turns other replies into errors without the provider's message, because to search
    /// the message for quotations of all questions of a batch would take too long.
    fn success_or_error(&self, reply: HttpReply) -> Result<HttpReply, LlmError> {
        if reply.status.is_success() {
            return Ok(reply);
        }
        let error = fault::error_of_refusal(&reply, reply.status.as_u16(), self.discreet(""));
        Err(without_quotation(error, &format!("status {}", reply.status.as_u16())))
    }

    fn id_of(&self, reply: &HttpReply) -> Result<String, LlmError> {
        let id = self.protocol.read_id(&json(reply)?);
        let is_plain = |id: &String| id.chars().all(|c| c.is_ascii_alphanumeric() || "-_/".contains(c));
        id.filter(is_plain).ok_or_else(|| unexpected_reply("the answer has no id"))
    }

    fn result(&self, line: &Value) -> Option<BatchResult> {
        let (key, outcome) = self.protocol.read_result(line)?;
        // An answer that was cut off or declined is billed, too.
        let billed = match &outcome {
            Outcome::Body(body) | Outcome::Error(_, body) => self.protocol.read_usage(body),
            Outcome::None(_) => ModelAnswer::default(),
        };
        let text = self.text_in(outcome);
        Some(BatchResult { key, text, billed })
    }

    fn text_in(&self, outcome: Outcome) -> Result<String, String> {
        let (status, body) = match outcome {
            Outcome::Body(body) => (200, body),
            Outcome::Error(Some(status), body) => (status, body),
            Outcome::Error(None, body) => {
                let error = fault::error_in_success(&reply(200, &body), self.discreet(""));
                return Err(error.class().to_owned());
            }
            Outcome::None(why) => return Err(why.to_owned()),
        };
        let read = self.read(&reply(status, &body), self.discreet(""));
        read.map(|answer| answer.text).map_err(|error| error.class().to_owned())
    }
}

/// Wraps a result as the reply to a single call.
fn reply(status: u16, body: &Value) -> HttpReply {
    HttpReply {
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY),
        headers: HeaderMap::new(),
        body: body.to_string().into_bytes(),
    }
}

/// Returns the body of an upload: a file of lines, for a batch (RFC 7578).
fn form(name: &str, lines: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(lines.len() + 512);
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n\
         content-disposition: form-data; name=\"file\"; filename=\"{name}.jsonl\"\r\n\
         content-type: application/jsonl\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(lines);
    // A write to memory doesn't fail.
    drop(write!(body, "\r\n--{BOUNDARY}--\r\n"));
    body
}

fn json(reply: &HttpReply) -> Result<Value, LlmError> {
    serde_json::from_slice(&reply.body).map_err(|_| unexpected_reply("the answer is no JSON"))
}

fn permanent(error: &serde_json::Error) -> LlmError {
    LlmError::Permanent(error.to_string())
}

fn unexpected_reply(what: &str) -> LlmError {
    LlmError::Transient(TransientFailure::new(Cause::Server, what))
}

fn without_quotation(error: LlmError, message: &str) -> LlmError {
    let message = message.to_owned();
    match error {
        LlmError::Transient(fault) => LlmError::Transient(TransientFailure { message, ..fault }),
        LlmError::RateLimited { retry_after, .. } => LlmError::RateLimited { retry_after, message },
        LlmError::ContextOverflow(_) => LlmError::ContextOverflow(message),
        LlmError::Refused { usage, .. } => LlmError::Refused { message, usage },
        LlmError::Auth(_) => LlmError::Auth(message),
        LlmError::Permanent(_) => LlmError::Permanent(message),
        // These don't contain a message of the provider.
        LlmError::Truncated { .. } | LlmError::Waiting { .. } => error,
    }
}
