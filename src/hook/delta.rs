//! The lines added to a transcript since it was last read.
//!
//! Invariant: the same messages with the same ids result, in whatever steps a transcript grows and is read.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::rollout::Original;
use recapd_core::{
    domain::message::{Format, Message},
    formats,
    hash::short_hash,
};

/// Block size in bytes, and the size from which on a segment of the spool is written: the conversation in several blocks.
const BLOCK_BYTES_MAX: usize = 128 << 10;
const SEGMENT_BYTES_MIN: usize = 256 << 10;
/// The most bytes of a transcript that are read for one segment.
const READ_BYTES_MAX: u64 = 2 << 20;
/// Longest line, in bytes; longer ones are skipped.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes at the end of a broken line that are searched for a message after an incomplete one.
const BROKEN_BYTES_MAX: usize = 1 << 20;
/// The beginning of an object, and how many occurrences are tried.
const BEGINNING: &[u8] = b"{\"";
const BEGINNINGS_MAX: usize = 64;
/// Bytes before the offset that identify a transcript when it is read again.
const TAIL_BYTES_MAX: u64 = 256;

/// The position up to which a transcript was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) transcript: PathBuf,
    /// The name of the transcript's format.
    format: String,
    pub(super) session: String,
    /// Offset in bytes; always the end of a line.
    pub(super) offset: u64,
    tail: String,
    /// Length in bytes of an incomplete line after the offset, with nothing else behind it. The host was still
    /// writing it, or never finished it.
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

    /// True if the transcript is that session's; hosts also use the session's id in the file name.
    pub(super) fn is_of(&self, session: &str) -> bool {
        let name = self.transcript.file_stem().unwrap_or_default();
        self.session == session || name.to_string_lossy().ends_with(session)
    }

    /// How many bytes of the transcript were looked at.
    pub(super) fn seen(&self) -> u64 {
        self.offset.saturating_add(self.half)
    }

    /// True if a transcript of that length has bytes that weren't looked at yet.
    pub(super) fn is_behind(&self, length: u64) -> bool {
        length > self.offset && length != self.seen()
    }
}

/// A transcript that is read on from its cursor.
pub(super) struct Transcript {
    file: File,
    format: Format,
    /// True if lines copied from another session are left out.
    leaves_copies: bool,
    pub(super) cursor: Cursor,
}

impl Transcript {
    /// Opens the transcript of `cursor`. If it isn't the one that was read before, reading starts over; messages that
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
        Ok(Self {
            file,
            format,
            leaves_copies,
            cursor,
        })
    }

    /// Returns the next whole lines with conversation that begin before `until`, in the spool's format; `None` at the
    /// end. An incomplete line doesn't count.
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

    /// True if the transcript may begin with unmarked lines of another session.
    pub(super) fn may_begin_as_copy(&self) -> bool {
        self.leaves_copies && self.format == Format::Codex
    }

    pub(super) fn pass_to(&mut self, offset: u64) -> io::Result<()> {
        self.cursor.tail = tail(&mut self.file, offset)?;
        self.cursor.offset = offset;
        self.cursor.half = 0;
        Ok(())
    }

    /// Reads bytes from the offset to the end of a line; of an overlong line, any part. Returns no bytes at the end,
    /// and notes the length of an incomplete line in the cursor.
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

    /// Returns the conversation in a line, in the spool's format; `None` if there is none. Sub-agents have conversations of
    /// their own, and their answers come back in this one.
    fn record(&self, line: &[u8], offset: u64) -> Option<String> {
        let (line, message) = self.whole(line)?;
        let said = formats::conversation_line(&message)?;
        if self.leaves_copies && LineOrigin::of(line).forked_from.is_some() {
            return None;
        }
        if message.client_id.is_some() {
            return Some(spooled(self.format, &said));
        }
        let place = offset.to_be_bytes();
        let id = id(&[self.cursor.session.as_bytes(), &place, line.as_bytes()]);
        let rest = said.strip_prefix('{')?;
        Some(spooled(self.format, &format!("{{\"client_id\":\"{id}\",{rest}")))
    }

    /// Returns the message of a line, and its part of the line. A host that was killed within a line continues right
    /// behind it, so the next message follows an incomplete one in the same line. Unlike objects within a message it
    /// has an id or a time of its own.
    fn whole<'l>(&self, line: &'l [u8]) -> Option<(&'l str, Message)> {
        let read = |line: &'l [u8]| {
            let line = std::str::from_utf8(line).ok()?.trim();
            Some((line, formats::parse(self.format, line).ok()?))
        };
        read(line).or_else(|| {
            let is_broken = serde_json::from_slice::<IgnoredAny>(line).is_err();
            let end = line.get(line.len().saturating_sub(BROKEN_BYTES_MAX)..);
            let broken = end.filter(|_| is_broken)?;
            let mut behind_half = beginnings(broken).filter_map(|place| read(broken.get(place..)?));
            behind_half.find(|(_, message)| message.client_id.is_some() || message.at.is_some())
        })
    }
}

/// The indices at which an object may begin in a broken line, last first. Objects within the last message are no
/// candidates, since the message continues after them.
fn beginnings(line: &[u8]) -> impl Iterator<Item = usize> {
    let pairs = line.windows(BEGINNING.len()).enumerate().rev();
    let beginnings = pairs.filter(|(_, pair)| *pair == BEGINNING);
    beginnings.map(|(place, _)| place).take(BEGINNINGS_MAX)
}

/// Formats a message as one line of the spool.
pub(super) fn spooled(format: Format, json: &str) -> String {
    format!("{} {json}\n", format.name())
}

/// Makes an id from `parts`; the same parts give the same id.
pub(super) fn id(parts: &[&[u8]]) -> String {
    format!("hook-{}", short_hash(parts))
}

/// Members of a line that say where it comes from.
#[derive(Default, Deserialize)]
struct LineOrigin {
    /// The session that the line was copied from when this one branched off.
    #[serde(default, rename = "forkedFrom")]
    forked_from: Option<IgnoredAny>,
}

impl LineOrigin {
    fn of(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or_default()
    }
}

fn tail(file: &mut File, offset: u64) -> io::Result<String> {
    let length = offset.min(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(offset - length))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(short_hash(&[&bytes]))
}
