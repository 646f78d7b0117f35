//! Steps that the limit forces. The messages of the window are walked through in the order in which they are sent; where the
//! sum goes over the limit a step is taken there, which makes room for several rounds: old results are shortened, then the
//! oldest legs and exchanges are left out. What a step decides stays until the next one, and depends on nothing that comes
//! after it. So the next request, whose walk is the same and goes on, begins with the bytes of this one, unless a step lies
//! between them.
//!
//! On the way a shortened result costs what its share of the characters lets expect, and somewhat more, so that texts aren't
//! counted again and again. What is sent is counted at the end. Should it be too much, all is walked through once more with
//! exact counts.

use std::collections::HashMap;

use super::{
    Role,
    ladder::{NEW_ROUNDS, ResultSize, Treatment},
    plan::{Before, Plan},
    truncate_results,
};
use crate::domain::{
    round::{ResponsePart, Round},
    tokens::MESSAGE_OVERHEAD_TOKENS,
};

/// How full a request is after a step, in percent of the limit.
const FULL_PERCENT: i64 = 80;
/// How full it may be where no more than the newest leg is left, and where even that isn't possible.
const FULLER_PERCENT: [i64; 3] = [FULL_PERCENT, 90, 100];
/// A round that is too big alone gets one part in so many of the room.
const BIG_ROUND_SHARE: i64 = 2;

/// What is sent of the window.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// The index of the first exchange or leg that is sent.
    pub(super) start: usize,
    /// The results that are shortened.
    pub(super) cuts: Vec<ShortenedSpan>,
}

/// A piece of the body whose results are shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShortenedSpan {
    pub(super) turn: usize,
    pub(super) piece: usize,
    /// The most characters of each result.
    pub(super) keep: usize,
    /// The tokens of the piece then.
    pub(super) tokens: i64,
}

/// Whether a `limit` of so many tokens forces a step.
pub(super) fn is_forced(plan: &Plan<'_, '_>, limit: i64) -> bool {
    Walk::new(plan, limit).overflows()
}

/// Decides what is sent within `limit` tokens.
pub(super) fn decide(plan: &Plan<'_, '_>, limit: i64) -> Decision {
    let mut walk = Walk::new(plan, limit);
    if !walk.overflows() {
        return Decision::default();
    }
    walk.look_at_results();
    walk.run();
    if walk.counted() > limit {
        walk.is_exact = true;
        walk.run();
    }
    walk.decision()
}

/// A piece of the body, and what it takes.
struct Unit {
    turn: usize,
    piece: usize,
    row: usize,
    /// The number of its round, counted through the window.
    round: usize,
    /// Its tokens as it is.
    tokens: i64,
    /// What it takes beside: its turn's, and the turns that have to be put before that.
    beside: i64,
    /// The lengths of its results; `None` for no results.
    lengths: Option<truncate_results::Lengths>,
}

