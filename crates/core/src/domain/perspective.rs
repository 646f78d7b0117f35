//! Perspective: one shared conversation as one of its speakers sees it (seed 002, "Message Transformation").
//!
//! The speaker's own words become the assistant's, the others' words the user's; instructions are worded for that
//! speaker. A speaker sees no other's tool calls, nor their results; no one sees metadata. [`Perspective::see`] decides
//! that for one message at a time; pairs, alternation and budget are left to the context ([`super::context`]), which
//! first leaves out whole exchanges by their original boundaries, and then applies the perspective.
//!
//! There is one summary for all speakers: through it a speaker may learn what was meant only for another.

mod preset;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::preset::{PIDGIN_LIMITS, ProviderLimit, limit_of};
use super::{
    context::Role,
    message::{Kind, Message, Part},
};

/// The tag before the words of those who aren't participants, unless another one is configured.
pub const HUMAN_TAG: &str = "[HUMAN]";
/// What is sent to a speaker who opens the conversation.
pub const BEGIN: &str = "[Begin]";
/// The text of a silent partner's turn.
pub const SILENCE: &str = "…";
/// Names under which people step in: they don't count as speakers, unless they are named as participants.
pub const HUMANS: [&str; 5] = ["human", "researcher", "user", "external", "mediator"];
/// The speaker's name of instructions that are for all.
const SYSTEM: &str = "system";
/// The most participants of a conversation.
pub const PARTICIPANTS_MAX: usize = 64;
/// Instructions with this text are the same for every speaker.
const CHOOSE_NAMES: &str = "Please choose a short name";
/// Instructions are written for the first speaker; for the other these words are swapped.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ConversationMode))]
pub enum Mode {
    /// Speakers with names that were given to them.
    #[default]
    Talk,
    /// They choose their names: instructions are the same for all.
    ChooseNames,
    /// The partner is silent: between what the speaker says stands [`SILENCE`].
    Meditation,
}

/// How a shared conversation is told to its speakers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerspectiveStyle {
    /// The participants, in the order in which they were introduced: instructions are written for the first. Anyone
    /// else is a human who steps in. If it is empty, the speakers are those found in the messages ([`speakers`]).
    pub participants: Vec<String>,
    /// The tag before the words of a human who steps in; empty for none.
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

/// The speaker whose perspective it is, and how the conversation is shown to that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perspective {
    speaker: String,
    telling: PerspectiveStyle,
}

/// No participant has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("speaker `{speaker}` is unknown; {}", known_speakers(.known))]
pub struct UnknownSpeaker {
    /// The name that was asked for.
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
    /// Its role. Results are always [`Role::Tool`]; whether they are shown depends on who called the tool.
    pub role: Role,
    /// The content that the speaker sees; never empty.
    pub parts: Cow<'a, [Part]>,
}

/// What a payload may say about a message beside its content.
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

/// The names in a list such as `agent_a, agent_b`, each once.
pub fn names(list: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if names.len() < PARTICIPANTS_MAX && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The speakers in `messages`, and those that instructions are addressed to, in order; at most [`PARTICIPANTS_MAX`],
/// without humans who step in.
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

/// The speaker, unless that is a human who steps in, or the name for instructions.
pub fn named_speaker(speaker: Option<&str>) -> Option<&str> {
    speaker.filter(|&name| name != SYSTEM && !HUMANS.contains(&name))
}

impl Perspective {
    /// The perspective of `speaker` on a conversation with the speakers `heard`, unless `telling` names the
    /// participants.
    ///
    /// # Errors
    /// [`UnknownSpeaker`] when `speaker` doesn't take part.
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

    /// Whether the speaker said `message`, or is named as the one who passed it on.
    pub fn is_own(&self, message: &Message) -> bool {
        message.speaker.as_deref() == Some(&self.speaker)
    }

    /// What is sent to the speaker who opens the conversation.
    pub fn opening(&self) -> &'static str {
        match self.telling.mode {
            Mode::Meditation => SILENCE,
            Mode::Talk | Mode::ChooseNames => BEGIN,
        }
    }

    /// `message` as the speaker sees it; `None` if nothing of it is visible to the speaker.
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

    /// Instructions that name a participant are for that one, unchanged; others are worded for each speaker.
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

/// The parts of a message that others hear: no reasoning, no calls, no results.
fn said(message: &Message) -> Cow<'_, [Part]> {
    let is_heard = |part: &&Part| matches!(part, Part::Text(_) | Part::Attachment { .. });
    if message.parts.iter().all(|part| is_heard(&part)) {
        Cow::Borrowed(&message.parts)
    } else {
        Cow::Owned(message.parts.iter().filter(is_heard).cloned().collect())
    }
}

/// The parts with the tag before the first text, but only once: old logs have it in the text.
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

/// The words of a human who stepped in, without the tag that was put before them when they were shown.
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

/// What the payload says beside the content; nothing if it can't be read that way.
fn notes(message: &Message) -> Notes {
    let payload = &message.payload;
    if payload.contains("\"audience\"") || payload.contains("\"is_error\"") {
        serde_json::from_str(payload).unwrap_or_default()
    } else {
        Notes::default()
    }
}

impl Notes {
    /// Whether a message is hidden from `speaker`: it isn't meant for that one, or is a provider's error that was
    /// logged as if a speaker had said it.
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
