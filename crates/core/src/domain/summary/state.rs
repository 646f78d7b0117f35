//! How things stand: what an update changes of the facts that hold, and the section of the document that shows them.
//!
//! Invariant: a demand is believed only in words of the user's, and only an exchange in which the user spoke closes or
//! replaces one. What a tool, a file or the assistant says can neither add nor end a demand.
//! Invariant: at most [`FACTS_MAX`] facts hold, and no two of one kind say the same.
//!
//! A change that can't be believed is refused alone, with its reason; the others are made.

mod section;
mod words;

#[cfg(test)]
mod tests;

use self::words::Words;
use super::{
    fact::{FACT_CHARS_MAX, FACTS_MAX, Fact, FactChanges, FactClosing, FactDraft, FactKind, FactReplacement},
    line::{clean, unquoted},
};
use crate::domain::{
    text::{cut, one_line},
    transcript::{Line, Transcript, Voice},
};

pub use section::{HEADING, STATE_TOKENS_MAX, section};

/// Whose line is looked at first for a fact's words.
const VOICES: [Voice; 6] = [
    Voice::User,
    Voice::Assistant,
    Voice::Result,
    Voice::FailedResult,
    Voice::Call,
    Voice::Program,
];

/// Why a change of the facts was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactRefusal {
    /// It names a fact that doesn't hold, or never did.
    UnknownFact,
    /// It names an exchange that wasn't asked about.
    UnknownExchange,
    /// Its text says nothing.
    Empty,
    /// A fact of that kind says the same already.
    Duplicate,
    /// A demand that the user didn't make in that exchange, or whose end the user had no part in.
    NotTheUser,
    /// The exchange is older than the fact that it would end.
    Outdated,
    /// An operator pinned the fact.
    Pinned,
    /// Too many facts hold, and none of them may give way.
    Full,
}

impl FactRefusal {
    /// All.
    pub const ALL: [Self; 8] = [
        Self::UnknownFact,
        Self::UnknownExchange,
        Self::Empty,
        Self::Duplicate,
        Self::NotTheUser,
        Self::Outdated,
        Self::Pinned,
        Self::Full,
    ];

    /// The name used in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownFact => "unknown_fact",
            Self::UnknownExchange => "unknown_exchange",
            Self::Empty => "empty",
            Self::Duplicate => "duplicate",
            Self::NotTheUser => "not_the_user",
            Self::Outdated => "outdated",
            Self::Pinned => "pinned",
            Self::Full => "full",
        }
    }
}

/// A fact that holds no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactClosure {
    /// Its number.
    pub fact: i64,
    /// The exchange that ended it; `None` if it was withdrawn.
    pub exchange: Option<i64>,
    /// The place, among the added ones, of the fact that holds instead.
    pub replaced_by: Option<usize>,
}

/// What a version changes of the facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactUpdate {
    /// New ones, without numbers yet.
    pub added: Vec<Fact>,
    /// Those that hold no longer.
    pub closed: Vec<FactClosure>,
    /// Why the other changes were refused.
    pub refused: Vec<FactRefusal>,
}

impl FactUpdate {
    /// Whether no fact changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.closed.is_empty()
    }

    /// The facts that hold after it, of those that held `before`.
    pub fn holding(&self, before: &[Fact]) -> Vec<Fact> {
        let left = before.iter().filter(|fact| !self.closes(fact.fact));
        left.chain(&self.added).cloned().collect()
    }

    fn closes(&self, fact: i64) -> bool {
        self.closed.iter().any(|closure| closure.fact == fact)
    }
}

/// What becomes of `changes`, made one after the other to the facts that held `before`. They are believed as far as the
/// `transcripts` of the exchanges that were asked about bear them out.
pub fn apply(before: &[Fact], changes: &[FactChanges], transcripts: &[Transcript]) -> FactUpdate {
    let mut state = FactsDraft {
        before,
        transcripts,
        update: FactUpdate::default(),
    };
    for changes in changes {
        // What is ended first makes room for what is said anew.
        let replaced = changes.replace.iter().map(|change| state.replace(change).err());
        let replaced: Vec<Option<FactRefusal>> = replaced.collect();
        let closed: Vec<Option<FactRefusal>> = changes
            .close
            .iter()
            .map(|change| state.close(*change).err())
            .collect();
        let added: Vec<Option<FactRefusal>> =
            changes.add.iter().map(|draft| state.add(draft).err()).collect();
        let refused = replaced.into_iter().chain(closed).chain(added).flatten();
        state.update.refused.extend(refused);
    }
    state.update
}

/// The facts while changes are made to them.
struct FactsDraft<'a> {
    before: &'a [Fact],
    transcripts: &'a [Transcript],
    update: FactUpdate,
}

