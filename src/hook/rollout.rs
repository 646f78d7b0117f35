//! Finds the origin of a Codex rollout: its session, and the rollout that it was copied from.
//!
//! `codex fork` begins a rollout with a new header, followed by copies of all lines of the original, its header included.
//! The copies have new times, and newer versions of Codex write more fields, so only messages and turns are compared.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tokio::time::Instant;

use recapd_core::{domain::message::Format, formats};

/// Longer lines of a transcript are skipped.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;
/// The time is checked after this many compared lines.
const COMPARED_AT_ONCE: usize = 64;
const HEADER: &str = "session_meta";
/// The types of lines with messages.
const ITEMS: [&str; 2] = ["response_item", "compacted"];

#[derive(Deserialize)]
struct RolloutLine<'a> {
    r#type: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// The first line of a rollout. It describes the session.
#[derive(Deserialize)]
struct Header {
    id: String,
    forked_from_id: Option<String>,
    #[serde(default)]
    source: Value,
}

/// The field in which an event names its turn.
#[derive(Deserialize)]
struct EventTurn {
    turn_id: String,
}

impl Header {
    fn of(line: &str) -> Option<Self> {
        let line: RolloutLine<'_> = serde_json::from_str(line).ok()?;
        let header = serde_json::from_str(line.payload.get()).ok()?;
        (line.r#type == HEADER).then_some(header)
    }
}

/// True for the rollout of a sub-agent. Codex calls hooks for sub-agents, too.
pub(super) fn is_of_subagent(path: &Path) -> bool {
    let header = || Header::of(&Lines::open(path, 0).ok()?.line().ok()??);
    header().is_some_and(|header| header.source.get("subagent").is_some())
}

/// True if the rollout's first line names `session`.
pub(super) fn is_of(path: &Path, session: &str) -> bool {
    let header = || Header::of(&Lines::open(path, 0).ok()?.line().ok()??);
    header().is_some_and(|header| header.id == session)
}

/// Returns the session whose lines were copied into the rollout, after its own header; `None` if no copies follow, as in
/// newer versions of Codex, which only refer to the original.
pub(super) fn parent(path: &Path) -> Option<String> {
    let mut lines = Lines::open(path, 0).ok()?;
    let mut header = || Header::of(&lines.line().ok()??);
    let (own_header, copied_header) = (header()?, header()?);
    own_header.forked_from_id.filter(|parent| !parent.is_empty() && *parent == copied_header.id)
}

/// The rollout that `codex fork` copied. Its lines up to `offset` are known to be in the copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Original {
    pub(super) rollout: PathBuf,
    pub(super) offset: u64,
}

impl Original {
    /// Compares the original from its offset on with the fork at `path` from `offset` on, until they differ or until
    /// `deadline`. Returns the fork's offset up to which the lines are copies, and whether the copied lines end there.
    pub(super) fn compare(&mut self, path: &Path, offset: u64, deadline: Instant) -> io::Result<(u64, bool)> {
        if self.rollout.metadata()?.len() < self.offset {
            return Err(io::Error::other("the other rollout was cut off"));
        }
        let mut copy = Lines::open(path, offset)?;
        let mut original = Lines::open(&self.rollout, self.offset)?;
        for count in 1_usize.. {
            let (copied_line, original_line) = (copy.next_item()?, original.next_item()?);
            // A fork may continue with the same words as the original, but in a turn of its own.
            let is_copied = copy.turn == original.turn
                && copied_line
                    .zip(original_line)
                    .is_some_and(|(copied_line, original_line)| is_same(&copied_line, &original_line));
            if !is_copied {
                return Ok((copy.began, true));
            }
            self.offset = original.offset;
            if count.is_multiple_of(COMPARED_AT_ONCE) && deadline <= Instant::now() {
                break;
            }
        }
        Ok((copy.offset, false))
    }
}

/// True if two lines have the same content.
fn is_same(line: &str, other: &str) -> bool {
    let content = |line: &str| {
        let message = formats::parse(Format::Codex, line).ok()?;
        Some((message.kind, message.parts))
    };
    payload(line).is_some_and(|first| payload(other) == Some(first))
        || content(line).is_some_and(|first| content(other) == Some(first))
}

/// Returns what follows a line's time. Comparing this usually makes parsing unnecessary.
fn payload(line: &str) -> Option<&str> {
    line.split_once(r#""payload":"#).map(|(_, payload)| payload)
}

struct Lines {
    reader: BufReader<File>,
    /// The beginning of the last line that was read, or the end of the file.
    began: u64,
    offset: u64,
    /// The turn of the last line, if a line has named one.
    turn: Option<String>,
}

impl Lines {
    fn open(path: &Path, offset: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { reader: BufReader::new(file), began: offset, offset, turn: None })
    }

    /// Returns the next line; `None` if it is incomplete or too long.
    fn line(&mut self) -> io::Result<Option<String>> {
        self.began = self.offset;
        let mut bytes = Vec::new();
        (&mut self.reader).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            return Ok(None);
        }
        self.offset += bytes.len() as u64;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Returns the next line that holds a message; `None` at the end.
    fn next_item(&mut self) -> io::Result<Option<String>> {
        while let Some(line) = self.line()? {
            if self.is_item(&line) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// True if a line holds a message. If another line names a turn, stores that turn.
    fn is_item(&mut self, line: &str) -> bool {
        let Ok(line) = serde_json::from_str::<RolloutLine<'_>>(line) else {
            return false;
        };
        let is_item = ITEMS.contains(&line.r#type.as_str());
        if !is_item && let Ok(EventTurn { turn_id }) = serde_json::from_str(line.payload.get()) {
            self.turn = Some(turn_id);
        }
        is_item
    }
}
