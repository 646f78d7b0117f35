//! Forces a step when a context would exceed its limit. A walk adds up the window's messages in the order in which they are sent. Where
//! the sum exceeds the limit, the walk takes a step that makes room for several rounds: it shortens old results, then leaves out the
//! oldest legs and exchanges. What a step decides stays until the next step and depends on nothing after it. So the next request, whose
//! walk begins the same, begins with the bytes of this request, unless there is a step between them.
//!
//! The walk estimates the tokens of a shortened result from the share of its characters, with a margin, so that texts aren't counted
//! repeatedly. In the end the request is counted. If it is too big, the walk is repeated with exact counts.

use std::collections::HashMap;

use super::{
    ladder::{NEW_ROUNDS, ResultSize, Treatment},
    plan::{EarlierRoles, Plan},
    truncate_results,
};
use crate::domain::{
    message::Role,
    round::{ResponsePart, Round},
    tokens::MESSAGE_OVERHEAD_TOKENS,
};

/// How full a request may be after a step, in percent of the limit.
const FULL_PERCENT: i64 = 80;
/// If only the newest leg is left, a request may be this full, in percent. The walk tries these in order.
const FULLER_PERCENT: [i64; 3] = [FULL_PERCENT, 90, 100];
/// A round that is too big alone is shortened to 1/`BIG_ROUND_SHARE` of the room.
const BIG_ROUND_SHARE: i64 = 2;

#[derive(Debug, Default)]
pub(super) struct Decision {
    /// The index of the first exchange or leg to send.
    pub(super) start: usize,
    pub(super) cuts: Vec<ShortenedSpan>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShortenedSpan {
    pub(super) turn: usize,
    pub(super) piece: usize,
    /// Each result keeps at most this many characters.
    pub(super) keep: usize,
    /// The tokens of the shortened piece.
    pub(super) tokens: i64,
}

pub(super) fn is_forced(plan: &Plan<'_, '_>, limit: i64) -> bool {
    Walk::new(plan, limit).overflows()
}

pub(super) fn decide(plan: &Plan<'_, '_>, limit: i64) -> Decision {
    let mut walk = Walk::new(plan, limit);
    if !walk.overflows() {
        return Decision::default();
    }
    walk.measure_results();
    walk.run();
    if walk.count_exactly() > limit {
        walk.is_exact = true;
        walk.run();
    }
    walk.decision()
}

/// A piece of a turn. The walk adds up units.
struct Unit {
    turn: usize,
    piece: usize,
    /// The index of its exchange or leg in the window.
    row: usize,
    /// The number of its round, counted from the start of the window.
    round: usize,
    /// The tokens of the whole piece.
    tokens: i64,
    /// The tokens that come with it: those of its turn, and of turns that alternation puts before it.
    overhead: i64,
    lengths: Option<truncate_results::Lengths>,
}

struct Walk<'p, 'i, 'a> {
    plan: &'p Plan<'i, 'a>,
    limit: i64,
    units: Vec<Unit>,
    /// The index of the first unit of each row, and the number of units at the end.
    first_units: Vec<usize>,
    /// For each row, the tokens besides the window if that row is the first one sent; `None` until counted.
    fixed: Vec<Option<i64>>,
    /// The counted tokens of shortened pieces, by unit and size.
    counts: HashMap<(usize, ResultSize), i64>,
    note_tokens: i64,
    /// True if the walk counts shortened results instead of estimating them.
    is_exact: bool,
    sizes: Vec<ResultSize>,
    start: usize,
    /// The tokens of the units from the start to the current position.
    sum: i64,
    /// True if `sum` and the tokens besides the window exceed the limit, and no step can help.
    is_stuck: bool,
}

impl<'p, 'i, 'a> Walk<'p, 'i, 'a> {
    fn new(plan: &'p Plan<'i, 'a>, limit: i64) -> Self {
        let units = units(plan);
        let rows = plan.input.exchanges.len();
        let first_units = (0..=rows).map(|row| units.partition_point(|unit| unit.row < row)).collect();
        Self {
            plan,
            limit,
            first_units,
            fixed: vec![None; rows],
            counts: HashMap::new(),
            note_tokens: truncate_results::note_tokens(plan.counter),
            is_exact: false,
            sizes: vec![ResultSize::WHOLE; units.len()],
            start: 0,
            sum: 0,
            is_stuck: false,
            units,
        }
    }

    fn overflows(&mut self) -> bool {
        let all: i64 = self.units.iter().map(|unit| unit.overhead + unit.tokens).sum();
        !self.fixed.is_empty() && self.fixed(0) + all > self.limit
    }

