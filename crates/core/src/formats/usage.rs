//! Reads token counts that providers report with a message: the `usage` of an assistant's message (OpenAI, Anthropic, Claude Code's
//! transcripts, Gemini), or a native message of kind `usage`.

use super::json::Fields;
use crate::domain::{calibration::ReportedUsage, message::Message};

/// Returns the usage report in `message`, if there is one.
pub fn reported_usage(message: &Message) -> Option<ReportedUsage> {
    // Most messages have no report, and this check avoids parsing them.
    if !message.payload.contains("usage") && message.kind.name() != "usage" {
        return None;
    }
    let payload = Fields::parse(&message.payload).ok()?;
    let inner = payload.object("message");
    let data = payload.object("data");
    let objects = || [Some(&payload), inner.as_ref(), data.as_ref()].into_iter().flatten();
    let usage =
        objects().find_map(|object| object.object("usage").or_else(|| object.object("usageMetadata")));
    let usage = match &usage {
        Some(usage) => tokens(usage)?,
        // A native message of kind `usage` is the report itself.
        None if message.kind.name() == "usage" => objects().find_map(tokens)?,
        None => return None,
    };
    let label = |names: &[&str]| objects().find_map(|object| names.iter().find_map(|name| object.text(name)));
    let answer = inner.as_ref().unwrap_or(&payload);
    Some(ReportedUsage {
        model: label(&["model", "modelVersion"]),
        response_id: answer.text("id").or_else(|| answer.text("responseId")),
        ..usage
    })
}

/// Reads a usage report that isn't part of a message: a provider's `usage` object, which may name its `model`.
pub fn read_usage(json: &str) -> Option<ReportedUsage> {
    let usage = Fields::parse(json).ok()?;
    Some(ReportedUsage { model: usage.text("model"), ..tokens(&usage)? })
}

/// Returns the tokens of a request and of its answer from a provider's `usage` object. Providers count them differently:
///
/// - Cached tokens of the request: Anthropic's `input_tokens` leave them out, so they are added here. The counts of OpenAI and Gemini
///   include them.
/// - Thinking tokens of the answer: the counts of OpenAI and Anthropic include them, and a details object says how many they are. Gemini's
///   `candidatesTokenCount` leaves them out, so 0 of the reported output tokens are thinking.
fn tokens(usage: &Fields<'_>) -> Option<ReportedUsage> {
    let first = |names: &[&str]| names.iter().find_map(|name| whole_number(usage, name));
    let prompt = first(&["input_tokens", "prompt_tokens", "promptTokenCount"])?;
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached = cached.into_iter().filter_map(|name| whole_number(usage, name));
    let output = first(&["output_tokens", "completion_tokens"]);
    let details = ["output_tokens_details", "completion_tokens_details"];
    let details = details.iter().find_map(|name| usage.object(name));
    let thinking = |details: &Fields<'_>| {
        let names = ["reasoning_tokens", "thinking_tokens"];
        names.iter().find_map(|name| whole_number(details, name))
    };
    let without_thinking = whole_number(usage, "candidatesTokenCount");
    Some(ReportedUsage {
        prompt_tokens: cached.fold(prompt, i64::saturating_add),
        output_tokens: output.or(without_thinking),
        thinking_tokens: details.as_ref().and_then(thinking).or(without_thinking.map(|_| 0)),
        ..ReportedUsage::default()
    })
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
        Some((usage.model.unwrap_or_default(), usage.prompt_tokens, usage.output_tokens))
    }

    #[test]
    fn every_format_has_its_place_for_usage() {
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
            (Format::Native, json!({"kind": "usage", "prompt_tokens": 6}), ("", 6, None)),
        ];
        for (format, payload, (model, prompt, output)) in cases {
            assert_eq!(reported(format, &payload), Some((model.to_owned(), prompt, output)), "{payload}");
        }
    }

    #[test]
    fn thinking_tokens_are_those_that_the_output_tokens_include() {
        let cases = [
            (
                json!({"input_tokens": 1, "output_tokens": 90, "output_tokens_details": {"thinking_tokens": 60}}),
                Some(60),
            ),
            (
                json!({"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 0}}),
                Some(0),
            ),
            (json!({"promptTokenCount": 1, "candidatesTokenCount": 9, "thoughtsTokenCount": 70}), Some(0)),
            (json!({"input_tokens": 1, "output_tokens": 90}), None),
        ];
        for (usage, thinking) in cases {
            let read = read_usage(&usage.to_string()).unwrap();
            assert_eq!((read.prompt_tokens, read.thinking_tokens), (1, thinking), "{usage}");
            assert!(read.output_tokens.is_some());
        }
    }

    #[test]
    fn a_usage_object_alone_may_name_its_model() {
        assert_eq!(read_usage("[1]"), None);
        assert_eq!(
            read_usage(r#"{"input_tokens":1,"model":"gpt-5"}"#).unwrap().model.as_deref(),
            Some("gpt-5")
        );
    }

    #[test]
    fn the_response_id_is_the_answers_and_not_the_transcript_lines() {
        let line = json!({"type": "assistant", "uuid": "line", "message": {"id": "msg_1", "role": "assistant",
            "content": [], "usage": {"input_tokens": 1}}});
        let message = formats::parse(Format::ClaudeCode, &line.to_string()).unwrap();
        assert_eq!(reported_usage(&message).unwrap().response_id.as_deref(), Some("msg_1"));
    }

    #[test]
    fn messages_without_usage_give_none() {
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
