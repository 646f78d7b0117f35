//! Compaction: which items the document shows and how long each is, within the ceiling, without a model.
//!
//! The paths are seed 003's ("Compression Heuristics"): unchanged while the document is small; shorter lines in the
//! newest section when it grows; shorter lines everywhere, and in the end fewer items, when it is full.
//!
//! Invariant: the document never exceeds `max_tokens`, nor the part of it that [`SummaryPolicy::merge_below`] allows;
//! the rest is room for what is pending ([`super::pending`]).
//! Invariant: a pinned item is neither shortened nor dropped, as long as pinned ones take a quarter of the room at most.
//! Invariant: the result depends on the arguments alone, not on the order of the items.

mod page;

use std::borrow::Cow;

use serde::Serialize;

use self::page::Page;
use super::{calendar::AgentTime, item::Item, render::Shown, section::Ageing};
use crate::domain::{time::Timestamp, tokens::TokenCounter, zone::Zone};

/// The ceiling of every summary, in o200k tokens (seed 003, "Hard 10k limit").
pub const SUMMARY_TOKENS_MAX: i64 = 10_000;
/// How long the document may be, and how it ages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummaryPolicy {
    /// The ceiling in tokens; held to 0..=[`SUMMARY_TOKENS_MAX`].
    pub max_tokens: i64,
    /// Below this part of the ceiling new items are just appended.
    pub append_below: f64,
    /// Below this part of the ceiling only the newest section is shortened; no document is ever longer.
    pub merge_below: f64,
    /// How items age.
    pub ageing: Ageing,
}

impl Default for SummaryPolicy {
    /// Seed 003: 8,000 and 9,500 of 10,000 tokens.
    fn default() -> Self {
        Self {
            max_tokens: SUMMARY_TOKENS_MAX,
            append_below: 0.80,
            merge_below: 0.95,
            ageing: Ageing::default(),
        }
    }
}

impl SummaryPolicy {
    /// The policy for an agent; this one is the configuration's.
    #[must_use]
    pub fn for_agent(self, time: AgentTime) -> Self {
        let ageing = match self.ageing {
            Ageing::Calendar(calendar) => Ageing::Calendar(calendar.for_agent(time)),
            ageing => ageing,
        };
        Self { ageing, ..self }
    }

    /// The ceiling in tokens.
    pub fn ceiling(&self) -> i64 {
        self.max_tokens.clamp(0, SUMMARY_TOKENS_MAX)
    }

    /// Documents of fewer tokens than this are left as they are.
    pub fn append_tokens(&self) -> i64 {
        self.part(self.append_below.min(self.merge_below))
    }

    /// Documents always have fewer tokens than this.
    pub fn merge_tokens(&self) -> i64 {
        self.part(self.merge_below)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the ceiling is at most 10,000 tokens"
    )]
    fn part(&self, part: f64) -> i64 {
        (self.ceiling() as f64 * part.clamp(0.0, 1.0)).floor() as i64
    }
}

/// What was needed to make the document fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Nothing: every item in its section's form.
    Append,
    /// Shorter lines in the newest section.
    Merge,
    /// Shorter lines everywhere, and fewer items if that was not enough.
    Full,
}

impl Path {
    /// The name used in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Merge => "merge",
            Self::Full => "full",
        }
    }
}

/// A document, and how it was made to fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composition {
    /// Markdown; empty when there is nothing to show.
    pub document: String,
    /// Its tokens, counted on the whole text.
    pub tokens: i64,
    /// The items in it, in the document's order.
    pub shown: Vec<Shown>,
    /// Indices of the items that leave the document for good, ascending: too old, or cut off for size.
    pub dropped: Vec<usize>,
    /// Those of `dropped` that are too old or blank; the others found no room, and might find it later.
    pub aged: Vec<usize>,
    /// What was needed to make it fit.
    pub path: Path,
    /// Whether not even all decisions and constraints fit (seed 003, "Emergency Compression"), which is counted and
    /// warned about. That items of lower rank give way to them is what compaction is for.
    pub truncated: bool,
    /// Tokens of the decisions and constraints that were cut off, in their shortest form; 0 unless `truncated`.
    pub truncated_tokens: i64,
    /// When time will change the document; then it has to be composed again.
    pub next_change: Option<Timestamp>,
}

/// Composes the document of `items` at `as_of`, counted by `counter`.
///
/// The same arguments give the same document; composing again without the dropped items drops none.
pub fn compose(
    items: &[Item],
    as_of: Timestamp,
    policy: &SummaryPolicy,
    counter: &dyn TokenCounter,
) -> Composition {
    let told = on_the_wall(items, policy.ageing.zone());
    let mut page = Page::new(items, &told, (as_of, policy.ageing), counter);
    let path = page.choose_path(policy);
    let (document, tokens) = page.settle(path, policy);
    let shown = page.shown();
    let mut is_shown = vec![false; items.len()];
    for place in &shown {
        is_shown[place.index] = true;
    }
    let mut has_aged = vec![true; items.len()];
    for index in page.candidates() {
        has_aged[index] = false;
    }
    // An item without room may find some when something else changes, so its own changes count as well.
    let young = items.iter().zip(&has_aged).filter(|(_, has_aged)| !**has_aged);
    let next_change = policy.ageing.next_change(young.map(|(item, _)| item), as_of);
    Composition {
        document,
        tokens,
        aged: (0..items.len()).filter(|index| has_aged[*index]).collect(),
        dropped: (0..items.len()).filter(|index| !is_shown[*index]).collect(),
        path,
        truncated: page.truncated_tokens > 0,
        truncated_tokens: page.truncated_tokens,
        next_change,
        shown,
    }
}

/// The items with their times converted to that zone, for rendering.
pub(super) fn on_the_wall(items: &[Item], zone: Zone) -> Cow<'_, [Item]> {
    if zone == Zone::UTC {
        return Cow::Borrowed(items);
    }
    let told = items.iter().map(|item| Item {
        started_at: zone.wall(item.started_at),
        ended_at: zone.wall(item.ended_at),
        ..item.clone()
    });
    Cow::Owned(told.collect())
}

#[cfg(test)]
mod tests;
