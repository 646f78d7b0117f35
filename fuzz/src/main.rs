//! The fuzz targets in one program; `FUZZ_TARGET` names the one to run. `scripts/fuzz` builds and runs them.
//!
//! Each checks more than the absence of crashes: reading twice gives the same, what must be kept is there, the
//! validator accepts what is built. libFuzzer's `-timeout` finds hangs.

#![no_main]

mod conversation;
mod files;
mod request;
mod texts;

use std::sync::OnceLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use recapd_core::domain::message::Format;

type Target = fn(&[u8]) -> Corpus;

/// All targets. `scripts/fuzz` reads the names from here.
const TARGETS: [(&str, Target); 17] = [
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

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET={name}: no such target")).1
}

fuzz_target!(|data: &[u8]| -> Corpus { TARGET.get_or_init(chosen)(data) });
