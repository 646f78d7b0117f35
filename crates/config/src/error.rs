//! Errors in a configuration, and the source of a value.

use std::{fmt, io, path::PathBuf};

use recapd_core::domain::preset::Preset;

/// The configuration can't be used. The daemon then exits with 78.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the configuration file {} can't be read: {reason}; {}", path.display(), cure(reason))]
    Unreadable { path: PathBuf, reason: io::Error },
    /// The configuration has errors: all that were found, one per line.
    #[error("{}", lines(.0))]
    Invalid(Vec<ConfigProblem>),
}

/// A value that the text of a problem quotes follows one of these marks.
const QUOTE_MARKS: [&str; 3] = ["`", "\"", ", not "];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub origin: ConfigSource,
    pub text: String,
}

impl ConfigProblem {
    /// Returns the text up to the first value that it may quote. Somebody may have put a secret in the wrong place, so that the
    /// value is the secret.
    pub fn without_values(&self) -> String {
        let quotes = QUOTE_MARKS.iter().filter_map(|mark| self.text.find(mark));
        match quotes.min().and_then(|end| self.text.get(..end)) {
            Some(before) => format!("{before}…"),
            None => self.text.clone(),
        }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}

fn cure(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::NotFound => "name another one with --config, or write it with `recapd init FILE`",
        io::ErrorKind::PermissionDenied => "give it to this user, or name another one with --config",
        _ => "name another one with --config",
    }
}

fn lines(problems: &[ConfigProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ConfigProblem::to_string).collect();
    lines.join("\n")
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// `config.toml` as compiled in.
    Default,
    /// A value that `window.preset` implies.
    Preset(Preset),
    File {
        path: PathBuf,
        line: usize,
    },
    /// An environment variable, by its name.
    Environment(String),
    /// `--set` on the command line.
    Set,
    /// Another option of the command line, by its name.
    CommandOption(&'static str),
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset(preset) => write!(f, "preset {}", preset.name()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "env {name}"),
            Self::Set => f.write_str("--set"),
            Self::CommandOption(option) => f.write_str(option),
        }
    }
}
