//! Divides an update's exchanges into pieces, to find the exchange that makes a model fail.
//!
//! One exchange that a model declines, or answers with nonsense, spoils the question about all others. So the question is halved
//! until that exchange stands alone. A model that fails over everything isn't asked about smaller and smaller pieces: between two
//! answers there are only as many divisions as it takes to find one exchange. If two exchanges fail alone and nothing was
//! answered, neither is the cause.

use super::{
    error::CondenseError,
    material::{half, worth_asking},
};
use recapd_store::StoredExchange;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskReason {
    /// The piece is pending or revisited, and isn't divided if it fails.
    Whole,
    /// Like `Whole`, but the piece is halved if one exchange may have caused its failure.
    Divisible,
    /// The exchange failed alone before, while others were answered.
    Suspect,
}

pub(super) struct Bisection<'a> {
    /// The pieces that are still to be asked about. The last one is taken first, which keeps their order.
    pieces: Vec<&'a [StoredExchange]>,
    /// How many divisions find one exchange among all.
    divisions_max: u32,
    /// How many divisions are left until the first model answers.
    divisions: u32,
    /// True if the search for a single exchange has begun.
    was_searched: bool,
    /// The exchanges that failed alone, each with its failure.
    suspects: Vec<(&'a [StoredExchange], CondenseError)>,
    /// True if the first model has answered about a piece.
    is_answered: bool,
}

impl<'a> Bisection<'a> {
    pub(super) fn of(exchanges: &'a [StoredExchange]) -> Self {
        let divisions_max = divisions_of(worth_asking(exchanges).len());
        Self {
            pieces: vec![exchanges],
            divisions_max,
            divisions: divisions_max,
            was_searched: false,
            suspects: Vec::new(),
            is_answered: false,
        }
    }

    pub(super) fn take(&mut self) -> Option<&'a [StoredExchange]> {
        self.pieces.pop()
    }

    /// Puts the rest of a piece back. It is taken next.
    pub(super) fn put_back(&mut self, rest: &'a [StoredExchange]) {
        if !rest.is_empty() {
            self.pieces.push(rest);
        }
    }

    /// Returns true if a piece may be divided to find the exchange that makes it fail.
    pub(super) fn may_search(&self, piece: &[StoredExchange]) -> bool {
        self.divisions > 0 && half(piece).is_some()
    }

    /// Divides a piece to find the exchange that makes it fail. Returns false if it can't be divided.
    pub(super) fn search(&mut self, piece: &'a [StoredExchange]) -> bool {
        self.divisions = self.divisions.saturating_sub(1);
        self.was_searched = true;
        self.divide(piece)
    }

    /// Divides a piece that is too much for the model. Returns false if it can't be divided.
    pub(super) fn divide(&mut self, piece: &'a [StoredExchange]) -> bool {
        let Some((first, second)) = half(piece).and_then(|half| piece.split_at_checked(half)) else {
            return false;
        };
        self.pieces.extend([second, first]);
        true
    }

    /// Keeps an exchange that failed alone until the others were asked about. Fails at once if there are no others, if the model
    /// refused the exchange (a refusal is final), or if another exchange has failed alone and nothing was answered: then no single
    /// exchange is the cause.
    pub(super) fn suspect(
        &mut self,
        piece: &'a [StoredExchange],
        failed: CondenseError,
    ) -> Result<(), CondenseError> {
        let is_alone = worth_asking(piece).len() == 1 && self.divisions_max > 0;
        self.was_searched |= is_alone;
        if !is_alone || failed.is_refusal() || !(self.is_answered || self.suspects.is_empty()) {
            return Err(failed);
        }
        self.suspects.push((piece, failed));
        Ok(())
    }

    /// Takes the exchanges that failed alone, to ask about them once more.
    pub(super) fn suspects(&mut self) -> Vec<(&'a [StoredExchange], CondenseError)> {
        std::mem::take(&mut self.suspects)
    }

    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Records an answer about a piece. Only an answer of the first model proves that it works.
    pub(super) fn record_answer(&mut self, is_by_first: bool) {
        if is_by_first {
            self.is_answered = true;
            self.divisions = self.divisions_max;
        }
    }

    /// Returns true if a single exchange was searched for, and the first model answered nothing.
    pub(super) fn has_searched_in_vain(&self) -> bool {
        self.was_searched && !self.is_answered
    }
}

/// Returns how many divisions find one of this many exchanges.
fn divisions_of(exchanges: usize) -> u32 {
    exchanges.max(1).next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_exchange_is_found_by_halving() {
        for (exchanges, divisions) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (60, 6), (64, 6), (65, 7)] {
            assert_eq!(divisions_of(exchanges), divisions, "{exchanges}");
        }
    }
}
