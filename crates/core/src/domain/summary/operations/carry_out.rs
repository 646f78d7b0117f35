//! Carries out a model's operations that the rules allow.

use std::collections::BTreeSet;

use super::{
    MERGED_MAX, Merge, Operations, Question, SPAN_MAX_MS, Shorten, Wording, is_kept_to_the_last, line_tokens,
};
use crate::domain::summary::{
    item::{ExchangeRange, Importance, Item, Origin},
    section::Section,
};

/// Why an operation is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OperationFault {
    /// It names an item that isn't in the question.
    #[error("an item that was not asked about")]
    Unknown,
    /// Another operation has already changed the item.
    #[error("an item that another operation changes")]
    Repeated,
    /// It merges fewer than two items.
    #[error("a merge of fewer than two items")]
    Alone,
    /// It merges more than [`MERGED_MAX`] items.
    #[error("a merge of too many items")]
    TooMany,
    /// It merges items of different sections.
    #[error("a merge across sections")]
    Sections,
    /// The merged item would span more than [`SPAN_MAX_MS`].
    #[error("a merge of items too far apart")]
    Span,
    /// The document would be no shorter.
    #[error("an operation that saves nothing")]
    Growth,
    /// It drops a decision or a constraint while a less important item is in the document.
    #[error("a decision or a constraint dropped too early")]
    TooEarly,
    /// It changes something although the other operations save enough.
    #[error("an operation that isn't needed")]
    Needless,
}

/// An answer saves too little; recapd composes the document without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operations save {saved_tokens} tokens of at least {needed_tokens}; left out: {}", list(.refused))]
pub struct NoProgress {
    /// Tokens that the operations would have saved.
    pub saved_tokens: i64,
    /// Tokens that they should have saved.
    pub needed_tokens: i64,
    /// Why operations were left out.
    pub refused: Vec<OperationFault>,
}

fn list(faults: &[OperationFault]) -> String {
    let faults: Vec<String> = faults.iter().take(5).map(ToString::to_string).collect();
    faults.join(", ")
}

/// The result of carrying out operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedOut {
    /// Items that stay, and merged or shortened items, which have number 0.
    pub items: Vec<Item>,
    /// Items that leave the document; they still cover their exchanges.
    pub dropped: Vec<Item>,
    /// Numbers of the stored items that merged or shortened items replace.
    pub replaced: Vec<i64>,
    /// How many items were merged.
    pub merged: usize,
    /// How many items were shortened.
    pub condensed: usize,
    /// Tokens by which the document shrank.
    pub saved_tokens: i64,
    /// Why operations were left out.
    pub refused: Vec<OperationFault>,
}

impl Question<'_> {
    /// Carries out the operations that the rules allow, until the document is small enough. Merges come first, then shorter texts, then
    /// drops: the least important and oldest items first.
    ///
    /// # Errors
    /// If the operations save too little. Nothing changes then.
    pub fn carry_out(&self, operations: &Operations) -> Result<CarriedOut, NoProgress> {
        let mut desk = Desk::new(self);
        for merge in &operations.merge {
            let done = desk.merge(merge);
            desk.note_refusal(done);
        }
        for shorten in &operations.shorten {
            let done = desk.shorten(shorten);
            desk.note_refusal(done);
        }
        for label in self.by_rank(&operations.drop) {
            let done = desk.drop(label);
            desk.note_refusal(done);
        }
        let needed_tokens = self.progress_tokens();
        if desk.saved_tokens < needed_tokens {
            return Err(NoProgress {
                saved_tokens: desk.saved_tokens,
                needed_tokens,
                refused: desk.refused,
            });
        }
        Ok(desk.into_result())
    }

    fn item_with_label(&self, label: i64) -> Option<usize> {
        let place = usize::try_from(label).ok()?.checked_sub(1)?;
        self.asked.get(place).copied()
    }

    /// Sorts labels by importance and age, the least important and oldest items first. Unknown labels come last.
    fn by_rank(&self, labels: &[i64]) -> Vec<i64> {
        let mut labels = labels.to_vec();
        labels.sort_by_key(|label| {
            let item = self.item_with_label(*label).map(|index| &self.items[index]);
            (item.is_none(), item.map(|item| item.importance), *label)
        });
        labels
    }
}

