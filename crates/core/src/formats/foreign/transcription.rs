//! The result of reading a file of another program: its conversations, and how many parts were left out, by name.

use std::collections::{BTreeMap, HashSet};

use super::{super::NAME_CHARS_MAX, turn::TurnWriter};
use crate::domain::text::cut;

/// Counts this many names of parts one by one, and all other parts together.
const NAMES_MAX: usize = 32;
/// The name under which all other parts are counted.
const OTHERS: &str = "others";

/// A conversation's messages, in formats that recapd stores.
#[derive(Default)]
pub(in super::super) struct ForeignConversation {
    /// The conversation's name, in a file of several conversations.
    pub(in super::super) name: Option<String>,
    pub(in super::super) messages: Vec<String>,
}

pub(in super::super) struct Transcription {
    pub(in super::super) program: &'static str,
    pub(in super::super) conversations: Vec<ForeignConversation>,
    /// How many parts weren't read, by name.
    pub(in super::super) left_out: BTreeMap<String, u64>,
    /// The ids of the open conversation's turns.
    ids: HashSet<String>,
}

impl Transcription {
    pub(super) fn new(program: &'static str) -> Self {
        Self { program, conversations: Vec::new(), left_out: BTreeMap::new(), ids: HashSet::new() }
    }

    /// Begins another conversation.
    pub(super) fn begin(&mut self, name: Option<String>) {
        self.ids.clear();
        self.conversations.push(ForeignConversation { name, messages: Vec::new() });
    }

    /// Counts a part that isn't read.
    pub(super) fn leave_out(&mut self, name: &str) {
        let name = cut(name, NAME_CHARS_MAX);
        let is_counted = self.left_out.len() < NAMES_MAX || self.left_out.contains_key(&name);
        let name = if is_counted { name } else { OTHERS.to_owned() };
        *self.left_out.entry(name).or_default() += 1;
    }

    /// Adds the messages of a turn. If another turn of the conversation has the same id, leaves the id out, so that recapd doesn't take
    /// the turn for a repetition.
    pub(super) fn push(&mut self, mut turn: TurnWriter) {
        self.begin_first();
        turn.id = turn.id.filter(|id| self.ids.insert(id.clone()));
        let messages = turn.finish();
        if messages.is_empty() {
            self.leave_out("message without content");
        }
        for message in messages {
            self.push_message(message);
        }
    }

    pub(super) fn push_message(&mut self, message: String) {
        self.begin_first();
        if let Some(open) = self.conversations.last_mut() {
            open.messages.push(message);
        }
    }

    /// Begins a conversation, unless one has begun.
    fn begin_first(&mut self) {
        if self.conversations.is_empty() {
            self.begin(None);
        }
    }
}
