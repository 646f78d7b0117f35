//! What a server understands: how the form of the answer is asked for, and which field limits its length.

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::OpenAiSettings;

/// Which field limits the length of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    /// `max_completion_tokens` for OpenAI itself and for models that reason, `max_tokens` for others; changed when the
    /// server says that it doesn't know the one.
    #[default]
    Auto,
    /// Always `max_tokens`.
    MaxTokens,
    /// Always `max_completion_tokens`.
    MaxCompletionTokens,
}

/// How the form of the answer is asked for, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFormat {
    /// `response_format` with a strict schema.
    Schema,
    /// `response_format` that asks for some JSON object.
    Object,
    /// By the prompt alone.
    Free,
}

/// How one request is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) format: AnswerFormat,
    /// `max_completion_tokens` instead of `max_tokens`.
    pub(super) limits_completion: bool,
}

impl Dialect {
    /// The best dialect that may be expected.
    pub(super) fn first(settings: &OpenAiSettings, endpoint: &Url) -> Self {
        Self {
            format: AnswerFormat::Schema,
            limits_completion: match settings.output_limit_field {
                OutputLimitField::MaxTokens => false,
                OutputLimitField::MaxCompletionTokens => true,
                OutputLimitField::Auto => {
                    endpoint.host_str() == Some("api.openai.com") || is_reasoning_model(&settings.model)
                }
            },
        }
    }

    /// The dialect to try after a server complained in `words` (lower case), if the complaint is about the dialect.
    pub(super) fn after(self, words: &str, may_change_field: bool) -> Option<Self> {
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
        const UNKNOWN_WORDS: [&str; 6] = [
            "unsupported",
            "not supported",
            "unrecognized",
            "unknown",
            "unexpected",
            "not permitted",
        ];
        let any_of = |wanted: &[&str]| wanted.iter().any(|word| words.contains(word));
        if may_change_field && words.contains(self.limit_field()) && any_of(&UNKNOWN_WORDS) {
            return Some(Self {
                limits_completion: !self.limits_completion,
                ..self
            });
        }
        let format = match self.format {
            AnswerFormat::Schema => AnswerFormat::Object,
            AnswerFormat::Object => AnswerFormat::Free,
            AnswerFormat::Free => return None,
        };
        any_of(&FORMAT_WORDS).then_some(Self { format, ..self })
    }

    fn limit_field(self) -> &'static str {
        if self.limits_completion {
            "max_completion_tokens"
        } else {
            "max_tokens"
        }
    }
}

/// OpenAI's models that reason refuse `max_tokens`: the o series, and `gpt-5` and later, also behind a router's prefix.
fn is_reasoning_model(model: &str) -> bool {
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
    use super::*;

    fn dialect(format: AnswerFormat, limits_completion: bool) -> Dialect {
        Dialect {
            format,
            limits_completion,
        }
    }

    #[test]
    fn the_limit_has_the_field_that_the_server_expects() {
        use OutputLimitField::{Auto, MaxCompletionTokens, MaxTokens};
        for (base_url, model, field, limits_completion) in [
            ("https://api.openai.com/v1", "gpt-4o-mini", Auto, true),
            ("https://api.openai.com/v1", "gpt-4o-mini", MaxTokens, false),
            ("https://openrouter.ai/api/v1", "openai/gpt-5-mini", Auto, true),
            ("https://openrouter.ai/api/v1", "openai/o4-mini", Auto, true),
            ("https://openrouter.ai/api/v1", "openai/gpt-4.1", Auto, false),
            ("https://openrouter.ai/api/v1", "openai/gpt-oss-20b", Auto, false),
            ("http://127.0.0.1:11434/v1", "llama3.2", Auto, false),
            ("http://127.0.0.1:11434/v1", "olmo2", Auto, false),
            ("http://127.0.0.1:11434/v1", "llama3.2", MaxCompletionTokens, true),
        ] {
            let mut settings = OpenAiSettings::new(base_url, model);
            settings.output_limit_field = field;
            let first = Dialect::first(&settings, &base_url.parse().unwrap());
            assert_eq!(
                first,
                dialect(AnswerFormat::Schema, limits_completion),
                "{base_url} {model}"
            );
        }
    }

    #[test]
    fn complaints_change_what_they_are_about() {
        use AnswerFormat::{Free, Object, Schema};
        let cases = [
            (
                "this response_format type is unavailable now",
                dialect(Schema, true),
                Some(dialect(Object, true)),
            ),
            (
                "'response_format.type' must be 'text'",
                dialect(Object, true),
                Some(dialect(Free, true)),
            ),
            (
                "failed to parse grammar",
                dialect(Schema, false),
                Some(dialect(Object, false)),
            ),
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
            ("max_tokens is too large: 9999", dialect(Schema, false), None),
            ("the model `x` does not exist", dialect(Schema, true), None),
        ];
        for (words, from, to) in cases {
            assert_eq!(from.after(words, true), to, "{words}");
        }
        assert_eq!(dialect(Free, false).after("unsupported: max_tokens", false), None);
    }
}
