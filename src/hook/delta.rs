//! What a transcript has gained since it was last looked at.
//!
//! Invariant: whatever lengths of a transcript are seen in whatever steps, the same messages with the same ids come out
//! of it.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{digest::digest, domain::message::Format, formats};

/// So much is read at a time, in bytes; whole lines of it become one segment of the spool.
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// A longer line is passed over, in bytes.
const LINE_BYTES_MAX: usize = 16 << 20;
/// So many bytes before the offset tell whether a transcript is still the one that was read.
const TAIL_BYTES_MAX: u64 = 256;

/// How far a transcript was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) transcript: PathBuf,
    /// How it is written, by the format's name.
    format: String,
    pub(super) session: String,
    /// In bytes, behind the end of a line.
    pub(super) offset: u64,
    /// The hash of what stands before the offset.
    tail: String,
}

impl Cursor {
    /// At the beginning of a transcript.
    pub(super) fn new(transcript: &Path, format: Format, session: &str) -> Self {
        Self {
            transcript: transcript.to_owned(),
            format: format.name().to_owned(),
            session: session.to_owned(),
            offset: 0,
            tail: digest(&[b""]),
        }
    }
}

/// Reads on where a cursor stands.
pub(super) struct Transcript {
    file: File,
    format: Format,
    /// Whether lines that were copied from another session are left out.
    leaves_copies: bool,
    pub(super) cursor: Cursor,
}

impl Transcript {
    /// Opens the transcript of `cursor`: from its beginning, if it isn't the one that was read. Messages that were read
    /// before come out with the ids that they had.
    pub(super) fn open(mut cursor: Cursor, leaves_copies: bool) -> io::Result<Self> {
        let format = Format::from_name(&cursor.format).unwrap_or(Format::ClaudeCode);
        if !cursor.transcript.metadata()?.is_file() {
            return Err(io::Error::other("a transcript is a file"));
        }
        let mut file = File::open(&cursor.transcript)?;
        if file.metadata()?.len() < cursor.offset || tail(&mut file, cursor.offset)? != cursor.tail {
            cursor = Cursor::new(&cursor.transcript, format, &cursor.session);
        }
        Ok(Self {
            file,
            format,
            leaves_copies,
            cursor,
        })
    }

    /// The next whole lines that hold messages and begin before `until`, as the spool keeps them; none at the end. What
    /// is still being written counts as not there.
    pub(super) fn next_block(&mut self, until: u64) -> io::Result<Option<String>> {
        if until <= self.cursor.offset {
            return Ok(None);
        }
        let bytes = self.read_block()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut offset = self.cursor.offset;
        let mut lines = String::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if until <= offset {
                break;
            }
            lines.extend(self.record(line, offset));
            offset += line.len() as u64;
        }
        self.cursor.offset = offset;
        self.cursor.tail = tail(&mut self.file, offset)?;
        Ok(Some(lines))
    }

    /// Bytes from the offset up to the end of a line; those of a line that is too long, up to anywhere.
    fn read_block(&mut self) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(self.cursor.offset))?;
        let mut bytes = Vec::new();
        for limit in [BLOCK_BYTES_MAX, LINE_BYTES_MAX] {
            let room = limit - bytes.len();
            (&mut self.file).take(room as u64).read_to_end(&mut bytes)?;
            if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
                bytes.truncate(end + 1);
                return Ok(bytes);
            }
            if bytes.len() < limit {
                return Ok(Vec::new());
            }
        }
        Ok(bytes)
    }

    /// A line as the spool keeps it. What is no message is left out, and so is what agents said that the model called:
    /// they have conversations of their own, of which their answers come back.
    fn record(&self, line: &[u8], offset: u64) -> Option<String> {
        let line = std::str::from_utf8(line).ok()?.trim();
        let message = formats::parse(self.format, line).ok()?;
        let origin = Origin::of(line);
        if origin.is_sidechain || (self.leaves_copies && origin.forked_from.is_some()) {
            return None;
        }
        if message.client_id.is_some() {
            return Some(spooled(self.format, line));
        }
        let place = offset.to_be_bytes();
        let id = id(&[self.cursor.session.as_bytes(), &place, line.as_bytes()]);
        let rest = line.strip_prefix('{')?;
        Some(spooled(self.format, &format!("{{\"client_id\":\"{id}\",{rest}")))
    }
}

/// A message of a format in one line.
pub(super) fn spooled(format: Format, json: &str) -> String {
    format!("{} {json}\n", format.name())
}

/// An id that the same parts get again.
pub(super) fn id(parts: &[&[u8]]) -> String {
    format!("hook-{}", digest(parts))
}

/// Where a line comes from.
#[derive(Default, Deserialize)]
struct Origin {
    #[serde(default, rename = "isSidechain")]
    is_sidechain: bool,
    /// The session that it was copied from, when that was branched.
    #[serde(default, rename = "forkedFrom")]
    forked_from: Option<serde::de::IgnoredAny>,
}

impl Origin {
    fn of(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or_default()
    }
}

/// The hash of what stands right before `offset`.
fn tail(file: &mut File, offset: u64) -> io::Result<String> {
    let length = offset.min(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(offset - length))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(digest(&[&bytes]))
}
