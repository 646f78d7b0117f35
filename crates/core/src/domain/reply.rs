//! Reads the answers of a model: their schema, and the checks that an answer must pass before recapd uses it.
//!
//! Invariant: whatever the text, the checked items cover only exchanges of the question, each at most once, in order. The exchanges that
//! no item covers are listed.
//!
//! recapd uses every answer whose meaning is clear, whatever its form, since a second question costs as much as the first. The checks
//! don't decide whether a text is true. They make sure that there is a text, that it can't do harm in a summary, and that a demand which
//! it attributes to the user is in the user's words.

mod clean;
mod coverage;
mod draft;
mod facts;
mod json;
mod operations;
mod schema;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use coverage::{ITEM_EXCHANGES_MAX, RangeFault, runs};
pub use operations::{OPERATIONS, parse_operations};
pub use schema::{ITEMS, Schema};

use super::{
    demand::UserWords,
    redaction::Redactor,
    summary::{
        fact::FactChanges,
        item::{GIST_CHARS_MAX, ItemDraft, LONG_BRIEF_CHARS_MAX, LONG_TEXT_CHARS_MAX},
        point::points,
    },
    text::cut_at_sentence,
};

/// Reads answers of up to this many bytes: some 60,000 tokens, six times what a summary may have.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// A model's answer: `{"items": [{"exchanges": {"first": 3, "last": 5}, "text": …, "brief": …, "gist": …, "importance": "fact"}],
/// "facts": {"add": […], "replace": […], "close": […]}}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The items, oldest first.
    pub items: Vec<ItemDraft>,
    /// The changes of the facts.
    #[serde(default, skip_serializing_if = "FactChanges::is_empty")]
    pub facts: FactChanges,
}

/// An answer that passed the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedReply {
    /// Items with clean texts, oldest first. Their ranges are disjoint, and begin and end with exchanges of the question. [`runs`]
    /// returns the exchanges of the question within a range.
    pub drafts: Vec<ItemDraft>,
    /// The exchanges of the question that no item covers, ascending.
    pub missing: Vec<i64>,
    /// The changes of the facts. Each comes from an exchange of the question.
    pub facts: FactChanges,
}

impl From<CheckedReply> for Answer {
    fn from(checked: CheckedReply) -> Self {
        Self { items: checked.drafts, facts: checked.facts }
    }
}

impl CheckedReply {
    /// Adds the answer to a second question, about the exchanges that are missing here. Ignores the parts of `more` about other exchanges.
    #[must_use]
    pub fn completed_by(mut self, more: Self) -> Self {
        for draft in more.drafts {
            // One range may span exchanges that this answer covers.
            for exchanges in runs(draft.exchanges, &self.missing) {
                self.drafts.push(ItemDraft { exchanges, ..draft.clone() });
            }
        }
        self.drafts.sort_by_key(|draft| draft.exchanges);
        self.facts.add.extend(more.facts.add);
        self.facts.replace.extend(more.facts.replace);
        self.facts.close.extend(more.facts.close);
        self.missing = more.missing;
        self
    }
}

/// The items with their final ranges, and the exchanges that none of them covers.
struct CoveredExchanges {
    drafts: Vec<ItemDraft>,
    missing: Vec<i64>,
}

/// Why an answer can't be used. Each error calls for another next step. The messages contain nothing of the answer but numbers, so they
/// may be logged and shown to the model ([`super::prompt::Prompt::again`]).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The answer isn't the JSON that was asked for: ask once more and say so.
    #[error("the answer is not the JSON that was asked for: {0}")]
    Unreadable(String),
    /// All items are about the wrong exchanges: ask once more and say which.
    #[error("the answer assigns an item to the wrong exchanges: {0}")]
    Misattributed(#[from] RangeFault),
    /// The texts say nothing: the model isn't up to the task, so digests serve better than another question.
    #[error("the answer says nothing: {0}")]
    Worthless(String),
}

impl ReplyError {
    /// Returns the name used in metrics and in the table of runs: `bad_output`.
    pub fn class(&self) -> &'static str {
        "bad_output"
    }

    /// Returns true if the same model may do better when it is asked once more with this error.
    pub fn is_worth_asking_again(&self) -> bool {
        !matches!(self, Self::Worthless(_))
    }
}

