//! Compaction by a model: the question about a document that grew too big, and the operations that the model may
//! propose (seed 003, "Compression Strategies": merging related items, condensing verbose ones, dropping unimportant
//! ones).
//!
//! A model only proposes: [`Question::carry_out`] checks every operation and leaves out those that break a rule; an
//! answer that saves too little is refused as a whole.
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
    demand::UserWords,
    time::{DAY_MS, Timestamp},
    tokens::TokenCounter,
};

/// The most items that one question is about.
pub const ITEMS_ASKED_MAX: usize = 200;
/// The longest span of a merged item, in milliseconds: joined with newer ones again and again, an item would never grow
/// old, and a line about a month would mislead.
pub const SPAN_MAX_MS: i64 = 7 * DAY_MS;
/// The most items that one merge joins: related ones are a handful, and one line can't say what more of them said.
pub const MERGED_MAX: usize = 10;
/// Compaction aims at this part of the size at which no shortening is needed, in percent: with less to spare a model
/// would have to be asked again after the next update.
const GOAL_PERCENT: i64 = 85;
/// The part of the excess that an answer must save, in percent.
const PROGRESS_PERCENT: i64 = 50;
/// Or this part of the ceiling, in percent, if that is less: one answer can't propose everything.
const PROGRESS_CEILING_PERCENT: i64 = 10;

/// The texts that a model writes for an item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wording {
    /// The detailed text.
    pub text: String,
    /// The shorter text.
    pub brief: String,
    /// The headline.
    pub gist: String,
}

/// Items to be joined into one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// Their labels in the question.
    pub items: Vec<i64>,
    /// The joined item's texts.
    #[serde(flatten)]
    pub wording: Wording,
}

/// An item to be worded more briefly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shorten {
    /// Its label in the question.
    pub item: i64,
    /// Its new texts.
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
    /// Labels of items to be dropped from the document.
    pub drop: Vec<i64>,
}

impl Operations {
    /// Whether nothing is proposed.
    pub fn is_empty(&self) -> bool {
        self.merge.is_empty() && self.shorten.is_empty() && self.drop.is_empty()
    }
}

/// The rules by which the question is made and the answer is carried out.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The time by which items are aged.
    pub as_of: Timestamp,
    /// How long the document may be, and how it ages.
    pub policy: &'a SummaryPolicy,
    /// Counts the document, and what a model is to read.
    pub counter: &'a dyn TokenCounter,
    /// Numbers of items that no operation may touch.
    pub fixed: &'a [i64],
    /// The most tokens of item lines in the question.
    pub tokens_max: i64,
}

/// An item's section, and the tokens of its line there.
#[derive(Clone, Copy, Debug)]
struct ItemState {
    section: Section,
    tokens: i64,
}

/// The question to a model about a document that grew too big.
pub struct Question<'a> {
    items: &'a [Item],
    rules: Rules<'a>,
    /// The standing of each item; `None` if it is too old for the document.
    standings: Vec<Option<ItemState>>,
    /// Indices of the items asked about: label 1 is the first of them.
    asked: Vec<usize>,
    /// By how many tokens the document is too big.
    excess_tokens: i64,
}

impl<'a> Question<'a> {
    /// The question about `items`, of which a document by `path` is to be composed: about those of its newest section
    /// ([`Path::Merge`]) or all of them ([`Path::Full`]), oldest first. Left out are provisional items, which will be
    /// written anew anyway, and items that an operator pinned or wrote. `None` if the document isn't too big, or there
    /// are fewer than two such items.
    pub fn about(items: &'a [Item], path: Path, rules: Rules<'a>) -> Option<Self> {
        if path == Path::Append {
            return None;
        }
        let standings: Vec<Option<ItemState>> = items.iter().map(|item| standing(item, rules)).collect();
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

    /// What the items asked about say the user demanded.
    pub fn demands(&self) -> UserWords {
        let items = self.asked.iter().filter_map(|index| self.items.get(*index));
        UserWords::marked_in(items.flat_map(|item| [item.text.as_str(), &item.brief, &item.gist]))
    }

    /// By how many tokens the document is too big.
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
            lines.extend(
                of_section
                    .iter()
                    .map(|(section, label, index)| self.line(*label, *index, *section)),
            );
        }
        lines
    }

    /// An item as a model reads it.
    fn line(&self, label: usize, index: usize, section: Section) -> String {
        let item = &self.items[index];
        let day = began_at(item).format("%F");
        let text = item_text(item, section.default_form());
        format!("{label}. {}, {day}: {text}", item.importance.name())
    }

    /// How many of the items asked about fit into a question.
    fn fitting(&self) -> usize {
        let tokens = (1..).zip(&self.asked).scan(0, |sum: &mut i64, (label, index)| {
            let section = self.standings[*index]?.section;
            *sum += self.rules.counter.count(&self.line(label, *index, section));
            Some(*sum)
        });
        let within = tokens.take_while(|tokens| *tokens <= self.rules.tokens_max);
        within.take(ITEMS_ASKED_MAX).count()
    }

    /// Whether an operator wrote or pinned it, so that no model changes it.
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

fn standing(item: &Item, rules: Rules<'_>) -> Option<ItemState> {
    let section = rules.policy.ageing.section_of(item, rules.as_of)?;
    Some(ItemState {
        section,
        tokens: line_tokens(item, section, rules.counter),
    })
}

/// Tokens of an item's line in its section.
fn line_tokens(item: &Item, section: Section, counter: &dyn TokenCounter) -> i64 {
    counter.count(&item_line(item, section.default_form()))
}

/// Whether an item is dropped last: a decision or a constraint.
fn is_kept_to_the_last(item: &Item) -> bool {
    item.importance >= Importance::Constraint
}

#[cfg(test)]
mod tests;
