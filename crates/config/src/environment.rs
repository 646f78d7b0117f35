//! The environment. It is read once, in one place, and passed on as data.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

pub(super) const PREFIX: &str = "RECAPD__";
/// An older name of the variable for the budget. 0 still disables eviction.
const BUDGET_ALIAS: &str = "IKIGAI_SLIDING_CONTEXT_TOKENS";

/// Environment variables by name. Some are secrets, so values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

/// Reads the environment of this process. Replaces invalid UTF-8 with replacement characters.
#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub fn from_process_environment() -> Environment {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect()
}

impl Environment {
    /// Returns the value of `name`; `None` if it is unset or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the folder for this user's data of recapd: `$XDG_STATE_HOME/recapd`, otherwise `~/.local/state/recapd`, see
    /// <https://specifications.freedesktop.org/basedir-spec/latest/>. Returns `None` without a home. Ignores relative paths.
    pub fn state_folder(&self) -> Option<PathBuf> {
        let absolute = |name: &str| self.get(name).map(Path::new).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME").map(Path::to_owned);
        let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")));
        Some(state?.join("recapd"))
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the key that a variable of recapd sets: `RECAPD__WINDOW__BUDGET_TOKENS` sets `window.budget_tokens`. The key may be
/// unknown.
pub(super) fn key_of(variable: &str) -> Option<String> {
    if variable == BUDGET_ALIAS {
        return Some("window.budget_tokens".to_owned());
    }
    let key = variable.strip_prefix(PREFIX)?;
    Some(key.to_lowercase().replace("__", "."))
}

pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

/// Returns true for an older name of a variable, which the current name overrides.
pub(super) fn is_alias(variable: &str) -> bool {
    variable == BUDGET_ALIAS
}
