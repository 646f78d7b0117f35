//! Reads the lines that were added to a transcript since the last read.
//!
//! Invariant: a transcript yields the same messages with the same ids, however it grows and is read.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::rollout::{LINE_BYTES_MAX, Original};
use recapd_core::{
    domain::message::{Format, Message},
    formats,
    hash::short_hash,
};

/// A block of a transcript has at most this many bytes.
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// A segment of the spool is written once it has this many bytes of conversation from several blocks.
const SEGMENT_BYTES_MIN: usize = 256 << 10;
/// At most this many bytes of a transcript are read for one segment.
const READ_BYTES_MAX: u64 = 2 << 20;
/// A broken line may end with a whole message. The search for it covers this many bytes at the end of the line.
const BROKEN_BYTES_MAX: usize = 1 << 20;
/// A JSON object with members begins with this.
const BEGINNING: &[u8] = b"{\"";
/// Tries at most this many beginnings of objects.
const BEGINNINGS_MAX: usize = 64;
/// A hash of this many bytes before the offset shows whether a transcript is still the same file.
const TAIL_BYTES_MAX: u64 = 256;

/// The position up to which a transcript has been read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) transcript: PathBuf,
    /// The name of the transcript's format.
    format: String,
    pub(super) session: String,
    /// Offset in bytes. It is always the end of a line.
    pub(super) offset: u64,
    /// The hash of the bytes before the offset.
    tail: String,
    /// The length of an incomplete line directly after the offset, at the end of the transcript. The host was still
    /// writing this line, or never finished it.
    #[serde(default)]
    pub(super) half: u64,
    /// The transcript whose copy is being skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<Original>,
}

impl Cursor {
    pub(super) fn new(transcript: &Path, format: Format, session: &str) -> Self {
        Self {
            transcript: transcript.to_owned(),
            format: format.name().to_owned(),
            session: session.to_owned(),
            offset: 0,
            tail: short_hash(&[b""]),
            half: 0,
            original: None,
        }
    }

    /// True if this is the transcript of `session`. Hosts also use the session's id in the file name.
    pub(super) fn is_of(&self, session: &str) -> bool {
        let name = self.transcript.file_stem().unwrap_or_default();
        self.session == session || name.to_string_lossy().ends_with(session)
    }

    /// Returns how many bytes of the transcript were read, an incomplete last line included.
    pub(super) fn seen(&self) -> u64 {
        self.offset.saturating_add(self.half)
    }

    /// True if a transcript of this length has bytes that weren't read yet.
    pub(super) fn is_behind(&self, length: u64) -> bool {
        length > self.offset && length != self.seen()
    }
}

/// A transcript that is read from its cursor on.
pub(super) struct Transcript {
    file: File,
    format: Format,
    /// True if lines that were copied from another session are left out.
    leaves_copies: bool,
    pub(super) cursor: Cursor,
}

impl Transcript {
    /// Opens the transcript of `cursor`. If another file is now at its path, reads from the beginning; messages that
    /// were read before get the same ids again.
    pub(super) fn open(mut cursor: Cursor, leaves_copies: bool) -> io::Result<Self> {
        let format = Format::from_name(&cursor.format).unwrap_or(Format::ClaudeCode);
        if !cursor.transcript.metadata()?.is_file() {
            return Err(io::Error::other("a transcript is a file"));
        }
        let mut file = File::open(&cursor.transcript)?;
        if file.metadata()?.len() < cursor.offset || tail(&mut file, cursor.offset)? != cursor.tail {
            cursor = Cursor::new(&cursor.transcript, format, &cursor.session);
        }
        Ok(Self { file, format, leaves_copies, cursor })
    }