impl FactsDraft<'_> {
    fn add(&mut self, draft: &FactDraft) -> Result<(), FactRefusal> {
        let fact = self.worded(draft)?;
        if self.holding().count() >= FACTS_MAX {
            self.make_room(fact.exchange)?;
        }
        self.update.added.push(fact);
        Ok(())
    }

    fn replace(&mut self, change: &FactReplacement) -> Result<(), FactRefusal> {
        let closing = FactClosing {
            fact: change.fact,
            exchange: change.exchange,
        };
        let draft = FactDraft {
            kind: self.may_close(closing)?.kind,
            text: change.text.clone(),
            exchange: change.exchange,
        };
        let fact = self.worded(&draft)?;
        self.update.closed.push(FactClosure {
            fact: change.fact,
            exchange: Some(change.exchange),
            replaced_by: Some(self.update.added.len()),
        });
        self.update.added.push(fact);
        Ok(())
    }

    fn close(&mut self, closing: FactClosing) -> Result<(), FactRefusal> {
        self.may_close(closing)?;
        self.update.closed.push(FactClosure {
            fact: closing.fact,
            exchange: Some(closing.exchange),
            replaced_by: None,
        });
        Ok(())
    }

    /// The fact that `closing` names, if that may end it.
    fn may_close(&self, closing: FactClosing) -> Result<&Fact, FactRefusal> {
        let found = self.before.iter().find(|fact| fact.fact == closing.fact);
        let fact = found
            .filter(|fact| !self.update.closes(fact.fact))
            .ok_or(FactRefusal::UnknownFact)?;
        let transcript = self.transcript(closing.exchange)?;
        if closing.exchange < fact.exchange {
            return Err(FactRefusal::Outdated);
        }
        if fact.pinned {
            return Err(FactRefusal::Pinned);
        }
        if fact.kind == FactKind::Demand && !has_user(transcript) {
            return Err(FactRefusal::NotTheUser);
        }
        Ok(fact)
    }

    /// Closes the oldest fact that may give way to one of that exchange.
    fn make_room(&mut self, exchange: i64) -> Result<(), FactRefusal> {
        let gives_way = |fact: &&Fact| fact.kind.is_minor() && !fact.pinned && !self.update.closes(fact.fact);
        let oldest = self
            .before
            .iter()
            .filter(gives_way)
            .min_by_key(|fact| (fact.since, fact.fact))
            .ok_or(FactRefusal::Full)?;
        self.update.closed.push(FactClosure {
            fact: oldest.fact,
            exchange: Some(exchange),
            replaced_by: None,
        });
        Ok(())
    }

    /// The draft as a fact, with whose words it has and since when it holds.
    fn worded(&self, draft: &FactDraft) -> Result<Fact, FactRefusal> {
        let transcript = self.transcript(draft.exchange)?;
        let text = one_line(unquoted(draft.text.trim()));
        if !text.contains(char::is_alphanumeric) {
            return Err(FactRefusal::Empty);
        }
        let (text, line) = if draft.kind == FactKind::Demand {
            let (text, line) = demanded(&text, transcript).ok_or(FactRefusal::NotTheUser)?;
            (text, Some(line))
        } else {
            (clean(&text, FACT_CHARS_MAX), said(&text, transcript))
        };
        let fact = Fact {
            fact: 0,
            kind: draft.kind,
            text: cut(&text, FACT_CHARS_MAX),
            voice: line.map(|line| line.voice),
            speaker: line.map(|line| line.label.clone()).unwrap_or_default(),
            since: line.map_or(transcript.started_at, |line| line.at),
            exchange: draft.exchange,
            pinned: false,
        };
        let words = Words::of(&fact.text);
        let is_told = |other: &Fact| other.kind == fact.kind && Words::of(&other.text) == words;
        if self.holding().any(is_told) {
            return Err(FactRefusal::Duplicate);
        }
        Ok(fact)
    }

    fn holding(&self) -> impl Iterator<Item = &Fact> {
        let left = self.before.iter().filter(|fact| !self.update.closes(fact.fact));
        left.chain(&self.update.added)
    }

    fn transcript(&self, exchange: i64) -> Result<&Transcript, FactRefusal> {
        let mut transcripts = self.transcripts.iter();
        transcripts
            .find(|transcript| transcript.exchange == exchange)
            .ok_or(FactRefusal::UnknownExchange)
    }
}

fn has_user(transcript: &Transcript) -> bool {
    transcript.lines.iter().any(|line| line.voice == Voice::User)
}

/// What of `text` the user said, and in which line: all of it, or what it quotes or puts after a colon.
fn demanded<'a>(text: &str, transcript: &'a Transcript) -> Option<(String, &'a Line)> {
    let candidates = [
        Some(text),
        quotation(text),
        text.split_once(": ").map(|(_, said)| said),
    ];
    candidates.into_iter().flatten().find_map(|candidate| {
        let line = said_by(Voice::User, &Words::of(candidate), transcript)?;
        Some((candidate.trim().to_owned(), line))
    })
}

/// The longest text in quotation marks.
fn quotation(text: &str) -> Option<&str> {
    let pairs = [('“', '”'), ('"', '"'), ('„', '“'), ('«', '»'), ('‘', '’')];
    let found = pairs.into_iter().filter_map(|(open, close)| {
        let (_, rest) = text.split_once(open)?;
        rest.rsplit_once(close).map(|(said, _)| said)
    });
    found.max_by_key(|said| said.len())
}

/// The line that has the words of `text`, the user's first.
fn said<'a>(text: &str, transcript: &'a Transcript) -> Option<&'a Line> {
    let words = Words::of(text);
    VOICES
        .into_iter()
        .find_map(|voice| said_by(voice, &words, transcript))
}

fn said_by<'a>(voice: Voice, words: &Words, transcript: &'a Transcript) -> Option<&'a Line> {
    let mut lines = transcript.lines.iter().filter(|line| line.voice == voice);
    lines.find(|line| words.stand_in(&Words::of(&line.text)))
}