struct Desk<'q, 'a> {
    question: &'q Question<'a>,
    /// By item; true if an operation has changed it.
    is_changed: Vec<bool>,
    made: Vec<Item>,
    dropped: Vec<usize>,
    merged: usize,
    condensed: usize,
    saved_tokens: i64,
    refused: Vec<OperationFault>,
}

impl<'q, 'a> Desk<'q, 'a> {
    fn new(question: &'q Question<'a>) -> Self {
        Self {
            question,
            is_changed: vec![false; question.items.len()],
            made: Vec::new(),
            dropped: Vec::new(),
            merged: 0,
            condensed: 0,
            saved_tokens: 0,
            refused: Vec::new(),
        }
    }

    fn note_refusal(&mut self, done: Result<(), OperationFault>) {
        self.refused.extend(done.err());
    }

    /// Returns the indices of the items with these labels, or an error if an operation has already changed one of them.
    fn unchanged(&self, labels: &[i64]) -> Result<Vec<usize>, OperationFault> {
        let labels: BTreeSet<i64> = labels.iter().copied().collect();
        labels
            .into_iter()
            .map(|label| {
                let index = self
                    .question
                    .item_with_label(label)
                    .ok_or(OperationFault::Unknown)?;
                if self.is_changed[index] {
                    return Err(OperationFault::Repeated);
                }
                Ok(index)
            })
            .collect()
    }

    fn merge(&mut self, merge: &Merge) -> Result<(), OperationFault> {
        let parts = self.unchanged(&merge.items)?;
        let [first, _, ..] = parts.as_slice() else {
            return Err(OperationFault::Alone);
        };
        if parts.len() > MERGED_MAX {
            return Err(OperationFault::TooMany);
        }
        self.check_need()?;
        let section = self.section(*first)?;
        if parts.iter().any(|part| self.section(*part) != Ok(section)) {
            return Err(OperationFault::Sections);
        }
        let one = merged_item(
            parts.iter().map(|part| &self.question.items[*part]),
            &merge.wording,
        );
        if one.ended_at.since_ms(one.started_at) > SPAN_MAX_MS {
            return Err(OperationFault::Span);
        }
        self.replace(&parts, one, section)?;
        self.merged += parts.len();
        Ok(())
    }

    fn shorten(&mut self, shorten: &Shorten) -> Result<(), OperationFault> {
        let parts = self.unchanged(&[shorten.item])?;
        let [part] = parts.as_slice() else {
            return Err(OperationFault::Unknown);
        };
        self.check_need()?;
        let one = reworded_item(&self.question.items[*part], &shorten.wording);
        self.replace(&parts, one, self.section(*part)?)?;
        self.condensed += 1;
        Ok(())
    }

    fn drop(&mut self, label: i64) -> Result<(), OperationFault> {
        let parts = self.unchanged(&[label])?;
        let [part] = parts.as_slice() else {
            return Err(OperationFault::Unknown);
        };
        self.check_need()?;
        if is_kept_to_the_last(&self.question.items[*part]) && self.has_less_important() {
            return Err(OperationFault::TooEarly);
        }
        self.is_changed[*part] = true;
        self.dropped.push(*part);
        self.saved_tokens += self.tokens(*part);
        Ok(())
    }

    /// Fails once the operations save enough, so that no further item changes without need.
    fn check_need(&self) -> Result<(), OperationFault> {
        if self.saved_tokens >= self.question.excess_tokens {
            return Err(OperationFault::Needless);
        }
        Ok(())
    }

