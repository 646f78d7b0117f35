//! Which request fields a server understands: how the answer's format is requested, and which field limits its length.

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OPENAI_HOST;
use crate::remote::{AnswerFormat, Dialect, Effort, RemoteSettings, any_of, is_unknown};

/// The field that limits the length of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    /// `max_completion_tokens` for OpenAI itself and for models that reason, `max_tokens` for others. Changes if the server
    /// doesn't know the field.
    #[default]
    Auto,
    MaxTokens,
    MaxCompletionTokens,
}

/// Whether `max_tokens` includes room for thinking; `max_completion_tokens` always does. A model's name doesn't show whether it
/// thinks, and servers may refuse a high limit, so only models that have been seen to think get this room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingRoom {
    /// No answer was cut off after thinking.
    NotNeeded,
    /// An answer was cut off after thinking, so requests now include the room.
    Reserved,
    /// The server refuses such a high limit.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatDialect {
    pub(super) format: AnswerFormat,
    /// True for `max_completion_tokens`, false for `max_tokens`.
    pub(super) limits_completion: bool,
    /// True if the configuration names the field, so that a complaint doesn't change it.
    pub(super) limit_is_fixed: bool,
    pub(super) room: ThinkingRoom,
    pub(super) effort: Effort,
    /// True for OpenRouter, which cuts out the middle of prompts that don't fit small models, unless the request forbids it.
    pub(super) is_openrouter: bool,
}

impl ChatDialect {
    /// Returns the best form of request that this server may understand.
    pub(super) fn first(field: OutputLimitField, settings: &RemoteSettings, address: &Url) -> Self {
        let is_openai = address.host_str() == Some(OPENAI_HOST);
        let is_reasoning = is_reasoning_model(&settings.model);
        Self {
            format: AnswerFormat::Schema,
            limits_completion: match field {
                OutputLimitField::MaxTokens => false,
                OutputLimitField::MaxCompletionTokens => true,
                OutputLimitField::Auto => is_openai || is_reasoning,
            },
            limit_is_fixed: field != OutputLimitField::Auto,
            room: ThinkingRoom::NotNeeded,
            effort: if is_reasoning { settings.effort } else { Effort::Default },
            is_openrouter: address.host_str() == Some("openrouter.ai"),
        }
    }
}

impl Dialect for ChatDialect {
    fn after_complaint(self, complaint: &str) -> Option<Self> {
        const FORMAT_WORDS: [&str; 8] = [
            "response_format",
            "response format",
            "json_schema",
            "json schema",
            "json_object",
            "structured output",
            "grammar",
            "guided",
        ];
        const LIMIT_WORDS: [&str; 4] = ["max_tokens", "max_new_tokens", "output tokens", "completion tokens"];
        if self.room == ThinkingRoom::Reserved && any_of(complaint, &LIMIT_WORDS) {
            let room = ThinkingRoom::Refused;
            return Some(Self { room, ..self });
        }
        if !self.limit_is_fixed && complaint.contains(self.limit_field()) && is_unknown(complaint) {
            return Some(Self { limits_completion: !self.limits_completion, ..self });
        }
        if self.effort != Effort::Default && complaint.contains("reasoning") && is_unknown(complaint) {
            let effort = Effort::Default;
            return Some(Self { effort, ..self });
        }
        let format = self.format.simpler()?;
        any_of(complaint, &FORMAT_WORDS).then_some(Self { format, ..self })
    }

    fn after_cut_off(self, body: &Value) -> Option<Self> {
        let can_have_room = self.room == ThinkingRoom::NotNeeded && !self.limits_completion;
        (can_have_room && has_thought(body)).then_some(Self { room: ThinkingRoom::Reserved, ..self })
    }

    fn after_overflow(self) -> Option<Self> {
        (self.room == ThinkingRoom::Reserved).then_some(Self { room: ThinkingRoom::Refused, ..self })
    }
}

/// Returns true if an answer's body shows that the model thought: in the usage, in a separate field or parts, or in the text if
/// the server doesn't separate thoughts.
fn has_thought(body: &Value) -> bool {
    let message = &body["choices"][0]["message"];
    let has = |field: &str| message[field].as_str().is_some_and(|text| !text.is_empty());
    let content = &message["content"];
    let parts = content.as_array().map(Vec::as_slice).unwrap_or_default();
    body["usage"]["completion_tokens_details"]["reasoning_tokens"].as_i64().is_some_and(|tokens| tokens > 0)
        || has("reasoning_content")
        || has("reasoning")
        || parts.iter().any(|part| part["type"] == "thinking")
        || content.as_str().is_some_and(|text| text.trim_start().starts_with("<think>"))
}

impl ChatDialect {
    fn limit_field(self) -> &'static str {
        if self.limits_completion { "max_completion_tokens" } else { "max_tokens" }
    }
}

