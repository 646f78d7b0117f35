//! Compaction by a model: what it is asked about a document that grew too big, and the operations that it may propose
//! (seed 003, "Compression Strategies": merging related items, condensing verbose ones, dropping unimportant ones).
//!
//! A model proposes, [`Question::carry_out`] disposes: every operation is checked, those that break a rule are left out,
//! and an answer that saves too little is refused as a whole.
//!
//! Invariant: whatever is proposed, each exchange is covered as it was before, by items that are in the document or left
//! it; times and totals are joined, never written by a model; decisions and constraints are dropped last.

mod carry_out;

use serde::{Deserialize, Serialize};

pub use carry_out::{CarriedOut, NoProgress, OperationFault};

use super::{
    compaction::{Path, SummaryPolicy},
    item::{Importance, Item, Origin},
    line::{began_at, item_line, item_text},
    section::Section,
};
use crate::domain::{
    time::{DAY_MS, Timestamp},
    tokens::TokenCounter,
};

/// The most items that one question is about.
pub const ITEMS_ASKED_MAX: usize = 200;
/// What replaces items spans at most so long, in milliseconds: joined with newer ones again and again an item would
/// never grow old, and a line about a month would mislead.
pub const SPAN_MAX_MS: i64 = 7 * DAY_MS;
/// Compaction aims at this part of what a document may have without any shortening, in percent: asking for less would
/// mean to ask again after the next update.
const GOAL_PERCENT: i64 = 85;
/// An answer must save this part of what is too much, in percent.
const PROGRESS_PERCENT: i64 = 50;
/// Or this part of the ceiling, in percent, if that is less: in a single answer not everything can be said.
const PROGRESS_CEILING_PERCENT: i64 = 10;

/// The texts that a model writes for an item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wording {
    /// Detailed.
    pub text: String,
    /// Shorter.
    pub brief: String,
    /// Headline.
    pub gist: String,
}

/// Items that become one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// Their labels in the question.
    pub items: Vec<i64>,
    /// What the one says.
    #[serde(flatten)]
    pub wording: Wording,
}

/// An item that says the same in fewer words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shorten {
    /// Its label in the question.
    pub item: i64,
    /// What it says then.
    #[serde(flatten)]
    pub wording: Wording,
}

/// What a model proposes: `{"merge": [{"items": [1, 4], "text": …, "brief": …, "gist": …}], "shorten": [{"item": 2, "text":
/// …, "brief": …, "gist": …}], "drop": [3]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// Related items to join.
    pub merge: Vec<Merge>,
    /// Verbose items to condense.
    pub shorten: Vec<Shorten>,
    /// Labels of items that may leave the document.
    pub drop: Vec<i64>,
}

impl Operations {
    /// Whether nothing is proposed.
    pub fn is_empty(&self) -> bool {
        self.merge.is_empty() && self.shorten.is_empty() && self.drop.is_empty()
    }
}

/// By which rules a question is put and answered.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// Items are as old as they are at this time.
    pub as_of: Timestamp,
    /// How long the document may be, and how it ages.
    pub policy: &'a SummaryPolicy,
    /// Counts the document.
    pub counter: &'a dyn TokenCounter,
    /// Numbers of items that no operation may touch.
    pub fixed: &'a [i64],
    /// The most characters of item lines in the question.
    pub chars_max: usize,
}

/// Where an item stands, and what its line costs there in tokens.
#[derive(Clone, Copy, Debug)]
struct Standing {
    section: Section,
    tokens: i64,
}

/// What a model is asked about a document that grew too big.
pub struct Question<'a> {
    items: &'a [Item],
    rules: Rules<'a>,
    /// Of each item; `None` where it is too old for the document.
    standings: Vec<Option<Standing>>,
    /// Indices of the items asked about: label 1 is the first of them.
    asked: Vec<usize>,
    /// How many tokens are too much.
    excess_tokens: i64,
}

