//! The `recapd` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    recapd::cli::main()
}
