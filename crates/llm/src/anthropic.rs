//! Anthropic's Messages API.
//!
//! `temperature`, `thinking`, `tool_choice` and a prefilled answer are never sent, because each is refused by some current model.
//! `output_config.format` sets the answer's format, and `output_config.effort` keeps thinking short. A model that lacks one of
//! these fields gets a request without it. The instructions are marked for the prompt cache.

mod batch;
mod wire;

use reqwest::Url;
use serde_json::Value;

use self::wire::{MessageAnswer, MessageUsage, MessagesRequest};
use super::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{
        AnswerFormat, Dialect, Effort, Protocol, RemoteModel, RemoteSettings, any_of, is_unknown, read_tokens,
    },
};

pub const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com/v1";
/// Parts of the names of models that refuse `output_config.effort`. recapd recognises other such models by their error.
const WITHOUT_EFFORT: [&str; 8] = [
    "claude-2",
    "claude-3",
    "claude-haiku-4",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-opus-4-0",
    "claude-opus-4-1",
];

/// The version of the API that every gateway knows. Later ones add nothing that recapd needs.
const VERSION: &str = "2023-06-01";

pub type AnthropicModel = RemoteModel<Anthropic>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Anthropic;

/// Which fields a model understands, depending on its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnthropicDialect {
    format: AnswerFormat,
    effort: Effort,
}

impl Dialect for AnthropicDialect {
    fn after_complaint(self, complaint: &str) -> Option<Self> {
        const FORMAT_WORDS: [&str; 6] = [
            "output_config",
            "output_format",
            "output format",
            "json_schema",
            "structured output",
            "schema is too complex",
        ];
        if self.effort != Effort::Default && complaint.contains("effort") {
            let effort = Effort::Default;
            return Some(Self { effort, ..self });
        }
        let is_about_format =
            any_of(complaint, &FORMAT_WORDS) || (complaint.contains("schema") && is_unknown(complaint));
        // This API can't return JSON without a schema, so the next form is free text.
        (is_about_format && self.format == AnswerFormat::Schema)
            .then_some(Self { format: AnswerFormat::Free, effort: Effort::Default })
    }
}

impl Protocol for Anthropic {
    type Dialect = AnthropicDialect;

    const PROVIDER: &'static str = "anthropic";
    const BASE_PATH: &'static str = "/v1";

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }

    fn headers(&self) -> Vec<(&'static str, &'static str)> {
        vec![("anthropic-version", VERSION)]
    }

    fn first(&self, settings: &RemoteSettings, _: &Url) -> AnthropicDialect {
        let effort = if any_of(&settings.model, &WITHOUT_EFFORT) { Effort::Default } else { settings.effort };
        AnthropicDialect { format: AnswerFormat::Schema, effort }
    }

    fn path(&self, _: &str) -> String {
        "/messages".to_owned()
    }

    fn body(
        &self,
        settings: &RemoteSettings,
        request: &ModelRequest,
        dialect: AnthropicDialect,
    ) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&MessagesRequest::new(settings, request, dialect)?)
    }

    fn read(&self, body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        MessageAnswer::read(body)
    }

    fn read_usage(&self, body: &Value) -> ModelAnswer {
        read_tokens::<MessageUsage>(body, "usage").answer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_left_out() {
        use AnswerFormat::{Free, Schema};
        let dialect = |format, effort| AnthropicDialect { format, effort };
        let low = Effort::Low;
        let none = Effort::Default;
        let cases = [
            (
                "this model does not support the effort parameter.",
                dialect(Schema, low),
                Some(dialect(Schema, none)),
            ),
            (
                "output_config.effort: extra inputs are not permitted",
                dialect(Schema, low),
                Some(dialect(Schema, none)),
            ),
            (
                "output_config: extra inputs are not permitted",
                dialect(Schema, none),
                Some(dialect(Free, none)),
            ),
            ("schema is too complex for compilation.", dialect(Schema, low), Some(dialect(Free, none))),
            ("output_config: no", dialect(Free, none), None),
            ("messages: first message must use the \"user\" role", dialect(Schema, low), None),
        ];
        for (words, from, to) in cases {
            assert_eq!(from.after_complaint(words), to, "{words}");
        }
    }

    #[test]
    fn models_that_refuse_effort_get_no_effort_field() {
        let address: Url = ANTHROPIC_BASE_URL.parse().unwrap();
        for (model, effort) in [
            ("claude-haiku-5-5", Effort::Low),
            ("claude-sonnet-4-6", Effort::Low),
            ("claude-haiku-4-5-20251001", Effort::Default),
            ("anthropic/claude-3-5-haiku-latest", Effort::Default),
        ] {
            let settings = RemoteSettings::new(ANTHROPIC_BASE_URL, model);
            assert_eq!(Anthropic.first(&settings, &address).effort, effort, "{model}");
        }
    }
}
