//! Perspective: shows a shared conversation as one of its speakers sees it (seed 002, "Message Transformation").
//!
//! The speaker's own messages become the assistant's, messages of other speakers become the user's, and instructions are adapted to the
//! speaker. A
//! speaker doesn't see the tool calls of others and their results. Nobody sees metadata. [`Perspective::see`] converts one message at a
//! time. The context ([`super::context`]) deals with pairs, alternation and budget. It leaves out whole exchanges, whose boundaries are
//! the same for all speakers.
//!
//! All speakers share one summary, so it may reveal messages that were for another speaker only.

mod preset;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::preset::{PIDGIN_LIMITS, ProviderLimit, limit_of};
use super::message::{Kind, Message, Part, Role};

/// The tag before the words of people who aren't participants, unless configured otherwise.
pub const HUMAN_TAG: &str = "[HUMAN]";
/// The first message that the speaker who opens the conversation gets.
pub const BEGIN: &str = "[Begin]";
/// The turn of a silent partner.
pub const SILENCE: &str = "…";
/// Names of people who step in. People with these names aren't speakers, unless they are configured as participants.
pub const HUMANS: [&str; 5] = ["human", "researcher", "user", "external", "mediator"];
/// The speaker's name in instructions for all.
const SYSTEM: &str = "system";
/// Limits a conversation to this many participants.
pub const PARTICIPANTS_MAX: usize = 64;
/// Instructions with this text are the same for all speakers.
const CHOOSE_NAMES: &str = "Please choose a short name";
/// Instructions are written for the first speaker. For the other speaker, these phrases are replaced.
const SPEAKER_PHRASES: [(&str, &str); 4] = [
    ("You are Agent A", "You are Agent B"),
    ("Your conversation partner (Agent B)", "Your conversation partner (Agent A)"),
    ("You are Sonnet-1", "You are Sonnet-2"),
    ("Your conversation partner (Sonnet-2)", "Your conversation partner (Sonnet-1)"),
];

/// The kind of a shared conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ConversationMode))]
pub enum Mode {
    /// Speakers with given names.
    #[default]
    Talk,
    /// The speakers choose their names: instructions are the same for all.
    ChooseNames,
    /// The partner is silent: [`SILENCE`] stands for the partner's messages.
    Meditation,
}

/// How a shared conversation is shown to its speakers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerspectiveStyle {
    /// The participants, in the order in which they are introduced. Instructions are written for the first one. Anyone else is a human
    /// who steps in. If the list is empty, the speakers of the messages take part ([`speakers`]).
    pub participants: Vec<String>,
    /// The tag before the words of a human who steps in; empty for no tag.
    pub human_tag: String,
    /// The kind of conversation.
    pub mode: Mode,
}

impl Default for PerspectiveStyle {
    fn default() -> Self {
        Self { participants: Vec::new(), human_tag: HUMAN_TAG.to_owned(), mode: Mode::default() }
    }
}

/// The conversation as one speaker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perspective {
    speaker: String,
    style: PerspectiveStyle,
}

/// No participant has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("speaker `{speaker}` is unknown; {}", list_speakers(.participants))]
pub struct UnknownSpeaker {
    /// The requested name.
    pub speaker: String,
    /// The participants' names.
    pub participants: Vec<String>,
}

fn list_speakers(participants: &[String]) -> String {
    if participants.is_empty() {
        "no message of the window says who said it: give messages a `speaker`, or set `participants`"
            .to_owned()
    } else {
        format!("known speakers: {}", participants.join(", "))
    }
}

/// A message as a speaker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerspectiveMessage<'a> {
    /// The role. Results always have [`Role::Tool`]; only the speaker who called the tool sees them.
    pub role: Role,
    /// The visible content; never empty.
    pub parts: Cow<'a, [Part]>,
}