/// Returns true for OpenAI's reasoning models, which refuse `max_tokens`: the o series, and `gpt-5` and later, also with a
/// router's prefix.
pub fn is_reasoning_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let number_after = |prefix: &str| -> Option<u32> {
        let rest = name.strip_prefix(prefix)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    number_after("o").is_some() || number_after("gpt-").is_some_and(|version| (5..100).contains(&version))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dialect(format: AnswerFormat, limits_completion: bool) -> ChatDialect {
        ChatDialect {
            format,
            limits_completion,
            limit_is_fixed: false,
            room: ThinkingRoom::NotNeeded,
            effort: Effort::Default,
            is_openrouter: false,
        }
    }

    #[test]
    fn the_limit_has_the_field_that_the_server_expects() {
        use OutputLimitField::{Auto, MaxCompletionTokens, MaxTokens};
        for (base_url, model, field, limits_completion, effort) in [
            ("https://api.openai.com/v1", "gpt-4o-mini", Auto, true, Effort::Default),
            ("https://api.openai.com/v1", "gpt-4o-mini", MaxTokens, false, Effort::Default),
            ("https://openrouter.ai/api/v1", "openai/gpt-5-mini", Auto, true, Effort::Low),
            ("https://openrouter.ai/api/v1", "openai/o4-mini", Auto, true, Effort::Low),
            ("https://openrouter.ai/api/v1", "openai/gpt-4.1", Auto, false, Effort::Default),
            ("https://openrouter.ai/api/v1", "openai/gpt-oss-20b", Auto, false, Effort::Default),
            ("http://127.0.0.1:11434/v1", "llama3.2", Auto, false, Effort::Default),
            ("http://127.0.0.1:11434/v1", "olmo2", Auto, false, Effort::Default),
            ("http://127.0.0.1:11434/v1", "llama3.2", MaxCompletionTokens, true, Effort::Default),
        ] {
            let settings = RemoteSettings::new(base_url, model);
            let first = ChatDialect::first(field, &settings, &base_url.parse().unwrap());
            let expected = ChatDialect {
                limit_is_fixed: field != Auto,
                effort,
                is_openrouter: base_url.contains("openrouter"),
                ..dialect(AnswerFormat::Schema, limits_completion)
            };
            assert_eq!(first, expected, "{base_url} {model}");
        }
    }

    #[test]
    fn thinking_models_get_room_until_the_server_refuses() {
        let cut_off = |message: Value, reasoning_tokens: i64| {
            json!({"choices": [{"message": message, "finish_reason": "length"}],
                   "usage": {"completion_tokens_details": {"reasoning_tokens": reasoning_tokens}}})
        };
        let plain = dialect(AnswerFormat::Schema, false);
        let [reserved, refused] =
            [ThinkingRoom::Reserved, ThinkingRoom::Refused].map(|room| ChatDialect { room, ..plain });
        for (message, reasoning_tokens) in [
            (json!({"content": null}), 7),
            (json!({"content": "", "reasoning_content": "Hm"}), 0),
            (json!({"content": "", "reasoning": "Hm"}), 0),
            (json!({"content": "\n<think>Hm"}), 0),
            (json!({"content": [{"type": "thinking", "thinking": []}]}), 0),
        ] {
            let body = cut_off(message, reasoning_tokens);
            assert_eq!(plain.after_cut_off(&body), Some(reserved), "{body}");
            let others = [reserved, refused, dialect(AnswerFormat::Schema, true)];
            assert_eq!(others.map(|other| other.after_cut_off(&body)), [None; 3], "{body}");
        }
        for body in [cut_off(json!({"content": "{\"items\""}), 0), json!({})] {
            assert_eq!(plain.after_cut_off(&body), None, "{body}");
        }
        assert_eq!(reserved.after_complaint("max_tokens is too large: 8000"), Some(refused));
        assert_eq!(refused.after_complaint("max_tokens is too large: 8000"), None);
        assert_eq!([plain, reserved, refused].map(ChatDialect::after_overflow), [None, Some(refused), None]);
    }

    #[test]
    fn complaints_change_only_what_they_are_about() {
        use AnswerFormat::{Free, Object, Schema};
        let thinking = ChatDialect { effort: Effort::Low, ..dialect(Schema, true) };
        let cases = [
            (
                "this response_format type is unavailable now",
                dialect(Schema, true),
                Some(dialect(Object, true)),
            ),
            ("'response_format.type' must be 'text'", dialect(Object, true), Some(dialect(Free, true))),
            ("failed to parse grammar", dialect(Schema, false), Some(dialect(Object, false))),
            ("response_format", dialect(Free, true), None),
            (
                "unsupported parameter: 'max_tokens' is not supported with this model. use 'max_completion_tokens' instead.",
                dialect(Schema, false),
                Some(dialect(Schema, true)),
            ),
            (
                "unrecognized request argument: max_completion_tokens",
                dialect(Object, true),
                Some(dialect(Object, false)),
            ),
            (
                "unrecognized request argument supplied: reasoning_effort",
                thinking,
                Some(dialect(Schema, true)),
            ),
            ("max_tokens is too large: 9999", dialect(Schema, false), None),
            ("the model `x` does not exist", dialect(Schema, true), None),
        ];
        for (words, from, to) in cases {
            assert_eq!(from.after_complaint(words), to, "{words}");
        }
        let fixed = ChatDialect { limit_is_fixed: true, ..dialect(Free, false) };
        assert_eq!(fixed.after_complaint("unsupported: max_tokens"), None);
    }
}
