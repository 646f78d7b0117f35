//! Lineage: clearing a context, marking a place in it and going back there.
//!
//! The steps are messages (kinds `clear`, `mark` and `rewind`, seed 001) and take effect wherever messages are
//! appended, so that a replay of the messages alone ends in the state in which living through them ended.
//!
//! - *Clear* closes the session: everything leaves the window, the newest exchange too, marks are forgotten, and what
//!   leading system messages follow are the preamble of the new session.
//! - *Mark* remembers where its message stands and where the window began then.
//! - *Rewind* goes back to the newest mark, or to the newest one of a name. The exchange that holds the mark stays
//!   whole, also what came in it after the mark, so that exchanges stay atomic; every later one is set aside. The
//!   window begins where it began at the mark. Marks set later are forgotten; a rewind to an unknown mark does
//!   nothing. Whatever comes next continues in an exchange of its own.
//! - *Pin* keeps a message in view, by its number, when its exchange has left the window; *unpin* takes that back. Pins
//!   outlive a clear; a rewind behind the message withdraws its pin, and `important` with it. A pin of what isn't there
//!   does nothing.
//!
//! Invariant: where a rewind leads depends on the messages and the rules, never on how far the summary has come.

use serde::Deserialize;
use serde_json::json;

use super::{
    exchange::Exchange,
    ledger::{CutPoint, Eviction, Ledger},
    message::{Kind, Message, Metadata},
    text::cut,
    time::Timestamp,
};

/// The longest label of a mark, in characters; longer ones are cut.
pub const LABEL_CHARS_MAX: usize = 128;

/// A message that changes more than the exchange it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Close the session and empty the window.
    Clear,
    /// Set a mark, with or without a name.
    Mark(Option<String>),
    /// Go back to the newest mark of that name, or to the newest mark.
    Rewind(Option<String>),
    /// Keep the message of that number in view.
    Pin(i64),
    /// Keep it in view no longer.
    Unpin(i64),
}

/// A place that a rewind can go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The exchange, or the preamble, in which the mark stands.
    pub exchange: i64,
    /// Where the window began then.
    pub first_exchange: i64,
    /// Tokens of all live exchanges before that.
    pub tokens_before_window: i64,
}

/// The fields of a step's payload: in `data`, as in ikigai's rows, or beside the kind.
#[derive(Default, Deserialize)]
struct StepFields {
    label: Option<String>,
    to: Option<String>,
    target_label: Option<String>,
    seq: Option<i64>,
    data: Option<Box<StepFields>>,
}

impl StepFields {
    fn of(payload: &str) -> Self {
        serde_json::from_str(payload).unwrap_or_default()
    }

    /// The number of a message.
    fn seq(self) -> Option<i64> {
        self.data.and_then(|data| data.seq()).or(self.seq)
    }

    /// The label of a mark, or the name of the mark to go back to.
    fn label(self) -> Option<String> {
        let inner = self.data.and_then(|data| data.label());
        let named = inner.or(self.target_label).or(self.to).or(self.label);
        named.and_then(|label| label_of(&label))
    }
}

/// A label as it is kept: without space around it, and cut. `None` if nothing is left.
fn label_of(text: &str) -> Option<String> {
    let label = cut(text.trim(), LABEL_CHARS_MAX);
    (!label.is_empty()).then_some(label)
}

impl Step {
    /// The step that `message` stands for, if it is one.
    pub fn of(message: &Message) -> Option<Self> {
        match &message.kind {
            Kind::Metadata(Metadata::Clear) => Some(Self::Clear),
            Kind::Metadata(Metadata::Mark) => Some(Self::Mark(StepFields::of(&message.payload).label())),
            Kind::Metadata(Metadata::Rewind) => Some(Self::Rewind(StepFields::of(&message.payload).label())),
            Kind::Metadata(Metadata::Pin) => StepFields::of(&message.payload).seq().map(Self::Pin),
            Kind::Metadata(Metadata::Unpin) => StepFields::of(&message.payload).seq().map(Self::Unpin),
            _ => None,
        }
    }

    /// The message that stands for the step, said at `at`. Parsed again, it is the same step at the same time.
    pub fn message(&self, at: Timestamp) -> Message {
        let (kind, data) = match self {
            Self::Clear => (Metadata::Clear, json!({})),
            Self::Mark(label) => (Metadata::Mark, json!({"label": label})),
            Self::Rewind(label) => (Metadata::Rewind, json!({"target_label": label})),
            Self::Pin(seq) => (Metadata::Pin, json!({"seq": seq})),
            Self::Unpin(seq) => (Metadata::Unpin, json!({"seq": seq})),
        };
        let kind = Kind::Metadata(kind);
        Message {
            payload: json!({"kind": kind.name(), "data": data, "at": at}).to_string(),
            at: Some(at),
            ..Message::new(kind, Vec::new())
        }
    }
}