    fn measure_results(&mut self) {
        let body = &self.plan.body;
        for unit in &mut self.units {
            unit.lengths =
                truncate_results::Lengths::of(&body[unit.turn].pieces[unit.piece], self.plan.counter);
        }
    }

    fn run(&mut self) {
        self.sizes.fill(ResultSize::WHOLE);
        (self.start, self.sum, self.is_stuck) = (0, 0, false);
        for index in 0..self.units.len() {
            let is_same_row = index > 0 && self.units[index].row == self.units[index - 1].row;
            if self.is_stuck && is_same_row {
                self.sizes[index] = ResultSize::NOTE;
                self.sum += self.cost(index, ResultSize::NOTE);
                continue;
            }
            self.sum += self.cost(index, ResultSize::WHOLE);
            if self.fixed(self.start) + self.sum > self.limit {
                self.step(index);
            }
        }
        self.end();
    }

    /// A row that exceeds the limit alone stays only while it is the newest. Leaves it out if a newer row follows, even one without
    /// content.
    fn end(&mut self) {
        let newest = self.fixed.len() - 1;
        if self.start < newest && self.fixed(self.start) + self.sum > self.limit {
            (self.start, self.sum) = (newest, 0);
        }
    }

    fn step(&mut self, last_unit: usize) {
        self.cut_big_rounds(last_unit);
        let (start, treatment) = self.choose(last_unit);
        self.start = start;
        self.sum = 0;
        for unit in self.first_units[start]..=last_unit {
            self.sizes[unit] = self.size_after_step(unit, treatment, last_unit);
            self.sum += self.cost(unit, self.sizes[unit]);
        }
        self.is_stuck = self.fixed(start) + self.sum > self.limit;
    }

    /// Shortens the results of those newest rounds that are too big alone.
    fn cut_big_rounds(&mut self, last_unit: usize) {
        let room = self.limit - self.fixed(self.units[last_unit].row);
        let newest = self.units[last_unit].round;
        for round in newest.saturating_sub(NEW_ROUNDS - 1)..=newest {
            let first = self.first_units[self.start];
            let first = first + self.units[first..=last_unit].partition_point(|unit| unit.round < round);
            let end = first + self.units[first..=last_unit].partition_point(|unit| unit.round <= round);
            let tokens = |walk: &mut Self, least: ResultSize| -> i64 {
                let units = first..end;
                units.map(|unit| walk.cost(unit, walk.sizes[unit].max(least))).sum()
            };
            if tokens(self, ResultSize::WHOLE) <= room {
                continue;
            }
            let mut sizes = ResultSize::all().filter(|&size| size < ResultSize::NOTE);
            if let Some(size) = sizes.find(|&size| tokens(self, size) <= room / BIG_ROUND_SHARE) {
                for unit in first..end {
                    self.sizes[unit] = self.sizes[unit].max(size);
                }
            }
        }
    }

    /// Chooses the first row to send after a step, and how to treat the results.
    fn choose(&mut self, last_unit: usize) -> (usize, Treatment) {
        let newest = self.units[last_unit].row;
        if let Some(start) = self.first_with_room(last_unit) {
            let mut mild = Treatment::mild();
            let fits =
                |&treatment: &Treatment| self.total(start, treatment, last_unit) <= self.full(FULL_PERCENT);
            return (start, mild.find(fits).unwrap_or(Treatment::FIRM));
        }
        for percent in FULLER_PERCENT {
            let fits =
                |&treatment: &Treatment| self.total(newest, treatment, last_unit) <= self.full(percent);
            if let Some(treatment) = Treatment::hard().find(fits) {
                return (newest, treatment);
            }
        }
        // The newest rounds don't fit whole.
        for percent in FULLER_PERCENT {
            let fits = |&size: &ResultSize| {
                self.total(newest, Treatment::AtMost(size), last_unit) <= self.full(percent)
            };
            if let Some(size) = ResultSize::all().find(fits) {
                return (newest, Treatment::AtMost(size));
            }
        }
        (newest, Treatment::AtMost(ResultSize::NOTE))
    }

    /// Returns the first row from which everything fits after a step that shortens results as [`Treatment::FIRM`] does.
    fn first_with_room(&mut self, last_unit: usize) -> Option<usize> {
        let (first, newest) = (self.start, self.units[last_unit].row);
        let mut sum: i64 = self.cost_from(self.first_units[first], Treatment::FIRM, last_unit);
        for row in first..=newest {
            if self.fixed(row) + sum <= self.full(FULL_PERCENT) {
                return Some(row);
            }
            for unit in self.first_units[row]..self.first_units[row + 1].min(last_unit) {
                sum -= self.cost(unit, self.size_after_step(unit, Treatment::FIRM, last_unit));
            }
        }
        None
    }

    fn full(&self, percent: i64) -> i64 {
        self.limit.saturating_mul(percent) / 100
    }

