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
    plan::{Before, Plan},
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
    beside: i64,
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
        let first_units = (0..=rows)
            .map(|row| units.partition_point(|unit| unit.row < row))
            .collect();
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
        let all: i64 = self.units.iter().map(|unit| unit.beside + unit.tokens).sum();
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
        for at in 0..self.units.len() {
            let is_same_row = at > 0 && self.units[at].row == self.units[at - 1].row;
            if self.is_stuck && is_same_row {
                self.sizes[at] = ResultSize::NOTE;
                self.sum += self.cost(at, ResultSize::NOTE);
                continue;
            }
            self.sum += self.cost(at, ResultSize::WHOLE);
            if self.fixed(self.start) + self.sum > self.limit {
                self.step(at);
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

    fn step(&mut self, at: usize) {
        self.cut_big_rounds(at);
        let (start, treatment) = self.choose(at);
        self.start = start;
        self.sum = 0;
        for unit in self.first_units[start]..=at {
            self.sizes[unit] = self.size_after_step(unit, treatment, at);
            self.sum += self.cost(unit, self.sizes[unit]);
        }
        self.is_stuck = self.fixed(start) + self.sum > self.limit;
    }

    /// Shortens the results of those newest rounds that are too big alone.
    fn cut_big_rounds(&mut self, at: usize) {
        let room = self.limit - self.fixed(self.units[at].row);
        let newest = self.units[at].round;
        for round in newest.saturating_sub(NEW_ROUNDS - 1)..=newest {
            let from = self.first_units[self.start];
            let from = from + self.units[from..=at].partition_point(|unit| unit.round < round);
            let through = from + self.units[from..=at].partition_point(|unit| unit.round <= round);
            let tokens = |walk: &mut Self, least: ResultSize| -> i64 {
                let units = from..through;
                units
                    .map(|unit| walk.cost(unit, walk.sizes[unit].max(least)))
                    .sum()
            };
            if tokens(self, ResultSize::WHOLE) <= room {
                continue;
            }
            let mut sizes = ResultSize::all().filter(|&size| size < ResultSize::NOTE);
            if let Some(size) = sizes.find(|&size| tokens(self, size) <= room / BIG_ROUND_SHARE) {
                for unit in from..through {
                    self.sizes[unit] = self.sizes[unit].max(size);
                }
            }
        }
    }

    /// Chooses the first row to send after a step, and how to treat the results.
    fn choose(&mut self, at: usize) -> (usize, Treatment) {
        let newest = self.units[at].row;
        if let Some(start) = self.first_with_room(at) {
            let mut mild = Treatment::mild();
            let fits = |&treatment: &Treatment| self.total(start, treatment, at) <= self.full(FULL_PERCENT);
            return (start, mild.find(fits).unwrap_or(Treatment::FIRM));
        }
        for percent in FULLER_PERCENT {
            let fits = |&treatment: &Treatment| self.total(newest, treatment, at) <= self.full(percent);
            if let Some(treatment) = Treatment::hard().find(fits) {
                return (newest, treatment);
            }
        }
        // The newest rounds don't fit whole.
        for percent in FULLER_PERCENT {
            let fits =
                |&size: &ResultSize| self.total(newest, Treatment::AtMost(size), at) <= self.full(percent);
            if let Some(size) = ResultSize::all().find(fits) {
                return (newest, Treatment::AtMost(size));
            }
        }
        (newest, Treatment::AtMost(ResultSize::NOTE))
    }

    /// Returns the first row from which everything fits after a step that shortens results as [`Treatment::FIRM`] does.
    fn first_with_room(&mut self, at: usize) -> Option<usize> {
        let (first, newest) = (self.start, self.units[at].row);
        let mut sum: i64 = self.cost_from(self.first_units[first], Treatment::FIRM, at);
        for row in first..=newest {
            if self.fixed(row) + sum <= self.full(FULL_PERCENT) {
                return Some(row);
            }
            for unit in self.first_units[row]..self.first_units[row + 1].min(at) {
                sum -= self.cost(unit, self.size_after_step(unit, Treatment::FIRM, at));
            }
        }
        None
    }

    fn full(&self, percent: i64) -> i64 {
        self.limit.saturating_mul(percent) / 100
    }

    /// Returns the tokens up to the unit `at` if the rows from `start` on are sent with that treatment.
    fn total(&mut self, start: usize, treatment: Treatment, at: usize) -> i64 {
        self.fixed(start) + self.cost_from(self.first_units[start], treatment, at)
    }

    fn cost_from(&mut self, first: usize, treatment: Treatment, at: usize) -> i64 {
        (first..=at)
            .map(|unit| self.cost(unit, self.size_after_step(unit, treatment, at)))
            .sum()
    }

    /// Returns the size of a unit after a step at the unit `at`. A shortened result never gets longer again.
    fn size_after_step(&self, unit: usize, treatment: Treatment, at: usize) -> ResultSize {
        let rounds_ago = self.units[at].round.saturating_sub(self.units[unit].round);
        self.sizes[unit].max(treatment.size(rounds_ago))
    }

    fn fixed(&mut self, start: usize) -> i64 {
        *self.fixed[start].get_or_insert_with(|| self.plan.fixed(start))
    }

    fn cost(&mut self, at: usize, size: ResultSize) -> i64 {
        let unit = &self.units[at];
        let (Some(lengths), Some(keep)) = (&unit.lengths, size.chars()) else {
            return unit.beside + unit.tokens;
        };
        if !self.is_exact {
            return unit.beside + lengths.estimate(unit.tokens, keep, self.note_tokens);
        }
        unit.beside + self.count(at, size, keep)
    }

    /// Counts a shortened piece, once for each size.
    fn count(&mut self, at: usize, size: ResultSize, keep: usize) -> i64 {
        let (unit, plan) = (&self.units[at], self.plan);
        *self.counts.entry((at, size)).or_insert_with(|| {
            let turn = &plan.body[unit.turn];
            let counted = truncate_results::shortened_tokens(turn, unit.piece, keep, plan.counter);
            counted.unwrap_or(unit.tokens)
        })
    }

    /// Returns the exact tokens of everything that is sent.
    fn count_exactly(&mut self) -> i64 {
        let mut sum = self.fixed(self.start);
        for at in self.first_units[self.start]..self.units.len() {
            sum += match self.sizes[at].chars() {
                Some(keep) if self.units[at].lengths.is_some() => {
                    self.units[at].beside + self.count(at, self.sizes[at], keep)
                }
                _ => self.units[at].beside + self.units[at].tokens,
            };
        }
        sum
    }

    fn decision(mut self) -> Decision {
        let mut cuts = Vec::new();
        for at in self.first_units[self.start]..self.units.len() {
            if let Some(keep) = self.sizes[at]
                .chars()
                .filter(|_| self.units[at].lengths.is_some())
            {
                cuts.push(ShortenedSpan {
                    tokens: self.count(at, self.sizes[at], keep),
                    turn: self.units[at].turn,
                    piece: self.units[at].piece,
                    keep,
                });
            }
        }
        Decision {
            start: self.start,
            cuts,
        }
    }
}

fn units(plan: &Plan<'_, '_>) -> Vec<Unit> {
    let round_begins = round_begins(plan);
    let mut units: Vec<Unit> = Vec::with_capacity(plan.body.len());
    let (mut before, mut row, mut round) = (Before::default(), 0, 0);
    for (at, turn) in plan.body.iter().enumerate() {
        while plan.input.exchanges[row].exchange < turn.exchange {
            row += 1;
        }
        let mut beside = MESSAGE_OVERHEAD_TOKENS + plan.between(&mut before, turn.role);
        for (piece, of_turn) in turn.pieces.iter().enumerate() {
            // A result belongs to its call's round, whenever it came. A turn may have several rounds: words alone, and then the model's
            // next message.
            if let Some(seq) = of_turn.seq().filter(|_| turn.role == Role::Assistant) {
                round = round.max(round_begins.partition_point(|&begin| begin <= seq));
            }
            units.push(Unit {
                turn: at,
                piece,
                row,
                round,
                tokens: of_turn.cost(plan.counter),
                beside: std::mem::take(&mut beside),
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
