//! Splits documents and lines that have whole conversations: `messages`, `history` (SWE-agent), `traj` (tau-bench), `contents` (Gemini),
//! `input` and `output` (Responses), `simulations` (tau2), arrays of messages, and arrays of all these.

use std::{collections::HashSet, sync::Arc};

use serde_json::value::RawValue;

use super::{
    super::{
        NAME_CHARS_MAX,
        detect::{MessageShape, shape},
        json::{self, Fields},
    },
    FileReader, PendingPiece,
};
use crate::domain::{message::Format, text::cut};

/// Fields with the messages of a conversation.
const MESSAGES_FIELDS: [&str; 4] = ["messages", "history", "traj", "contents"];
/// Fields with the items of a request to OpenAI's Responses API, and of its answer. Other programs have fields of these names, too, so
/// they count only if there are items in them.
const ITEMS_FIELDS: [&str; 2] = ["input", "output"];
/// The field with the instructions of a request to Gemini, in both spellings.
const GEMINI_INSTRUCTIONS: [&str; 2] = ["systemInstruction", "system_instruction"];
/// The field with the conversations of a tau2 document.
const SIMULATIONS_FIELD: &str = "simulations";

/// Returns true for an object with one or several conversations.
pub(super) fn is_container(fields: &Fields<'_>) -> bool {
    fields.list(SIMULATIONS_FIELD).is_some() || messages(fields).is_some()
}

/// Guesses the format of a document's messages from its other fields, if the messages have only roles and texts.
pub(super) fn chat_format(document: &str) -> Format {
    match Fields::parse(document) {
        Ok(fields) if fields.has("system") => Format::Anthropic,
        Ok(fields) if items(&fields).is_some() => Format::OpenAiResponses,
        _ => Format::OpenAiChat,
    }
}

/// Returns the shape of a container's messages: the first certain one or, if there is none, chat if a message has this shape.
pub(super) fn shape_within(container: &Fields<'_>) -> MessageShape {
    if has_text_input(container) {
        return MessageShape::Certain(Format::OpenAiResponses);
    }
    let simulations = container.list(SIMULATIONS_FIELD).unwrap_or_default();
    let nested =
        simulations.into_iter().filter_map(Fields::of).filter_map(|simulation| messages(&simulation));
    let mut best = MessageShape::Unknown;
    for raw in messages(container).into_iter().chain(nested).flatten() {
        match Fields::of(raw).map_or(MessageShape::Unknown, |message| shape(&message)) {
            MessageShape::Certain(format) => return MessageShape::Certain(format),
            MessageShape::Chat => best = MessageShape::Chat,
            MessageShape::Unknown => {}
        }
    }
    best
}

impl FileReader {
    /// Splits a document, or the line with number `line`, into messages. Numbers them from 1, across conversations. Returns a text that
    /// isn't a container as one piece.
    pub(super) fn split(&mut self, text: &str, line: Option<u64>) -> Vec<PendingPiece> {
        let Ok(raw) = serde_json::from_str::<&RawValue>(text) else {
            return Vec::new();
        };
        let mut parts = ContainerParts { stem: &self.stem, names: &mut self.names, pieces: Vec::new() };
        match Fields::of(raw).filter(is_container) {
            Some(container) => parts.add_container(&container, line),
            None => match json::list(raw) {
                Some(elements) => parts.add_elements(&elements),
                None => parts.add(None, raw.get()),
            },
        }
        parts.pieces
    }
}

/// Makes the name `<stem>-<id or number>`. Ids repeat in real data: if another conversation has the name, appends the number.
pub(super) fn conversation_name(
    stem: &str,
    names: &mut HashSet<String>,
    id: Option<String>,
    number: u64,
) -> Arc<str> {
    let id = id.map_or_else(|| number.to_string(), |id| cut(&id, NAME_CHARS_MAX));
    let mut name = format!("{stem}-{id}");
    while !names.insert(name.clone()) {
        name = format!("{name}-{number}");
    }
    name.into()
}

/// Collects the messages of a container.
struct ContainerParts<'n> {
    stem: &'n str,
    names: &'n mut HashSet<String>,
    pieces: Vec<PendingPiece>,
}

