//! The conversation that a bench uses.

use std::path::PathBuf;

use recapd_core::{domain::message::Message, formats::file::FileReader};

/// The messages of a quick run.
const QUICK_MESSAGES: usize = 200;

/// Reads the file from the command line, or the example; in a quick run, only its beginning.
pub(crate) fn read() -> anyhow::Result<Vec<Message>> {
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let file = given.map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/two-weeks.jsonl")),
        PathBuf::from,
    );
    let mut messages: Vec<Message> = FileReader::open(&file, None)?
        .filter_map(|record| record.ok().map(|record| record.message))
        .collect();
    if !std::env::args().any(|argument| argument == "--bench") {
        messages.truncate(QUICK_MESSAGES);
    }
    Ok(messages)
}
