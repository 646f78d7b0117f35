//! Perspective: a shared conversation as one of its speakers sees it (seed 002, "Message Transformation").
//!
//! The speaker's own words become the assistant's, the others' words the user's, and instructions are adapted to the speaker. A speaker
//! doesn't see the tool calls of others or their results; nobody sees metadata. [`Perspective::see`] converts one message at a time.
//! Pairs, alternation and budget are up to the context ([`super::context`]), which first leaves out whole exchanges by their original
//! boundaries, then applies the perspective.
//!
//! All speakers share one summary, so it may reveal messages that were meant for another speaker.

mod preset;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::preset::{PIDGIN_LIMITS, ProviderLimit, limit_of};
use super::{
    context::Role,
    message::{Kind, Message, Part},
};

/// The default tag before the words of people who aren't participants.
pub const HUMAN_TAG: &str = "[HUMAN]";
/// The text that is sent to the speaker who opens the conversation.
pub const BEGIN: &str = "[Begin]";
/// The text of a silent partner's turn.
pub const SILENCE: &str = "…";
/// Names of people who step in. They don't count as speakers, unless they are configured as participants.
pub const HUMANS: [&str; 5] = ["human", "researcher", "user", "external", "mediator"];
/// The speaker's name of instructions for all.
const SYSTEM: &str = "system";
/// The most participants of a conversation.
pub const PARTICIPANTS_MAX: usize = 64;
/// Instructions with this text aren't adapted to a speaker.
const CHOOSE_NAMES: &str = "Please choose a short name";
/// Instructions are written for the first speaker; for the other one these words are replaced.
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
    /// The partner is silent: [`SILENCE`] stands between the speaker's messages.
    Meditation,
}

/// The settings for showing a shared conversation to its speakers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerspectiveStyle {
    /// The participants in the order of their introduction: instructions are written for the first. Anyone else is a human who steps in.
    /// If it is empty, the speakers in the messages take part ([`speakers`]).
    pub participants: Vec<String>,
    /// The tag before the words of a human who steps in; empty for no tag.
    pub human_tag: String,
    /// The kind of conversation.
    pub mode: Mode,
}

impl Default for PerspectiveStyle {
    fn default() -> Self {
        Self {
            participants: Vec::new(),
            human_tag: HUMAN_TAG.to_owned(),
            mode: Mode::default(),
        }
    }
}

/// The perspective of one speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perspective {
    speaker: String,
    telling: PerspectiveStyle,
}

/// No participant has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("speaker `{speaker}` is unknown; {}", known_speakers(.known))]
pub struct UnknownSpeaker {
    /// The requested name.
    pub speaker: String,
    /// The participants' names.
    pub known: Vec<String>,
}

fn known_speakers(known: &[String]) -> String {
    if known.is_empty() {
        "no message of the window says who said it: give messages a `speaker`, or set `participants`"
            .to_owned()
    } else {
        format!("known speakers: {}", known.join(", "))
    }
}

/// A message as a speaker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerspectiveMessage<'a> {
    /// The role. Results are always [`Role::Tool`]; they are shown only to the speaker who called the tool.
    pub role: Role,
    /// The visible content; never empty.
    pub parts: Cow<'a, [Part]>,
}

/// The fields of a payload that matter here, besides the content.
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

