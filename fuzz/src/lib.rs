//! The fuzz targets. `scripts/fuzz` runs them with random inputs; the tests run each on its seeds.
//!
//! A target checks more than the absence of crashes: reading twice gives the same messages, nothing is lost, the validator accepts what
//! is built. A failed check panics.

mod conversation;
mod files;
mod request;
mod texts;

use recapd_core::domain::message::Format;

/// What a fuzzer does with an input that passed all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corpus {
    /// Keeps it if it reaches new code.
    Keep,
    /// Never keeps it: the target can't read it.
    Reject,
}

/// Checks one input. Panics if a check fails.
pub type Target = fn(&[u8]) -> Corpus;

/// All targets. `scripts/fuzz` reads the names from here.
pub const TARGETS: [(&str, Target); 17] = [
    ("native", |data| files::read(data, Some(Format::Native))),
    ("openai", |data| files::read(data, Some(Format::OpenAiChat))),
    ("responses", |data| files::read(data, Some(Format::OpenAiResponses))),
    ("anthropic", |data| files::read(data, Some(Format::Anthropic))),
    ("gemini", |data| files::read(data, Some(Format::Gemini))),
    ("claude_code", |data| files::read(data, Some(Format::ClaudeCode))),
    ("codex", |data| files::read(data, Some(Format::Codex))),
    ("pidgin", |data| files::read(data, Some(Format::Pidgin))),
    ("aider", |data| files::read(data, Some(Format::Aider))),
    ("detection", |data| files::read(data, None)),
    ("context", conversation::build_contexts),
    ("validator", request::judge),
    ("journal", texts::journal),
    ("reply", texts::reply),
    ("counting", texts::count),
    ("crontab", texts::crontab),
    ("config", texts::config),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    /// Returns the folder with the seeds of a target, as `scripts/fuzz` does.
    fn seeds(target: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let own = root.join("seeds").join(target);
        if own.exists() { own } else { root.join("../tests/fixtures") }
    }

    #[test]
    fn every_target_accepts_its_seeds() {
        for (name, target) in TARGETS {
            let mut kept = 0;
            for entry in fs::read_dir(seeds(name)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() && target(&fs::read(path).unwrap()) == Corpus::Keep {
                    kept += 1;
                }
            }
            assert!(kept > 0, "{name} keeps no seed");
        }
    }
}
