//! Runs the fuzz target that `FUZZ_TARGET` names under libFuzzer, whose `-timeout` finds hangs. `scripts/fuzz` builds and runs it.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use recapd_fuzz::{Corpus, TARGETS, Target};

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET={name}: no such target")).1
}

fuzz_target!(|data: &[u8]| -> libfuzzer_sys::Corpus {
    match TARGET.get_or_init(chosen)(data) {
        Corpus::Keep => libfuzzer_sys::Corpus::Keep,
        Corpus::Reject => libfuzzer_sys::Corpus::Reject,
    }
});
