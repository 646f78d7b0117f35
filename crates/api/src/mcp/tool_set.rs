//! Sets of tools that are listed only on request, because hosts put the list of tools into each prompt.

use std::{fmt, str::FromStr};

/// A part of the name that Codex' client sends.
const CODEX_CLIENT: &str = "codex";
/// A part of the name that Claude's clients send.
const CLAUDE_CLIENT: &str = "claude";

/// The tools that Codex' models know. An underscore follows the namespace.
pub(super) const CODEX_TOOLS: [&str; 9] = [
    "history_list_windows",
    "history_list_items",
    "history_read_item",
    "history_search_contents",
    "notes_list_files_by_prefix",
    "notes_read_file",
    "notes_search_contents",
    "notes_append_to_file",
    "notes_write_file",
];

/// A set of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolSet {
    /// recapd's own tools for notes.
    Notes,
    /// Anthropic's memory tool.
    Memory,
    /// The tools for history and notes that Codex' models know.
    Codex,
    /// The set that fits the client's name.
    Client,
}

/// The text names an unknown set of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no set of tools `{name}`; the sets are {}", ToolSet::NAMES.map(|(name, _)| name).join(", "))]
pub struct UnknownToolSet {
    name: String,
}

impl ToolSet {
    const NAMES: [(&'static str, Self); 4] =
        [("notes", Self::Notes), ("memory", Self::Memory), ("codex", Self::Codex), ("client", Self::Client)];

    /// Parses a list such as `notes,memory`.
    ///
    /// # Errors
    /// [`UnknownToolSet`].
    pub fn list(text: &str) -> Result<Vec<Self>, UnknownToolSet> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::parse).collect()
    }

    /// Returns `sets` in order. Replaces [`Self::Client`] with the set that fits the client's name.
    pub(super) fn for_client(sets: impl Iterator<Item = Self>, client: &str) -> Vec<Self> {
        let fitting = if client.contains(CODEX_CLIENT) {
            Self::Codex
        } else if client.contains(CLAUDE_CLIENT) {
            Self::Memory
        } else {
            Self::Notes
        };
        let mut sets: Vec<Self> = sets.map(|set| if set == Self::Client { fitting } else { set }).collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }
}

impl FromStr for ToolSet {
    type Err = UnknownToolSet;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, set)| set).ok_or_else(|| UnknownToolSet { name: text.to_owned() })
    }
}

impl fmt::Display for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::NAMES.into_iter().find(|(_, set)| set == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_named_or_chosen_by_the_client() {
        let asked = ToolSet::list("client, notes").unwrap();
        let sets = |client| ToolSet::for_client(asked.iter().copied(), client);
        assert_eq!(sets("codex-mcp-client"), [ToolSet::Notes, ToolSet::Codex]);
        assert_eq!(sets("claude-code"), [ToolSet::Notes, ToolSet::Memory]);
        assert_eq!(sets("cursor"), [ToolSet::Notes]);
        assert_eq!(ToolSet::list(""), Ok(Vec::new()));
        let unknown = ToolSet::list("notes,files").unwrap_err().to_string();
        assert_eq!(unknown, "there is no set of tools `files`; the sets are notes, memory, codex, client");
        assert_eq!(ToolSet::Codex.to_string(), "codex");
    }
}
