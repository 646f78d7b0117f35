//! Agent ids.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::checked_text::checked_text;

/// Limits agent ids to this many characters.
pub const AGENT_ID_CHARS_MAX: usize = 128;

/// The id of an agent: 1 to 128 characters of `[A-Za-z0-9._:-]`, the first one alphanumeric. A UUID is a valid id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentId(String);

/// The text isn't a valid agent id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("agent id `{0}` must be 1 to 128 characters of A-Z a-z 0-9 . _ : - and begin with a letter or digit")]
pub struct InvalidAgentId(String);

impl AgentId {
    /// Makes an id from any text, such as a file name. Puts `-` for each character that an id may not have, drops what may not come
    /// first, and cuts the rest to the length of an id.
    pub fn slug(text: &str) -> Self {
        let mut slug: String = text
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._:-".contains(c) { c } else { '-' })
            .skip_while(|c| !c.is_ascii_alphanumeric())
            .take(AGENT_ID_CHARS_MAX)
            .collect();
        if slug.is_empty() {
            slug.push_str("agent");
        }
        Self(slug)
    }
}

/// Returns true if `text` is valid as the id of an agent or a project.
pub(super) fn is_id(text: &str) -> bool {
    text.len() <= AGENT_ID_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._:-".contains(c))
}

impl FromStr for AgentId {
    type Err = InvalidAgentId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_id(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidAgentId(text.chars().take(AGENT_ID_CHARS_MAX).collect()))
        }
    }
}

checked_text!(AgentId, InvalidAgentId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_and_uuids_and_refuses_the_rest() {
        for good in
            ["a", "ikigai-main", "6185de7a-bb20-563d-9f03-bb2c4abe2e75", "team:coder.1_x", &"a".repeat(128)]
        {
            assert!(good.parse::<AgentId>().is_ok(), "{good}");
        }
        for bad in ["", "-a", ".hidden", "a b", "a/b", "ä", &"a".repeat(129)] {
            assert!(bad.parse::<AgentId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_slug_is_always_valid() {
        for text in ["", "..", "a b/c", "Übung", "ok.json", &"x y".repeat(100)] {
            let slug = AgentId::slug(text);
            assert!(slug.as_str().parse::<AgentId>().is_ok(), "{text} -> {slug}");
        }
    }
}
