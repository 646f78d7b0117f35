//! Finds out whether a transcript has the last answer of a turn yet. Claude Code writes lines up to 100 ms late (seen with 2.1.200),
//! so the hook at the end of a turn may find none of the turn's lines.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use recapd_core::domain::text::ceil_cut;

/// Searches at most this many bytes at the end of the transcript.
const SEARCHED_BYTES_MAX: u64 = 256 << 10;
/// Searches for at most this many bytes, from the end of the answer.
const COMPARED_BYTES_MAX: usize = 80;

/// Returns true if a line after `offset` has the end of `answer`.
pub(super) fn is_written(transcript: &Path, offset: u64, answer: &str) -> bool {
    let last_line = answer.trim_end().lines().next_back().unwrap_or_default();
    let json = serde_json::to_string(ceil_cut(last_line, COMPARED_BYTES_MAX)).unwrap_or_default();
    let end = json.trim_matches('"');
    text_after(transcript, offset).is_ok_and(|text| text.contains(end))
}

fn text_after(transcript: &Path, offset: u64) -> io::Result<String> {
    let mut file = File::open(transcript)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(offset.max(length.saturating_sub(SEARCHED_BYTES_MAX))))?;
    let mut bytes = Vec::new();
    file.take(SEARCHED_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
