//! What a search looks for, and where.

use std::{collections::BTreeSet, ops::RangeInclusive};

use super::{
    Query, QuestionEmbedding, Term,
    index::{IndexedMessage, seconds, tool_stem},
};
use crate::domain::{message::Kind, time::Timestamp};

/// Who said a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model; its tool calls, too.
    Assistant,
    /// Results of tools.
    Tool,
    /// Instructions.
    System,
}

impl Role {
    /// All roles, by their codes in the index.
    const ALL: [Self; 4] = [Self::User, Self::Assistant, Self::Tool, Self::System];

    /// The name in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }

    /// Reads [`Self::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Whose words messages of this kind are; metadata counts as instructions, and has no words.
    pub(super) fn of(kind: &Kind) -> Self {
        match kind {
            Kind::User => Self::User,
            Kind::Assistant | Kind::ToolCall => Self::Assistant,
            Kind::ToolResult => Self::Tool,
            Kind::System | Kind::Metadata(_) => Self::System,
        }
    }

    pub(super) fn code(self) -> u8 {
        Self::ALL
            .iter()
            .zip(0..)
            .find_map(|(role, code)| (*role == self).then_some(code))
            .unwrap_or(0)
    }

    pub(super) fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::System)
    }
}

/// The order of what a search finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Best matches first.
    #[default]
    Best,
    /// Newest exchanges first.
    Recent,
}

impl Order {
    /// Reads `best` or `recent`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "best" => Some(Self::Best),
            "recent" => Some(Self::Recent),
            _ => None,
        }
    }
}

/// A span of time, from its first moment to before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// Its first moment.
    pub since: Timestamp,
    /// The first moment after it.
    pub until: Timestamp,
}

impl TimeSpan {
    pub(super) fn contains(self, message: &IndexedMessage) -> bool {
        (seconds(self.since)..seconds(self.until)).contains(&message.said_at)
    }
}

/// The messages that a search looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only exchanges that call this tool.
    pub tool: Option<String>,
    /// Only messages said at this time or later.
    pub since: Option<Timestamp>,
    /// Only messages said before this time.
    pub until: Option<Timestamp>,
    /// Only exchanges of this session.
    pub session: Option<i64>,
}

impl Filter {
    pub(super) fn admits(&self, message: &IndexedMessage) -> bool {
        self.role.is_none_or(|role| role == message.role)
            && self.since.is_none_or(|since| message.said_at >= seconds(since))
            && self.until.is_none_or(|until| message.said_at < seconds(until))
    }
}

/// A search of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSearch {
    /// The words to look for.
    pub query: Query,
    /// Where to look.
    pub filter: Filter,
    /// What was said in this span counts more: the time that the question names.
    pub preferred: Option<TimeSpan>,
    /// The order of what is found.
    pub order: Order,
    /// The most exchanges.
    pub limit: usize,
    /// The question, as an embedding model reads it; `None` without one.
    pub meaning: Option<QuestionEmbedding>,
}

impl ArchiveSearch {
    /// Looks everywhere for the best matches.
    pub fn new(query: Query, limit: usize) -> Self {
        Self {
            query,
            filter: Filter::default(),
            preferred: None,
            order: Order::default(),
            limit,
            meaning: None,
        }
    }

    /// The stems whose postings are needed.
    pub fn stems(&self) -> BTreeSet<String> {
        let terms = self.query.terms().iter().flat_map(Term::stems).cloned();
        terms.chain(self.filter.tool.as_deref().map(tool_stem)).collect()
    }

    /// True if a second list can add to the first: to the best matches of words, in exchanges with any tools. Phrases alone ask for what
    /// was said to the letter.
    pub fn takes_second_list(&self) -> bool {
        let is_open = self.query.terms().iter().any(|term| !term.is_phrase());
        is_open && self.order == Order::Best && self.filter.tool.is_none()
    }

    /// The question's embedding, if there is one and a second list can add to the first.
    pub fn second_list(&self) -> Option<&QuestionEmbedding> {
        self.meaning.as_ref().filter(|_| self.takes_second_list())
    }

    /// True if it has no terms, so that all messages that the filter admits are found.
    pub fn takes_all(&self) -> bool {
        self.query.terms().is_empty()
    }

    /// True if a search without terms finds the message: of the span that the question names, nothing else.
    pub(super) fn lists(&self, message: &IndexedMessage) -> bool {
        let is_preferred = self.preferred.is_none_or(|span| span.contains(message));
        message.words > 0 && is_preferred && self.filter.admits(message)
    }
}

/// The exchanges of a session.
pub type SessionRange = RangeInclusive<i64>;
