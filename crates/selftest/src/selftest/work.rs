//! Work in pieces that may be done in any order, on any thread, today or tomorrow.

use serde::{Serialize, de::DeserializeOwned};

/// What is to be tried.
pub trait Work: Sync {
    /// What may come of it.
    type Findings: WorkFindings;

    /// Stands for all that decides what will be found, but for the program itself.
    fn fingerprint(&self) -> String;

    /// What is known before anything is tried.
    fn beginning(&self) -> Self::Findings;

    /// How many pieces there are.
    fn pieces(&self) -> usize;

    /// How much of the whole a piece is, in the unit that is shown to people.
    fn size(&self, piece: usize) -> u64;

    /// Whether enough was done: no other piece is begun then.
    fn is_over(&self) -> bool {
        false
    }

    fn try_piece(&self, piece: usize) -> Self::Findings;
}

/// What came of some pieces.
pub trait WorkFindings: Clone + Serialize + DeserializeOwned + Send {
    /// Takes in what came of others. Their order makes no difference.
    fn add(&mut self, other: Self);

    /// The same as what came of piece number `piece`.
    #[must_use]
    fn of_piece(self, piece: usize) -> Self;
}
