//! How much a run measures.

/// How many of the sizes and rounds of a full run are left when nobody measures.
const QUICK_DIVISOR: u32 = 50;

/// `full` under `cargo bench`; a small part of it when the program is run to see that it still works, as
/// `cargo test --benches` does.
pub(crate) fn size(full: u32) -> u32 {
    if std::env::args().any(|argument| argument == "--bench") {
        full
    } else {
        (full / QUICK_DIVISOR).max(2)
    }
}
