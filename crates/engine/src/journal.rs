//! Journals: agents' histories in files ([`recapd_core::domain::journal`] has their format).
//!
//! [`export`] writes histories from the database to a file, [`import`] reads them from a file into the database, and [`live`]
//! appends messages to files as they are accepted. Each keeps at most a chunk of messages in memory.

pub mod export;
pub mod import;
pub mod live;

use recapd_store::archive::RecordRange;

const CHUNK_MESSAGES_MAX: u16 = 256;
/// A chunk ends once its payloads have this many bytes.
const CHUNK_BYTES_MAX: usize = 4 << 20;

fn chunk(after_seq: i64, through_seq: i64) -> RecordRange {
    RecordRange {
        after_seq,
        through_seq,
        messages_max: i64::from(CHUNK_MESSAGES_MAX),
        bytes_max: CHUNK_BYTES_MAX,
    }
}
