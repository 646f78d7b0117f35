//! Journals: histories written to files and read back ([`recapd_core::domain::journal`] has their format).
//!
//! [`export`] streams a database's histories to a file, [`import`] streams them back, [`live`] appends messages as they
//! are accepted. None of them holds more than a chunk of messages in memory.

pub mod export;
pub mod import;
pub mod live;

use recapd_store::archive::RecordRange;

/// The most messages that are read or written at once.
const CHUNK_MESSAGES_MAX: u16 = 256;
/// The bytes of payload from which on a chunk is full.
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// The range of a chunk of messages after `after_seq`, up to `through_seq`.
fn chunk(after_seq: i64, through_seq: i64) -> RecordRange {
    RecordRange {
        after_seq,
        through_seq,
        messages_max: i64::from(CHUNK_MESSAGES_MAX),
        bytes_max: CHUNK_BYTES_MAX,
    }
}
