//! The JSON of requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::dialect::{ChatDialect, ThinkingRoom};
use crate::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{AnswerFormat, RemoteSettings},
};
use recapd_core::domain::reply::Schema;

/// A request's body. It never contains `temperature`, which reasoning models refuse.
#[derive(Serialize)]
pub(super) struct ChatRequest<'a> {
    model: &'a str,
    messages: [ChatMessage<'a>; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    /// An empty list, by which OpenRouter cuts nothing out of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    transforms: Option<[&'static str; 0]>,
}

#[derive(Serialize)]
struct ChatMessage<'a> {
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
    /// Raw JSON, because the order of its fields matters.
    schema: &'static RawValue,
}

impl<'a> ChatRequest<'a> {
    pub(super) fn new(
        settings: &'a RemoteSettings,
        request: &'a ModelRequest,
        dialect: ChatDialect,
    ) -> serde_json::Result<Self> {
        let message = |role, content| ChatMessage { role, content };
        let limits_completion = dialect.limits_completion;
        Ok(Self {
            model: &settings.model,
            messages: [message("system", &request.prompt.system), message("user", &request.prompt.user)],
            max_tokens: (!limits_completion).then(|| match dialect.room {
                ThinkingRoom::Reserved => settings.limit_with_thinking(request),
                ThinkingRoom::NotNeeded | ThinkingRoom::Refused => request.output_tokens_max,
            }),
            max_completion_tokens: limits_completion.then(|| settings.limit_with_thinking(request)),
            response_format: ResponseFormat::new(dialect.format, request.prompt.schema)?,
            reasoning_effort: dialect.effort.word(),
            transforms: dialect.is_openrouter.then_some([]),
        })
    }
}

impl ResponseFormat {
    fn new(format: AnswerFormat, schema: Schema) -> serde_json::Result<Option<Self>> {
        Ok(match format {
            AnswerFormat::Schema => Some(Self::JsonSchema {
                json_schema: NamedSchema {
                    name: schema.name,
                    strict: true,
                    schema: serde_json::from_str(schema.json)?,
                },
            }),
            AnswerFormat::Object => Some(Self::JsonObject),
            AnswerFormat::Free => None,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Completion {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<ChatUsage>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    message: Option<AnswerMessage>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct AnswerMessage {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct ChatUsage {
    #[serde(default)]
    prompt_tokens: Option<i64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens: Option<i64>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Default, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<i64>,
    #[serde(default)]
    cache_write_tokens: Option<i64>,
}

#[derive(Default, Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<i64>,
}

impl Completion {
    pub(super) fn read(body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        let completion: Self = serde_json::from_slice(body).map_err(|_| NoAnswer::Unknown)?;
        let choice = completion.choices.into_iter().next().ok_or(NoAnswer::Unknown)?;
        let billed = completion.usage.unwrap_or_default().answer();
        let text = choice.text()?;
        Ok(ModelAnswer { text, ..billed })
    }
}

impl ChatUsage {
    /// Returns an answer with this usage and no text.
    pub(super) fn answer(self) -> ModelAnswer {
        let prompt = self.prompt_tokens_details.unwrap_or_default();
        ModelAnswer {
            input_tokens: self.prompt_tokens.unwrap_or_default(),
            cached_input_tokens: prompt.cached_tokens.unwrap_or_default(),
            cache_write_tokens: prompt.cache_write_tokens.unwrap_or_default(),
            output_tokens: self.completion_tokens.unwrap_or_default(),
            reasoning_tokens: self
                .completion_tokens_details
                .and_then(|details| details.reasoning_tokens)
                .unwrap_or_default(),
            ..ModelAnswer::default()
        }
    }
}

impl Choice {
    fn text(self) -> Result<String, NoAnswer> {
        let message = self.message.unwrap_or_default();
        if let Some(refusal) = message.refusal.filter(|refusal| !refusal.is_empty()) {
            return Err(NoAnswer::Refused(refusal));
        }
        match self.finish_reason.as_deref() {
            Some("length" | "max_tokens") => Err(NoAnswer::Truncated),
            Some("content_filter") => {
                Err(NoAnswer::Refused("a content filter stopped the answer".to_owned()))
            }
            Some("error") => Err(NoAnswer::Broken("the answer broke off with an error".to_owned())),
            _ => Ok(text(message.content)),
        }
    }
}

/// Returns the text of a message: a string, or the list of parts that some servers send, without the reasoning parts.
fn text(content: Value) -> String {
    match content {
        Value::String(text) => text,
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}
