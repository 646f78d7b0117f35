//! Compaction: which items the document shows and how long each is, within the ceiling, without a model.
//!
//! The paths are seed 003's ("Compression Heuristics"): unchanged while the document is small, every item in full, whatever
//! its age; when it grows, shorter lines, as few as needed; when it is full, lines that neighbours share, and in the end
//! fewer items. Age chooses the section. The section's form says what gives way first: what is longer than it, and of that
//! what tells least for its importance and age.
//!
//! Invariant: the document never exceeds `max_tokens`, nor the part of it that [`SummaryPolicy::merge_below`] allows;
//! the rest is room for what is pending ([`super::pending`]).
//! Invariant: a pinned item is neither shortened nor dropped, as long as pinned ones take a quarter of the room at most.
//! Invariant: the result depends on the arguments alone, not on the order of the items.

mod page;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use self::page::Page;
use super::{
    calendar::AgentTime,
    fact::Fact,
    item::Item,
    render::{FOOTER, ItemPlace},
    section::Ageing,
    span::UNTIMED,
    state,
};
use crate::domain::{time::Timestamp, tokens::TokenCounter, zone::Zone};

/// The ceiling of every summary, in o200k tokens (seed 003, "Hard 10k limit").
pub const SUMMARY_TOKENS_MAX: i64 = 10_000;
/// How often the items are composed beneath the section about facts until both fit together.
const STATE_ROUNDS_MAX: usize = 4;
/// How long the document may be, and how it ages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummaryPolicy {
    /// The ceiling in tokens; held to 0..=[`SUMMARY_TOKENS_MAX`].
    pub max_tokens: i64,
    /// Below this part of the ceiling new items are just appended.
    pub append_below: f64,
    /// Below this part of the ceiling lines are shortened, and none is left out; no document is ever longer.
    pub merge_below: f64,
    /// How items age.
    pub ageing: Ageing,
    /// How lines are written.
    pub style: Style,
}

/// How the lines of a document are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// By days: dates in the headings, and behind each line its exchanges.
    #[default]
    Plain,
    /// As seed 003 has them: numbered, with times and tokens.
    Seed,
}

impl Default for SummaryPolicy {
    /// Seed 003: 8,000 and 9,500 of 10,000 tokens.
    fn default() -> Self {
        Self {
            max_tokens: SUMMARY_TOKENS_MAX,
            append_below: 0.80,
            merge_below: 0.95,
            ageing: Ageing::default(),
            style: Style::default(),
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

    /// The policy for what stands beside `reserved` tokens of something else: both together have as many tokens as the
    /// policy allows.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the ceiling is at most 10,000 tokens"
    )]
    pub fn beside(self, reserved: i64) -> Self {
        let left = (self.merge_tokens() - reserved).max(0);
        let max_tokens = (left as f64 / self.merge_below.clamp(f64::EPSILON, 1.0)).floor() as i64;
        Self {
            max_tokens: max_tokens.min(self.ceiling()),
            ..self
        }
    }

    /// Up to here details are told where not all fit. What ages has less and less to tell, and a document that stays near
    /// the append threshold is read at a lower price; without ageing the whole span is wanted.
    pub(super) fn full_tokens(&self) -> i64 {
        match self.ageing {
            Ageing::Age { .. } | Ageing::Calendar(_) => self.append_tokens(),
            Ageing::Off => self.merge_tokens(),
        }
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
    /// Nothing: every item in full.
    Append,
    /// Shorter lines.
    Merge,
    /// Shorter lines that neighbours share, and fewer items if that was not enough.
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
    pub shown: Vec<ItemPlace>,
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
    compose_beneath("", items, as_of, policy, counter)
}

/// Composes the document of `items`, as [`compose`] does. Where not all details fit, what `section` says already isn't worth
/// telling again.
fn compose_beneath(
    section: &str,
    items: &[Item],
    as_of: Timestamp,
    policy: &SummaryPolicy,
    counter: &dyn TokenCounter,
) -> Composition {
    let told = as_told(items, as_of, policy.ageing.zone());
    let mut page = Page::new(items, &told, (as_of, policy), counter);
    page.choose_path(policy);
    let (document, tokens) = page.settle(policy, section);
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
        path: page.path,
        truncated: page.truncated_tokens > 0,
        truncated_tokens: page.truncated_tokens,
        next_change,
        shown,
    }
}

/// Composes the document of `items`, as [`compose`] does, beneath the section about the `facts` that hold.
pub fn compose_with(
    facts: &[Fact],
    items: &[Item],
    as_of: Timestamp,
    policy: &SummaryPolicy,
    counter: &dyn TokenCounter,
) -> Composition {
    let section = state::section(facts, policy.ceiling(), counter);
    let mut reserved = counter.count(&section);
    for _ in 0..STATE_ROUNDS_MAX {
        if section.is_empty() {
            break;
        }
        let mut composed = compose_beneath(&section, items, as_of, &policy.beside(reserved), counter);
        composed.document = beneath(&section, &composed.document);
        composed.tokens = counter.count(&composed.document);
        if composed.tokens < policy.merge_tokens() {
            return composed;
        }
        // The whole may have more tokens than its parts.
        reserved += composed.tokens - policy.merge_tokens() + 1;
    }
    compose(items, as_of, policy, counter)
}

/// The policy for the items beneath the section about the `facts` that hold.
pub fn beside_facts(policy: &SummaryPolicy, facts: &[Fact], counter: &dyn TokenCounter) -> SummaryPolicy {
    match state::section(facts, policy.ceiling(), counter).as_str() {
        "" => *policy,
        section => policy.beside(counter.count(section)),
    }
}

/// The section, and the document of the items beneath it.
fn beneath(section: &str, document: &str) -> String {
    if document.is_empty() {
        format!("{section}{FOOTER}\n")
    } else {
        format!("{section}{document}")
    }
}

/// The items with the times that are shown: those of clocks on the wall in `zone`, and none where nobody told any.
///
/// A replay is told as of its newest time. If its messages have no times, all of them
/// count as said when they arrived, and that is no fact about them: whole exchanges that pass in no time, just now.
pub(super) fn as_told(items: &[Item], as_of: Timestamp, zone: Zone) -> Cow<'_, [Item]> {
    let is_untimed = |item: &Item| item.started_at == as_of && item.ended_at == as_of;
    if zone == Zone::UTC && !items.iter().any(is_untimed) {
        return Cow::Borrowed(items);
    }
    let time = |item: &Item, at| if is_untimed(item) { UNTIMED } else { zone.wall(at) };
    let told = items.iter().map(|item| Item {
        started_at: time(item, item.started_at),
        ended_at: time(item, item.ended_at),
        ..item.clone()
    });
    Cow::Owned(told.collect())
}

#[cfg(test)]
mod tests;
