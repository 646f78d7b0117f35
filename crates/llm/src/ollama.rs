//! Ollama's own `/api/chat`.
//!
//! Ollama's OpenAI dialect can't set the context size per request, so a model may be loaded with only 4,096 tokens, and the rest
//! of the prompt is cut off silently. Here `num_ctx` requests as much as an update needs, and with `truncate: false` a prompt that
//! doesn't fit is an error.

mod wire;

use reqwest::Url;
use serde_json::Value;

use self::wire::{Chat, OllamaRequest};
use super::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{AnswerFormat, Dialect, Effort, Protocol, RemoteModel, RemoteSettings, any_of},
};

pub const OLLAMA_BASE_URL: &str = "http://127.0.0.1:11434";

pub type OllamaModel = RemoteModel<Ollama>;

#[derive(Clone, Copy, Debug)]
pub struct Ollama {
    /// The context size with which the model is loaded, in tokens: instructions, material and answer. It is the same for every
    /// request, because another size would reload the model.
    pub num_ctx: i64,
}

/// Which fields servers and models of different ages understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OllamaDialect {
    format: AnswerFormat,
    thinking: ThinkOption,
}

/// Whether the model should think before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThinkOption {
    /// No thinking.
    Off,
    /// Thinking at this level. Some models have no level below `low`.
    Level(&'static str),
    /// No field is sent.
    Unsaid,
}

impl ThinkOption {
    fn first(model: &str, effort: Effort) -> Self {
        match (effort, effort.word()) {
            (Effort::Low, _) if !model.contains("gpt-oss") => Self::Off,
            (_, Some(level)) => Self::Level(level),
            (_, None) => Self::Unsaid,
        }
    }
}

impl Dialect for OllamaDialect {
    fn after_complaint(self, complaint: &str) -> Option<Self> {
        const FORMAT_WORDS: [&str; 4] = ["format", "grammar", "schema", "unmarshal object"];
        if self.thinking != ThinkOption::Unsaid && any_of(complaint, &["think"]) {
            let thinking = ThinkOption::Unsaid;
            return Some(Self { thinking, ..self });
        }
        let format = self.format.simpler()?;
        any_of(complaint, &FORMAT_WORDS).then_some(Self { format, ..self })
    }
}

impl Protocol for Ollama {
    type Dialect = OllamaDialect;

    const PROVIDER: &'static str = "ollama";
    const MODELS_PATH: &'static str = "/api/tags";

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    fn first(&self, settings: &RemoteSettings, _: &Url) -> OllamaDialect {
        OllamaDialect {
            format: AnswerFormat::Schema,
            thinking: ThinkOption::first(&settings.model, settings.effort),
        }
    }

    fn path(&self, _: &str) -> String {
        "/api/chat".to_owned()
    }

    fn body(
        &self,
        settings: &RemoteSettings,
        request: &ModelRequest,
        dialect: OllamaDialect,
    ) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&OllamaRequest::new(settings, self.num_ctx, request, dialect)?)
    }

    fn read(&self, body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        Chat::read(body)
    }

    fn read_usage(&self, body: &Value) -> ModelAnswer {
        let tokens = |field: &str| body[field].as_i64().unwrap_or_default();
        ModelAnswer {
            input_tokens: tokens("prompt_eval_count"),
            output_tokens: tokens("eval_count"),
            ..ModelAnswer::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_switched_off_where_it_can_be() {
        for (model, effort, thinking) in [
            ("qwen3:8b", Effort::Low, ThinkOption::Off),
            ("gpt-oss:20b", Effort::Low, ThinkOption::Level("low")),
            ("qwen3:8b", Effort::High, ThinkOption::Level("high")),
            ("qwen3:8b", Effort::Default, ThinkOption::Unsaid),
        ] {
            assert_eq!(ThinkOption::first(model, effort), thinking, "{model}");
        }
    }

    #[test]
    fn unknown_fields_are_left_out() {
        use AnswerFormat::{Free, Object, Schema};
        let dialect = |format, thinking| OllamaDialect { format, thinking };
        let cases = [
            (
                "\"llama3.2\" does not support thinking",
                dialect(Schema, ThinkOption::Level("high")),
                Some(dialect(Schema, ThinkOption::Unsaid)),
            ),
            (
                "json: cannot unmarshal object into go struct field chatrequest.format of type string",
                dialect(Schema, ThinkOption::Off),
                Some(dialect(Object, ThinkOption::Off)),
            ),
            ("invalid format", dialect(Object, ThinkOption::Off), Some(dialect(Free, ThinkOption::Off))),
            ("model is required", dialect(Schema, ThinkOption::Off), None),
        ];
        for (words, from, to) in cases {
            assert_eq!(from.after_complaint(words), to, "{words}");
        }
    }
}
