//! The JSON of requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::AnthropicDialect;
use crate::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{AnswerFormat, RemoteSettings},
};

#[derive(Serialize)]
pub(super) struct MessagesRequest<'a> {
    model: &'a str,
    max_tokens: i64,
    system: [SystemText<'a>; 1],
    messages: [UserMessage<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
}

/// The instructions. They are the same in every request, so the prompt cache may keep them.
#[derive(Serialize)]
struct SystemText<'a> {
    r#type: &'static str,
    text: &'a str,
    cache_control: CacheControl,
}

#[derive(Serialize)]
struct CacheControl {
    r#type: &'static str,
}

#[derive(Serialize)]
struct UserMessage<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct OutputConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat>,
}

#[derive(Serialize)]
struct OutputFormat {
    r#type: &'static str,
    /// Raw JSON, because the order of its fields matters.
    schema: &'static RawValue,
}

impl<'a> MessagesRequest<'a> {
    pub(super) fn new(
        settings: &'a RemoteSettings,
        request: &'a ModelRequest,
        dialect: AnthropicDialect,
    ) -> serde_json::Result<Self> {
        let format = match dialect.format {
            AnswerFormat::Schema => Some(OutputFormat {
                r#type: "json_schema",
                schema: serde_json::from_str(request.prompt.schema.json)?,
            }),
            AnswerFormat::Object | AnswerFormat::Free => None,
        };
        let effort = dialect.effort.word();
        let is_configured = format.is_some() || effort.is_some();
        Ok(Self {
            model: &settings.model,
            max_tokens: settings.limit_with_thinking(request),
            system: [SystemText {
                r#type: "text",
                text: &request.prompt.system,
                cache_control: CacheControl { r#type: "ephemeral" },
            }],
            messages: [UserMessage { role: "user", content: &request.prompt.user }],
            output_config: is_configured.then_some(OutputConfig { effort, format }),
        })
    }
}

#[derive(Deserialize)]
pub(super) struct MessageAnswer {
    content: Vec<AnswerBlock>,
    stop_reason: Option<String>,
    #[serde(default)]
    stop_details: Option<StopDetails>,
    #[serde(default)]
    usage: MessageUsage,
}

/// A block of an answer. Only text blocks are read.
#[derive(Deserialize)]
struct AnswerBlock {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
struct StopDetails {
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    explanation: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct MessageUsage {
    #[serde(default)]
    input_tokens: Option<i64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<i64>,
    #[serde(default)]
    cache_read_input_tokens: Option<i64>,
    #[serde(default)]
    output_tokens: Option<i64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Option<i64>,
}

impl MessageAnswer {
    pub(super) fn read(body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        let message: Self = serde_json::from_slice(body).map_err(|_| NoAnswer::Unknown)?;
        match message.stop_reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Err(NoAnswer::Truncated),
            Some("refusal") => Err(NoAnswer::Refused(refusal(message.stop_details))),
            // The last two need tools or context editing, which no request of recapd asks for.
            Some(reason @ ("pause_turn" | "tool_use" | "compaction")) => {
                Err(NoAnswer::Broken(format!("the model stopped with {reason}")))
            }
            _ => Ok(message.answer()),
        }
    }

    fn answer(self) -> ModelAnswer {
        let texts = self.content.into_iter().filter(|block| block.r#type == "text");
        ModelAnswer { text: texts.filter_map(|block| block.text).collect(), ..self.usage.answer() }
    }
}

impl MessageUsage {
    /// Returns an answer with this usage and no text.
    pub(super) fn answer(self) -> ModelAnswer {
        let cache_read = self.cache_read_input_tokens.unwrap_or_default();
        let cache_write = self.cache_creation_input_tokens.unwrap_or_default();
        ModelAnswer {
            input_tokens: self.input_tokens.unwrap_or_default() + cache_read + cache_write,
            cached_input_tokens: cache_read,
            cache_write_tokens: cache_write,
            output_tokens: self.output_tokens.unwrap_or_default(),
            reasoning_tokens: self
                .output_tokens_details
                .and_then(|details| details.thinking_tokens)
                .unwrap_or_default(),
            ..ModelAnswer::default()
        }
    }
}

fn refusal(details: Option<StopDetails>) -> String {
    let details = details.map(|details| [details.category, details.explanation]);
    let reasons: Vec<String> = details.into_iter().flatten().flatten().collect();
    if reasons.is_empty() { "no reason is given".to_owned() } else { reasons.join(": ") }
}
