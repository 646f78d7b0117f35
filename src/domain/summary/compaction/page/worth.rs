//! What lines are worth: which are lengthened first, and which have to go first.

use std::cmp::Reverse;

use crate::domain::{
    number::i64_or_max,
    summary::{
        compaction::page::{AgeOrder, HEADLINES_PERCENT, Page, age_order},
        item::{Importance, Item},
        line::item_points,
        section::{Ageing, Form, age_ms},
    },
    time::{DAY_MS, Timestamp},
};

/// The age at which an item counts half, in milliseconds; at twice the age it counts a third, and so on.
const RECENCY_HALF_MS: i64 = DAY_MS;
/// Scales scores, so that those of old items differ in integers.
const SCORE_SCALE: i64 = 1_000_000_000;
/// How many characters count as much as one point of a text's words, so that of two texts which tell the same the
/// longer one still tells more.
const CHARS_WORTH: i64 = 16;

/// How much a text tells, in the terms of [`crate::domain::summary::worth::Rarity`], its length in characters, and how
/// many points it has.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    pub(super) told: i64,
    pub(super) chars: usize,
    pub(super) points: usize,
}

/// A way to lengthen a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    /// Whether the new form is longer than the section's.
    is_beyond: bool,
    /// The gain per character.
    gain: Reverse<i64>,
    age: AgeOrder,
    pub(super) at: usize,
    pub(super) form: Form,
}

/// The weight of an item by its importance.
fn weight(importance: Importance) -> i64 {
    match importance {
        Importance::Trivial => 1,
        Importance::Debugging => 2,
        Importance::Fix => 4,
        Importance::Feature => 8,
        Importance::Constraint | Importance::Decision => 16,
    }
}

/// An item's value compared with the `newest` one: weight × recency. Time that merely passes doesn't change it, so a
/// document changes only when an item changes its section. Without ageing the whole span counts alike: by recency
/// nothing but the last days would be left of months.
pub(super) fn score(item: &Item, newest: Timestamp, ageing: Ageing) -> i64 {
    let age_ms = match ageing {
        Ageing::Age { .. } | Ageing::Calendar(_) => age_ms(item.ended_at, newest),
        Ageing::Off => 0,
    };
    let parts = i128::from(RECENCY_HALF_MS) + i128::from(age_ms);
    let worth = i128::from(SCORE_SCALE * weight(item.importance)) * i128::from(RECENCY_HALF_MS) / parts;
    i64_or_max(worth)
}

impl Page<'_> {
    /// Every way to lengthen a headline, best first: up to the section's form before any line gets longer than that.
    pub(super) fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for at in 0..self.lines.len() {
            if self.lines[at].gone || self.lines[at].is_safe {
                continue;
            }
            let age = age_order(self.item(at));
            let usual = self.lines[at].section.default_form();
            steps.extend(self.gains(at).into_iter().map(|(gain, form)| Step {
                is_beyond: form < usual,
                gain: Reverse(gain),
                age,
                at,
                form,
            }));
        }
        steps.sort_unstable();
        steps
    }

    /// The gain per character of a line's longer forms, each against the form before; a longer form never ranks above a
    /// shorter one, so that it comes after it.
    fn gains(&mut self, at: usize) -> [(i64, Form); 2] {
        let score = self.lines[at].score;
        let (mut shorter, mut best) = (self.measure(at, Form::Gist), i64::MAX);
        [Form::Brief, Form::Text].map(|form| {
            let longer = self.measure(at, form);
            let chars = i64_or_max(longer.chars) - i64_or_max(shorter.chars);
            best = per_cost(score, (longer.told - shorter.told).max(1), chars).min(best);
            shorter = longer;
            (best, form)
        })
    }

    /// How much a line's text of that form tells.
    pub(super) fn measure(&mut self, at: usize, form: Form) -> Measure {
        let line = &mut self.lines[at];
        let (item, rarity) = (&self.items[line.index], &self.rarity);
        *line.measures[form as usize].get_or_insert_with(|| {
            let points = item_points(item, form);
            let text = points.join(" ");
            let chars = text.chars().count();
            Measure {
                told: rarity.told(&text) + i64_or_max(chars) / CHARS_WORTH,
                chars,
                points: points.len(),
            }
        })
    }

    /// Drops whole lines until the page is under `limit`, and well under it if any has to go: those that tell least per
    /// token first, decisions and constraints late, pinned ones last.
    pub(super) fn truncate(&mut self, limit: i64) {
        if self.tokens < limit {
            return;
        }
        let limit = limit * HEADLINES_PERCENT / 100;
        let left: Vec<usize> = (0..self.lines.len()).filter(|at| !self.lines[*at].gone).collect();
        let mut order: Vec<_> = left
            .into_iter()
            .map(|at| {
                let cost = self.cost(at, Form::Gist);
                let told = self.measure(at, Form::Gist).told;
                let item = self.item(at);
                let is_kept_to_the_last = item.importance >= Importance::Constraint;
                let (age, line) = (age_order(item), &self.lines[at]);
                let worth = per_cost(line.score, told.max(1), cost);
                let rank = (line.is_safe, is_kept_to_the_last);
                (rank, worth, age, line.index, at)
            })
            .collect();
        order.sort_unstable();
        for ((is_safe, is_kept_to_the_last), .., at) in order {
            if self.tokens < limit {
                return;
            }
            let cost = self.cost(at, self.lines[at].form);
            self.lines[at].gone = true;
            self.tokens -= cost;
            if is_safe || is_kept_to_the_last {
                self.truncated_tokens += cost.max(1);
            }
        }
    }
}

/// A score per cost, as an integer that keeps some digits.
fn per_cost(score: i64, told: i64, cost: i64) -> i64 {
    i64_or_max(i128::from(score) * i128::from(told) / i128::from(cost.max(1)))
}