impl<'a> Question<'a> {
    /// The question about `items`, of which a document by `path` is to be composed: about those of its newest section
    /// ([`Path::Merge`]) or all of them ([`Path::Full`]), oldest first. Provisional items will be written anew anyway and
    /// are left out, and so is what an operator pinned or wrote. `None` when there is nothing to ask: the document isn't too big, or there aren't two such items.
    pub fn about(items: &'a [Item], path: Path, rules: Rules<'a>) -> Option<Self> {
        if path == Path::Append {
            return None;
        }
        let standings: Vec<Option<Standing>> = items.iter().map(|item| standing(item, rules)).collect();
        let newest = standings
            .iter()
            .flatten()
            .map(|standing| standing.section)
            .min()?;
        let total: i64 = standings.iter().flatten().map(|standing| standing.tokens).sum();
        let is_asked = |index: &usize| {
            let item = &items[*index];
            standings[*index].is_some_and(|standing| path == Path::Full || standing.section == newest)
                && !item.provisional
                && !Self::is_by_hand(item)
                && (item.item == 0 || !rules.fixed.contains(&item.item))
        };
        let mut asked: Vec<usize> = (0..items.len()).filter(is_asked).collect();
        asked.sort_by_key(|index| (items[*index].ended_at, items[*index].started_at, *index));
        let mut question = Self {
            items,
            rules,
            standings,
            asked,
            excess_tokens: total - rules.policy.append_tokens() * GOAL_PERCENT / 100,
        };
        question.asked.truncate(question.fitting());
        (question.excess_tokens > 0 && question.asked.len() > 1).then_some(question)
    }

    /// How many tokens the document has too much.
    pub fn excess_tokens(&self) -> i64 {
        self.excess_tokens
    }

    /// The items as a model reads them, one line each, beneath their section's name: `3. decision, 2026-01-05: text`.
    pub fn lines(&self) -> Vec<String> {
        let mut by_section: Vec<(Section, usize, usize)> = (1..)
            .zip(&self.asked)
            .filter_map(|(label, index)| Some((self.standings[*index]?.section, label, *index)))
            .collect();
        by_section.sort_by_key(|(section, label, _)| (*section, *label));
        let mut lines = Vec::new();
        for of_section in by_section.chunk_by(|one, next| one.0 == next.0) {
            lines.extend(
                of_section
                    .first()
                    .map(|(section, ..)| format!("{}:", section.heading())),
            );
            lines.extend(of_section.iter().map(|(section, label, index)| {
                let item = &self.items[*index];
                let day = began_at(item).format("%F");
                let text = item_text(item, section.default_form());
                format!("{label}. {}, {day}: {text}", item.importance.name())
            }));
        }
        lines
    }

    /// How many of the items asked about fit into a question.
    fn fitting(&self) -> usize {
        let chars = self.asked.iter().scan(0, |sum: &mut usize, index| {
            let form = self.standings[*index]?.section.default_form();
            *sum += item_text(&self.items[*index], form).chars().count();
            Some(*sum)
        });
        let within = chars.take_while(|chars| *chars <= self.rules.chars_max);
        within.take(ITEMS_ASKED_MAX).count()
    }

    /// No model changes it.
    fn is_by_hand(item: &Item) -> bool {
        item.pinned || item.origin == Origin::Edited
    }

    /// The least that an answer must save, in tokens.
    fn progress_tokens(&self) -> i64 {
        let of_ceiling = self.rules.policy.ceiling() * PROGRESS_CEILING_PERCENT / 100;
        (self.excess_tokens * PROGRESS_PERCENT / 100)
            .min(of_ceiling)
            .max(1)
    }
}

fn standing(item: &Item, rules: Rules<'_>) -> Option<Standing> {
    let section = rules.policy.ageing.section_of(item, rules.as_of)?;
    Some(Standing {
        section,
        tokens: line_tokens(item, section, rules.counter),
    })
}

/// Tokens of an item's line in its section.
fn line_tokens(item: &Item, section: Section, counter: &dyn TokenCounter) -> i64 {
    counter.count(&item_line(item, section, section.default_form()))
}

/// Whether an item is kept to the last.
fn is_kept_to_the_last(item: &Item) -> bool {
    item.importance >= Importance::Constraint
}

#[cfg(test)]
mod tests;
