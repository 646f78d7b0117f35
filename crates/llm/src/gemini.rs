//! Google's Gemini, `generateContent`.
//!
//! `maxOutputTokens` includes thinking, so the limit that is sent has a reserve for it. Thinking models are asked to think
//! little: by a level from Gemini 3 on, by a budget before.

mod batch;
mod wire;

use reqwest::Url;
use serde_json::Value;

use self::wire::{GenerateAnswer, GenerateRequest, UsageMetadata};
use super::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{
        AnswerFormat, Dialect, Effort, Protocol, RemoteModel, RemoteSettings, any_of, is_unknown, read_tokens,
    },
};

/// The base URL of Google's own API; `/v1` works as well.
pub const GEMINI_BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

pub type GeminiModel = RemoteModel<Gemini>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Gemini;

/// Which fields a model understands, depending on its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeminiDialect {
    format: AnswerFormat,
    thinking: ThinkingLimit,
}

/// How a model is asked to think little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThinkingLimit {
    /// From Gemini 3 on.
    Level(&'static str),
    /// For Gemini 2.5, in tokens. All its models accept these numbers.
    Budget(i64),
    /// No field is sent.
    Unsaid,
}

impl ThinkingLimit {
    fn first(model: &str, effort: Effort) -> Self {
        let (level, budget) = match effort {
            Effort::Default => return Self::Unsaid,
            Effort::Low => ("LOW", 512),
            Effort::Medium => ("MEDIUM", 4_096),
            Effort::High => ("HIGH", 16_384),
        };
        let name = bare(model);
        if name.starts_with("gemini-2.5") {
            return Self::Budget(budget);
        }
        let generation = name
            .strip_prefix("gemini-")
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
            .and_then(|digits| digits.parse::<u32>().ok());
        if generation.is_some_and(|generation| generation >= 3) { Self::Level(level) } else { Self::Unsaid }
    }
}

impl Dialect for GeminiDialect {
    fn after_complaint(self, complaint: &str) -> Option<Self> {
        const FORMAT_WORDS: [&str; 6] = [
            "responsejsonschema",
            "response_json_schema",
            "responsemimetype",
            "response_mime_type",
            "json mode",
            "json schema",
        ];
        const TOO_COMPLEX: [&str; 2] = ["schema produces", "too many states"];
        if self.thinking != ThinkingLimit::Unsaid && complaint.contains("thinking") {
            let thinking = ThinkingLimit::Unsaid;
            return Some(Self { thinking, ..self });
        }
        let format = self.format.simpler()?;
        let is_about_format = any_of(complaint, &FORMAT_WORDS)
            || any_of(complaint, &TOO_COMPLEX)
            || (complaint.contains("schema") && is_unknown(complaint));
        is_about_format.then_some(Self { format, ..self })
    }
}

impl Protocol for Gemini {
    type Dialect = GeminiDialect;

    const PROVIDER: &'static str = "gemini";
    const BASE_PATH: &'static str = "/v1beta";

    /// The key is sent in a header and never in the URL, which proxies log.
    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("x-goog-api-key", key.to_owned())
    }

    fn first(&self, settings: &RemoteSettings, _: &Url) -> GeminiDialect {
        GeminiDialect {
            format: AnswerFormat::Schema,
            thinking: ThinkingLimit::first(&settings.model, settings.effort),
        }
    }

    fn path(&self, model: &str) -> String {
        format!("/models/{}:generateContent", bare(model))
    }

    fn body(
        &self,
        settings: &RemoteSettings,
        request: &ModelRequest,
        dialect: GeminiDialect,
    ) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&GenerateRequest::new(settings, request, dialect)?)
    }

    fn read(&self, body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        GenerateAnswer::read(body)
    }

    fn read_usage(&self, body: &Value) -> ModelAnswer {
        read_tokens::<UsageMetadata>(body, "usageMetadata").answer()
    }
}

/// Removes `models/`, with which the names in Google's list of models begin.
fn bare(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_gets_its_own_thinking_field() {
        for (model, thinking) in [
            ("gemini-3.8-flash", ThinkingLimit::Level("LOW")),
            ("models/gemini-4-argon", ThinkingLimit::Level("LOW")),
            ("gemini-2.5-flash-lite", ThinkingLimit::Budget(512)),
            ("gemini-2.0-flash", ThinkingLimit::Unsaid),
            ("gemma-3-27b-it", ThinkingLimit::Unsaid),
            ("gemini-flash-latest", ThinkingLimit::Unsaid),
        ] {
            assert_eq!(ThinkingLimit::first(model, Effort::Low), thinking, "{model}");
            assert_eq!(ThinkingLimit::first(model, Effort::Default), ThinkingLimit::Unsaid);
        }
    }

    #[test]
    fn unknown_fields_are_left_out() {
        use AnswerFormat::{Free, Object, Schema};
        let low = ThinkingLimit::Level("LOW");
        let dialect = |format, thinking| GeminiDialect { format, thinking };
        let cases = [
            (
                "thinking level is not supported for this model.",
                dialect(Schema, low),
                Some(dialect(Schema, ThinkingLimit::Unsaid)),
            ),
            (
                "invalid json payload received. unknown name \"responsejsonschema\" at 'generation_config': cannot find field.",
                dialect(Schema, low),
                Some(dialect(Object, low)),
            ),
            (
                "json mode is not enabled for models/gemma-3-27b-it",
                dialect(Object, low),
                Some(dialect(Free, low)),
            ),
            ("request contains an invalid argument.", dialect(Schema, low), None),
        ];
        for (words, from, to) in cases {
            assert_eq!(from.after_complaint(words), to, "{words}");
        }
    }
}
