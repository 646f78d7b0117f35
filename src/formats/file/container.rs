//! Documents and lines that hold whole conversations: `messages`, `history` (SWE-agent), `traj` (tau-bench),
//! `simulations` (tau2), arrays of messages, and arrays of all these.

use std::{collections::HashSet, sync::Arc};

use serde_json::value::RawValue;

use super::{
    super::{
        NAME_CHARS_MAX,
        detect::{Shape, shape},
        json::{self, Fields},
    },
    FileReader, Pending,
};
use crate::domain::text::cut;

/// Fields that hold the messages of one conversation.
const MESSAGES_FIELDS: [&str; 3] = ["messages", "history", "traj"];
/// The field that holds several conversations.
const SIMULATIONS_FIELD: &str = "simulations";

/// Whether an object holds conversations.
pub(super) fn is_container(fields: &Fields<'_>) -> bool {
    fields.list(SIMULATIONS_FIELD).is_some() || messages(fields).is_some()
}

/// The most telling shape of the messages in an object that holds conversations.
pub(super) fn shape_within(container: &Fields<'_>) -> Shape {
    let simulations = container.list(SIMULATIONS_FIELD).unwrap_or_default();
    let nested = simulations
        .into_iter()
        .filter_map(Fields::of)
        .filter_map(|simulation| messages(&simulation));
    let mut seen = Shape::Unknown;
    for raw in messages(container).into_iter().chain(nested).flatten() {
        match Fields::of(raw).map_or(Shape::Unknown, |message| shape(&message)) {
            Shape::Certain(format) => return Shape::Certain(format),
            Shape::Chat => seen = Shape::Chat,
            Shape::Unknown => {}
        }
    }
    seen
}

impl FileReader {
    /// The messages in a document, or in a line (with its number) that holds conversations. They are numbered from
    /// 1, across conversations. What is none of both comes back as one piece.
    pub(super) fn take_apart(&mut self, text: &str, line: Option<u64>) -> Vec<Pending> {
        let Ok(raw) = serde_json::from_str::<&RawValue>(text) else {
            return Vec::new();
        };
        let mut parts = Parts {
            stem: &self.stem,
            names: &mut self.names,
            pieces: Vec::new(),
        };
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

struct Parts<'n> {
    stem: &'n str,
    names: &'n mut HashSet<String>,
    pieces: Vec<Pending>,
}

impl Parts<'_> {
    /// Elements of a document: messages of one conversation, or conversations.
    fn add_elements(&mut self, elements: &[&RawValue]) {
        for (number, raw) in (1..).zip(elements) {
            let fields = Fields::of(raw).filter(|fields| shape(fields) == Shape::Unknown);
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

    /// One object that holds conversations; `number` is its place among several.
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
        // A request to Anthropic has its instructions beside the messages.
        if let Some(system) = conversation.raw("system") {
            self.add(
                name.clone(),
                &format!(r#"{{"role":"system","content":{system}}}"#),
            );
        }
        self.add_messages(name.as_ref(), &messages);
    }

    fn add_messages(&mut self, conversation: Option<&Arc<str>>, messages: &[&RawValue]) {
        for message in messages {
            self.add(conversation.cloned(), message.get());
        }
    }

    fn add(&mut self, conversation: Option<Arc<str>>, text: &str) {
        self.pieces.push(Pending {
            line: self.pieces.len() as u64 + 1,
            conversation,
            text: Ok(text.to_owned()),
        });
    }

    /// `<stem>-<id or number>`; a name that is taken gets the number too, since ids repeat in real data.
    fn name(&mut self, id: Option<String>, number: u64) -> Arc<str> {
        let id = id.map_or_else(|| number.to_string(), |id| cut(&id, NAME_CHARS_MAX));
        let mut name = format!("{}-{id}", self.stem);
        while !self.names.insert(name.clone()) {
            name = format!("{name}-{number}");
        }
        name.into()
    }
}

fn messages<'a>(fields: &Fields<'a>) -> Option<Vec<&'a RawValue>> {
    MESSAGES_FIELDS.iter().find_map(|name| fields.list(name))
}
