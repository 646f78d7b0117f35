//! Folders with one conversation: OpenHands writes each event to a file of its own, `events/event-00000-<id>.json`. Strands Agents does so
//! with messages, `messages/message_0.json`.

use std::{
    fs::{self, File},
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
};

use super::DOCUMENT_BYTES_MAX;

/// The names of such folders. The conversation has the name of the folder above it.
const FOLDERS: [&str; 2] = ["events", "messages"];
/// How the names of the files begin. The number follows.
const PREFIXES: [&str; 2] = ["event-", "message_"];
const EXTENSION: &str = ".json";

/// Returns true if a folder has the events or messages of one conversation, one in each file, and nothing else but hidden files.
pub fn is_conversation(folder: &Path) -> bool {
    event_files(folder).is_some_and(|files| !files.is_empty())
}

/// Returns the path whose name is the conversation's.
pub(super) fn named_path(path: &Path) -> &Path {
    let is_named_by_kind = FOLDERS.iter().any(|folder| path.file_name().is_some_and(|name| name == *folder));
    path.parent().filter(|_| is_named_by_kind && is_conversation(path)).unwrap_or(path)
}

/// Opens a file, or a conversation's folder as lines of events.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    match event_files(path) {
        Some(files) => Ok(Box::new(Cursor::new(read_events(&files)?))),
        None => Ok(Box::new(File::open(path)?)),
    }
}

/// Returns the events' files in order; `None` if the folder has others.
fn event_files(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_str()?;
        if name.starts_with('.') {
            continue;
        }
        let stem = name.strip_suffix(EXTENSION)?;
        let rest = PREFIXES.iter().find_map(|prefix| stem.strip_prefix(prefix))?;
        let number = rest.split('-').next()?;
        files.push((number.parse::<u64>().ok()?, path));
    }
    files.sort();
    Some(files.into_iter().map(|(_, path)| path).collect())
}

fn read_events(files: &[PathBuf]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for file in files {
        let rest = (DOCUMENT_BYTES_MAX + 1).saturating_sub(lines.len()) as u64;
        let mut event = Vec::new();
        File::open(file)?.take(rest).read_to_end(&mut event)?;
        // In JSON, line breaks are only between values.
        lines.extend(event.into_iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        lines.push(b'\n');
    }
    Ok(lines)
}