/// Fields of a payload that decide who sees the message.
#[derive(Default, Deserialize)]
struct VisibilityFields {
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

/// Splits a list such as `agent_a, agent_b` into unique names, at most [`PARTICIPANTS_MAX`].
pub fn names(list: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if names.len() < PARTICIPANTS_MAX && !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the speakers of `messages` and the addressees of instructions, in order, at most [`PARTICIPANTS_MAX`]. Leaves out humans who
/// step in.
pub fn speakers<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for message in messages {
        let has_speaker = !matches!(message.kind, Kind::ToolResult | Kind::Metadata(_));
        let name = named_speaker(message.speaker.as_deref()).filter(|_| has_speaker);
        if let Some(name) = name
            && names.len() < PARTICIPANTS_MAX
            && !names.iter().any(|other| other == name)
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the speaker's name, unless it is that of a human who steps in or the one in instructions for all.
pub fn named_speaker(speaker: Option<&str>) -> Option<&str> {
    speaker.filter(|&name| name != SYSTEM && !HUMANS.contains(&name))
}

impl Perspective {
    /// Makes the perspective of `speaker`. The participants are those of `style`; if it names none, the `speakers` of the messages.
    ///
    /// # Errors
    /// [`UnknownSpeaker`] if `speaker` doesn't take part.
    pub fn new(
        speaker: &str,
        style: PerspectiveStyle,
        speakers: Vec<String>,
    ) -> Result<Self, UnknownSpeaker> {
        let participants = if style.participants.is_empty() { speakers } else { style.participants };
        if !participants.iter().any(|name| name == speaker) {
            return Err(UnknownSpeaker { speaker: speaker.to_owned(), participants });
        }
        Ok(Self { speaker: speaker.to_owned(), style: PerspectiveStyle { participants, ..style } })
    }

    /// Returns the speaker's name.
    pub fn speaker(&self) -> &str {
        &self.speaker
    }

    /// Returns the kind of conversation.
    pub fn mode(&self) -> Mode {
        self.style.mode
    }

    /// Returns true if the message has the speaker's name.
    pub fn is_own(&self, message: &Message) -> bool {
        message.speaker.as_deref() == Some(&self.speaker)
    }

    /// Returns the first message that the speaker who opens the conversation gets.
    pub fn opening(&self) -> &'static str {
        match self.style.mode {
            Mode::Meditation => SILENCE,
            Mode::Talk | Mode::ChooseNames => BEGIN,
        }
    }

    /// Converts `message` for the speaker. Returns `None` if the speaker sees no part of it.
    pub fn see<'a>(&self, message: &'a Message) -> Option<PerspectiveMessage<'a>> {
        if visibility_fields(message).hides_from(&self.speaker, message) {
            return None;
        }
        let (role, parts) = match message.kind {
            Kind::Metadata(_) => return None,
            Kind::System => (Role::System, self.instructions(message)?),
            // A result belongs to the speaker who called the tool, whoever passed it on.
            Kind::ToolResult => (Role::Tool, Cow::Borrowed(message.parts.as_slice())),
            _ if self.is_own(message) => (Role::Assistant, Cow::Borrowed(message.parts.as_slice())),
            _ if self.is_participant(message) => (Role::User, audible_parts(message)),
            _ => (Role::User, add_tag(audible_parts(message), &self.style.human_tag)),
        };
        (!parts.is_empty()).then_some(PerspectiveMessage { role, parts })
    }

    fn is_participant(&self, message: &Message) -> bool {
        let mut names = self.style.participants.iter();
        let speaker = message.speaker.as_ref();
        speaker.is_some_and(|speaker| names.any(|name| name == speaker))
    }

    /// Returns the instructions for the speaker. Instructions for a named participant reach only that participant, unchanged. Other
    /// instructions are adapted to the speaker.
    fn instructions<'a>(&self, message: &'a Message) -> Option<Cow<'a, [Part]>> {
        if self.is_participant(message) {
            return self.is_own(message).then_some(Cow::Borrowed(&message.parts));
        }
        let is_first = self.style.participants.first() == Some(&self.speaker);
        if is_first || self.style.mode == Mode::ChooseNames || message.text().contains(CHOOSE_NAMES) {
            return Some(Cow::Borrowed(&message.parts));
        }
        let adapt = |part: &Part| match part {
            Part::Text(text) => Part::Text(adapt_to_other(text)),
            part => part.clone(),
        };
        Some(Cow::Owned(message.parts.iter().map(adapt).collect()))
    }
}

/// Returns the parts that other speakers get: no reasoning, no calls, no results.
fn audible_parts(message: &Message) -> Cow<'_, [Part]> {
    let is_audible = |part: &&Part| matches!(part, Part::Text(_) | Part::Attachment { .. });
    if message.parts.iter().all(|part| is_audible(&part)) {
        Cow::Borrowed(&message.parts)
    } else {
        Cow::Owned(message.parts.iter().filter(is_audible).cloned().collect())
    }
}

/// Puts the tag before the first text, unless the text has it already, as in old logs.
fn add_tag<'a>(mut parts: Cow<'a, [Part]>, tag: &str) -> Cow<'a, [Part]> {
    let has_text = |part: &Part| matches!(part, Part::Text(text) if !text.trim().is_empty());
    let first = parts.iter().position(has_text).filter(|_| !tag.is_empty());
    if let Some(Part::Text(text)) = first.and_then(|first| parts.get(first))
        && untagged(text, tag) == text.as_str()
    {
        let text = format!("{tag}: {text}");
        if let Some(part) = first.and_then(|first| parts.to_mut().get_mut(first)) {
            *part = Part::Text(text);
        }
    }
    parts
}

/// Removes the tag from the words of a human who steps in.
pub fn untagged<'a>(text: &'a str, human_tag: &str) -> &'a str {
    text.strip_prefix(human_tag)
        .filter(|_| !human_tag.is_empty())
        .and_then(|rest| rest.strip_prefix(':'))
        .map_or(text, str::trim_start)
}

fn adapt_to_other(text: &str) -> String {
    SPEAKER_PHRASES.iter().fold(text.to_owned(), |text, (first, other)| text.replace(first, other))
}

/// Reads the fields that decide who sees the message. Returns the default if the payload can't be read.
fn visibility_fields(message: &Message) -> VisibilityFields {
    let payload = &message.payload;
    if payload.contains("\"audience\"") || payload.contains("\"is_error\"") {
        serde_json::from_str(payload).unwrap_or_default()
    } else {
        VisibilityFields::default()
    }
}

impl VisibilityFields {
    /// Returns true if `speaker` doesn't see the message: it is for others, or it is a provider's error that was logged as a speaker's
    /// message.
    fn hides_from(&self, speaker: &str, message: &Message) -> bool {
        let is_addressed = match &self.audience {
            None => true,
            Some(Audience::One(name)) => name == speaker,
            Some(Audience::Several(names)) => names.iter().any(|name| name == speaker),
        };
        !is_addressed || (self.is_error && message.kind != Kind::ToolResult)
    }
}

#[cfg(test)]
mod tests;
