//! A search: its query, and the filter of the messages that it searches.

use std::{collections::BTreeSet, ops::RangeInclusive};

use super::{
    Query, QuestionEmbedding, Term,
    index::{IndexedMessage, seconds, tool_stem},
};
use crate::domain::{message::Kind, time::Timestamp};

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model, tool calls included.
    Assistant,
    /// Results of tools.
    Tool,
    /// Instructions.
    System,
}

impl Role {
    /// All roles. Their positions are their codes in the index.
    const ALL: [Self; 4] = [Self::User, Self::Assistant, Self::Tool, Self::System];

    /// Returns the name used in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }

    /// Parses a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Returns who writes messages of this kind. Metadata counts as instructions; it has no searchable text.
    pub(super) fn of(kind: &Kind) -> Self {
        match kind {
            Kind::User => Self::User,
            Kind::Assistant | Kind::ToolCall => Self::Assistant,
            Kind::ToolResult => Self::Tool,
            Kind::System | Kind::Metadata(_) => Self::System,
        }
    }

    pub(super) fn code(self) -> u8 {
        Self::ALL.iter().zip(0..).find_map(|(role, code)| (*role == self).then_some(code)).unwrap_or(0)
    }

    pub(super) fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::System)
    }
}

/// The order of the results of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Best matches first.
    #[default]
    Best,
    /// Newest exchanges first.
    Recent,
}

impl Order {
    /// Parses `best` or `recent`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "best" => Some(Self::Best),
            "recent" => Some(Self::Recent),
            _ => None,
        }
    }
}

/// A span of time: `since` belongs to it, `until` doesn't.
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

/// The messages that a search considers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only exchanges that call this tool.
    pub tool: Option<String>,
    /// Only messages of this time or later.
    pub since: Option<Timestamp>,
    /// Only messages before this time.
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
    /// The messages to consider.
    pub filter: Filter,
    /// The span of time that the question names. Messages of this span count more.
    pub preferred: Option<TimeSpan>,
    /// The order of the results.
    pub order: Order,
    /// Returns at most this many exchanges.
    pub limit: usize,
    /// The question's embedding; `None` without an embedding model.
    pub meaning: Option<QuestionEmbedding>,
}

impl ArchiveSearch {
    /// Makes a search of the whole archive for the best matches.
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

    /// Returns the stems whose postings the search needs.
    pub fn stems(&self) -> BTreeSet<String> {
        let terms = self.query.terms().iter().flat_map(Term::stems).cloned();
        terms.chain(self.filter.tool.as_deref().map(tool_stem)).collect()
    }

    /// Returns true if a semantic search may add results: if the search asks for the best matches, with any tool. A query of phrases
    /// alone asks for words to the letter, so nothing may be added.
    pub fn may_search_by_meaning(&self) -> bool {
        let is_open = self.query.terms().iter().any(|term| !term.is_phrase());
        is_open && self.order == Order::Best && self.filter.tool.is_none()
    }

    /// Returns the question's embedding if a semantic search may add results.
    pub fn question_embedding(&self) -> Option<&QuestionEmbedding> {
        self.meaning.as_ref().filter(|_| self.may_search_by_meaning())
    }

    /// Returns true if the search has no terms. It then finds all messages that its filter admits.
    pub fn has_no_terms(&self) -> bool {
        self.query.terms().is_empty()
    }

    /// Returns true if a search without terms finds the message. If the question names a span of time, it finds only messages of that
    /// span.
    pub(super) fn matches_without_terms(&self, message: &IndexedMessage) -> bool {
        let is_preferred = self.preferred.is_none_or(|span| span.contains(message));
        message.words > 0 && is_preferred && self.filter.admits(message)
    }
}

/// The exchanges of a session.
pub type SessionRange = RangeInclusive<i64>;