    /// Returns the tokens up to the unit `last_unit` if the rows from `start` on are sent with that treatment.
    fn total(&mut self, start: usize, treatment: Treatment, last_unit: usize) -> i64 {
        self.fixed(start) + self.cost_from(self.first_units[start], treatment, last_unit)
    }

    fn cost_from(&mut self, first: usize, treatment: Treatment, last_unit: usize) -> i64 {
        (first..=last_unit)
            .map(|unit| self.cost(unit, self.size_after_step(unit, treatment, last_unit)))
            .sum()
    }

    /// Returns the size of a unit after a step at the unit `last_unit`. A shortened result never gets longer again.
    fn size_after_step(&self, unit: usize, treatment: Treatment, last_unit: usize) -> ResultSize {
        let rounds_ago = self.units[last_unit].round.saturating_sub(self.units[unit].round);
        self.sizes[unit].max(treatment.size(rounds_ago))
    }

    fn fixed(&mut self, start: usize) -> i64 {
        *self.fixed[start].get_or_insert_with(|| self.plan.fixed(start))
    }

    fn cost(&mut self, index: usize, size: ResultSize) -> i64 {
        let unit = &self.units[index];
        let (Some(lengths), Some(keep)) = (&unit.lengths, size.chars()) else {
            return unit.overhead + unit.tokens;
        };
        if !self.is_exact {
            return unit.overhead + lengths.estimate(unit.tokens, keep, self.note_tokens);
        }
        unit.overhead + self.count(index, size, keep)
    }

    /// Counts a shortened piece, once for each size.
    fn count(&mut self, index: usize, size: ResultSize, keep: usize) -> i64 {
        let (unit, plan) = (&self.units[index], self.plan);
        *self.counts.entry((index, size)).or_insert_with(|| {
            let turn = &plan.body[unit.turn];
            let counted = truncate_results::shortened_tokens(turn, unit.piece, keep, plan.counter);
            counted.unwrap_or(unit.tokens)
        })
    }

    /// Returns the exact tokens of everything that is sent.
    fn count_exactly(&mut self) -> i64 {
        let mut sum = self.fixed(self.start);
        for index in self.first_units[self.start]..self.units.len() {
            sum += match self.sizes[index].chars() {
                Some(keep) if self.units[index].lengths.is_some() => {
                    self.units[index].overhead + self.count(index, self.sizes[index], keep)
                }
                _ => self.units[index].overhead + self.units[index].tokens,
            };
        }
        sum
    }

    fn decision(mut self) -> Decision {
        let mut cuts = Vec::new();
        for index in self.first_units[self.start]..self.units.len() {
            if let Some(keep) = self.sizes[index].chars().filter(|_| self.units[index].lengths.is_some()) {
                cuts.push(ShortenedSpan {
                    tokens: self.count(index, self.sizes[index], keep),
                    turn: self.units[index].turn,
                    piece: self.units[index].piece,
                    keep,
                });
            }
        }
        Decision { start: self.start, cuts }
    }
}

fn units(plan: &Plan<'_, '_>) -> Vec<Unit> {
    let round_begins = round_begins(plan);
    let mut units: Vec<Unit> = Vec::with_capacity(plan.body.len());
    let (mut earlier, mut row, mut round) = (EarlierRoles::default(), 0, 0);
    for (turn_index, turn) in plan.body.iter().enumerate() {
        while plan.input.exchanges[row].exchange < turn.exchange {
            row += 1;
        }
        let mut overhead = MESSAGE_OVERHEAD_TOKENS + plan.between(&mut earlier, turn.role);
        for (piece_index, piece) in turn.pieces.iter().enumerate() {
            // A result belongs to its call's round, whenever it came. A turn may have several rounds: a text alone, and then the model's
            // next message.
            if let Some(seq) = piece.seq().filter(|_| turn.role == Role::Assistant) {
                round = round.max(round_begins.partition_point(|&begin| begin <= seq));
            }
            units.push(Unit {
                turn: turn_index,
                piece: piece_index,
                row,
                round,
                tokens: piece.cost(plan.counter),
                overhead: std::mem::take(&mut overhead),
                lengths: None,
            });
        }
    }
    units
}

/// Returns the number of the first message of each round.
fn round_begins(plan: &Plan<'_, '_>) -> Vec<i64> {
    let mut begins = Vec::new();
    for row in &plan.input.exchanges {
        let mut newest = None;
        for source in &row.messages {
            let (kind, part) = (&source.message.kind, ResponsePart::of(source.message));
            if Round::is_begun_by(newest.as_ref(), kind, &part) {
                begins.push(source.seq);
            }
            newest = Round::after(newest, kind, &part);
        }
    }
    begins
}
