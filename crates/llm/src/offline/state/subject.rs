//! The subjects of the built-in summariser's facts. A newer fact of a subject replaces the older one.

use recapd_core::domain::summary::{fact::FactKind, label::PointLabel};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Files,
    Commits,
    /// The result of a test or a build, by its command.
    Check(String),
    Plan,
    Question,
}

impl Subject {
    /// Returns the command of a check from the text of its fact.
    pub(super) fn check_of(fact: &str) -> Option<String> {
        let (command, _) = fact.strip_prefix('`')?.split_once("` ")?;
        Some(command.to_owned())
    }

    /// Returns the prefix of the subject's facts.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Files => PointLabel::Files.text().to_owned(),
            Self::Commits => "Last commits: ".to_owned(),
            Self::Check(command) => format!("`{command}` "),
            Self::Plan => PointLabel::Left.text().to_owned(),
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
