//! The repairs that make a context valid, each with a name, so that a test can show that the self-test notices when it
//! is left out. All real contexts get every repair.

use super::Thinking;

/// A repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A call without a result gets one that says none was recorded.
    MissingResults,
    /// A result without a call becomes the user's words.
    OrphanResults,
    /// Results stand right after their calls, in call order.
    ResultOrder,
    /// The conversation begins with the user.
    FirstTurn,
    /// Consecutive turns of one side are separated or merged.
    Alternation,
    /// Thinking is dropped once what came before it is gone.
    Thinking,
    /// The oldest exchanges are left out until the rest fits.
    Fitting,
}

/// The repairs that are made.
#[derive(Clone, Copy, Debug)]
pub struct Passes {
    dropped: Option<Pass>,
}

impl Passes {
    /// Every one.
    pub const ALL: Self = Self { dropped: None };

    /// All but one.
    pub const fn without(pass: Pass) -> Self {
        Self { dropped: Some(pass) }
    }

    /// The thinking that is sent, if `bound` is what may be.
    pub(super) fn thinking(self, bound: Thinking) -> Thinking {
        if self.has(Pass::Thinking) {
            bound
        } else {
            Thinking::All
        }
    }

    pub(super) fn has(self, pass: Pass) -> bool {
        self.dropped != Some(pass)
    }
}

impl Pass {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::MissingResults,
        Self::OrphanResults,
        Self::ResultOrder,
        Self::FirstTurn,
        Self::Alternation,
        Self::Thinking,
        Self::Fitting,
    ];
}
