//! The repairs that make a context valid, each by its name, so that a test can show for each that without it the
//! self-test finds something. Whoever builds a context makes them all.

use super::Thinking;

/// A repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// A call without a result gets one that says so.
    MissingResults,
    /// A result without a call becomes something that the user says.
    OrphanResults,
    /// Results stand right after their calls, in call order.
    ResultOrder,
    /// The user begins.
    FirstTurn,
    /// Neighbouring turns of one side are told apart or merged.
    Alternation,
    /// Thinking goes once what stood before it is gone.
    Thinking,
    /// The oldest exchanges are left out until the rest fits.
    Fitting,
}

/// The repairs that are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes {
    dropped: Option<Pass>,
}

impl Passes {
    /// Every one.
    pub(crate) const ALL: Self = Self { dropped: None };

    /// All but one.
    #[cfg(test)]
    pub(crate) const fn without(pass: Pass) -> Self {
        Self { dropped: Some(pass) }
    }

    /// How much thinking is sent once what stood before it is gone, if `bound` is what may be.
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

#[cfg(test)]
impl Pass {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::MissingResults,
        Self::OrphanResults,
        Self::ResultOrder,
        Self::FirstTurn,
        Self::Alternation,
        Self::Thinking,
        Self::Fitting,
    ];
}
