//! What goes over the wire: the request's body, and the completion in the answer's.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    OpenAiSettings,
    dialect::{AnswerFormat, Dialect},
    fault,
};
use crate::{
    domain::reply::SCHEMA_JSON,
    llm::{
        Cause, Fault, LlmError, ModelAnswer, ModelRequest, discreet::Discreet, envelope::ErrorBody,
        http::HttpReply,
    },
};

/// The name under which the schema is sent.
const SCHEMA_NAME: &str = "summary_items";

/// A request's body. It never holds `temperature`: models that reason refuse it.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    messages: [Message<'a>; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    JsonSchema { json_schema: NamedSchema },
    JsonObject,
}

#[derive(Serialize)]
struct NamedSchema {
    name: &'static str,
    strict: bool,
    /// Raw, because the order of its fields matters.
    schema: &'static RawValue,
}

impl<'a> Request<'a> {
    pub(super) fn new(
        settings: &'a OpenAiSettings,
        request: &'a ModelRequest,
        dialect: Dialect,
    ) -> Result<Self, LlmError> {
        let limit = Some(request.output_tokens_max);
        let message = |role, content| Message { role, content };
        Ok(Self {
            model: &settings.model,
            messages: [
                message("system", &request.prompt.system),
                message("user", &request.prompt.user),
            ],
            max_tokens: limit.filter(|_| !dialect.limits_completion),
            max_completion_tokens: limit.filter(|_| dialect.limits_completion),
            response_format: ResponseFormat::new(dialect.format)?,
            reasoning_effort: settings.reasoning_effort.as_deref(),
        })
    }
}

impl ResponseFormat {
    fn new(format: AnswerFormat) -> Result<Option<Self>, LlmError> {
        Ok(match format {
            AnswerFormat::Schema => Some(Self::JsonSchema {
                json_schema: NamedSchema {
                    name: SCHEMA_NAME,
                    strict: true,
                    schema: serde_json::from_str(SCHEMA_JSON)
                        .map_err(|error| LlmError::Permanent(error.to_string()))?,
                },
            }),
            AnswerFormat::Object => Some(Self::JsonObject),
            AnswerFormat::Free => None,
        })
    }
}

/// An answer's body.
#[derive(Deserialize)]
pub(super) struct Completion {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    message: Option<Said>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Said {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<i64>,
    #[serde(default)]
    completion_tokens: Option<i64>,
}

impl Completion {
    /// Reads an answer of any status.
    pub(super) fn read(reply: &HttpReply, discreet: Discreet<'_>) -> Result<ModelAnswer, LlmError> {
        if !reply.status.is_success() {
            return Err(fault::refused(reply, reply.status.as_u16(), discreet));
        }
        let Ok(completion) = serde_json::from_slice::<Self>(&reply.body) else {
            return Err(no_completion(reply, discreet));
        };
        let usage = completion.usage.unwrap_or_default();
        let Some(choice) = completion.choices.into_iter().next() else {
            return Err(no_completion(reply, discreet));
        };
        Ok(ModelAnswer {
            text: choice.text(discreet)?,
            input_tokens: usage.prompt_tokens.unwrap_or_default(),
            output_tokens: usage.completion_tokens.unwrap_or_default(),
        })
    }
}

impl Choice {
    fn text(self, discreet: Discreet<'_>) -> Result<String, LlmError> {
        let said = self.message.unwrap_or_default();
        if let Some(refusal) = said.refusal.filter(|refusal| !refusal.is_empty()) {
            return Err(LlmError::Refused(discreet.message(&refusal)));
        }
        match self.finish_reason.as_deref() {
            Some("length" | "max_tokens") => Err(LlmError::Truncated),
            Some("content_filter") => Err(LlmError::Refused(
                "a content filter stopped the answer".to_owned(),
            )),
            Some("error") => Err(LlmError::Transient("the answer broke off with an error".into())),
            _ => Ok(text(said.content)),
        }
    }
}

/// The text of a message: a string, or some servers' list of parts, of which those that reason aren't text.
fn text(content: Value) -> String {
    match content {
        Value::String(text) => text,
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text")?.as_str())
            .collect(),
        _ => String::new(),
    }
}

/// What a success means that holds no completion: routers put errors into it, with the status as `code`.
fn no_completion(reply: &HttpReply, discreet: Discreet<'_>) -> LlmError {
    match ErrorBody::read(&reply.body) {
        Some(error) => fault::refused(reply, error.code.parse().unwrap_or(502), discreet),
        None => LlmError::Transient(Fault::new(Cause::Server, "the answer is no chat completion")),
    }
}
