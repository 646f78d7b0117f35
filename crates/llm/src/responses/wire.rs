//! The JSON of requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ResponsesDialect;
use crate::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{AnswerFormat, RemoteSettings},
};

#[derive(Serialize)]
pub(super) struct ResponsesRequest<'a> {
    model: &'a str,
    instructions: &'a str,
    input: &'a str,
    max_output_tokens: i64,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
}

#[derive(Serialize)]
struct TextOptions {
    format: TextFormat,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TextFormat {
    JsonSchema {
        name: &'static str,
        strict: bool,
        /// Raw JSON, because the order of its fields matters.
        schema: &'static RawValue,
    },
    JsonObject,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
}

impl<'a> ResponsesRequest<'a> {
    pub(super) fn new(
        settings: &'a RemoteSettings,
        request: &'a ModelRequest,
        dialect: ResponsesDialect,
    ) -> serde_json::Result<Self> {
        let format = match dialect.format {
            AnswerFormat::Schema => Some(TextFormat::JsonSchema {
                name: request.prompt.schema.name,
                strict: true,
                schema: serde_json::from_str(request.prompt.schema.json)?,
            }),
            AnswerFormat::Object => Some(TextFormat::JsonObject),
            AnswerFormat::Free => None,
        };
        Ok(Self {
            model: &settings.model,
            instructions: &request.prompt.system,
            input: &request.prompt.user,
            max_output_tokens: settings.limit_with_thinking(request),
            store: false,
            text: format.map(|format| TextOptions { format }),
            reasoning: dialect.effort.word().map(|effort| Reasoning { effort }),
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Response {
    #[serde(default)]
    status: Option<String>,
    output: Vec<AnswerItem>,
    #[serde(default)]
    incomplete_details: Option<Incomplete>,
    #[serde(default)]
    usage: Option<ResponseUsage>,
}

#[derive(Deserialize)]
struct Incomplete {
    #[serde(default)]
    reason: Option<String>,
}

/// An item of an answer. Only the content of messages is read.
#[derive(Deserialize)]
struct AnswerItem {
    r#type: String,
    #[serde(default)]
    content: Option<Vec<ContentPart>>,
}

#[derive(Deserialize)]
struct ContentPart {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct ResponseUsage {
    #[serde(default)]
    input_tokens: Option<i64>,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens: Option<i64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<i64>,
    #[serde(default)]
    cache_write_tokens: Option<i64>,
}

#[derive(Default, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Option<i64>,
}

impl Response {
    /// Reads an answer. A failed response contains its error in the form of an error's body, so it counts as unknown and is read
    /// as an error.
    pub(super) fn read(body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        let response: Self = serde_json::from_slice(body).map_err(|_| NoAnswer::Unknown)?;
        let why = response.incomplete_details.as_ref();
        let why = why.and_then(|details| details.reason.as_deref()).unwrap_or_default();
        match response.status.as_deref() {
            Some("failed") => Err(NoAnswer::Unknown),
            Some("incomplete") if why == "max_output_tokens" => Err(NoAnswer::Truncated),
            Some("incomplete") if why == "content_filter" => {
                Err(NoAnswer::Refused("a content filter stopped the answer".to_owned()))
            }
            Some(status @ ("incomplete" | "in_progress" | "queued" | "cancelled")) => {
                Err(NoAnswer::Broken(format!("the response is {status} {why}")))
            }
            _ => response.answer(),
        }
    }

    fn answer(self) -> Result<ModelAnswer, NoAnswer> {
        let messages = self.output.into_iter().filter(|item| item.r#type == "message");
        let mut text = String::new();
        for part in messages.filter_map(|item| item.content).flatten() {
            match part.r#type.as_str() {
                "refusal" => return Err(NoAnswer::Refused(part.refusal.unwrap_or_default())),
                "output_text" => text.push_str(part.text.as_deref().unwrap_or_default()),
                _ => {}
            }
        }
        Ok(ModelAnswer { text, ..self.usage.unwrap_or_default().answer() })
    }
}

impl ResponseUsage {
    /// Returns an answer with this usage and no text.
    pub(super) fn answer(self) -> ModelAnswer {
        let input = self.input_tokens_details.unwrap_or_default();
        ModelAnswer {
            input_tokens: self.input_tokens.unwrap_or_default(),
            cached_input_tokens: input.cached_tokens.unwrap_or_default(),
            cache_write_tokens: input.cache_write_tokens.unwrap_or_default(),
            output_tokens: self.output_tokens.unwrap_or_default(),
            reasoning_tokens: self
                .output_tokens_details
                .and_then(|details| details.reasoning_tokens)
                .unwrap_or_default(),
            ..ModelAnswer::default()
        }
    }
}
