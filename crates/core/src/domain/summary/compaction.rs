//! Compaction: chooses the items that the document shows and their lengths, within the ceiling, without a model.
//!
//! The paths are those of seed 003 ("Compression Heuristics"). While the document is small, every line has its full text, whatever its
//! age. When the document grows, recapd shortens as few lines as needed. When it is full, neighbours share lines, and in the end items
//! are dropped. Lines that are longer than their section's form are shortened first; among those, the lines that say least for their
//! importance and age. The age also chooses an item's section.
//!
//! Invariant: the document never exceeds `max_tokens`. The items never exceed the part of it that [`SummaryPolicy::merge_below`] allows;
//! the rest is room for pending exchanges ([`super::pending`]).
//!
//! Invariant: a pinned item is neither shortened nor dropped while pinned items take at most a quarter of the room.
//!
//! Invariant: the result depends on the arguments alone, not on the order of the items.

mod page;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use self::page::Page;
use super::{
    calendar::AgentTime,
    fact::Fact,
    item::Item,
    render::{FOOTER, ShownItem},
    section::Ageing,
    span::UNTIMED,
    state,
};
use crate::domain::{time::Timestamp, tokens::TokenCounter, zone::Zone};

/// The ceiling of every summary document, in o200k tokens (seed 003, "Hard 10k limit").
pub const SUMMARY_TOKENS_MAX: i64 = 10_000;
/// Limits how often [`compose_with`] tries to fit the items and the section about facts together.
const STATE_ROUNDS_MAX: usize = 4;
/// The limits on a document's length, and how it ages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummaryPolicy {
    /// Ceiling in tokens; clamped to 0..=[`SUMMARY_TOKENS_MAX`].
    pub max_tokens: i64,
    /// Below this part of the ceiling, new items are added and nothing else changes.
    pub append_below: f64,
    /// Below this part of the ceiling, lines are shortened and no item is left out. The composed document is always below it.
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
    /// Grouped by day: dates in the headings, and the exchanges after each line.
    #[default]
    Plain,
    /// Numbered lines with times and tokens, like seed 003's.
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
    /// Returns this configured policy with an agent's time zone and session.
    #[must_use]
    pub fn for_agent(self, time: AgentTime) -> Self {
        let ageing = match self.ageing {
            Ageing::Calendar(calendar) => Ageing::Calendar(calendar.for_agent(time)),
            ageing => ageing,
        };
        Self { ageing, ..self }
    }

    /// Returns the ceiling in tokens.
    pub fn ceiling(&self) -> i64 {
        self.max_tokens.clamp(0, SUMMARY_TOKENS_MAX)
    }

    /// Returns the size in tokens below which lines keep their full text.
    pub fn append_tokens(&self) -> i64 {
        self.part(self.append_below.min(self.merge_below))
    }

    /// Returns the size in tokens below which every document stays.
    pub fn merge_tokens(&self) -> i64 {
        self.part(self.merge_below)
    }

    /// Returns this policy with a lower ceiling, so that the document and another text of `reserved` tokens together keep this policy's
    /// limit.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the ceiling is at most 10,000 tokens"
    )]
    pub fn reserving(self, reserved: i64) -> Self {
        let remaining = (self.merge_tokens() - reserved).max(0);
        let max_tokens = (remaining as f64 / self.merge_below.clamp(f64::EPSILON, 1.0)).floor() as i64;
        Self { max_tokens: max_tokens.min(self.ceiling()), ..self }
    }

    /// Returns the size in tokens up to which details fill a document that doesn't fit in full. With ageing this is the append threshold:
    /// old items matter less and less, and a shorter document costs less to read. Without ageing all details matter.
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

/// How the document was made to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Unchanged: every line has its full text.
    Append,
    /// With shorter lines.
    Merge,
    /// With shorter lines that neighbours share, and with fewer items if that was not enough.
    Full,
}

impl Path {
    /// Returns the name used in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Merge => "merge",
            Self::Full => "full",
        }
    }
}

