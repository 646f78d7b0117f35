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
    /// The operation names an item that isn't in the question.
    #[error("an item that was not asked about")]
    Unknown,
    /// Another operation has already changed the item.
    #[error("an item that another operation changes")]
    Repeated,
    /// The operation merges fewer than two items.
    #[error("a merge of fewer than two items")]
    Alone,
    /// The operation merges more than [`MERGED_MAX`] items.
    #[error("a merge of too many items")]
    TooMany,
    /// The operation merges items of different sections.
    #[error("a merge across sections")]
    Sections,
    /// The merged item would span more than [`SPAN_MAX_MS`].
    #[error("a merge of items too far apart")]
    Span,
    /// The operation wouldn't make the document shorter.
    #[error("an operation that saves nothing")]
    Growth,
    /// The operation drops a decision or a constraint while a less important item is in the document.
    #[error("a decision or a constraint dropped too early")]
    TooEarly,
    /// The operations before this one save enough.
    #[error("an operation that isn't needed")]
    Needless,
}

/// An answer saves too little; recapd composes the document without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operations save {saved_tokens} tokens, but must save at least {needed_tokens}; left out: {}", list(.refused))]
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
        let mut state = CarryOutState::new(self);
        for merge in &operations.merge {
            let result = state.merge(merge);
            state.note_fault(result);
        }
        for shorten in &operations.shorten {
            let result = state.shorten(shorten);
            state.note_fault(result);
        }
        for label in self.by_rank(&operations.drop) {
            let result = state.drop(label);
            state.note_fault(result);
        }
        let needed_tokens = self.progress_tokens();
        if state.saved_tokens < needed_tokens {
            return Err(NoProgress {
                saved_tokens: state.saved_tokens,
                needed_tokens,
                refused: state.refused,
            });
        }
        Ok(state.into_result())
    }

    /// Returns the index of the item with this label.
    fn item_with_label(&self, label: i64) -> Option<usize> {
        let index = usize::try_from(label).ok()?.checked_sub(1)?;
        self.item_indices.get(index).copied()
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

/// What the operations so far have changed.
struct CarryOutState<'q, 'a> {
    question: &'q Question<'a>,
    /// For each item, whether an operation has changed it.
    is_changed: Vec<bool>,
    /// Merged and shortened items.
    new_items: Vec<Item>,
    /// The indices of dropped items.
    dropped: Vec<usize>,
    merged: usize,
    condensed: usize,
    saved_tokens: i64,
    refused: Vec<OperationFault>,
}

impl<'q, 'a> CarryOutState<'q, 'a> {
    fn new(question: &'q Question<'a>) -> Self {
        Self {
            question,
            is_changed: vec![false; question.items.len()],
            new_items: Vec::new(),
            dropped: Vec::new(),
            merged: 0,
            condensed: 0,
            saved_tokens: 0,
            refused: Vec::new(),
        }
    }

    fn note_fault(&mut self, result: Result<(), OperationFault>) {
        self.refused.extend(result.err());
    }

    /// Returns the indices of the items with these labels. Fails if an operation has already changed one of them.
    fn unchanged(&self, labels: &[i64]) -> Result<Vec<usize>, OperationFault> {
        let labels: BTreeSet<i64> = labels.iter().copied().collect();
        labels
            .into_iter()
            .map(|label| {
                let index = self.question.item_with_label(label).ok_or(OperationFault::Unknown)?;
                if self.is_changed[index] {
                    return Err(OperationFault::Repeated);
                }
                Ok(index)
            })
            .collect()
    }

    fn merge(&mut self, merge: &Merge) -> Result<(), OperationFault> {
        let indices = self.unchanged(&merge.items)?;
        let [first, _, ..] = indices.as_slice() else {
            return Err(OperationFault::Alone);
        };
        if indices.len() > MERGED_MAX {
            return Err(OperationFault::TooMany);
        }
        self.check_need()?;
        let section = self.section(*first)?;
        if indices.iter().any(|index| self.section(*index) != Ok(section)) {
            return Err(OperationFault::Sections);
        }
        let item = merged_item(indices.iter().map(|index| &self.question.items[*index]), &merge.wording);
        if item.ended_at.since_ms(item.started_at) > SPAN_MAX_MS {
            return Err(OperationFault::Span);
        }
        self.replace(&indices, item, section)?;
        self.merged += indices.len();
        Ok(())
    }

    fn shorten(&mut self, shorten: &Shorten) -> Result<(), OperationFault> {
        let indices = self.unchanged(&[shorten.item])?;
        let [index] = indices.as_slice() else {
            return Err(OperationFault::Unknown);
        };
        self.check_need()?;
        let item = reworded_item(&self.question.items[*index], &shorten.wording);
        self.replace(&indices, item, self.section(*index)?)?;
        self.condensed += 1;
        Ok(())
    }

    fn drop(&mut self, label: i64) -> Result<(), OperationFault> {
        let indices = self.unchanged(&[label])?;
        let [index] = indices.as_slice() else {
            return Err(OperationFault::Unknown);
        };
        self.check_need()?;
        if is_kept_to_the_last(&self.question.items[*index]) && self.has_less_important() {
            return Err(OperationFault::TooEarly);
        }
        self.is_changed[*index] = true;
        self.dropped.push(*index);
        self.saved_tokens += self.tokens(*index);
        Ok(())
    }

    /// Fails once the operations save enough, so that no further item changes without need.
    fn check_need(&self) -> Result<(), OperationFault> {
        if self.saved_tokens >= self.question.excess_tokens {
            return Err(OperationFault::Needless);
        }
        Ok(())
    }

    /// Replaces the items at `indices` with `item`, if that saves tokens.
    fn replace(&mut self, indices: &[usize], item: Item, section: Section) -> Result<(), OperationFault> {
        let old_tokens: i64 = indices.iter().map(|index| self.tokens(*index)).sum();
        let saved_tokens = old_tokens - line_tokens(&item, section, self.question.rules.counter);
        if saved_tokens <= 0 {
            return Err(OperationFault::Growth);
        }
        for index in indices {
            self.is_changed[*index] = true;
        }
        self.new_items.push(item);
        self.saved_tokens += saved_tokens;
        Ok(())
    }

    /// Returns true if an item less important than decisions and constraints remains in the document.
    fn has_less_important(&self) -> bool {
        let remaining = (0..self.question.items.len())
            .filter(|index| !self.is_changed[*index] && self.question.states[*index].is_some());
        remaining
            .map(|index| &self.question.items[index])
            .chain(&self.new_items)
            .any(|item| !is_kept_to_the_last(item))
    }

    /// Returns the section of the item at `index`.
    fn section(&self, index: usize) -> Result<Section, OperationFault> {
        let state = self.question.states[index].ok_or(OperationFault::Unknown)?;
        Ok(state.section)
    }

    /// Returns the tokens of the item's line.
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
            replaced: replaced.map(|index| items[index].item).filter(|item| *item != 0).collect(),
            items: unchanged.into_iter().map(|index| items[index].clone()).chain(self.new_items).collect(),
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
        started_at: parts.clone().map(|part| part.started_at).min().unwrap_or_default(),
        ended_at: parts.clone().map(|part| part.ended_at).max().unwrap_or_default(),
        source_tokens: parts.clone().fold(0, |sum: i64, part| sum.saturating_add(part.source_tokens)),
        importance: parts.map(|part| part.importance).max().unwrap_or(Importance::Trivial),
        text: wording.text.clone(),
        brief: wording.brief.clone(),
        gist: wording.gist.clone(),
        origin: Origin::Model,
        pinned: false,
        provisional: false,
    }
}

/// Returns the item with each new text that is shorter than the old text.
fn reworded_item(item: &Item, wording: &Wording) -> Item {
    let shorter = |new: &str, old: &str| {
        let is_shorter = new.len() < old.len() || old.trim().is_empty();
        if is_shorter { new.to_owned() } else { old.to_owned() }
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