impl ContainerParts<'_> {
    /// Adds the elements of a document: messages of one conversation, or whole conversations.
    fn add_elements(&mut self, elements: &[&RawValue]) {
        for (number, raw) in (1..).zip(elements) {
            let fields = Fields::of(raw).filter(|fields| shape(fields) == MessageShape::Unknown);
            if let Some(container) = fields.filter(is_container) {
                self.add_container(&container, Some(number));
            } else if let Some(messages) = json::list(raw) {
                let name = self.name(None, number);
                self.add_messages(Some(&name), &messages);
            } else {
                self.add(None, raw.get());
            }
        }
    }

    /// Adds the conversations of a container. `number` is the container's position among several.
    fn add_container(&mut self, container: &Fields<'_>, number: Option<u64>) {
        for (number, raw) in (1..).zip(container.list(SIMULATIONS_FIELD).unwrap_or_default()) {
            if let Some(simulation) = Fields::of(raw) {
                self.add_conversation(&simulation, Some(number));
            }
        }
        self.add_conversation(container, number);
    }

    fn add_conversation(&mut self, conversation: &Fields<'_>, number: Option<u64>) {
        let Some(messages) = messages(conversation) else {
            return;
        };
        let name = number.map(|number| self.name(conversation.label("id"), number));
        for message in instructions(conversation) {
            self.add(name.clone(), &message);
        }
        self.add_messages(name.as_ref(), &messages);
    }

    fn add_messages(&mut self, conversation: Option<&Arc<str>>, messages: &[&RawValue]) {
        for message in messages {
            self.add(conversation.cloned(), message.get());
        }
    }

    fn add(&mut self, conversation: Option<Arc<str>>, text: &str) {
        self.pieces.push(PendingPiece {
            line: self.pieces.len() as u64 + 1,
            conversation,
            text: Ok(text.to_owned()),
        });
    }

    fn name(&mut self, id: Option<String>, number: u64) -> Arc<str> {
        conversation_name(self.stem, self.names, id, number)
    }
}

fn messages<'a>(fields: &Fields<'a>) -> Option<Vec<&'a RawValue>> {
    let messages = MESSAGES_FIELDS.iter().find_map(|name| fields.list(name));
    messages.or_else(|| items(fields))
}

/// Returns the items of a Responses API request, of its answer, or of both in one object.
fn items<'a>(fields: &Fields<'a>) -> Option<Vec<&'a RawValue>> {
    let lists = ITEMS_FIELDS.iter().filter_map(|name| fields.list(name));
    let items: Vec<&RawValue> = lists.flatten().collect();
    let is_item = |raw: &&RawValue| {
        Fields::of(raw).is_some_and(|item| {
            matches!(shape(&item), MessageShape::Certain(Format::OpenAiResponses) | MessageShape::Chat)
        })
    };
    (has_text_input(fields) || items.iter().any(is_item)).then_some(items)
}

/// Returns true for a Responses API request with a text as input. An entry of a program's log, which also has an `output`, isn't such a
/// request.
fn has_text_input(fields: &Fields<'_>) -> bool {
    let is_request = fields.has("instructions") || fields.has("model");
    let has_more = fields.has("output") || MESSAGES_FIELDS.iter().any(|name| fields.has(name));
    is_request && !has_more && fields.text("input").is_some()
}

/// Returns a request's instructions and its text input as messages, which come before its other messages.
fn instructions(request: &Fields<'_>) -> Vec<String> {
    let mut messages = Vec::new();
    if let Some(system) = request.raw("system") {
        messages.push(format!(r#"{{"role":"system","content":{system}}}"#));
    }
    let gemini = GEMINI_INSTRUCTIONS.iter().find_map(|name| request.raw(name));
    if let Some(instructions) = gemini {
        let parts = match Fields::of(instructions) {
            Some(content) => content.raw("parts").map(|parts| parts.get().to_owned()),
            None => Some(format!(r#"[{{"text":{instructions}}}]"#)),
        };
        let parts = parts.unwrap_or_else(|| "[]".to_owned());
        messages.push(format!(r#"{{"role":"system","parts":{parts}}}"#));
    }
    if items(request).is_some() {
        let texts = [("instructions", "system"), ("input", "user")].into_iter();
        messages.extend(texts.filter_map(|(name, role)| {
            let text = request.raw(name).filter(|_| request.text(name).is_some())?;
            Some(format!(r#"{{"type":"message","role":"{role}","content":{text}}}"#))
        }));
    }
    messages
}
