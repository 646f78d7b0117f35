//! Journals: histories written to files and read back ([`crate::domain::journal`] says what stands in them).
//!
//! [`export`] streams what is in the database, [`import`] streams it back, [`live`] appends what is accepted while it is
//! accepted. None of them holds more than a chunk of messages in memory.

pub mod export;
pub mod import;
pub mod live;

use crate::{domain::journal::MessageRecord, store::archive::RecordRange};

/// Messages that are read or written at once.
const CHUNK_MESSAGES_MAX: u16 = 256;
/// Bytes of payloads after which a chunk is full.
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// The messages behind `after_seq`, up to `through_seq`, a chunk of them.
fn chunk(after_seq: i64, through_seq: i64) -> RecordRange {
    RecordRange {
        after_seq,
        through_seq,
        messages_max: i64::from(CHUNK_MESSAGES_MAX),
        bytes_max: CHUNK_BYTES_MAX,
    }
}

/// Whether a chunk holds all that there was behind its beginning.
fn is_rest(chunk: &[MessageRecord]) -> bool {
    let bytes: usize = chunk.iter().map(|record| record.payload.len()).sum();
    chunk.len() < usize::from(CHUNK_MESSAGES_MAX) && bytes < CHUNK_BYTES_MAX
}
