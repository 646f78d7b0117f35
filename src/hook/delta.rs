//! What was added to a transcript since it was last read.
//!
//! Invariant: in whatever steps a transcript grows and is read, the same messages with the same ids result.

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

/// How many bytes are read at a time; their whole lines become one segment of the spool.
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// The longest line, in bytes; longer ones are skipped.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;
/// How many bytes at the end of a broken line are searched for a message behind half a one.
const BROKEN_BYTES_MAX: usize = 1 << 20;
/// How objects begin, and how many of them are tried.
const BEGINNING: &[u8] = b"{\"";
const BEGINNINGS_MAX: usize = 64;
/// How many bytes before the offset are compared to tell whether a transcript is still the one that was read.
const TAIL_BYTES_MAX: u64 = 256;

/// How far a transcript was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) transcript: PathBuf,
    /// The transcript's format, by name.
    format: String,
    pub(super) session: String,
    /// The offset in bytes, after the end of a line.
    pub(super) offset: u64,
    /// A hash of the bytes before the offset.
    tail: String,
    /// How many bytes of half a line stood behind the offset when there was nothing else: one that the host was still
    /// writing, or never finished.
    #[serde(default)]
    pub(super) half: u64,
    /// What is being passed over, as a copy of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<Original>,
}

impl Cursor {
    /// A cursor at the beginning of a transcript.
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

    /// Whether it is in a transcript of that session, which hosts name it by, too.
    pub(super) fn is_of(&self, session: &str) -> bool {
        let name = self.transcript.file_stem().unwrap_or_default();
        self.session == session || name.to_string_lossy().ends_with(session)
    }

    /// Whether a transcript of that length has something that wasn't looked at yet.
    pub(super) fn is_behind(&self, length: u64) -> bool {
        length > self.offset && length != self.offset.saturating_add(self.half)
    }
}

/// A transcript that is read on from its cursor.
pub(super) struct Transcript {
    file: File,
    format: Format,
    /// Whether lines copied from another session are left out.
    leaves_copies: bool,
    pub(super) cursor: Cursor,
}

impl Transcript {
    /// Opens the transcript of `cursor`; it is read from its beginning if it isn't the one that was read before.
    /// Messages that were read before get the same ids again.
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

    /// The next whole lines that hold messages and begin before `until`, in the spool's form; `None` at the end. An
    /// incomplete line counts as not there yet.
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
        self.pass_to(offset)?;
        Ok(Some(lines))
    }

    /// Whether it may begin with lines of another session that don't say so.
    pub(super) fn may_begin_as_copy(&self) -> bool {
        self.leaves_copies && self.format == Format::Codex
    }

    /// Passes over everything up to `offset`.
    pub(super) fn pass_to(&mut self, offset: u64) -> io::Result<()> {
        self.cursor.tail = tail(&mut self.file, offset)?;
        self.cursor.offset = offset;
        self.cursor.half = 0;
        Ok(())
    }

    /// Bytes from the offset to the end of a line; of a line that is too long, any part. None at the end, where the cursor
    /// notes half a line.
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

    /// A line in the spool's form; `None` if it holds no message, a prompt without a word, or what a subagent says: these
    /// have conversations of their own, and their answers come back in this one.
    fn record(&self, line: &[u8], offset: u64) -> Option<String> {
        let (line, message) = self.whole(line)?;
        if formats::is_wordless_prompt(&message) {
            return None;
        }
        let origin = LineOrigin::of(line);
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

    /// The message of a line, and the part of the line that it is. A host that was killed in the middle of a line goes on
    /// right behind that: the message after half a one stands in the same line. It has an id or a time of its own, unlike
    /// what stands within a message.
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

/// Where an object may begin in a broken line, the last one first. Those within the last message are no lines of their own,
/// since it goes on behind them.
fn beginnings(line: &[u8]) -> impl Iterator<Item = usize> {
    let pairs = line.windows(BEGINNING.len()).enumerate().rev();
    let beginnings = pairs.filter(|(_, pair)| *pair == BEGINNING);
    beginnings.map(|(place, _)| place).take(BEGINNINGS_MAX)
}

/// A message of a format in one line.
pub(super) fn spooled(format: Format, json: &str) -> String {
    format!("{} {json}\n", format.name())
}

/// An id made of `parts`: the same parts give the same id.
pub(super) fn id(parts: &[&[u8]]) -> String {
    format!("hook-{}", short_hash(parts))
}

/// The origin of a line.
#[derive(Default, Deserialize)]
struct LineOrigin {
    #[serde(default, rename = "isSidechain")]
    is_sidechain: bool,
    /// The session that it was copied from when this one was branched off.
    #[serde(default, rename = "forkedFrom")]
    forked_from: Option<IgnoredAny>,
}

impl LineOrigin {
    fn of(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or_default()
    }
}

/// A hash of the bytes before `offset`.
fn tail(file: &mut File, offset: u64) -> io::Result<String> {
    let length = offset.min(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(offset - length))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(short_hash(&[&bytes]))
}
