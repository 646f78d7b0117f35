//! Plants thinking without Anthropic's signature in recorded conversations. Programs made for Anthropic's API write it when
//! they use another provider's model, and Anthropic refuses every request that holds it.

use recapd_core::domain::{
    message::{Format, Kind, Message, Part},
    thought::{Seal, Sealer, Thought},
};

const THOUGHT: &str = "Let me see.";
const WORDS: &str = "One moment.";
/// Alone in its message, which must then disappear.
const ALONE: &str =
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Let me see.","signature":""}]}"#;
/// Before words that must stay.
const WITH_WORDS: &str = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Let me see."},{"type":"text","text":"One moment."}]}"#;
/// As a router hides it from the program.
const REDACTED: &str =
    r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"router.reasoning:eyJ0"}]}"#;

/// Adds unsigned thinking of the model after each of the user's messages: in turn alone, with words, and redacted.
pub fn plant_unsigned_thinking(messages: Vec<Message>) -> Vec<Message> {
    let mut kinds = [alone, with_words, redacted].into_iter().cycle();
    let mut planted = Vec::with_capacity(messages.len());
    for message in messages {
        let is_users = message.kind == Kind::User;
        planted.push(message);
        planted.extend(is_users.then(|| kinds.next()).flatten().map(|kind| kind()));
    }
    planted
}

fn alone() -> Message {
    said(vec![thought()], ALONE)
}

fn with_words() -> Message {
    said(vec![thought(), Part::Text(WORDS.to_owned())], WITH_WORDS)
}

fn redacted() -> Message {
    let thought = Thought { text: String::new(), seal: Seal::of(Sealer::Anthropic, "router.reasoning:eyJ0") };
    said(vec![Part::Thinking(thought)], REDACTED)
}

fn thought() -> Part {
    Part::Thinking(Thought::from(THOUGHT.to_owned()))
}

fn said(parts: Vec<Part>, payload: &str) -> Message {
    Message { format: Format::Anthropic, payload: payload.to_owned(), ..Message::new(Kind::Assistant, parts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::formats;

    #[test]
    fn planted_messages_are_read_back_unchanged() {
        let user = formats::parse(Format::Anthropic, r#"{"role":"user","content":"Hello."}"#).unwrap();
        let planted = plant_unsigned_thinking(vec![user.clone(), user.clone(), user]);
        assert_eq!(planted.len(), 6);
        for message in &planted {
            assert_eq!(*message, formats::parse(Format::Anthropic, &message.payload).unwrap());
        }
        assert_ne!(planted[1], planted[3]);
    }
}
