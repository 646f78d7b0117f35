//! Perspective: one shared conversation as one of its speakers sees it (seed 002, "Message Transformation").
//!
//! What the speaker said is the assistant's, what the others said the user's; instructions are told as to that speaker.
//! Nobody's calls of tools are shown to another, nor their results; metadata to nobody. Order is kept, and alternation is
//! repaired after all that, since each speaker sees other gaps.
//!
//! Invariant: behind the instructions, `user` comes first, and `user` and `assistant` take turns; results of tools
//! belong to the turn of the assistant who called. What nobody said is marked as synthetic, and never stored.

mod preset;
mod repair;

use serde::Deserialize;

pub use self::preset::{PIDGIN_LIMITS, ProviderLimit, Truncated, limit_of, tokens, truncate};
use self::repair::repair;
use super::message::{Kind, Message, Part};

/// Marks what comes from neither speaker, unless another tag is chosen.
pub const HUMAN_TAG: &str = "[HUMAN]";
/// What is sent to a speaker who opens the conversation.
pub const BEGIN: &str = "[Begin]";
/// What a silent partner says.
pub const SILENCE: &str = "…";
/// Instructions with this text are the same for every speaker.
const CHOOSE_NAMES: &str = "Please choose a short name";
/// Instructions are written for the first speaker; for the other these words are exchanged.
const FOR_THE_OTHER: [(&str, &str); 4] = [
    ("You are Agent A", "You are Agent B"),
    (
        "Your conversation partner (Agent B)",
        "Your conversation partner (Agent A)",
    ),
    ("You are Sonnet-1", "You are Sonnet-2"),
    (
        "Your conversation partner (Sonnet-2)",
        "Your conversation partner (Sonnet-1)",
    ),
];

/// What kind of conversation it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Two speakers with names that were given to them.
    #[default]
    Talk,
    /// They choose their names: instructions are the same for both.
    ChooseNames,
    /// The partner is silent: between what the speaker says stands [`SILENCE`].
    Meditation,
}

/// How two messages of the same role in a row are mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// They become one.
    #[default]
    Merge,
    /// The other side acknowledges the first.
    Ack,
}

/// Whose view, and how it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perspective {
    /// Who sees.
    pub speaker: String,
    /// Who takes part, the speaker among them, in the order in which they were introduced: instructions are written for
    /// the first. Anybody else is a human who steps in.
    pub participants: Vec<String>,
    /// Put before what a human says who steps in; empty for nothing.
    pub human_tag: String,
    /// What kind of conversation it is.
    pub mode: Mode,
    /// How alternation is repaired.
    pub repair: Repair,
}

/// The role of a message that a speaker sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// Said to the speaker.
    User,
    /// Said by the speaker.
    Assistant,
    /// The result of a tool that the speaker called.
    Tool,
}

/// A message as a speaker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenMessage {
    /// Its role.
    pub role: Role,
    /// Its content.
    pub parts: Vec<Part>,
    /// Nobody said it.
    pub synthetic: bool,
}

