//! OpenAI's Responses API. The provider stores nothing (`store: false`), and every request is independent.

mod wire;

use reqwest::Url;
use serde_json::Value;

use self::wire::{Response, ResponseUsage, ResponsesRequest};
use super::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    openai::is_reasoning_model,
    remote::{
        AnswerFormat, Dialect, Effort, Protocol, RemoteModel, RemoteSettings, any_of, is_unknown, read_tokens,
    },
};

pub type ResponsesModel = RemoteModel<Responses>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Responses;

/// Which fields a model and its server understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsesDialect {
    format: AnswerFormat,
    effort: Effort,
}

impl Dialect for ResponsesDialect {
    fn after_complaint(self, complaint: &str) -> Option<Self> {
        const FORMAT_WORDS: [&str; 6] =
            ["text.format", "json_schema", "json schema", "json_object", "structured output", "grammar"];
        if self.effort != Effort::Default && complaint.contains("reasoning") && is_unknown(complaint) {
            let effort = Effort::Default;
            return Some(Self { effort, ..self });
        }
        let format = self.format.simpler()?;
        any_of(complaint, &FORMAT_WORDS).then_some(Self { format, ..self })
    }
}

impl Protocol for Responses {
    type Dialect = ResponsesDialect;

    const PROVIDER: &'static str = "openai-responses";

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    fn first(&self, settings: &RemoteSettings, _: &Url) -> ResponsesDialect {
        let effort = if is_reasoning_model(&settings.model) { settings.effort } else { Effort::Default };
        ResponsesDialect { format: AnswerFormat::Schema, effort }
    }

    fn path(&self, _: &str) -> String {
        "/responses".to_owned()
    }

    fn body(
        &self,
        settings: &RemoteSettings,
        request: &ModelRequest,
        dialect: ResponsesDialect,
    ) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&ResponsesRequest::new(settings, request, dialect)?)
    }

    fn read(&self, body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        Response::read(body)
    }

    fn read_usage(&self, body: &Value) -> ModelAnswer {
        read_tokens::<ResponseUsage>(body, "usage").answer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_left_out() {
        use AnswerFormat::{Free, Object, Schema};
        let dialect = |format, effort| ResponsesDialect { format, effort };
        let cases = [
            (
                "unsupported parameter: 'reasoning.effort' is not supported with this model.",
                dialect(Schema, Effort::Low),
                Some(dialect(Schema, Effort::Default)),
            ),
            (
                "invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.",
                dialect(Schema, Effort::Default),
                Some(dialect(Object, Effort::Default)),
            ),
            ("unknown value 'json_object'", dialect(Object, Effort::Low), Some(dialect(Free, Effort::Low))),
            ("text.format", dialect(Free, Effort::Low), None),
            ("model not found", dialect(Schema, Effort::Low), None),
        ];
        for (words, from, to) in cases {
            assert_eq!(from.after_complaint(words), to, "{words}");
        }
    }
}
