//! How things stand: applies an update's changes to the facts, and writes the section of the document that shows them.
//!
//! Invariant: recapd accepts a demand only in the user's own words. Only an exchange in which the user spoke can close or replace a
//! demand. So the words of a tool, a file or the assistant can neither add nor end one.
//!
//! Invariant: at most [`FACTS_MAX`] facts hold, and no two of one kind have the same words.
//!
//! An invalid change is refused, with its reason; the other changes are made.

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

/// The order of the voices whose lines are searched for a fact's words.
const VOICES: [Voice; 6] =
    [Voice::User, Voice::Assistant, Voice::Result, Voice::FailedResult, Voice::Call, Voice::Program];

/// Why a change of the facts was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactRefusal {
    /// It names a fact that doesn't hold.
    UnknownFact,
    /// It names an exchange that wasn't in the question.
    UnknownExchange,
    /// The text has no letters or digits.
    Empty,
    /// A fact of that kind already says the same.
    Duplicate,
    /// The user didn't make this demand in that exchange, or didn't speak in the exchange that would end it.
    NotTheUser,
    /// The exchange is older than the fact that it would end.
    Outdated,
    /// An operator pinned the fact.
    Pinned,
    /// Too many facts hold, and none of them may be replaced by this one.
    Full,
}

impl FactRefusal {
    /// All refusals, in the order of the enum.
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

    /// Returns the name used in logs and metrics.
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

/// A fact that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactClosure {
    /// Number of the fact.
    pub fact: i64,
    /// The exchange that ended it; `None` if it was withdrawn or an operator ended it.
    pub exchange: Option<i64>,
    /// The index in [`FactUpdate::added`] of the fact that replaces it.
    pub replaced_by: Option<usize>,
}

/// The changes of the facts between two versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactUpdate {
    /// New facts, without numbers yet.
    pub added: Vec<Fact>,
    /// Facts that no longer hold.
    pub closed: Vec<FactClosure>,
    /// Why other changes were refused.
    pub refused: Vec<FactRefusal>,
}

impl FactUpdate {
    /// Returns true if no fact changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.closed.is_empty()
    }

    /// Returns the facts that hold after the update. `previous` are those that held before it.
    pub fn holding(&self, previous: &[Fact]) -> Vec<Fact> {
        let remaining = previous.iter().filter(|fact| !self.closes(fact.fact));
        remaining.chain(&self.added).cloned().collect()
    }

    fn closes(&self, fact: i64) -> bool {
        self.closed.iter().any(|closure| closure.fact == fact)
    }
}

/// Applies `changes` in order to the facts `previous`. Accepts a change only if `transcripts`, the exchanges of the question, support it.
pub fn apply(previous: &[Fact], changes: &[FactChanges], transcripts: &[Transcript]) -> FactUpdate {
    let mut state = FactsDraft { previous, transcripts, update: FactUpdate::default() };
    for changes in changes {
        // Ended facts make room for new ones, so they come first.
        let replaced = changes.replace.iter().map(|change| state.replace(change).err());
        let replaced: Vec<Option<FactRefusal>> = replaced.collect();
        let closed: Vec<Option<FactRefusal>> =
            changes.close.iter().map(|change| state.close(*change).err()).collect();
        let added: Vec<Option<FactRefusal>> =
            changes.add.iter().map(|draft| state.add(draft).err()).collect();
        let refused = replaced.into_iter().chain(closed).chain(added).flatten();
        state.update.refused.extend(refused);
    }
    state.update
}

struct FactsDraft<'a> {
    previous: &'a [Fact],
    transcripts: &'a [Transcript],
    update: FactUpdate,
}

