//! What one update asks about, piece by piece.
//!
//! One exchange that a model declines, or answers nonsense about, spoils all the others that are asked about with it. So the
//! question is asked in halves until that one stands alone. A model that does so with everything isn't asked in ever smaller
//! pieces: from one answer to the next there are as many divisions as it takes to find one exchange, and of two that fail
//! alone without an answer neither is to blame.

use super::condense::{CondenseError, half, worth_asking};
use recapd_store::StoredExchange;

/// Why a piece is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskReason {
    /// It is there, and stays in one piece.
    Whole,
    /// It is there, and is asked about in halves if it fails for what may be one exchange.
    Divisible,
    /// It failed alone already, while others were answered.
    Suspect,
}

/// The pieces of an update.
pub(super) struct Bisection<'a> {
    /// Last in, first out: so they come in the order of their exchanges.
    left: Vec<&'a [StoredExchange]>,
    /// As many divisions find one exchange among all.
    divisions_max: u32,
    /// So many may follow, until the first model answers.
    divisions: u32,
    /// One exchange was looked for.
    was_searched: bool,
    /// What failed alone, and how.
    suspects: Vec<(&'a [StoredExchange], CondenseError)>,
    /// The first model answered about a piece.
    is_answered: bool,
}

impl<'a> Bisection<'a> {
    /// All of them in one piece.
    pub(super) fn of(exchanges: &'a [StoredExchange]) -> Self {
        let divisions_max = divisions_of(worth_asking(exchanges).len());
        Self {
            left: vec![exchanges],
            divisions_max,
            divisions: divisions_max,
            was_searched: false,
            suspects: Vec::new(),
            is_answered: false,
        }
    }

    /// The next one.
    pub(super) fn take(&mut self) -> Option<&'a [StoredExchange]> {
        self.left.pop()
    }

    /// What is left of one, to come next.
    pub(super) fn put_back(&mut self, rest: &'a [StoredExchange]) {
        if !rest.is_empty() {
            self.left.push(rest);
        }
    }

    /// Whether a piece may be divided to find the exchange that it fails for.
    pub(super) fn may_search(&self, piece: &[StoredExchange]) -> bool {
        self.divisions > 0 && half(piece).is_some()
    }

    /// Divides a piece to find the exchange that it fails for. Says whether it could be.
    pub(super) fn search(&mut self, piece: &'a [StoredExchange]) -> bool {
        self.divisions = self.divisions.saturating_sub(1);
        self.was_searched = true;
        self.divide(piece)
    }

    /// Divides a piece, which is too much. Says whether it could be.
    pub(super) fn divide(&mut self, piece: &'a [StoredExchange]) -> bool {
        let Some((first, second)) = half(piece).and_then(|half| piece.split_at_checked(half)) else {
            return false;
        };
        self.left.extend([second, first]);
        true
    }

    /// Keeps an exchange that failed alone for the end, when the others were asked about. It fails at once if there are no
    /// others, or if another one failed alone and nothing was answered: then it is no matter of one exchange.
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

    /// What failed alone, to be asked about once more.
    pub(super) fn suspects(&mut self) -> Vec<(&'a [StoredExchange], CondenseError)> {
        std::mem::take(&mut self.suspects)
    }

    /// Whether the first model answered about a piece.
    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Somebody told of a piece. That others do shows nothing of the first one, who is asked in pieces.
    pub(super) fn was_told(&mut self, is_by_first: bool) {
        if is_by_first {
            self.is_answered = true;
            self.divisions = self.divisions_max;
        }
    }

    /// Whether one exchange was looked for, and the first model answered about nothing.
    pub(super) fn were_searched_in_vain(&self) -> bool {
        self.was_searched && !self.is_answered
    }
}

/// So many divisions find one of as many exchanges.
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
