//! Projects: agents that work on the same thing and share a summary (seed 003, "Shared Summaries").

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{agent::is_id, checked_text::checked_text};

/// The name of a project. It follows the rules of an agent's id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectId(String);

/// The text isn't a valid project name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("project `{0}` must be 1 to 128 characters of A-Z a-z 0-9 . _ : - and begin with a letter or digit")]
pub struct InvalidProjectId(String);

impl FromStr for ProjectId {
    type Err = InvalidProjectId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_id(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidProjectId(text.chars().take(SHOWN_CHARS_MAX).collect()))
        }
    }
}

/// An error shows at most this many characters of an invalid name.
const SHOWN_CHARS_MAX: usize = 128;

checked_text!(ProjectId, InvalidProjectId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_of_agents_ids() {
        assert_eq!("ikigai".parse::<ProjectId>().unwrap().as_str(), "ikigai");
        for bad in ["", "-a", "a/b", "ä", &"a".repeat(129)] {
            let error = bad.parse::<ProjectId>().unwrap_err().to_string();
            assert!(error.contains("1 to 128 characters"), "{error}");
        }
    }
}
