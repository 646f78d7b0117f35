//! Clears a context, sets marks in it and goes back to them: the steps of a lineage.
//!
//! These steps are messages (kinds `clear`, `mark` and `rewind`, seed 001). They take effect wherever messages are appended, so a replay
//! of the messages ends in the same state.
//!
//! - *Clear* closes the session. Everything leaves the window, including the newest exchange, and all marks are dropped. Leading system
//!   messages after the clear are the new session's preamble.
//! - *Mark* records the position of its message and the beginning of the window.
//! - *Rewind* goes back to the newest mark, or to the newest mark of a name. The exchange of the mark stays whole, even the part after
//!   the mark, since exchanges are atomic; all later exchanges are set aside. The window begins where it began at the mark. Later marks
//!   are dropped. A rewind to an unknown mark does nothing. New messages go into a new row.
//! - *Pin* keeps a message, given by its number, in view after its exchange has left the window; *unpin* undoes that. Pins survive a
//!   clear. A rewind to a point before the message removes its pin and its `important`. A pin of an unknown message does nothing.
//! - *Note* writes a version of a note ([`super::note`]). A rewind to a point before it brings back the earlier version.
//!
//! Invariant: the result of a rewind depends on the messages and the rules, never on the progress of the summary.

use serde::Deserialize;
use serde_json::json;

use super::{
    exchange::Exchange,
    ledger::{CutPoint, Eviction, Ledger},
    message::{Kind, Message, Metadata},
    note::NoteChange,
    text::cut,
    time::Timestamp,
};

/// Cuts a mark's label to this many characters.
pub const LABEL_CHARS_MAX: usize = 128;

/// What a message does beyond its own exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Closes the session and empties the window.
    Clear,
    /// Sets a mark, perhaps with a name.
    Mark(Option<String>),
    /// Goes back to the newest mark of that name, or to the newest mark.
    Rewind(Option<String>),
    /// Keeps the message of that number in view.
    Pin(i64),
    /// Undoes the pin of that message.
    Unpin(i64),
    /// Writes or deletes a note.
    Note(NoteChange),
}

/// A mark: a point that a rewind can go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The exchange with the mark, or the preamble.
    pub exchange: i64,
    /// The first exchange of the window when the mark was set.
    pub first_exchange: i64,
    /// The tokens of all live exchanges before the window at that time.
    pub tokens_before_window: i64,
}

/// The fields of a step's payload. They are in `data`, as in ikigai's rows, or beside the kind.
#[derive(Default, Deserialize)]
struct StepFields {
    label: Option<String>,
    to: Option<String>,
    target_label: Option<String>,
    seq: Option<i64>,
    #[serde(default)]
    resumable: bool,
    data: Option<Box<StepFields>>,
}

impl StepFields {
    fn of(payload: &str) -> Self {
        serde_json::from_str(payload).unwrap_or_default()
    }

    fn seq(self) -> Option<i64> {
        self.data.and_then(|data| data.seq()).or(self.seq)
    }

    fn label(self) -> Option<String> {
        let inner = self.data.and_then(|data| data.label());
        let label = inner.or(self.target_label).or(self.to).or(self.label);
        label.and_then(|label| label_of(&label))
    }
}

/// Returns true for a clear after which the host may resume the same session. Some hosts resume and end a session for each turn, so the
/// summary isn't urgent after such a clear.
pub fn is_resumable(message: &Message) -> bool {
    let fields = || StepFields::of(&message.payload);
    message.kind == Kind::Metadata(Metadata::Clear) && fields().data.is_some_and(|data| data.resumable)
}

/// Trims and cuts a label; `None` if nothing is left.
fn label_of(text: &str) -> Option<String> {
    let label = cut(text.trim(), LABEL_CHARS_MAX);
    (!label.is_empty()).then_some(label)
}

impl Step {
    /// Returns the step in `message`, if there is one.
    pub fn of(message: &Message) -> Option<Self> {
        match &message.kind {
            Kind::Metadata(Metadata::Clear) => Some(Self::Clear),
            Kind::Metadata(Metadata::Mark) => Some(Self::Mark(StepFields::of(&message.payload).label())),
            Kind::Metadata(Metadata::Rewind) => Some(Self::Rewind(StepFields::of(&message.payload).label())),
            Kind::Metadata(Metadata::Pin) => StepFields::of(&message.payload).seq().map(Self::Pin),
            Kind::Metadata(Metadata::Unpin) => StepFields::of(&message.payload).seq().map(Self::Unpin),
            Kind::Metadata(Metadata::Note) => NoteChange::of(message).map(Self::Note),
            _ => None,
        }
    }

    /// Writes the step as a message with the time `at`. Reading the message returns the same step and time.
    pub fn message(&self, at: Timestamp) -> Message {
        let (kind, data) = match self {
            Self::Clear => (Metadata::Clear, json!({})),
            Self::Mark(label) => (Metadata::Mark, json!({"label": label})),
            Self::Rewind(label) => (Metadata::Rewind, json!({"target_label": label})),
            Self::Pin(seq) => (Metadata::Pin, json!({"seq": seq})),
            Self::Unpin(seq) => (Metadata::Unpin, json!({"seq": seq})),
            Self::Note(change) => return change.message(at),
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
    /// Closes the session. Everything leaves the window, including the newest exchange. The next message begins as in a new agent, except
    /// that numbers continue. Returns the eviction, if anything left; its range includes exchanges that are set aside.
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

    /// Makes a mark in `exchange`.
    pub fn mark(&self, exchange: i64) -> Mark {
        Mark {
            exchange,
            first_exchange: self.first_exchange,
            tokens_before_window: self.tokens_before_window,
        }
    }

    /// Goes back to `mark`. `marked` is the mark's exchange; `None` for the preamble. The caller must set aside the later exchanges and
    /// withdraw their items. Exchanges that a raised budget has brought back since the mark stay: a rewind evicts nothing.
    pub fn rewind(&mut self, mark: &Mark, marked: Option<Exchange>) {
        self.newest = marked;
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
    fn steps_are_read_from_messages() {
        let label = |text: &str| Some(text.to_owned());
        for (payload, step) in [
            (r#"{"kind":"clear"}"#, Some(Step::Clear)),
            (r#"{"kind":"mark"}"#, Some(Step::Mark(None))),
            (r#"{"kind":"mark","label":" a "}"#, Some(Step::Mark(label("a")))),
            (r#"{"kind":"mark","data":{"label":"b"},"label":"a"}"#, Some(Step::Mark(label("b")))),
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
    fn a_step_is_read_back_from_its_message() {
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