/// Like [`parse_with_words`], if the user's words are unknown: no text becomes a demand of the user.
///
/// # Errors
/// The same as those of [`parse_with_words`].
pub fn parse(text: &str, exchanges: &[i64], redactor: &Redactor) -> Result<CheckedReply, ReplyError> {
    parse_with_words(text, exchanges, &UserWords::none(), redactor)
}

/// Reads and checks a model's answer about `exchanges`, which ascend and may have gaps. `user_words` are the user's words in them. Accepts
/// the JSON object in a code fence or within prose, and the items alone. `redactor` redacts secrets. Leaves out an item that is unreadable
/// or says nothing, so that one bad item doesn't spoil the others.
///
/// # Errors
/// If no item remains.
pub fn parse_with_words(
    text: &str,
    exchanges: &[i64],
    user_words: &UserWords,
    redactor: &Redactor,
) -> Result<CheckedReply, ReplyError> {
    let parts = json::parts(text)?;
    let checks = Checks { user_words, redactor };
    // If no item can be used, the error is about the first one.
    let mut fault = ReplyError::Worthless("there are no items".to_owned());
    let mut drafts = Vec::with_capacity(parts.items.len());
    for (item, number) in parts.items.iter().zip(1..) {
        match checks.item(item, number) {
            Ok(draft) => drafts.push(draft),
            Err(item_fault) if number == 1 => fault = item_fault,
            Err(_) => {}
        }
    }
    if drafts.is_empty() {
        return Err(fault);
    }
    let CoveredExchanges { drafts, missing } = coverage::clip_and_sort(drafts, exchanges)?;
    Ok(CheckedReply { drafts, missing, facts: facts::changes(parts.facts.as_ref(), exchanges, &checks) })
}

struct Checks<'a> {
    user_words: &'a UserWords,
    redactor: &'a Redactor,
}

impl Checks<'_> {
    /// Reads item `number` (from 1) and cleans its three texts. Makes a missing or empty text from the longest one.
    fn item(&self, item: &Value, number: usize) -> Result<ItemDraft, ReplyError> {
        let draft = draft::draft(item).ok_or_else(|| {
            ReplyError::Unreadable(format!("item {number} names no exchanges or has no text"))
        })?;
        let clean = |text: &str, chars_max| self.clean_text(text, chars_max);
        let text = clean(&draft.text, LONG_TEXT_CHARS_MAX).or_else(|fault| {
            let shorter = [&draft.brief, &draft.gist].into_iter();
            let mut clean = shorter.filter_map(|text| clean(text, LONG_TEXT_CHARS_MAX).ok());
            let nothing = || ReplyError::Worthless(format!("`text` of item {number} {fault}"));
            clean.next().ok_or_else(nothing)
        })?;
        let brief = clean(&draft.brief, LONG_BRIEF_CHARS_MAX)
            .unwrap_or_else(|_| self.shorten(&text, LONG_BRIEF_CHARS_MAX));
        let gist = clean(first_point(&draft.gist), GIST_CHARS_MAX);
        let gist = gist.unwrap_or_else(|_| self.shorten(first_point(&brief), GIST_CHARS_MAX));
        Ok(ItemDraft { text, brief, gist, ..draft })
    }

    /// Shortens a clean text to the whole points and sentences that fit. Cleans it again, since the cut may have opened a quotation.
    fn shorten(&self, text: &str, chars_max: usize) -> String {
        let short = points(text, chars_max, cut_at_sentence).join("\n");
        self.clean_text(&short, chars_max).unwrap_or(short)
    }

    /// Cleans a text for a summary, or returns what is wrong with it.
    fn clean_text(&self, text: &str, chars_max: usize) -> Result<String, &'static str> {
        // Redacts before it cuts: half a secret isn't recognised.
        let redacted = self.redactor.redact(text);
        let clean = |line: &str, chars_max| clean::clean(line, chars_max, self.user_words);
        let clean = points(&redacted, chars_max, clean).join("\n");
        if !clean.contains(char::is_alphanumeric) {
            Err("is empty")
        } else if clean::is_echo(&clean) {
            Err("repeats the instructions")
        } else {
            Ok(clean)
        }
    }
}

fn first_point(text: &str) -> &str {
    let mut lines = text.lines();
    lines.find(|line| !line.trim().is_empty()).unwrap_or_default()
}
