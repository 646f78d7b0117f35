//! Values lines, to decide which to lengthen first and which to drop first.

use std::cmp::Reverse;

use crate::domain::{
    number::i64_or_max,
    summary::{
        compaction::page::{AgeOrder, HEADLINES_PERCENT, Page, age_order},
        item::{Importance, Item},
        label::PointLabel,
        line::item_points,
        section::{Ageing, Form, age_ms},
    },
    time::{DAY_MS, Timestamp},
};

/// An item of this age, in milliseconds, counts half; one of twice this age counts a third, and so on.
const RECENCY_HALF_MS: i64 = DAY_MS;
/// Scales scores up, so that the scores of old items still differ as integers.
const SCORE_SCALE: i64 = 1_000_000_000;
/// This many characters add one to a text's information, so that the longer of two equally informative texts wins.
const CHARS_WORTH: i64 = 16;

/// The point with this number, from 0, among the points with its label counts half.
const LATE_POINTS: i64 = 3;
/// Headlines of more tokens count as this many.
const DAMPED_COST_MAX: i64 = 10_000;

/// What a text says, by [`crate::domain::summary::worth::Rarity`], its length in characters, and its number of points.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    pub(super) information: i64,
    pub(super) chars: usize,
    pub(super) points: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lengthening {
    /// True if the line gets longer than its section's form.
    is_beyond: bool,
    /// The gain per character.
    gain: Reverse<i64>,
    age: AgeOrder,
    pub(super) index: usize,
    pub(super) longer: Longer,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Longer {
    Form(Form),
    Point(usize),
}

struct PointWorth {
    point_index: usize,
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

/// Returns the weight of a point. What the model reached counts most, and the way there least.
fn weight_of(label: Option<PointLabel>) -> i64 {
    match label {
        Some(PointLabel::Outcome | PointLabel::Progress) => 4,
        Some(PointLabel::Step | PointLabel::Given | PointLabel::Looked) => 1,
        _ => 2,
    }
}

/// Returns an item's value: weight × recency, with the age relative to the `newest` item. So the document doesn't change while time
/// passes, only when an item changes its section. Without ageing, age doesn't count.
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
    /// Returns all ways to lengthen headlines, best first. All ways up to a section's form come before those beyond it.
    pub(super) fn steps(&mut self) -> Vec<Lengthening> {
        let mut steps = Vec::new();
        for index in 0..self.lines.len() {
            if self.lines[index].is_dropped || self.lines[index].is_safe {
                continue;
            }
            let age = age_order(self.item(index));
            let usual_form = self.lines[index].section.default_form();
            let ways = if self.measure(index, Form::Text).points > 1 {
                self.point_gains(index)
            } else {
                self.gains(index).map(|(gain, form)| (gain, form, Longer::Form(form))).to_vec()
            };
            steps.extend(ways.into_iter().map(|(gain, form, longer)| Lengthening {
                is_beyond: form < usual_form,
                gain: Reverse(gain),
                age,
                index,
                longer,
            }));
        }
        steps.sort_unstable();
        steps
    }

    /// Returns for each point of a line's text its gain per character, and the form that the line has with this point and all better
    /// ones.
    fn point_gains(&mut self, index: usize) -> Vec<(i64, Form, Longer)> {
        let (score, brief_chars) = (self.lines[index].score, self.measure(index, Form::Brief).chars);
        let points = item_points(self.item(index), Form::Text);
        let headline = self.measure(index, Form::Gist).information;
        let mut labels: Vec<Option<PointLabel>> = Vec::new();
        let worth = (0..).zip(&points).filter_map(|(point_index, point)| {
            let (label, text) = PointLabel::split(point);
            let earlier = labels.iter().filter(|earlier| **earlier == label).count();
            labels.push(label);
            let chars = point.chars().count();
            let information = self.rarity.information(point).max(1);
            let lateness = i64_or_max(earlier) + LATE_POINTS;
            let worth = information * weight_of(label) * LATE_POINTS / lateness;
            let gain = per_cost(score, worth, i64_or_max(chars));
            // A first point alone would only replace the headline.
            let is_news = (point_index > 0 || information > headline) && !self.rarity.is_stated_above(text);
            is_news.then_some(PointWorth { point_index, chars, gain })
        });
        let mut worth: Vec<PointWorth> = worth.collect();
        worth.sort_by_key(|point| (Reverse(point.gain), point.point_index));
        let mut chars = 0;
        let ways = worth.into_iter().map(|point| {
            chars += point.chars;
            let form = if chars <= brief_chars { Form::Brief } else { Form::Text };
            (point.gain, form, Longer::Point(point.point_index))
        });
        ways.collect()
    }

    /// Returns the gain per character of each longer form over the form before it. No form gains more than a shorter one.
    fn gains(&mut self, index: usize) -> [(i64, Form); 2] {
        let score = self.lines[index].score;
        let (mut shorter, mut best) = (self.measure(index, Form::Gist), i64::MAX);
        [Form::Brief, Form::Text].map(|form| {
            let longer = self.measure(index, form);
            let chars = i64_or_max(longer.chars) - i64_or_max(shorter.chars);
            best = per_cost(score, (longer.information - shorter.information).max(1), chars).min(best);
            shorter = longer;
            (best, form)
        })
    }

    pub(super) fn measure(&mut self, index: usize, form: Form) -> Measure {
        let line = &mut self.lines[index];
        let (item, rarity) = (&self.items[line.item_index], &self.rarity);
        *line.measures[form as usize].get_or_insert_with(|| {
            let points = item_points(item, form);
            let text = points.join(" ");
            let chars = text.chars().count();
            Measure {
                information: rarity.information(&text) + i64_or_max(chars) / CHARS_WORTH,
                chars,
                points: points.len(),
            }
        })
    }

    /// Drops whole lines until the page is under `limit`. Once one must go, makes room for details as well ([`HEADLINES_PERCENT`]).
    /// Decisions and constraints go late, safe lines last.
    pub(super) fn truncate(&mut self, limit: i64) {
        if self.tokens < limit {
            return;
        }
        let limit = limit * HEADLINES_PERCENT / 100;
        let remaining: Vec<usize> =
            (0..self.lines.len()).filter(|index| !self.lines[*index].is_dropped).collect();
        let mut order: Vec<_> = remaining
            .into_iter()
            .map(|index| {
                let cost = self.cost(index, Form::Gist);
                let information = self.measure(index, Form::Gist).information;
                let item = self.item(index);
                let is_dropped_late = item.importance >= Importance::Constraint;
                let (age, line) = (age_order(item), &self.lines[index]);
                let worth = per_cost(line.score, information.max(1), damped(cost));
                let rank = (line.is_safe, is_dropped_late);
                (rank, worth, age, line.item_index, index)
            })
            .collect();
        order.sort_unstable();
        for ((is_safe, is_dropped_late), .., index) in order {
            if self.tokens < limit {
                return;
            }
            let cost = self.cost(index, self.lines[index].form);
            self.lines[index].is_dropped = true;
            self.tokens -= cost;
            if is_safe || is_dropped_late {
                self.truncated_tokens += cost.max(1);
            }
        }
    }
}

/// Raises a cost to the power of ¾, so that length counts less against an informative headline.
fn damped(cost: i64) -> i64 {
    const SCALE: i64 = 8;
    let scaled = cost.clamp(1, DAMPED_COST_MAX) * SCALE;
    scaled.pow(3).isqrt().isqrt()
}

/// Divides a value by a cost. The result is an integer that keeps some digits.
fn per_cost(score: i64, information: i64, cost: i64) -> i64 {
    i64_or_max(i128::from(score) * i128::from(information) / i128::from(cost.max(1)))
}
