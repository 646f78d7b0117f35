//! The `recapd-selftest` program; `recapd selftest` starts it.

use std::process::ExitCode;

fn main() -> ExitCode {
    recapd_selftest::command::main()
}
