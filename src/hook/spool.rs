//! Messages that wait to be sent, in the order in which they arrived. Segments are written atomically, and removed once
//! sent.

use std::{
    cmp::Reverse,
    fs, io,
    path::{Path, PathBuf},
};

use super::files::{files, is_old, remove_half_written, replace, replace_durably, touched_at};
use recapd_core::{
    domain::{message::Format, time::Timestamp},
    hash::short_hash,
};

/// At most this many bytes may wait for an agent. Further messages stay in their transcripts.
const BYTES_MAX: u64 = 64 << 20;
/// At most this many segments may wait for an agent.
const SEGMENTS_MAX: usize = 1_000;
const EXTENSION: &str = "jsonl";
/// The extension of copies of segments with invalid lines.
const UNREADABLE: &str = "unreadable";
/// This many of the newest unreadable copies are kept for inspection.
const UNREADABLE_MAX: usize = 4;

pub(super) struct Spool(PathBuf);

/// A segment's content.
pub(super) struct Segment {
    path: PathBuf,
    /// The name of the format and the JSON of each message.
    lines: Vec<(String, String)>,
    is_damaged: bool,
}

impl Spool {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Appends `lines` as a segment. Returns false if there is no room.
    pub(super) fn add(&self, lines: &str) -> io::Result<bool> {
        if lines.is_empty() {
            return Ok(true);
        }
        let segments = self.segments();
        let (_, bytes) = self.counts();
        if segments.len() >= SEGMENTS_MAX || (bytes > 0 && bytes + lines.len() as u64 > BYTES_MAX) {
            return Ok(false);
        }
        let number = segments.last().map_or(0, |path| number(path)) + 1;
        // The cursor moves past these lines next, so the segment must survive a power failure.
        replace_durably(&self.0.join(format!("{number:012}.{EXTENSION}")), lines.as_bytes())?;
        Ok(true)
    }

    pub(super) fn segments(&self) -> Vec<PathBuf> {
        with_extension(&self.0, EXTENSION)
    }

    /// Returns the number of waiting segments, and their bytes.
    pub(super) fn counts(&self) -> (usize, u64) {
        let segments = self.segments();
        let bytes = segments.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len()));
        (segments.len(), bytes.sum())
    }

    /// Removes all messages, sent or not, and the copies of unreadable segments.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes obsolete files. Waiting messages stay, however old they are.
    pub(super) fn prune(&self, now: Timestamp) {
        remove_half_written(&self.0, now);
        remove_set_aside(&self.0, |file| is_old(file, now));
    }
}

impl Segment {
    /// Reads a segment. If some lines are invalid, the others are still sent, and a copy of the segment is moved aside.
    pub(super) fn read(path: PathBuf) -> io::Result<Self> {
        let bytes = fs::read(&path)?;
        let written = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines: Vec<_> = written.clone().filter_map(spooled_line).collect();
        let is_damaged = lines.len() < written.count();
        if is_damaged {
            set_aside(&path, &bytes);
        }
        Ok(Self { path, lines, is_damaged })
    }

    /// True if some lines are invalid, and therefore lost.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    pub(super) fn lines(&self) -> &[(String, String)] {
        &self.lines
    }

    /// Removes the first `count` messages, which the daemon has stored or refused for good.
    pub(super) fn sent(self, count: usize) -> io::Result<()> {
        let rest = self.lines.get(count..).unwrap_or_default();
        if rest.is_empty() {
            return fs::remove_file(&self.path);
        }
        let text: String = rest.iter().flat_map(|(format, json)| [format, " ", json, "\n"]).collect();
        replace_durably(&self.path, text.as_bytes())
    }
}

/// Splits a line into format and message. Checks the format's name: a damaged line, such as zeros or the middle of a
/// message, may be valid text.
fn spooled_line(line: &[u8]) -> Option<(String, String)> {
    let (format, json) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Format::from_name(format)?;
    Some((format.to_owned(), json.to_owned()))
}

fn number(segment: &Path) -> u64 {
    let name = segment.file_stem().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or_default()
}

/// Stores a copy of a segment, once. The copy's name contains a hash, because later segments get the same numbers again.
/// If writing fails, there is no copy.
fn set_aside(segment: &Path, bytes: &[u8]) {
    let copy = segment.with_extension(format!("{}.{UNREADABLE}", short_hash(&[bytes])));
    if !copy.exists() {
        replace(&copy, bytes).ok();
    }
    if let Some(folder) = segment.parent() {
        remove_set_aside(folder, |_| false);
    }
}

/// Removes copies that are old, and all but the newest [`UNREADABLE_MAX`] of the others. Another hook may have removed
/// them already.
fn remove_set_aside(folder: &Path, is_old: impl Fn(&Path) -> bool) {
    let mut copies = with_extension(folder, UNREADABLE);
    copies.sort_by_cached_key(|file| Reverse((touched_at(file), file.clone())));
    for (index, file) in copies.iter().enumerate() {
        if index >= UNREADABLE_MAX || is_old(file) {
            fs::remove_file(file).ok();
        }
    }
}

/// Returns the files in a folder that have this extension, sorted by name.
fn with_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let has_extension = |path: &PathBuf| path.extension().is_some_and(|other| other == extension);
    files(folder).into_iter().filter(has_extension).collect()
}
