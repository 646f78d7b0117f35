//! Rounds: an answer of the model with its tool calls and all their results. An exchange is a sequence of rounds, and a new leg of it
//! begins only with a round.
//!
//! One answer of a provider may be stored as several messages. Chat formats store it as one. Claude Code writes a line for each of its
//! blocks, all with the provider's message id. Codex, the Responses API and native messages have neighbouring items without an id.

use serde::{Deserialize, Serialize};

use super::message::{Format, Kind, Message, Part};

/// The most messages of the model in one answer, so that a leg can't grow without end when only the model speaks.
const MESSAGES_MAX: u32 = 256;
/// The most bytes of a provider's message id; longer ones are ignored.
pub const RESPONSE_ID_BYTES_MAX: usize = 128;

/// The answer that a message of the model belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponsePart {
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// True if the model's next message may be part of the same answer.
    pub may_go_on: bool,
}

impl ResponsePart {
    /// Reads it from `message`.
    pub fn of(message: &Message) -> Self {
        Self {
            id: message
                .response_id
                .clone()
                .filter(|id| id.len() <= RESPONSE_ID_BYTES_MAX),
            may_go_on: !is_whole(message.format) || is_begun(&message.parts),
        }
    }
}

/// Returns true if a message in `format` is a whole answer of the model.
fn is_whole(format: Format) -> bool {
    match format {
        Format::OpenAiChat | Format::Anthropic | Format::Gemini | Format::Aider => true,
        Format::Native | Format::OpenAiResponses | Format::ClaudeCode | Format::Codex | Format::Pidgin => {
            false
        }
    }
}

/// Returns true if the answer continues after these parts: the model only thought, or the last block is a call that the provider runs
/// itself.
fn is_begun(parts: &[Part]) -> bool {
    let is_thinking = |part: &Part| matches!(part, Part::Thinking(_));
    matches!(parts.last(), Some(Part::Opaque { .. })) || parts.iter().all(is_thinking)
}

/// The newest round of an exchange, as far as the next message needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    messages: u32,
    /// True if the model's next message may belong to it without an id: nobody else has spoken since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    may_go_on: bool,
}

impl Round {
    fn is_followed_by(&self, part: &ResponsePart) -> bool {
        let is_other = match (&self.id, &part.id) {
            (Some(own), Some(others)) => own != others,
            _ => !self.may_go_on,
        };
        is_other || self.messages >= MESSAGES_MAX
    }

    /// Returns true if a message of that kind begins a round after `newest`, the exchange's newest round.
    pub fn is_begun_by(newest: Option<&Self>, kind: &Kind, part: &ResponsePart) -> bool {
        is_models(kind) && newest.is_none_or(|newest| newest.is_followed_by(part))
    }

    /// The newest round after a message of that kind, given the one before it.
    pub fn after(newest: Option<Self>, kind: &Kind, part: &ResponsePart) -> Option<Self> {
        if is_models(kind) {
            let goes_on = newest.filter(|newest| !newest.is_followed_by(part));
            return Some(Self {
                id: part.id.clone(),
                messages: goes_on.map_or(0, |before| before.messages) + 1,
                may_go_on: part.may_go_on,
            });
        }
        newest.map(|newest| Self {
            // Metadata may come between the parts of an answer.
            may_go_on: newest.may_go_on && !kind.is_conversation(),
            ..newest
        })
    }
}

fn is_models(kind: &Kind) -> bool {
    matches!(kind, Kind::Assistant | Kind::ToolCall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::parse;

    /// The indexes of the messages that begin a round.
    fn begins(format: Format, payloads: &[&str]) -> Vec<usize> {
        let mut newest = None;
        let mut found = Vec::new();
        for (at, payload) in payloads.iter().enumerate() {
            let message = parse(format, payload).unwrap();
            let part = ResponsePart::of(&message);
            if Round::is_begun_by(newest.as_ref(), &message.kind, &part) {
                found.push(at);
            }
            newest = Round::after(newest, &message.kind, &part);
        }
        found
    }

    #[test]
    fn lines_of_one_answer_are_one_round_even_with_results_between_them() {
        let line = |id: &str, block: &str| {
            format!(
                r#"{{"type":"assistant","uuid":"{id}{}","message":{{"id":"{id}","role":"assistant","content":[{block}]}}}}"#,
                block.len()
            )
        };
        let call = |id: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}"#);
        let result = |id: &str| {
            format!(
                r#"{{"type":"user","uuid":"r{id}","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"ok"}}]}}}}"#
            )
        };
        let text = r#"{"type":"text","text":"Look."}"#;
        let lines = [
            line("m1", text),
            line("m1", &call("one")),
            result("one"),
            line("m1", &call("three")),
            result("three"),
            line("m2", &call("seven")),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(begins(Format::ClaudeCode, &lines), [0, 5]);
    }

    #[test]
    fn neighbouring_items_are_one_round_and_whole_messages_are_one_each() {
        let call = r#"{"type":"function_call","call_id":"a","name":"run","arguments":"{}"}"#;
        let output = r#"{"type":"function_call_output","call_id":"a","output":"ok"}"#;
        let said = r#"{"type":"message","role":"assistant","content":"Look."}"#;
        assert_eq!(
            begins(
                Format::OpenAiResponses,
                &[said, call, call, output, output, call, said]
            ),
            [0, 5]
        );
        let said = r#"{"role":"assistant","content":"Look."}"#;
        let asked = r#"{"role":"user","content":"Go on."}"#;
        assert_eq!(begins(Format::OpenAiChat, &[asked, said, said]), [1, 2]);
        let usage = r#"{"kind":"usage","content":"12"}"#;
        let said = r#"{"kind":"assistant","content":"Look."}"#;
        let call = r#"{"kind":"tool_call","name":"run","arguments":{}}"#;
        assert_eq!(begins(Format::Native, &[said, usage, call]), [0]);
    }

    #[test]
    fn an_answer_that_never_ends_is_cut() {
        let said = r#"{"kind":"assistant","content":"On and on."}"#;
        let most = usize::try_from(MESSAGES_MAX).unwrap();
        assert_eq!(begins(Format::Native, &vec![said; most + 1]), [0, most]);
    }
}
