//! What can be wrong with a configuration, and where a value came from.

use std::{fmt, io, path::PathBuf};

use recapd_core::domain::preset::Preset;

/// Why there is no configuration. The daemon exits with 78 on either.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("the configuration file {} can't be read: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why the file can't be read.
        source: io::Error,
    },
    /// Something in it is wrong: all that was found, one line each.
    #[error("{}", lines(.0))]
    Invalid(Vec<ConfigProblem>),
}

/// What comes before the values that a problem's text quotes.
const VALUES_BEHIND: [&str; 3] = ["`", "\"", ", not "];

/// One thing that is wrong: where it was said, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Where it was said.
    pub origin: ConfigSource,
    /// What is wrong, with the key and the cure.
    pub text: String,
}

impl ConfigProblem {
    /// What is wrong, up to where a value may be quoted: a secret that somebody put where it doesn't belong.
    pub fn without_values(&self) -> String {
        let quotes = VALUES_BEHIND.iter().filter_map(|sign| self.text.find(sign));
        match quotes.min().and_then(|end| self.text.get(..end)) {
            Some(told) => format!("{told}…"),
            None => self.text.clone(),
        }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}

fn lines(problems: &[ConfigProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ConfigProblem::to_string).collect();
    lines.join("\n")
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// `config.toml` as compiled in.
    Default,
    /// What `window.preset` stands for.
    Preset(Preset),
    File {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable, by its name.
    Environment(String),
    /// `--set` on the command line.
    Set,
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset(preset) => write!(f, "preset {}", preset.name()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "env {name}"),
            Self::Set => f.write_str("--set"),
        }
    }
}