/// Splits a list such as `agent_a, agent_b` into unique names, at most [`PARTICIPANTS_MAX`].
pub fn names(list: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if names.len() < PARTICIPANTS_MAX && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The speakers of `messages` and the addressees of instructions, in order; at most [`PARTICIPANTS_MAX`], without humans who step in.
pub fn speakers<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for message in messages {
        let is_said = !matches!(message.kind, Kind::ToolResult | Kind::Metadata(_));
        let name = named_speaker(message.speaker.as_deref()).filter(|_| is_said);
        if let Some(name) = name
            && names.len() < PARTICIPANTS_MAX
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// The speaker's name, unless it is a human's who steps in, or the name for instructions.
pub fn named_speaker(speaker: Option<&str>) -> Option<&str> {
    speaker.filter(|&name| name != SYSTEM && !HUMANS.contains(&name))
}

impl Perspective {
    /// Makes the perspective of `speaker`. The participants are those of `telling`, or the speakers `heard` if it names none.
    ///
    /// # Errors
    /// [`UnknownSpeaker`] if `speaker` doesn't take part.
    pub fn new(speaker: &str, telling: PerspectiveStyle, heard: Vec<String>) -> Result<Self, UnknownSpeaker> {
        let participants = if telling.participants.is_empty() {
            heard
        } else {
            telling.participants
        };
        if !participants.iter().any(|name| name == speaker) {
            return Err(UnknownSpeaker {
                speaker: speaker.to_owned(),
                known: participants,
            });
        }
        Ok(Self {
            speaker: speaker.to_owned(),
            telling: PerspectiveStyle {
                participants,
                ..telling
            },
        })
    }

    /// The speaker's name.
    pub fn speaker(&self) -> &str {
        &self.speaker
    }

    /// The kind of conversation.
    pub fn mode(&self) -> Mode {
        self.telling.mode
    }

    /// Returns true if the message has the speaker's name.
    pub fn is_own(&self, message: &Message) -> bool {
        message.speaker.as_deref() == Some(&self.speaker)
    }

    /// The text that is sent to the speaker who opens the conversation.
    pub fn opening(&self) -> &'static str {
        match self.telling.mode {
            Mode::Meditation => SILENCE,
            Mode::Talk | Mode::ChooseNames => BEGIN,
        }
    }

    /// Converts `message` for the speaker; `None` if no part of it is visible.
    pub fn see<'a>(&self, message: &'a Message) -> Option<PerspectiveMessage<'a>> {
        if notes(message).hides_from(&self.speaker, message) {
            return None;
        }
        let (role, parts) = match message.kind {
            Kind::Metadata(_) => return None,
            Kind::System => (Role::System, self.instructions(message)?),
            // A result belongs to the speaker who called the tool, whoever passed it on.
            Kind::ToolResult => (Role::Tool, Cow::Borrowed(message.parts.as_slice())),
            _ if self.is_own(message) => (Role::Assistant, Cow::Borrowed(message.parts.as_slice())),
            _ if self.is_participant(message) => (Role::User, said(message)),
            _ => (Role::User, tagged(said(message), &self.telling.human_tag)),
        };
        (!parts.is_empty()).then_some(PerspectiveMessage { role, parts })
    }

    fn is_participant(&self, message: &Message) -> bool {
        let mut names = self.telling.participants.iter();
        let speaker = message.speaker.as_ref();
        speaker.is_some_and(|speaker| names.any(|name| name == speaker))
    }

    /// Instructions for a named participant are only for that one, unchanged. Others are adapted to each speaker.
    fn instructions<'a>(&self, message: &'a Message) -> Option<Cow<'a, [Part]>> {
        if self.is_participant(message) {
            return self.is_own(message).then_some(Cow::Borrowed(&message.parts));
        }
        let is_first = self.telling.participants.first() == Some(&self.speaker);
        if is_first || self.telling.mode == Mode::ChooseNames || message.text().contains(CHOOSE_NAMES) {
            return Some(Cow::Borrowed(&message.parts));
        }
        let tell = |part: &Part| match part {
            Part::Text(text) => Part::Text(for_the_other(text)),
            part => part.clone(),
        };
        Some(Cow::Owned(message.parts.iter().map(tell).collect()))
    }
}

/// The parts that others hear: no reasoning, calls or results.
fn said(message: &Message) -> Cow<'_, [Part]> {
    let is_heard = |part: &&Part| matches!(part, Part::Text(_) | Part::Attachment { .. });
    if message.parts.iter().all(|part| is_heard(&part)) {
        Cow::Borrowed(&message.parts)
    } else {
        Cow::Owned(message.parts.iter().filter(is_heard).cloned().collect())
    }
}

/// Puts the tag before the first text, unless it is there already, as in old logs.
fn tagged<'a>(mut parts: Cow<'a, [Part]>, tag: &str) -> Cow<'a, [Part]> {
    let is_said = |part: &Part| matches!(part, Part::Text(text) if !text.trim().is_empty());
    let first = parts.iter().position(is_said).filter(|_| !tag.is_empty());
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

/// Removes the tag from the words of a human who stepped in.
pub fn untagged<'a>(text: &'a str, human_tag: &str) -> &'a str {
    text.strip_prefix(human_tag)
        .filter(|_| !human_tag.is_empty())
        .and_then(|rest| rest.strip_prefix(':'))
        .map_or(text, str::trim_start)
}

fn for_the_other(text: &str) -> String {
    FOR_THE_OTHER
        .iter()
        .fold(text.to_owned(), |text, (first, other)| text.replace(first, other))
}

/// Reads the additional fields of the payload; the default if that fails.
fn notes(message: &Message) -> Notes {
    let payload = &message.payload;
    if payload.contains("\"audience\"") || payload.contains("\"is_error\"") {
        serde_json::from_str(payload).unwrap_or_default()
    } else {
        Notes::default()
    }
}

impl Notes {
    /// Returns true if the message is hidden from `speaker`: it is for others, or is a provider's error that was logged as a speaker's
    /// message.
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
