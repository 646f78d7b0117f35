//! Compaction by a model: asks about a document that has grown too big, and carries out the operations that the model proposes: merging
//! related items, condensing verbose items, dropping unimportant items (seed 003, "Compression Strategies").
//!
//! A model only proposes. [`Question::carry_out`] checks each operation and leaves out operations that break a rule. It refuses the whole
//! answer if the remaining operations save too little.
//!
//! Invariant: every covered exchange stays covered, by items that are in the document or have left it. recapd joins times and totals; no
//! model writes them. Decisions and constraints are dropped last.

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

/// Limits a question to this many items.
pub const ITEMS_ASKED_MAX: usize = 200;
/// Limits the span of a merged item, in milliseconds. Otherwise an item that is merged again and again would never age.
pub const SPAN_MAX_MS: i64 = 7 * DAY_MS;
/// Limits a merge to this many items: related items are few, and one line has no room for what more items say.
pub const MERGED_MAX: usize = 10;
/// Compaction aims at this part of the append threshold, in percent, so that the next update doesn't need another question at once.
const GOAL_PERCENT: i64 = 85;
/// An answer must save this part of the excess, in percent, or [`PROGRESS_CEILING_PERCENT`] if that is less.
const PROGRESS_PERCENT: i64 = 50;
/// An answer needn't save more than this part of the ceiling, in percent, since it can't propose everything.
const PROGRESS_CEILING_PERCENT: i64 = 10;

/// The texts of an item, by a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wording {
    /// The detailed text.
    pub text: String,
    /// The shorter text.
    pub brief: String,
    /// The headline.
    pub gist: String,
}

/// A proposal to merge items into one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// The labels of the items in the question, from 1.
    pub items: Vec<i64>,
    /// The texts of the merged item.
    #[serde(flatten)]
    pub wording: Wording,
}

/// A proposal to shorten an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shorten {
    /// The label of the item in the question, from 1.
    pub item: i64,
    /// The new texts.
    #[serde(flatten)]
    pub wording: Wording,
}

/// The proposals of a model: `{"merge": [{"items": [1, 4], "text": …, "brief": …, "gist": …}], "shorten": [{"item": 2, "text": …,
/// "brief": …, "gist": …}], "drop": [3]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// Related items to merge.
    pub merge: Vec<Merge>,
    /// Verbose items to condense.
    pub shorten: Vec<Shorten>,
    /// Labels of the items to drop from the document.
    pub drop: Vec<i64>,
}

impl Operations {
    /// Returns true if the model proposes nothing.
    pub fn is_empty(&self) -> bool {
        self.merge.is_empty() && self.shorten.is_empty() && self.drop.is_empty()
    }
}

/// The rules for asking and for carrying out the answer.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The time for which the items' ages are computed.
    pub as_of: Timestamp,
    /// The limits of the document, and how it ages.
    pub policy: &'a SummaryPolicy,
    /// Counts the document and the question.
    pub counter: &'a dyn TokenCounter,
    /// The numbers of items that no operation may change.
    pub fixed: &'a [i64],
    /// Limits the items' lines in the question to this many tokens.
    pub tokens_max: i64,
}

/// An item's section, and the tokens of its line in that section.
#[derive(Clone, Copy, Debug)]
struct ItemState {
    section: Section,
    tokens: i64,
}

/// The question to a model about a document that has grown too big.
pub struct Question<'a> {
    items: &'a [Item],
    rules: Rules<'a>,
    /// The state of each item; `None` if the item is too old for the document.
    states: Vec<Option<ItemState>>,
    /// Indices of the items in the question. The first has label 1.
    item_indices: Vec<usize>,
    /// By how many tokens the document is too big.
    excess_tokens: i64,
}

