//! The environment: read once, at one place, and handed on as data.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// What configuration variables begin with.
pub(super) const PREFIX: &str = "RECAPD__";
/// The name by which the budget was known before; 0 disables, as ever.
const BUDGET_ALIAS: &str = "IKIGAI_SLIDING_CONTEXT_TOKENS";

/// Environment variables, by name. Some of them are secrets, so values don't print.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

/// The environment of this process. What isn't UTF-8 is read with replacement characters.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the environment is read"
)]
pub fn from_process_environment() -> Environment {
    std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .collect()
}

impl Environment {
    /// The value of `name`, unless it is unset or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The folder for what recapd keeps of this user: `$XDG_STATE_HOME/recapd`, else `~/.local/state/recapd`, see
    /// <https://specifications.freedesktop.org/basedir-spec/latest/>. None if no home is named; a relative path is none.
    pub fn state_folder(&self) -> Option<PathBuf> {
        let absolute = |name: &str| self.get(name).map(Path::new).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME").map(Path::to_owned);
        let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")));
        Some(state?.join("recapd"))
    }

    /// All variables, by name.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The key that a variable sets, if it is one of recapd's: `RECAPD__WINDOW__BUDGET_TOKENS` sets
/// `window.budget_tokens`. Whether there is such a key is asked later.
pub(super) fn key_of(variable: &str) -> Option<String> {
    if variable == BUDGET_ALIAS {
        return Some("window.budget_tokens".to_owned());
    }
    let key = variable.strip_prefix(PREFIX)?;
    Some(key.to_lowercase().replace("__", "."))
}

/// The variable that sets a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

/// Whether a variable is an older name, which yields to the present one.
pub(super) fn is_alias(variable: &str) -> bool {
    variable == BUDGET_ALIAS
}
