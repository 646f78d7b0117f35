//! Work in pieces that may be done in any order, on any thread, at any time.

use serde::{Serialize, de::DeserializeOwned};

pub trait Work: Sync {
    type Findings: WorkFindings;

    /// A hash of everything that determines the findings, except the program itself.
    fn fingerprint(&self) -> String;

    /// The findings before any piece is done.
    fn beginning(&self) -> Self::Findings;

    fn pieces(&self) -> usize;

    /// The size of a piece, in the unit shown to people.
    fn size(&self, piece: usize) -> u64;

    /// Returns true if enough was done, so that no other piece begins.
    fn is_over(&self) -> bool {
        false
    }

    fn try_piece(&self, piece: usize) -> Self::Findings;
}

pub trait WorkFindings: Clone + Serialize + DeserializeOwned + Send {
    /// Adds other findings. Their order makes no difference.
    fn add(&mut self, other: Self);

    /// Marks the findings as those of piece number `piece`.
    #[must_use]
    fn of_piece(self, piece: usize) -> Self;
}