struct Walk<'p, 'i, 'a> {
    plan: &'p Plan<'i, 'a>,
    limit: i64,
    units: Vec<Unit>,
    /// The index of the first unit of each row, and of none at the end.
    first_units: Vec<usize>,
    /// What is sent besides the window, by the first row that is sent, once known.
    fixed: Vec<Option<i64>>,
    /// Tokens of shortened pieces, by unit, once they were counted.
    counts: HashMap<(usize, ResultSize), i64>,
    /// Tokens of the note in a shortened result.
    note_tokens: i64,
    /// Shortened results cost what is counted, not what may be expected.
    is_exact: bool,
    sizes: Vec<ResultSize>,
    start: usize,
    /// Tokens of the units from the start on, up to where the walk is.
    sum: i64,
    /// Whether what is sent so far is over the limit, and nothing can be done.
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

    /// Whether all of it is ever more than the limit.
    fn overflows(&mut self) -> bool {
        let all: i64 = self.units.iter().map(|unit| unit.beside + unit.tokens).sum();
        !self.fixed.is_empty() && self.fixed(0) + all > self.limit
    }

    fn look_at_results(&mut self) {
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
            let goes_on = at > 0 && self.units[at].row == self.units[at - 1].row;
            if self.is_stuck && goes_on {
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

    /// Leaves out what is too much by itself once a newer exchange has come, even one that says nothing.
    fn end(&mut self) {
        let newest = self.fixed.len() - 1;
        if self.start < newest && self.fixed(self.start) + self.sum > self.limit {
            (self.start, self.sum) = (newest, 0);
        }
    }

    /// A step after the unit `at`.
    fn step(&mut self, at: usize) {
        self.cut_big_rounds(at);
        let (start, treatment) = self.choose(at);
        self.start = start;
        self.sum = 0;
        for unit in self.first_units[start]..=at {
            self.sizes[unit] = self.treated(unit, treatment, at);
            self.sum += self.cost(unit, self.sizes[unit]);
        }
        self.is_stuck = self.fixed(start) + self.sum > self.limit;
    }

    /// Shortens results of those of the newest rounds that have no room even alone.
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

    /// What is sent after a step: from which row on, and what becomes of the results.
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
        // Not even the newest rounds have room as they are.
        for percent in FULLER_PERCENT {
            let fits =
                |&size: &ResultSize| self.total(newest, Treatment::AtMost(size), at) <= self.full(percent);
            if let Some(size) = ResultSize::all().find(fits) {
                return (newest, Treatment::AtMost(size));
            }
        }
        (newest, Treatment::AtMost(ResultSize::NOTE))
    }

    /// The first row from which on all has room after a step, with results as small as they get before more rows are left out.
    fn first_with_room(&mut self, at: usize) -> Option<usize> {
        let (first, newest) = (self.start, self.units[at].row);
        let mut sum: i64 = self.cost_from(self.first_units[first], Treatment::FIRM, at);
        for row in first..=newest {
            if self.fixed(row) + sum <= self.full(FULL_PERCENT) {
                return Some(row);
            }
            for unit in self.first_units[row]..self.first_units[row + 1].min(at) {
                sum -= self.cost(unit, self.treated(unit, Treatment::FIRM, at));
            }
        }
        None
    }

    fn full(&self, percent: i64) -> i64 {
        self.limit.saturating_mul(percent) / 100
    }

    /// All tokens up to the unit `at`, if the rows from `start` on are sent so.
    fn total(&mut self, start: usize, treatment: Treatment, at: usize) -> i64 {
        self.fixed(start) + self.cost_from(self.first_units[start], treatment, at)
    }

    fn cost_from(&mut self, first: usize, treatment: Treatment, at: usize) -> i64 {
        (first..=at)
            .map(|unit| self.cost(unit, self.treated(unit, treatment, at)))
            .sum()
    }

    /// The size of a unit after a step at the unit `at`: what was shortened stays so.
    fn treated(&self, unit: usize, treatment: Treatment, at: usize) -> ResultSize {
        let rounds_ago = self.units[at].round.saturating_sub(self.units[unit].round);
        self.sizes[unit].max(treatment.size(rounds_ago))
    }

    fn fixed(&mut self, start: usize) -> i64 {
        *self.fixed[start].get_or_insert_with(|| self.plan.fixed(start))
    }

    /// Tokens of a unit in that size.
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

    /// Counts a shortened piece, once.
    fn count(&mut self, at: usize, size: ResultSize, keep: usize) -> i64 {
        let (unit, plan) = (&self.units[at], self.plan);
        *self.counts.entry((at, size)).or_insert_with(|| {
            let turn = &plan.body[unit.turn];
            let counted = truncate_results::shortened_tokens(turn, unit.piece, keep, plan.counter);
            counted.unwrap_or(unit.tokens)
        })
    }

    /// The tokens of all that is sent, counted.
    fn counted(&mut self) -> i64 {
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

/// The pieces of the body, in order.
fn units(plan: &Plan<'_, '_>) -> Vec<Unit> {
    let begins = rounds(plan);
    let mut units: Vec<Unit> = Vec::with_capacity(plan.body.len());
    let (mut before, mut row, mut round) = (Before::default(), 0, 0);
    for (at, turn) in plan.body.iter().enumerate() {
        while plan.input.exchanges[row].exchange < turn.exchange {
            row += 1;
        }
        let mut beside = MESSAGE_OVERHEAD_TOKENS + plan.between(&mut before, turn.role);
        for (piece, of_turn) in turn.pieces.iter().enumerate() {
            // Results are of their calls' round, whenever they came. A turn may hold several rounds: words alone, and what the
            // model said next.
            if let Some(seq) = of_turn.seq().filter(|_| turn.role == Role::Assistant) {
                round = round.max(begins.partition_point(|&begin| begin <= seq));
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

/// The messages that begin a round, by their numbers.
fn rounds(plan: &Plan<'_, '_>) -> Vec<i64> {
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
