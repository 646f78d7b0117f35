//! The repairs that make a context valid. A test can leave out one by name, to show that the self-test notices it. All real contexts get
//! every repair.

use super::Thinking;

/// One repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Gives each call without a result a text that none was recorded.
    MissingResults,
    /// Turns a result without a call into a text of the user.
    OrphanResults,
    /// Puts results right after their calls, in call order.
    ResultOrder,
    /// Makes the conversation begin with the user.
    FirstTurn,
    /// Separates or merges consecutive turns of one side.
    Alternation,
    /// Drops thinking once earlier content has been removed.
    Thinking,
    /// Leaves out the oldest exchanges until the rest fits.
    Fitting,
}

/// A set of repairs: all, or all but one.
#[derive(Clone, Copy, Debug)]
pub struct Passes {
    dropped: Option<Pass>,
}

impl Passes {
    /// Every repair.
    pub const ALL: Self = Self { dropped: None };

    /// Returns every repair except `pass`.
    pub const fn without(pass: Pass) -> Self {
        Self { dropped: Some(pass) }
    }

    /// Returns how much thinking to send: `limited`, or all if the pass for thinking is left out.
    pub(super) fn thinking(self, limited: Thinking) -> Thinking {
        if self.has(Pass::Thinking) { limited } else { Thinking::All }
    }

    pub(super) fn has(self, pass: Pass) -> bool {
        self.dropped != Some(pass)
    }
}

impl Pass {
    /// Every repair.
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
