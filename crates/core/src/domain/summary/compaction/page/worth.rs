//! The value of lines: which are lengthened first and which are dropped first.

use std::{cmp::Reverse, collections::HashMap};

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

/// Age at which an item counts half, in milliseconds; at twice the age it counts a third, and so on.
const RECENCY_HALF_MS: i64 = DAY_MS;
/// Scales scores, so that those of old items differ in integers.
const SCORE_SCALE: i64 = 1_000_000_000;
/// Characters that add one to a text's information, so that of two equally informative texts the longer one is ahead.
const CHARS_WORTH: i64 = 16;

/// At this place in a text, from 0, a point counts half: the most informative points stand first.
const LATE_POINTS: i64 = 3;
const LABEL_BYTES_MAX: usize = 24;
/// Costs of headlines are capped at this many tokens.
const DAMPED_COST_MAX: i64 = 10_000;

/// The information of a text by [`crate::domain::summary::worth::Rarity`], its length in characters, and its number of points.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    pub(super) told: i64,
    pub(super) chars: usize,
    pub(super) points: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lengthening {
    /// True if it makes the line longer than the section's form.
    is_beyond: bool,
    /// Per character.
    gain: Reverse<i64>,
    age: AgeOrder,
    pub(super) at: usize,
    pub(super) longer: Longer,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Longer {
    Form(Form),
    Point(usize),
}

struct PointWorth {
    place: usize,
    chars: usize,
    gain: i64,
}

fn weight(importance: Importance) -> i64 {
    match importance {
        Importance::Trivial => 1,
        Importance::Debugging => 2,
        Importance::Fix => 4,
        Importance::Feature => 8,
        Importance::Constraint | Importance::Decision => 10,
    }
}

/// Returns an item's value relative to the `newest` item: weight × recency. The passing of time alone doesn't change it, so a document
/// changes only when an item changes its section. Without ageing recency doesn't count, so that all of a long span remains.
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
    /// Returns all ways to lengthen headlines, best first: up to the section's form before any line gets longer than that.
    pub(super) fn steps(&mut self) -> Vec<Lengthening> {
        let mut steps = Vec::new();
        for at in 0..self.lines.len() {
            if self.lines[at].gone || self.lines[at].is_safe {
                continue;
            }
            let age = age_order(self.item(at));
            let usual = self.lines[at].section.default_form();
            let ways = if self.measure(at, Form::Text).points > 1 {
                self.point_gains(at)
            } else {
                self.gains(at)
                    .map(|(gain, form)| (gain, form, Longer::Form(form)))
                    .to_vec()
            };
            steps.extend(ways.into_iter().map(|(gain, form, longer)| Lengthening {
                is_beyond: form < usual,
                gain: Reverse(gain),
                age,
                at,
                longer,
            }));
        }
        steps.sort_unstable();
        steps
    }

    /// Returns the gain per character of each point of a line's text, and the form that the line has with this point and all better ones.
    /// Of points with the same first word, each counts less than the one before.
    fn point_gains(&mut self, at: usize) -> Vec<(i64, Form, Longer)> {
        let (score, brief_chars) = (self.lines[at].score, self.measure(at, Form::Brief).chars);
        let mut begun: HashMap<String, i64> = HashMap::new();
        let points = item_points(self.item(at), Form::Text);
        let headline = self.measure(at, Form::Gist).told;
        let worth = (0..).zip(&points).filter_map(|(place, point)| {
            let opening = point.split_whitespace().next().unwrap_or_default();
            let alike = begun.entry(opening.to_owned()).or_default();
            *alike += 1;
            let chars = point.chars().count();
            let told = self.rarity.told(point).max(1);
            let late = i64_or_max(place) + LATE_POINTS;
            let gain = per_cost(score, told * LATE_POINTS / late * 2, i64_or_max(chars)) / (*alike + 1);
            // Alone, the first point only replaces the headline.
            let is_news = (place > 0 || told > headline) && !self.rarity.is_told_above(after_label(point));
            is_news.then_some(PointWorth { place, chars, gain })
        });
        let mut worth: Vec<PointWorth> = worth.collect();
        worth.sort_by_key(|point| (Reverse(point.gain), point.place));
        let mut chars = 0;
        let ways = worth.into_iter().map(|point| {
            chars += point.chars;
            let form = if chars <= brief_chars {
                Form::Brief
            } else {
                Form::Text
            };
            (point.gain, form, Longer::Point(point.place))
        });
        ways.collect()
    }

    /// Returns the gain per character of each longer form, relative to the form before; never higher than that of a shorter form.
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

    /// Drops whole lines until the page is under `limit`, or well under it if any line must go. Decisions and constraints go late, pinned
    /// lines last.
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
                let worth = per_cost(line.score, told.max(1), damped(cost));
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

/// Removes the label that a point may begin with, such as `Checks: `.
fn after_label(point: &str) -> &str {
    let labelled = point
        .split_once(": ")
        .filter(|(label, _)| label.len() <= LABEL_BYTES_MAX);
    labelled.map_or(point, |(_, said)| said)
}

/// Raises a cost to the power of ¾, so that an informative headline isn't dropped for its length.
fn damped(cost: i64) -> i64 {
    const SCALE: i64 = 8;
    let scaled = cost.clamp(1, DAMPED_COST_MAX) * SCALE;
    scaled.pow(3).isqrt().isqrt()
}

/// Divides a value by a cost; an integer that keeps some digits.
fn per_cost(score: i64, told: i64, cost: i64) -> i64 {
    i64_or_max(i128::from(score) * i128::from(told) / i128::from(cost.max(1)))
}