impl<'a> Question<'a> {
    /// Makes the question about the items of the newest section ([`Path::Merge`]) or of all sections ([`Path::Full`]), oldest first.
    /// Leaves out provisional items and items that an operator pinned or wrote. Returns `None` if the document isn't too big or if fewer
    /// than two items remain.
    pub fn about(items: &'a [Item], path: Path, rules: Rules<'a>) -> Option<Self> {
        if path == Path::Append {
            return None;
        }
        let states: Vec<Option<ItemState>> = items.iter().map(|item| state_of(item, rules)).collect();
        let newest = states.iter().flatten().map(|state| state.section).min()?;
        let total: i64 = states.iter().flatten().map(|state| state.tokens).sum();
        let is_asked = |index: &usize| {
            let item = &items[*index];
            states[*index].is_some_and(|state| path == Path::Full || state.section == newest)
                && !item.provisional
                && !Self::is_from_operator(item)
                && (item.item == 0 || !rules.fixed.contains(&item.item))
        };
        let mut item_indices: Vec<usize> = (0..items.len()).filter(is_asked).collect();
        item_indices.sort_by_key(|index| (items[*index].ended_at, items[*index].started_at, *index));
        let mut question = Self {
            items,
            rules,
            states,
            item_indices,
            excess_tokens: total - rules.policy.append_tokens() * GOAL_PERCENT / 100,
        };
        question.item_indices.truncate(question.count_fitting());
        (question.excess_tokens > 0 && question.item_indices.len() > 1).then_some(question)
    }

    /// Returns the user's demands in the items of the question.
    pub fn demands(&self) -> UserWords {
        let items = self.item_indices.iter().filter_map(|index| self.items.get(*index));
        UserWords::from_marked_lines(items.flat_map(|item| [item.text.as_str(), &item.brief, &item.gist]))
    }

    /// Returns by how many tokens the document is too big.
    pub fn excess_tokens(&self) -> i64 {
        self.excess_tokens
    }

    /// Writes the items, one per line, below the names of their sections: `3. decision, 2026-01-05: text`.
    pub fn lines(&self) -> Vec<String> {
        let mut by_section: Vec<(Section, usize, usize)> = (1..)
            .zip(&self.item_indices)
            .filter_map(|(label, index)| Some((self.states[*index]?.section, label, *index)))
            .collect();
        by_section.sort_by_key(|(section, label, _)| (*section, *label));
        let mut lines = Vec::new();
        for section_items in by_section.chunk_by(|one, next| one.0 == next.0) {
            lines.extend(section_items.first().map(|(section, ..)| format!("{}:", section.heading())));
            lines.extend(
                section_items.iter().map(|(section, label, index)| self.line(*label, *index, *section)),
            );
        }
        lines
    }

    fn line(&self, label: usize, index: usize, section: Section) -> String {
        let item = &self.items[index];
        let day = began_at(item).format("%F");
        let text = item_text(item, section.default_form());
        format!("{label}. {}, {day}: {text}", item.importance.name())
    }

    /// Returns how many of the items the question has room for.
    fn count_fitting(&self) -> usize {
        let tokens = (1..).zip(&self.item_indices).scan(0, |sum: &mut i64, (label, index)| {
            let section = self.states[*index]?.section;
            *sum += self.rules.counter.count(&self.line(label, *index, section));
            Some(*sum)
        });
        let fitting = tokens.take_while(|tokens| *tokens <= self.rules.tokens_max);
        fitting.take(ITEMS_ASKED_MAX).count()
    }

    /// Returns true if an operator wrote or pinned the item, so that no model may change it.
    fn is_from_operator(item: &Item) -> bool {
        item.pinned || item.origin == Origin::Edited
    }

    /// Returns how many tokens an answer must save.
    fn progress_tokens(&self) -> i64 {
        let ceiling_share = self.rules.policy.ceiling() * PROGRESS_CEILING_PERCENT / 100;
        (self.excess_tokens * PROGRESS_PERCENT / 100).min(ceiling_share).max(1)
    }
}

/// Returns the state of an item; `None` if the item is too old for the document.
fn state_of(item: &Item, rules: Rules<'_>) -> Option<ItemState> {
    let section = rules.policy.ageing.section_of(item, rules.as_of)?;
    Some(ItemState { section, tokens: line_tokens(item, section, rules.counter) })
}

fn line_tokens(item: &Item, section: Section, counter: &dyn TokenCounter) -> i64 {
    counter.count(&item_line(item, section.default_form()))
}

/// Returns true for decisions and constraints, which are dropped last.
fn is_kept_to_the_last(item: &Item) -> bool {
    item.importance >= Importance::Constraint
}

#[cfg(test)]
mod tests;