/// A document, and what its composition did to the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composition {
    /// Markdown; empty if there is nothing to show.
    pub document: String,
    /// Tokens of the whole text, counted exactly.
    pub tokens: i64,
    /// The shown items, in the document's order.
    pub shown_items: Vec<ShownItem>,
    /// Indices of the items that aren't shown, ascending: too old, blank, or without room.
    pub dropped: Vec<usize>,
    /// The items of `dropped` that are too old or blank. A later document may have room for the others.
    pub aged: Vec<usize>,
    /// The path that made the document fit.
    pub path: Path,
    /// True if not even all decisions and constraints fit (seed 003, "Emergency Compression"); recapd counts this and warns about it.
    /// Dropping items of lower importance is ordinary compaction.
    pub truncated: bool,
    /// Tokens of the dropped decisions and constraints, in their shortest form; 0 unless `truncated`.
    pub truncated_tokens: i64,
    /// When an item next changes its section or leaves, so that the document must be composed again.
    pub next_change: Option<Timestamp>,
}

/// Composes the document of `items` at `as_of`, with tokens counted by `counter`.
///
/// The same arguments give the same document. Composing again without the dropped items drops no further item.
pub fn compose(
    items: &[Item],
    as_of: Timestamp,
    policy: &SummaryPolicy,
    counter: &dyn TokenCounter,
) -> Composition {
    compose_below("", items, as_of, policy, counter)
}

/// Like [`compose`], for a document that stands below `section`. If not all details fit, those that `section` already states are left out
/// first.
fn compose_below(
    section: &str,
    items: &[Item],
    as_of: Timestamp,
    policy: &SummaryPolicy,
    counter: &dyn TokenCounter,
) -> Composition {
    let timed_items = with_shown_times(items, as_of, policy.ageing.zone());
    let mut page = Page::new(items, &timed_items, (as_of, policy), counter);
    page.choose_path(policy);
    let (document, tokens) = page.enforce_ceiling(policy, section);
    let shown_items = page.shown_items();
    let mut is_shown = vec![false; items.len()];
    for item in &shown_items {
        is_shown[item.index] = true;
    }
    let mut has_aged = vec![true; items.len()];
    for index in page.candidates() {
        has_aged[index] = false;
    }
    // The next document may have room for an item that has none now, so its changes of section count as well.
    let young_items = items.iter().zip(&has_aged).filter(|(_, has_aged)| !**has_aged);
    let next_change = policy.ageing.next_change(young_items.map(|(item, _)| item), as_of);
    Composition {
        document,
        tokens,
        aged: (0..items.len()).filter(|index| has_aged[*index]).collect(),
        dropped: (0..items.len()).filter(|index| !is_shown[*index]).collect(),
        path: page.path,
        truncated: page.truncated_tokens > 0,
        truncated_tokens: page.truncated_tokens,
        next_change,
        shown_items,
    }
}

/// Composes the section about `facts` and the document of `items` below it; otherwise like [`compose`].
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
        let mut composed = compose_below(&section, items, as_of, &policy.reserving(reserved), counter);
        composed.document = beneath(&section, &composed.document);
        composed.tokens = counter.count(&composed.document);
        if composed.tokens < policy.merge_tokens() {
            return composed;
        }
        // Two texts may have more tokens together than apart.
        reserved += composed.tokens - policy.merge_tokens() + 1;
    }
    compose(items, as_of, policy, counter)
}

/// Returns the policy for the items below the section about `facts`.
pub fn beside_facts(policy: &SummaryPolicy, facts: &[Fact], counter: &dyn TokenCounter) -> SummaryPolicy {
    match state::section(facts, policy.ceiling(), counter).as_str() {
        "" => *policy,
        section => policy.reserving(counter.count(section)),
    }
}

fn beneath(section: &str, document: &str) -> String {
    if document.is_empty() { format!("{section}{FOOTER}\n") } else { format!("{section}{document}") }
}

/// Returns the items with the times to show: local times in `zone`, or [`UNTIMED`] for messages without times.
///
/// A replay is composed as of its newest time, and a message without a time gets the time of its arrival. So an item that begins and ends
/// at exactly `as_of` has no time of its own.
pub(super) fn with_shown_times(items: &[Item], as_of: Timestamp, zone: Zone) -> Cow<'_, [Item]> {
    let is_untimed = |item: &Item| item.started_at == as_of && item.ended_at == as_of;
    if zone == Zone::UTC && !items.iter().any(is_untimed) {
        return Cow::Borrowed(items);
    }
    let time = |item: &Item, at| if is_untimed(item) { UNTIMED } else { zone.wall(at) };
    let timed_items = items.iter().map(|item| Item {
        started_at: time(item, item.started_at),
        ended_at: time(item, item.ended_at),
        ..item.clone()
    });
    Cow::Owned(timed_items.collect())
}

#[cfg(test)]
mod tests;