impl FactsDraft<'_> {
    fn add(&mut self, draft: &FactDraft) -> Result<(), FactRefusal> {
        let fact = self.fact_from_draft(draft)?;
        if self.holding().count() >= FACTS_MAX {
            self.make_room(fact.exchange)?;
        }
        self.update.added.push(fact);
        Ok(())
    }

    fn replace(&mut self, change: &FactReplacement) -> Result<(), FactRefusal> {
        let closing = FactClosing { fact: change.fact, exchange: change.exchange };
        let draft = FactDraft {
            kind: self.check_closing(closing)?.kind,
            text: change.text.clone(),
            exchange: change.exchange,
        };
        let fact = self.fact_from_draft(&draft)?;
        self.update.closed.push(FactClosure {
            fact: change.fact,
            exchange: Some(change.exchange),
            replaced_by: Some(self.update.added.len()),
        });
        self.update.added.push(fact);
        Ok(())
    }

    fn close(&mut self, closing: FactClosing) -> Result<(), FactRefusal> {
        self.check_closing(closing)?;
        self.update.closed.push(FactClosure {
            fact: closing.fact,
            exchange: Some(closing.exchange),
            replaced_by: None,
        });
        Ok(())
    }

    /// Returns the fact that `closing` names, if it may end.
    fn check_closing(&self, closing: FactClosing) -> Result<&Fact, FactRefusal> {
        let found = self.previous.iter().find(|fact| fact.fact == closing.fact);
        let fact = found.filter(|fact| !self.update.closes(fact.fact)).ok_or(FactRefusal::UnknownFact)?;
        let transcript = self.transcript(closing.exchange)?;
        if closing.exchange < fact.exchange {
            return Err(FactRefusal::Outdated);
        }
        if fact.pinned {
            return Err(FactRefusal::Pinned);
        }
        if fact.kind == FactKind::Demand && !does_user_speak(transcript) {
            return Err(FactRefusal::NotTheUser);
        }
        Ok(fact)
    }

    /// Closes the oldest minor fact to make room for one of `exchange`.
    fn make_room(&mut self, exchange: i64) -> Result<(), FactRefusal> {
        let may_close = |fact: &&Fact| fact.kind.is_minor() && !fact.pinned && !self.update.closes(fact.fact);
        let oldest = self
            .previous
            .iter()
            .filter(may_close)
            .min_by_key(|fact| (fact.since, fact.fact))
            .ok_or(FactRefusal::Full)?;
        self.update.closed.push(FactClosure {
            fact: oldest.fact,
            exchange: Some(exchange),
            replaced_by: None,
        });
        Ok(())
    }

    /// Makes a fact from `draft` and adds the voice, the speaker and the time.
    fn fact_from_draft(&self, draft: &FactDraft) -> Result<Fact, FactRefusal> {
        let transcript = self.transcript(draft.exchange)?;
        let text = one_line(unquoted(draft.text.trim()));
        if !text.contains(char::is_alphanumeric) {
            return Err(FactRefusal::Empty);
        }
        let (text, line) = if draft.kind == FactKind::Demand {
            let (text, line) = find_demand(&text, transcript).ok_or(FactRefusal::NotTheUser)?;
            (text, Some(line))
        } else {
            (clean(&text, FACT_CHARS_MAX), find_line(&text, transcript))
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
        let says_the_same = |other: &Fact| other.kind == fact.kind && Words::of(&other.text) == words;
        if self.holding().any(says_the_same) {
            return Err(FactRefusal::Duplicate);
        }
        Ok(fact)
    }

    fn holding(&self) -> impl Iterator<Item = &Fact> {
        let remaining = self.previous.iter().filter(|fact| !self.update.closes(fact.fact));
        remaining.chain(&self.update.added)
    }

    fn transcript(&self, exchange: i64) -> Result<&Transcript, FactRefusal> {
        let mut transcripts = self.transcripts.iter();
        transcripts.find(|transcript| transcript.exchange == exchange).ok_or(FactRefusal::UnknownExchange)
    }
}

fn does_user_speak(transcript: &Transcript) -> bool {
    transcript.lines.iter().any(|line| line.voice == Voice::User)
}

/// Returns the part of `text` that is in the user's own words, with the user's line. Tries all of `text`, then a quotation in it, then
/// the part after a colon.
fn find_demand<'a>(text: &str, transcript: &'a Transcript) -> Option<(String, &'a Line)> {
    let candidates = [Some(text), quotation(text), text.split_once(": ").map(|(_, rest)| rest)];
    candidates.into_iter().flatten().find_map(|candidate| {
        let line = find_line_of(Voice::User, &Words::of(candidate), transcript)?;
        Some((candidate.trim().to_owned(), line))
    })
}

fn quotation(text: &str) -> Option<&str> {
    let pairs = [('“', '”'), ('"', '"'), ('„', '“'), ('«', '»'), ('‘', '’')];
    let found = pairs.into_iter().filter_map(|(open, close)| {
        let (_, rest) = text.split_once(open)?;
        rest.rsplit_once(close).map(|(inside, _)| inside)
    });
    found.max_by_key(|inside| inside.len())
}

/// Returns the line that contains the words of `text`. Searches the user's lines first.
fn find_line<'a>(text: &str, transcript: &'a Transcript) -> Option<&'a Line> {
    let words = Words::of(text);
    VOICES.into_iter().find_map(|voice| find_line_of(voice, &words, transcript))
}

fn find_line_of<'a>(voice: Voice, words: &Words, transcript: &'a Transcript) -> Option<&'a Line> {
    let mut lines = transcript.lines.iter().filter(|line| line.voice == voice);
    lines.find(|line| words.occur_in(&Words::of(&line.text)))
}
