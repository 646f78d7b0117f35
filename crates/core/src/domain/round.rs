//! Rounds: an answer of the model with its tool calls and all their results. An exchange is a sequence of rounds. A new leg begins only
//! with a new round.
//!
//! One answer of a provider may be stored as several messages. Chat formats store one message. Claude Code writes a line for each block
//! of the answer, with the provider's message id. Codex, the Responses API and native messages have neighbouring items without an id.

use serde::{Deserialize, Serialize};

use super::message::{Format, Kind, Message, Part};

/// Limits one answer to this many messages, so that a leg can't grow without end while only the model speaks.
const MESSAGES_MAX: u32 = 256;
/// Ignores a provider's message id of more bytes.
pub const RESPONSE_ID_BYTES_MAX: usize = 128;

/// Which answer of the model a message belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponsePart {
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// True if the model's next message may belong to the same answer.
    pub may_continue: bool,
}

impl ResponsePart {
    /// Reads the answer's id from `message`, and whether the answer may continue.
    pub fn of(message: &Message) -> Self {
        Self {
            id: message.response_id.clone().filter(|id| id.len() <= RESPONSE_ID_BYTES_MAX),
            may_continue: !is_whole_answer(message.format) || is_unfinished(&message.parts),
        }
    }
}

/// Returns true if a message in `format` is a whole answer of the model.
fn is_whole_answer(format: Format) -> bool {
    match format {
        Format::OpenAiChat | Format::Anthropic | Format::Gemini | Format::Aider => true,
        Format::Native | Format::OpenAiResponses | Format::ClaudeCode | Format::Codex | Format::Pidgin => {
            false
        }
    }
}

/// Returns true if the answer continues after these parts: the model has only thought so far, or the last block is a call that the
/// provider runs itself.
fn is_unfinished(parts: &[Part]) -> bool {
    let is_thinking = |part: &Part| matches!(part, Part::Thinking(_));
    matches!(parts.last(), Some(Part::Opaque { .. })) || parts.iter().all(is_thinking)
}

/// What recapd stores about the newest round of an exchange, to decide whether the next message belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    messages: u32,
    /// True if the model's next message may belong to this round even without an id, since no other message has come.
    #[serde(default, rename = "may_go_on", skip_serializing_if = "std::ops::Not::not")]
    may_continue: bool,
}

impl Round {
    /// Returns true if a message of the model with `part` belongs to the next round.
    fn is_followed_by(&self, part: &ResponsePart) -> bool {
        let is_new = match (&self.id, &part.id) {
            (Some(id), Some(next)) => id != next,
            _ => !self.may_continue,
        };
        is_new || self.messages >= MESSAGES_MAX
    }

    /// Returns true if a message of this kind begins a round. `newest` is the exchange's newest round.
    pub fn is_begun_by(newest: Option<&Self>, kind: &Kind, part: &ResponsePart) -> bool {
        is_from_model(kind) && newest.is_none_or(|newest| newest.is_followed_by(part))
    }

    /// Returns the newest round after a message of this kind. `newest` is the newest round before it.
    pub fn after(newest: Option<Self>, kind: &Kind, part: &ResponsePart) -> Option<Self> {
        if is_from_model(kind) {
            let continued = newest.filter(|newest| !newest.is_followed_by(part));
            return Some(Self {
                id: part.id.clone(),
                messages: continued.map_or(0, |round| round.messages) + 1,
                may_continue: part.may_continue,
            });
        }
        newest.map(|newest| Self {
            // Metadata may come between the parts of an answer.
            may_continue: newest.may_continue && !kind.is_conversation(),
            ..newest
        })
    }
}

fn is_from_model(kind: &Kind) -> bool {
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
        assert_eq!(begins(Format::OpenAiResponses, &[said, call, call, output, output, call, said]), [0, 5]);
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
