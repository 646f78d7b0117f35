//! What providers report that a request cost, as it comes along with a message: the `usage` of an assistant's message
//! (OpenAI, Anthropic, Claude Code's transcripts, Gemini), or a native message of kind `usage`.

use super::json::Fields;
use crate::domain::message::Message;

/// A provider's report on one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedUsage {
    /// The model that answered, if the message says so.
    pub model: Option<String>,
    /// The provider's id of the answer. A transcript may spread one answer over several messages, each with the same
    /// report.
    pub response_id: Option<String>,
    /// Tokens of the whole request, those read from a cache and written to one included.
    pub prompt_tokens: i64,
    /// Tokens of the answer, if reported.
    pub output_tokens: Option<i64>,
}

/// The report that `message` carries, if it carries one.
pub fn reported_usage(message: &Message) -> Option<ReportedUsage> {
    let whole = Fields::parse(&message.payload).ok()?;
    let inner = whole.object("message");
    let data = whole.object("data");
    let places = || {
        [Some(&whole), inner.as_ref(), data.as_ref()]
            .into_iter()
            .flatten()
    };
    let usage = places().find_map(|place| place.object("usage").or_else(|| place.object("usageMetadata")));
    let (prompt_tokens, output_tokens) = match &usage {
        Some(usage) => tokens(usage)?,
        // A native message of kind `usage` is the report itself.
        None if message.kind.name() == "usage" => places().find_map(tokens)?,
        None => return None,
    };
    let label = |names: &[&str]| places().find_map(|place| names.iter().find_map(|name| place.text(name)));
    let answer = inner.as_ref().unwrap_or(&whole);
    Some(ReportedUsage {
        model: label(&["model", "modelVersion"]),
        response_id: answer.text("id").or_else(|| answer.text("responseId")),
        prompt_tokens,
        output_tokens,
    })
}

/// Tokens of the request and of the answer. Anthropic counts cached tokens apart; the others count them in.
fn tokens(usage: &Fields<'_>) -> Option<(i64, Option<i64>)> {
    let first = |names: &[&str]| names.iter().find_map(|name| whole_number(usage, name));
    let prompt = first(&["input_tokens", "prompt_tokens", "promptTokenCount"])?;
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached = cached.into_iter().filter_map(|name| whole_number(usage, name));
    let prompt = cached.fold(prompt, i64::saturating_add);
    Some((
        prompt,
        first(&["output_tokens", "completion_tokens", "candidatesTokenCount"]),
    ))
}

fn whole_number(fields: &Fields<'_>, name: &str) -> Option<i64> {
    let number: i64 = fields.raw(name)?.get().parse().ok()?;
    (number >= 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{domain::message::Format, formats};

    fn reported(format: Format, payload: &Value) -> Option<(String, i64, Option<i64>)> {
        let message = formats::parse(format, &payload.to_string()).unwrap();
        let usage = reported_usage(&message)?;
        Some((
            usage.model.unwrap_or_default(),
            usage.prompt_tokens,
            usage.output_tokens,
        ))
    }

    #[test]
    fn reports_are_found_where_formats_put_them() {
        let anthropic = json!({"input_tokens": 4, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1_000,
            "cache_creation": {"ephemeral_5m_input_tokens": 100}, "output_tokens": 7});
        let cases = [
            (
                Format::Anthropic,
                json!({"role": "assistant", "model": "claude-opus-5", "content": "Hi",
                "usage": anthropic}),
                ("claude-opus-5", 1_104, Some(7)),
            ),
            (
                Format::ClaudeCode,
                json!({"type": "assistant", "uuid": "u", "message": {"role": "assistant",
                "model": "claude-opus-5", "content": [], "usage": anthropic}}),
                ("claude-opus-5", 1_104, Some(7)),
            ),
            (
                Format::OpenAiChat,
                json!({"role": "assistant", "content": "Hi", "model": "gpt-5",
                "usage": {"prompt_tokens": 50, "completion_tokens": 9}}),
                ("gpt-5", 50, Some(9)),
            ),
            (
                Format::OpenAiChat,
                json!({"role": "assistant", "content": "Hi",
                "usage": {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 40}}}),
                ("", 50, None),
            ),
            (
                Format::Native,
                json!({"kind": "usage", "data": {"model": "gpt-5", "input_tokens": 5}}),
                ("gpt-5", 5, None),
            ),
            (
                Format::Native,
                json!({"kind": "usage", "prompt_tokens": 6}),
                ("", 6, None),
            ),
        ];
        for (format, payload, (model, prompt, output)) in cases {
            assert_eq!(
                reported(format, &payload),
                Some((model.to_owned(), prompt, output)),
                "{payload}"
            );
        }
    }

    #[test]
    fn an_answer_spread_over_messages_keeps_its_id() {
        let line = json!({"type": "assistant", "uuid": "line", "message": {"id": "msg_1", "role": "assistant",
            "content": [], "usage": {"input_tokens": 1}}});
        let message = formats::parse(Format::ClaudeCode, &line.to_string()).unwrap();
        assert_eq!(
            reported_usage(&message).unwrap().response_id.as_deref(),
            Some("msg_1")
        );
    }

    #[test]
    fn no_report_is_no_report() {
        let cases = [
            json!({"role": "assistant", "content": "Hi"}),
            json!({"role": "assistant", "content": "Hi", "usage": null}),
            json!({"role": "assistant", "content": "Hi", "usage": {"prompt_tokens": "many"}}),
            json!({"role": "assistant", "content": "Hi", "usage": {"prompt_tokens": -1}}),
            json!({"role": "user", "content": "usage", "input_tokens": 5}),
        ];
        for payload in cases {
            assert_eq!(reported(Format::OpenAiChat, &payload), None, "{payload}");
        }
    }
}