    /// Returns the next complete lines of conversation that begin before `until`, in the spool's format; `None` at the
    /// end. An incomplete line isn't returned.
    pub(super) fn next_block(&mut self, until: u64) -> io::Result<Option<String>> {
        let (began, mut lines) = (self.cursor.offset, String::new());
        while lines.len() < SEGMENT_BYTES_MIN && self.cursor.offset < until.min(began + READ_BYTES_MAX) {
            let bytes = self.read_block()?;
            if bytes.is_empty() {
                break;
            }
            let mut offset = self.cursor.offset;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                if until <= offset {
                    break;
                }
                lines.extend(self.record(line, offset));
                offset += line.len() as u64;
            }
            (self.cursor.offset, self.cursor.half) = (offset, 0);
        }
        if self.cursor.offset == began {
            return Ok(None);
        }
        let half = self.cursor.half;
        self.pass_to(self.cursor.offset)?;
        self.cursor.half = half;
        Ok(Some(lines))
    }

    /// True if the transcript may begin with lines of another session that aren't marked as copies.
    pub(super) fn may_begin_as_copy(&self) -> bool {
        self.leaves_copies && self.format == Format::Codex
    }

    /// Moves the cursor to `offset`.
    pub(super) fn pass_to(&mut self, offset: u64) -> io::Result<()> {
        self.cursor.tail = tail(&mut self.file, offset)?;
        self.cursor.offset = offset;
        self.cursor.half = 0;
        Ok(())
    }

    /// Reads a block of whole lines from the offset on. Of a line that is too long, returns some part. At the end of the
    /// transcript, returns no bytes, and stores the length of an incomplete line in the cursor.
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
                self.cursor.half = bytes.len() as u64;
                return Ok(Vec::new());
            }
        }
        Ok(bytes)
    }

    /// Returns the conversation in a line, in the spool's format; `None` if there is none. Leaves out sub-agents'
    /// messages: they have conversations of their own, and their answers are also in this one.
    fn record(&self, line: &[u8], offset: u64) -> Option<String> {
        let (line, message) = self.message(line)?;
        let json = formats::conversation_line(&message)?;
        if self.leaves_copies && LineOrigin::of(line).forked_from.is_some() {
            return None;
        }
        if message.client_id.is_some() {
            return Some(spool_line(self.format, &json));
        }
        let position = offset.to_be_bytes();
        let id = id(&[self.cursor.session.as_bytes(), &position, line.as_bytes()]);
        let rest = json.strip_prefix('{')?;
        Some(spool_line(self.format, &format!("{{\"client_id\":\"{id}\",{rest}")))
    }

    /// Returns the message in a line, and the part of the line that holds it. If a host was killed while it wrote a line,
    /// its next message follows the incomplete one in the same line. An object inside a message isn't taken for a message:
    /// only a message has an id or a time.
    fn message<'l>(&self, line: &'l [u8]) -> Option<(&'l str, Message)> {
        let read = |line: &'l [u8]| {
            let line = std::str::from_utf8(line).ok()?.trim();
            Some((line, formats::parse(self.format, line).ok()?))
        };
        read(line).or_else(|| {
            let is_broken = serde_json::from_slice::<IgnoredAny>(line).is_err();
            let end = line.get(line.len().saturating_sub(BROKEN_BYTES_MAX)..);
            let tail = end.filter(|_| is_broken)?;
            let mut candidates = beginnings(tail).filter_map(|index| read(tail.get(index..)?));
            candidates.find(|(_, message)| message.client_id.is_some() || message.at.is_some())
        })
    }
}

/// Returns the indices at which an object may begin in a broken line, last first. An object inside the last message
/// doesn't parse as a message, because the message continues after it.
fn beginnings(line: &[u8]) -> impl Iterator<Item = usize> {
    let pairs = line.windows(BEGINNING.len()).enumerate().rev();
    let beginnings = pairs.filter(|(_, pair)| *pair == BEGINNING);
    beginnings.map(|(index, _)| index).take(BEGINNINGS_MAX)
}

/// Formats a message as one line of the spool.
pub(super) fn spool_line(format: Format, json: &str) -> String {
    format!("{} {json}\n", format.name())
}

/// Returns an id made from `parts`. The same parts always give the same id.
pub(super) fn id(parts: &[&[u8]]) -> String {
    format!("hook-{}", short_hash(parts))
}

/// The fields of a line that say where the line comes from.
#[derive(Default, Deserialize)]
struct LineOrigin {
    /// The session from which the line was copied when this session branched off.
    #[serde(default, rename = "forkedFrom")]
    forked_from: Option<IgnoredAny>,
}

impl LineOrigin {
    fn of(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or_default()
    }
}

/// Returns the hash of the bytes before `offset`.
fn tail(file: &mut File, offset: u64) -> io::Result<String> {
    let length = offset.min(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(offset - length))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(short_hash(&[&bytes]))
}
