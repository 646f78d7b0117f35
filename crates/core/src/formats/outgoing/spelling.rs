//! Spells ids and names as a target accepts them: replaces invalid characters, and truncates long names.
//!
//! Valid names are unchanged. Another name gets the same spelling in each request with the same names, so that the prompt cache still
//! matches. A truncated name ends with a hash of the whole name, which distinguishes names with the same beginning.

use std::collections::{HashMap, HashSet};

use super::RequestFormat;
use crate::domain::fnv::fnv32;

/// Digits of the hash at the end of a truncated name.
const HASH_DIGITS: usize = 8;

/// The characters and the length that a target accepts.
#[derive(Clone, Copy)]
pub(super) struct Spelling {
    accepts: fn(char) -> bool,
    chars_max: usize,
}

impl Spelling {
    /// Spells ids of calls. Gemini documents no rule. OpenAI's chat API once accepted ids of more than 40 characters, but has often
    /// refused them.
    pub(super) fn id(target: RequestFormat) -> Self {
        match target {
            RequestFormat::Anthropic => Self::new(is_plain, usize::MAX),
            RequestFormat::OpenAiChat => Self::new(|_| true, 40),
            RequestFormat::OpenAiResponses => Self::new(|_| true, 64),
            RequestFormat::Gemini => Self::new(|_| true, usize::MAX),
        }
    }

    /// Spells names of tools.
    pub(super) fn tool(target: RequestFormat) -> Self {
        match target {
            RequestFormat::Anthropic => Self::new(is_plain, 128),
            RequestFormat::OpenAiChat | RequestFormat::OpenAiResponses => Self::new(is_plain, 64),
            RequestFormat::Gemini => Self::new(|c| is_plain(c) || matches!(c, '.' | ':'), 64),
        }
    }

    /// Spells names of speakers, which only OpenAI's chat API has.
    pub(super) fn speaker() -> Self {
        Self::new(|c| !c.is_whitespace() && !"<|\\/>".contains(c), 64)
    }

    fn new(accepts: fn(char) -> bool, chars_max: usize) -> Self {
        Self { accepts, chars_max }
    }

    /// Returns `name` as the target accepts it. Two invalid names may get the same spelling; [`SpelledNames`] avoids that.
    pub(super) fn of(self, name: &str) -> String {
        if name.chars().count() > self.chars_max {
            self.with_hash(name)
        } else {
            self.replace_invalid(name).collect()
        }
    }

    /// Spells `name` with a hash of it, which distinguishes names that otherwise have the same spelling.
    fn with_hash(self, name: &str) -> String {
        let head = self.replace_invalid(name).take(self.chars_max - HASH_DIGITS - 1);
        format!("{}_{:08x}", head.collect::<String>(), fnv32(name.bytes()))
    }

    fn replace_invalid(self, name: &str) -> impl Iterator<Item = char> {
        name.chars().map(move |c| if (self.accepts)(c) { c } else { '_' })
    }
}

/// Names and their spellings. No two names have the same spelling.
pub(super) struct SpelledNames<'n> {
    spelling: Spelling,
    changed: HashMap<&'n str, String>,
}

impl<'n> SpelledNames<'n> {
    /// Spells `names` in their order. A valid name stays as it is, even if an invalid name before it would get the same spelling.
    pub(super) fn new(spelling: Spelling, names: impl Iterator<Item = &'n str>) -> Self {
        let all: Vec<&str> = names.collect();
        let (valid, invalid): (Vec<&str>, Vec<&str>) =
            all.into_iter().partition(|&name| spelling.of(name) == name);
        let mut used: HashSet<String> = valid.into_iter().map(str::to_owned).collect();
        let mut changed = HashMap::new();
        for name in invalid {
            changed.entry(name).or_insert_with(|| {
                let plain = spelling.of(name);
                let spelled = if used.contains(&plain) { spelling.with_hash(name) } else { plain };
                used.insert(spelled.clone());
                spelled
            });
        }
        Self { spelling, changed }
    }

    pub(super) fn of(&self, name: &str) -> String {
        self.changed.get(name).cloned().unwrap_or_else(|| self.spelling.of(name))
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_stay_and_others_get_a_stable_spelling() {
        let tool = Spelling::tool(RequestFormat::OpenAiChat);
        let long = "a".repeat(65);
        for (name, spelled) in [
            ("mcp__git-hub__list", "mcp__git-hub__list"),
            ("default_api.read_file", "default_api_read_file"),
            ("fs.read file", "fs_read_file"),
            ("größe", "gr__e"),
        ] {
            assert_eq!(tool.of(name), spelled);
        }
        assert_eq!(tool.of(&"a".repeat(64)), "a".repeat(64));
        let cut = tool.of(&long);
        assert!(cut.len() == 64 && cut.starts_with(&"a".repeat(55)), "{cut}");
        assert_ne!(cut, tool.of(&format!("{long}a")));
        assert_eq!(Spelling::speaker().of("Ada Lovelace"), "Ada_Lovelace");
        assert_eq!(Spelling::speaker().of("Ærø"), "Ærø");
        assert_eq!(Spelling::tool(RequestFormat::Gemini).of("a.b:c d"), "a.b:c_d");
    }

    #[test]
    fn no_two_names_are_spelled_alike() {
        let tool = Spelling::tool(RequestFormat::OpenAiChat);
        let names = ["fs.read", "fs/read", "fs.read", "fs_read", "fs/write"];
        let spelled = SpelledNames::new(tool, names.into_iter());
        assert_eq!(
            (spelled.of("fs_read"), spelled.of("fs/write")),
            ("fs_read".to_owned(), "fs_write".to_owned())
        );
        let (dot, slash) = (spelled.of("fs.read"), spelled.of("fs/read"));
        assert!(
            dot.starts_with("fs_read_") && slash.starts_with("fs_read_") && dot != slash,
            "{dot} {slash}"
        );
        assert_eq!(tool.of(&dot), dot);
        assert_eq!(spelled.of("not asked before"), "not_asked_before");
    }
}
