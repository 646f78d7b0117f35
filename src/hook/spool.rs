//! Messages that wait to be sent, in the order of their arrival: segments that are written whole, and removed when they
//! are sent.

use std::{
    cmp::Reverse,
    fs, io,
    path::{Path, PathBuf},
};

use super::folder::{files, is_old, remove_half_written, replace, replace_durably, touched_at};
use recapd_core::{
    domain::{message::Format, time::Timestamp},
    hash::short_hash,
};

/// The most bytes that may wait per agent. Beyond it messages stay in their transcripts.
const BYTES_MAX: u64 = 64 << 20;
/// The most segments that may wait per agent.
const SEGMENTS_MAX: usize = 1_000;
const EXTENSION: &str = "jsonl";
/// The extension of copies of segments in which something is no message.
const UNREADABLE: &str = "unreadable";
/// How many of these an agent keeps, for people to look at: the newest.
const UNREADABLE_MAX: usize = 4;

/// An agent's spool.
pub(super) struct Spool(PathBuf);

/// A segment's content: messages in one line each, after the names of their formats.
pub(super) struct Segment {
    path: PathBuf,
    lines: Vec<(String, String)>,
    is_damaged: bool,
}

impl Spool {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Adds `lines` as the last segment; returns false if there is no room.
    pub(super) fn add(&self, lines: &str) -> io::Result<bool> {
        if lines.is_empty() {
            return Ok(true);
        }
        let segments = self.segments();
        let (_, bytes) = self.figures();
        if segments.len() >= SEGMENTS_MAX || (bytes > 0 && bytes + lines.len() as u64 > BYTES_MAX) {
            return Ok(false);
        }
        let number = segments.last().map_or(0, |path| number(path)) + 1;
        // The cursor moves next: what it passes over must be stored durably here.
        replace_durably(
            &self.0.join(format!("{number:012}.{EXTENSION}")),
            lines.as_bytes(),
        )?;
        Ok(true)
    }

    /// The segments that wait, oldest first.
    pub(super) fn segments(&self) -> Vec<PathBuf> {
        with_extension(&self.0, EXTENSION)
    }

    /// How many segments wait, and how many bytes they have.
    pub(super) fn figures(&self) -> (usize, u64) {
        let segments = self.segments();
        let bytes = segments
            .iter()
            .filter_map(|path| Some(fs::metadata(path).ok()?.len()));
        (segments.len(), bytes.sum())
    }

    /// Removes all messages, sent or not, and the copies of those that can't be read.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes what nobody needs any more. What waits stays, however old it is.
    pub(super) fn prune(&self, now: Timestamp) {
        remove_half_written(&self.0, now);
        remove_set_aside(&self.0, |file| is_old(file, now));
    }
}

impl Segment {
    /// Reads a segment. Where something in it is no message, the rest is sent all the same, and a copy of all is set aside.
    pub(super) fn read(path: PathBuf) -> io::Result<Self> {
        let bytes = fs::read(&path)?;
        let written = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines: Vec<_> = written.clone().filter_map(spooled_line).collect();
        let is_damaged = lines.len() < written.count();
        if is_damaged {
            set_aside(&path, &bytes);
        }
        Ok(Self {
            path,
            lines,
            is_damaged,
        })
    }

    /// Whether something in it is no message, and lost.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// The messages.
    pub(super) fn lines(&self) -> &[(String, String)] {
        &self.lines
    }

    /// Removes the first `count` messages.
    pub(super) fn sent(self, count: usize) -> io::Result<()> {
        let rest = self.lines.get(count..).unwrap_or_default();
        if rest.is_empty() {
            return fs::remove_file(&self.path);
        }
        let text: String = rest
            .iter()
            .flat_map(|(format, json)| [format, " ", json, "\n"])
            .collect();
        replace_durably(&self.path, text.as_bytes())
    }
}

/// A line's format and message. Zeros are text, and so is the middle of a message.
fn spooled_line(line: &[u8]) -> Option<(String, String)> {
    let (format, json) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Format::from_name(format)?;
    Some((format.to_owned(), json.to_owned()))
}

fn number(segment: &Path) -> u64 {
    let name = segment.file_stem().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or_default()
}

/// Sets a copy of a segment aside, once: numbers come again. At worst there is none to look at.
fn set_aside(segment: &Path, bytes: &[u8]) {
    let copy = segment.with_extension(format!("{}.{UNREADABLE}", short_hash(&[bytes])));
    if !copy.exists() {
        replace(&copy, bytes).ok();
    }
    if let Some(folder) = segment.parent() {
        remove_set_aside(folder, |_| false);
    }
}

/// Removes what was set aside but for the newest few, and of these what `is_old`. Another hook may be faster.
fn remove_set_aside(folder: &Path, is_old: impl Fn(&Path) -> bool) {
    let mut aside = with_extension(folder, UNREADABLE);
    aside.sort_by_cached_key(|file| Reverse((touched_at(file), file.clone())));
    for (place, file) in aside.iter().enumerate() {
        if place >= UNREADABLE_MAX || is_old(file) {
            fs::remove_file(file).ok();
        }
    }
}

/// The files in a folder with that extension, in the order of their names.
fn with_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let has_it = |path: &PathBuf| path.extension().is_some_and(|of| of == extension);
    files(folder).into_iter().filter(has_it).collect()
}
