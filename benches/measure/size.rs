//! The size of a run.

/// A quick run divides sizes and rounds by this number.
const QUICK_DIVISOR: u32 = 50;

/// Returns `full` under `cargo bench`. Returns a small part of it in a quick run, which only checks that the program
/// works, as `cargo test --benches` does.
pub(crate) fn size(full: u32) -> u32 {
    if std::env::args().any(|argument| argument == "--bench") { full } else { (full / QUICK_DIVISOR).max(2) }
}
