//! The JSON of requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{OllamaDialect, ThinkOption};
use crate::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{AnswerFormat, RemoteSettings},
};

/// A request's body. It sets no sampling, because Ollama knows the best sampling for a model.
#[derive(Serialize)]
pub(super) struct OllamaRequest<'a> {
    model: &'a str,
    messages: [ChatMessage<'a>; 2],
    stream: bool,
    /// False, so that a prompt that doesn't fit is an error instead of being cut off.
    truncate: bool,
    /// False, so that the answer doesn't push the prompt out of the context.
    shift: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    options: Options,
}

#[derive(Serialize)]
struct ChatMessage<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Think {
    /// Always `false`, which switches thinking off.
    Off(bool),
    Level(&'static str),
}

#[derive(Serialize)]
struct Options {
    num_ctx: i64,
    num_predict: i64,
}

impl<'a> OllamaRequest<'a> {
    pub(super) fn new(
        settings: &'a RemoteSettings,
        num_ctx: i64,
        request: &'a ModelRequest,
        dialect: OllamaDialect,
    ) -> serde_json::Result<Self> {
        let message = |role, content| ChatMessage { role, content };
        let format = match dialect.format {
            AnswerFormat::Schema => Some(request.prompt.schema.json),
            AnswerFormat::Object => Some("\"json\""),
            AnswerFormat::Free => None,
        };
        Ok(Self {
            model: &settings.model,
            messages: [message("system", &request.prompt.system), message("user", &request.prompt.user)],
            stream: false,
            truncate: false,
            shift: false,
            format: format.map(serde_json::from_str).transpose()?,
            think: match dialect.thinking {
                ThinkOption::Off => Some(Think::Off(false)),
                ThinkOption::Level(level) => Some(Think::Level(level)),
                ThinkOption::Unsaid => None,
            },
            options: Options {
                num_ctx,
                num_predict: match dialect.thinking {
                    ThinkOption::Off => request.output_tokens_max,
                    ThinkOption::Level(_) | ThinkOption::Unsaid => settings.limit_with_thinking(request),
                },
            },
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Chat {
    message: AnswerMessage,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: i64,
    #[serde(default)]
    eval_count: i64,
}

#[derive(Deserialize)]
struct AnswerMessage {
    #[serde(default)]
    content: String,
}

impl Chat {
    pub(super) fn read(body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        let chat: Self = serde_json::from_slice(body).map_err(|_| NoAnswer::Unknown)?;
        let answer = ModelAnswer {
            text: chat.message.content,
            input_tokens: chat.prompt_eval_count,
            output_tokens: chat.eval_count,
            ..ModelAnswer::default()
        };
        let broken = |message: String| Err(NoAnswer::Broken(message));
        match chat.done_reason.as_deref() {
            Some("length") => Err(NoAnswer::Truncated),
            // The model was loaded or unloaded instead of asked.
            Some(reason @ ("load" | "unload")) => broken(format!("the answer is a {reason}")),
            _ if !chat.done => broken("the answer is unfinished".to_owned()),
            _ => Ok(answer),
        }
    }
}