    fn replace(&mut self, parts: &[usize], one: Item, section: Section) -> Result<(), OperationFault> {
        let before: i64 = parts.iter().map(|part| self.tokens(*part)).sum();
        let saved = before - line_tokens(&one, section, self.question.rules.counter);
        if saved <= 0 {
            return Err(OperationFault::Growth);
        }
        for part in parts {
            self.is_changed[*part] = true;
        }
        self.made.push(one);
        self.saved_tokens += saved;
        Ok(())
    }

    /// Returns true if an item less important than decisions and constraints remains in the document.
    fn has_less_important(&self) -> bool {
        let remaining = (0..self.question.items.len())
            .filter(|index| !self.is_changed[*index] && self.question.states[*index].is_some());
        remaining
            .map(|index| &self.question.items[index])
            .chain(&self.made)
            .any(|item| !is_kept_to_the_last(item))
    }

    fn section(&self, index: usize) -> Result<Section, OperationFault> {
        let state = self.question.states[index].ok_or(OperationFault::Unknown)?;
        Ok(state.section)
    }

    fn tokens(&self, index: usize) -> i64 {
        self.question.states[index].map_or(0, |state| state.tokens)
    }

    /// Returns the items as the operations left them.
    fn into_result(self) -> CarriedOut {
        let items = self.question.items;
        let is_dropped = |index: &usize| self.dropped.contains(index);
        let (changed, unchanged): (Vec<usize>, Vec<usize>) =
            (0..items.len()).partition(|index| self.is_changed[*index]);
        let replaced = changed.into_iter().filter(|index| !is_dropped(index));
        CarriedOut {
            replaced: replaced
                .map(|index| items[index].item)
                .filter(|item| *item != 0)
                .collect(),
            items: unchanged
                .into_iter()
                .map(|index| items[index].clone())
                .chain(self.made)
                .collect(),
            dropped: self.dropped.iter().map(|index| items[*index].clone()).collect(),
            merged: self.merged,
            condensed: self.condensed,
            saved_tokens: self.saved_tokens,
            refused: self.refused,
        }
    }
}

/// Joins the ranges, times and tokens of several items, with the highest importance among them.
fn merged_item<'a>(parts: impl Iterator<Item = &'a Item> + Clone, wording: &Wording) -> Item {
    Item {
        item: 0,
        ranges: union(parts.clone().flat_map(|part| part.ranges.iter().copied())),
        started_at: parts
            .clone()
            .map(|part| part.started_at)
            .min()
            .unwrap_or_default(),
        ended_at: parts.clone().map(|part| part.ended_at).max().unwrap_or_default(),
        source_tokens: parts
            .clone()
            .fold(0, |sum: i64, part| sum.saturating_add(part.source_tokens)),
        importance: parts
            .map(|part| part.importance)
            .max()
            .unwrap_or(Importance::Trivial),
        text: wording.text.clone(),
        brief: wording.brief.clone(),
        gist: wording.gist.clone(),
        origin: Origin::Model,
        pinned: false,
        provisional: false,
    }
}

/// Takes each new text that is shorter than the old one.
fn reworded_item(item: &Item, wording: &Wording) -> Item {
    let shorter = |new: &str, old: &str| {
        let is_shorter = new.len() < old.len() || old.trim().is_empty();
        if is_shorter {
            new.to_owned()
        } else {
            old.to_owned()
        }
    };
    Item {
        item: 0,
        text: shorter(&wording.text, &item.text),
        brief: shorter(&wording.brief, &item.brief),
        gist: shorter(&wording.gist, &item.gist),
        origin: Origin::Model,
        ..item.clone()
    }
}

/// Joins overlapping and adjacent ranges. Returns them sorted.
fn union(ranges: impl Iterator<Item = ExchangeRange>) -> Vec<ExchangeRange> {
    let mut sorted: Vec<ExchangeRange> = ranges.collect();
    sorted.sort_unstable();
    let mut union: Vec<ExchangeRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match union.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => last.last = last.last.max(range.last),
            _ => union.push(range),
        }
    }
    union
}