impl Ledger {
    /// Closes the session: everything leaves the window, the newest exchange too, and what follows begins like a new
    /// agent, with numbers that go on. Returns what left, set-aside numbers included, if anything did.
    pub fn clear(&mut self, at: Timestamp) -> Option<Eviction> {
        let newest = self.newest.take();
        self.preamble = None;
        self.session += 1;
        let cut = newest.map(|newest| CutPoint {
            exchange: self.last_exchange + 1,
            tokens_before: newest.tokens_through(),
        })?;
        self.move_boundary(cut, at)
    }

    /// A mark in `exchange`.
    pub fn mark(&self, exchange: i64) -> Mark {
        Mark {
            exchange,
            first_exchange: self.first_exchange,
            tokens_before_window: self.tokens_before_window,
        }
    }

    /// Goes back to `mark`. `held` is the exchange that it is in; `None` if that is the preamble. The caller has to set
    /// aside the exchanges after it, and to withdraw the items about them. Exchanges that a raised budget brought back
    /// since stay: going back drives nothing out of the window.
    pub fn rewind(&mut self, mark: &Mark, held: Option<Exchange>) {
        self.newest = held;
        if mark.first_exchange < self.first_exchange {
            self.first_exchange = mark.first_exchange;
            self.tokens_before_window = mark.tokens_before_window;
        }
        self.summarized_through = self.summarized_through.min(self.first_exchange - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::Format;

    fn native(payload: &str) -> Message {
        crate::formats::parse(Format::Native, payload).unwrap()
    }

    #[test]
    fn steps_are_read_from_messages_of_their_kinds() {
        let label = |text: &str| Some(text.to_owned());
        for (payload, step) in [
            (r#"{"kind":"clear"}"#, Some(Step::Clear)),
            (r#"{"kind":"mark"}"#, Some(Step::Mark(None))),
            (r#"{"kind":"mark","label":" a "}"#, Some(Step::Mark(label("a")))),
            (
                r#"{"kind":"mark","data":{"label":"b"},"label":"a"}"#,
                Some(Step::Mark(label("b"))),
            ),
            (r#"{"kind":"mark","label":"  "}"#, Some(Step::Mark(None))),
            (r#"{"kind":"mark","label":7}"#, Some(Step::Mark(None))),
            (
                r#"{"kind":"rewind","data":{"target_message_id":3,"target_label":"b"}}"#,
                Some(Step::Rewind(label("b"))),
            ),
            (r#"{"kind":"rewind","to":"b"}"#, Some(Step::Rewind(label("b")))),
            (r#"{"kind":"rewind"}"#, Some(Step::Rewind(None))),
            (r#"{"kind":"pin","data":{"seq":12}}"#, Some(Step::Pin(12))),
            (r#"{"kind":"unpin","seq":12}"#, Some(Step::Unpin(12))),
            (r#"{"kind":"pin"}"#, None),
            (r#"{"kind":"pin","seq":"12"}"#, None),
            (r#"{"kind":"fork"}"#, None),
            (r#"{"kind":"user","content":"clear"}"#, None),
        ] {
            assert_eq!(Step::of(&native(payload)), step, "{payload}");
        }
    }

    #[test]
    fn a_step_is_read_again_from_its_own_message() {
        let odd = "\"quoted\\\" and ümläuted\"".to_owned();
        let long = Some("x".repeat(500));
        for step in [
            Step::Clear,
            Step::Mark(None),
            Step::Mark(Some(odd.clone())),
            Step::Rewind(Some(odd)),
            Step::Pin(7),
            Step::Unpin(7),
        ] {
            let message = step.message(Timestamp(1_795_000_000_123));
            assert_eq!(native(&message.payload), message);
            assert_eq!(Step::of(&message), Some(step));
        }
        let cut = Step::of(&Step::Mark(long.clone()).message(Timestamp(0)));
        assert_eq!(cut, Step::of(&Step::Mark(long).message(Timestamp(1))));
        assert!(matches!(cut, Some(Step::Mark(Some(label))) if label.chars().count() <= LABEL_CHARS_MAX));
    }
}