/// What a client may say about a message beside its content.
#[derive(Default, Deserialize)]
struct Notes {
    audience: Option<Audience>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Perspective {
    /// The view of `speaker` on a conversation of `participants`, with the usual tag.
    pub fn new(speaker: &str, participants: &[&str]) -> Self {
        Self {
            speaker: speaker.to_owned(),
            participants: participants.iter().map(|&name| name.to_owned()).collect(),
            human_tag: HUMAN_TAG.to_owned(),
            mode: Mode::default(),
            repair: Repair::default(),
        }
    }

    fn is_own(&self, message: &Message) -> bool {
        message.speaker.as_deref() == Some(&self.speaker)
    }

    fn is_participant(&self, message: &Message) -> bool {
        let speaker = message.speaker.as_deref();
        speaker.is_some_and(|speaker| self.participants.iter().any(|name| name == speaker))
    }

    fn is_first(&self) -> bool {
        self.participants.first() == Some(&self.speaker)
    }
}

/// `messages` as `perspective` sees them, in the same order; only results of tools move up to their calls.
pub fn seen_by(messages: &[Message], perspective: &Perspective) -> Vec<SeenMessage> {
    let mut seen = Vec::with_capacity(messages.len());
    let mut called_last = false;
    for message in messages {
        let notes = notes(message);
        if notes.hides_from(&perspective.speaker, message) {
            continue;
        }
        if message.kind == Kind::ToolCall {
            called_last = perspective.is_own(message);
        }
        match see(message, perspective, called_last) {
            // A provider wants results right behind their calls: what was said meanwhile is heard after them.
            Some(result) if result.role == Role::Tool => {
                let is_own = |seen: &SeenMessage| matches!(seen.role, Role::Assistant | Role::Tool);
                let place = seen.iter().rposition(is_own).map_or(seen.len(), |last| last + 1);
                seen.insert(place, result);
            }
            other => seen.extend(other),
        }
    }
    repair(seen, perspective)
}

/// What a human who stepped in said, without the tag that was put before it when it was shown.
pub fn untagged<'a>(text: &'a str, human_tag: &str) -> &'a str {
    text.strip_prefix(human_tag)
        .filter(|_| !human_tag.is_empty())
        .and_then(|rest| rest.strip_prefix(':'))
        .map_or(text, str::trim_start)
}

fn see(message: &Message, perspective: &Perspective, called_last: bool) -> Option<SeenMessage> {
    let (role, parts) = match message.kind {
        Kind::Metadata(_) => return None,
        Kind::System => (Role::System, instructions(message, perspective)),
        // A result belongs to whoever called, whoever handed it in.
        Kind::ToolResult => (Role::Tool, called_last.then(|| message.parts.clone())?),
        _ if perspective.is_own(message) => (Role::Assistant, message.parts.clone()),
        _ if perspective.is_participant(message) => (Role::User, said(message)),
        _ => (Role::User, tagged(said(message), &perspective.human_tag)),
    };
    (!parts.is_empty()).then_some(SeenMessage {
        role,
        parts,
        synthetic: false,
    })
}

/// What others hear of a message: no reasoning, no calls.
fn said(message: &Message) -> Vec<Part> {
    let is_heard = |part: &&Part| matches!(part, Part::Text(_) | Part::Attachment(_));
    message.parts.iter().filter(is_heard).cloned().collect()
}

fn tagged(mut parts: Vec<Part>, tag: &str) -> Vec<Part> {
    let first = parts.iter_mut().find_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    // Old logs hold the tag in the text; once is enough.
    if let Some(text) = first.filter(|text| !tag.is_empty() && untagged(text, tag) == text.as_str()) {
        *text = format!("{tag}: {text}");
    }
    parts
}

fn instructions(message: &Message, perspective: &Perspective) -> Vec<Part> {
    let is_same = perspective.is_first()
        || perspective.mode == Mode::ChooseNames
        || message.text().contains(CHOOSE_NAMES);
    let for_the_other = |text: &str| {
        FOR_THE_OTHER
            .iter()
            .fold(text.to_owned(), |text, (first, other)| text.replace(first, other))
    };
    let tell = |part: &Part| match part {
        Part::Text(text) if !is_same => Part::Text(for_the_other(text)),
        part => part.clone(),
    };
    message.parts.iter().map(tell).collect()
}

/// What the payload says beside the content; nothing if it says that in another way.
fn notes(message: &Message) -> Notes {
    let payload = &message.payload;
    if payload.contains("\"audience\"") || payload.contains("\"is_error\"") {
        serde_json::from_str(payload).unwrap_or_default()
    } else {
        Notes::default()
    }
}

impl Notes {
    /// Not meant for `speaker`, or a provider's failure that was logged as if somebody had said it.
    fn hides_from(&self, speaker: &str, message: &Message) -> bool {
        let is_meant = match &self.audience {
            None => true,
            Some(Audience::One(name)) => name == speaker,
            Some(Audience::Several(names)) => names.iter().any(|name| name == speaker),
        };
        !is_meant || (self.is_error && message.kind != Kind::ToolResult)
    }
}

#[cfg(test)]
mod tests;
