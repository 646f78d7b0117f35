//! The conversation that a bench computes with.

use std::path::PathBuf;

use recapd_core::{domain::message::Message, formats::file::FileReader};

/// Messages used in a quick run.
const QUICK_MESSAGES: usize = 200;

/// Reads the file on the command line, or the shipped example; only its beginning in a quick run.
pub(crate) fn given() -> anyhow::Result<Vec<Message>> {
    let given = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
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
