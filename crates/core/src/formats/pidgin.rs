//! Reads Pidgin's events: conversations between two agents, one event per line. Older files have the event's fields in `data`.
//!
//! Neither agent is the assistant. An exchange is a pair of messages: agent A's are read as the user's, and agent B's as the assistant's;
//! `speaker` names the agent. Events of requests are ignored, since they repeat the whole history.

use super::{
    FormatError,
    content::{parts, text_part},
    json::Fields,
    message, unknown_kind,
};
use crate::domain::{
    message::{Format, Kind, Message, Metadata, Part},
    perspective::HUMANS,
};

/// The event with a message of an agent or a person.
const COMPLETE: &str = "MessageCompleteEvent";
/// The event with an agent's system prompt.
const SYSTEM_PROMPT: &str = "SystemPromptEvent";
/// The event after a message of each agent.
const TURN_COMPLETE: &str = "TurnCompleteEvent";
/// The event with what an agent thought.
const THINKING: &str = "ThinkingCompleteEvent";
/// The event that begins a conversation, and may have its first words.
const START: &str = "ConversationStartEvent";
/// The names of events end like this.
const EVENT: &str = "Event";
/// The agent whose messages are read as the user's.
const FIRST_AGENT: &str = "agent_a";
/// The speaker of messages by people.
const HUMAN: &str = "human";
/// Stands before a person's words in the text that an agent sees.
const HUMAN_MARK: &str = "[HUMAN]: ";
/// A text that reports a provider's error begins like this, in lower case.
const API_ERROR_MARK: &str = "[api error";

/// What an event contributes to its message.
struct EventText {
    kind: Kind,
    speaker: Option<String>,
    parts: Vec<Part>,
}

pub(super) fn read(event: &Fields<'_>) -> Result<Message, FormatError> {
    let name = event.text("event_type").ok_or_else(|| {
        FormatError::new(
            "event has no `event_type`",
            "give lines as Pidgin writes them, or specify the format of the messages",
        )
    })?;
    let data = event.object("data");
    let text = read_event(&name, data.as_ref().unwrap_or(event))?;
    Ok(Message { speaker: text.speaker, ..message(Format::Pidgin, event, text.kind, text.parts) })
}

pub(super) fn is_event(event: &Fields<'_>) -> bool {
    event.text("event_type").is_some_and(|name| name.ends_with(EVENT))
        && ["conversation_id", "experiment_id", "data"].iter().any(|name| event.has(name))
}

/// Returns true if an event begins a conversation. The event may have the person's first words, but precedes the agents' system
/// prompts, which recapd stores first.
pub(super) fn opens(event: &Fields<'_>) -> bool {
    event.text("event_type").is_some_and(|name| name == START)
}

pub(super) fn is_system_prompt(event: &Fields<'_>) -> bool {
    event.text("event_type").is_some_and(|name| name == SYSTEM_PROMPT)
}

/// Returns the id of the event's conversation.
pub(super) fn conversation(event: &Fields<'_>) -> Option<String> {
    let data = event.object("data");
    let id_in_data = data.and_then(|data| data.text("conversation_id"));
    event.text("conversation_id").or(id_in_data)
}

fn read_event(name: &str, event: &Fields<'_>) -> Result<EventText, FormatError> {
    if let Some(message) = event.object("message") {
        return Ok(read_message(event, &message));
    }
    let text = |field: &str| event.text(field).and_then(text_part).into_iter().collect();
    Ok(match name {
        COMPLETE => {
            return Err(FormatError::new(
                format!("`message` of this {name} is no object"),
                "give the message with its `content` and `agent_id`",
            ));
        }
        SYSTEM_PROMPT => {
            EventText { kind: Kind::System, speaker: event.text("agent_id"), parts: text("prompt") }
        }
        START if event.text("initial_prompt").is_some() => {
            EventText { kind: Kind::User, speaker: Some(HUMAN.to_owned()), parts: text("initial_prompt") }
        }
        TURN_COMPLETE => EventText::metadata(Kind::Metadata(Metadata::TurnEnd)),
        THINKING => EventText {
            speaker: event.text("agent_id"),
            parts: event
                .text("thinking_content")
                .map(|text| Part::Thinking(text.into()))
                .into_iter()
                .collect(),
            ..EventText::metadata(unknown_kind(name))
        },
        _ => EventText::metadata(unknown_kind(name)),
    })
}

impl EventText {
    fn metadata(kind: Kind) -> Self {
        Self { kind, speaker: None, parts: Vec::new() }
    }
}

/// Reads a message of an agent or a person. The speaker is the agent that the message names, not its role, since each agent has the role
/// `assistant` in its own view.
fn read_message(event: &Fields<'_>, message: &Fields<'_>) -> EventText {
    let role = message.text("role").unwrap_or_default();
    let speaker = message.text("agent_id").or_else(|| event.text("agent_id"));
    let parts = parts(message.raw("content"));
    let name = speaker.as_deref().unwrap_or(role.as_str());
    if role == "system" || name == "system" {
        let kind = Kind::System;
        return EventText { kind, speaker, parts };
    }
    if HUMANS.contains(&name) {
        return EventText {
            kind: Kind::User,
            speaker: Some(HUMAN.to_owned()),
            parts: parts.into_iter().map(without_human_mark).collect(),
        };
    }
    let kind = match name {
        _ if is_api_error(&parts) => unknown_kind(Metadata::API_ERROR),
        FIRST_AGENT => Kind::User,
        _ => Kind::Assistant,
    };
    EventText { kind, speaker, parts }
}

fn without_human_mark(part: Part) -> Part {
    match part {
        Part::Text(text) => Part::Text(text.strip_prefix(HUMAN_MARK).unwrap_or(&text).to_owned()),
        other => other,
    }
}

fn is_api_error(parts: &[Part]) -> bool {
    matches!(parts, [Part::Text(text)] if text
        .chars()
        .take(API_ERROR_MARK.len())
        .flat_map(char::to_lowercase)
        .eq(API_ERROR_MARK.chars()))
}
