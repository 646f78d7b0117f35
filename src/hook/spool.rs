//! Messages that wait to be sent, in the order of their arrival: segments that are written whole, and removed when they
//! are sent.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::folder::{files, replace_durably};

/// The most bytes that may wait per agent. Beyond it messages stay in their transcripts.
const BYTES_MAX: u64 = 64 << 20;
/// The most segments that may wait per agent.
const SEGMENTS_MAX: usize = 1_000;
const EXTENSION: &str = "jsonl";
/// The extension of segments that can't be read.
const UNREADABLE: &str = "unreadable";

/// An agent's spool.
pub(super) struct Spool(PathBuf);

/// A segment's content: messages in one line each, after the names of their formats.
pub(super) struct Segment {
    path: PathBuf,
    lines: Vec<(String, String)>,
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
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == EXTENSION);
        files(&self.0).into_iter().filter(is_segment).collect()
    }

    /// How many segments wait, and how many bytes they have.
    pub(super) fn figures(&self) -> (usize, u64) {
        let segments = self.segments();
        let bytes = segments
            .iter()
            .filter_map(|path| Some(fs::metadata(path).ok()?.len()));
        (segments.len(), bytes.sum())
    }
}

impl Segment {
    /// Reads a segment. An unreadable one is set aside, so that it doesn't block those after it.
    pub(super) fn read(path: PathBuf) -> io::Result<Self> {
        let text = fs::read_to_string(&path).inspect_err(|_| {
            // At worst the next hook finds it again.
            fs::rename(&path, path.with_extension(UNREADABLE)).ok();
        })?;
        let lines = text.lines().filter_map(|line| {
            let (format, json) = line.split_once(' ')?;
            Some((format.to_owned(), json.to_owned()))
        });
        Ok(Self {
            lines: lines.collect(),
            path,
        })
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

fn number(segment: &Path) -> u64 {
    let name = segment.file_stem().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or_default()
}
