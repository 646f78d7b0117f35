//! What a fact of the built-in summariser is about: a newer fact of a subject takes the place of the older one.

use recapd_core::domain::summary::fact::FactKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The files that changed.
    Files,
    /// The last commits.
    Commits,
    /// How a test or a build ended.
    Check(String),
    /// What is left of the plan.
    Plan,
    /// The question that the model put to the user.
    Question,
}

impl Subject {
    /// How its facts begin.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Files => "Files changed: ".to_owned(),
            Self::Commits => "Last commits: ".to_owned(),
            Self::Check(command) => format!("`{command}` "),
            Self::Plan => "Left to do: ".to_owned(),
            Self::Question => "Question to the user: ".to_owned(),
        }
    }

    pub(super) fn kind(&self) -> FactKind {
        match self {
            Self::Files | Self::Commits | Self::Check(_) => FactKind::State,
            Self::Plan | Self::Question => FactKind::Open,
        }
    }
}
