//! A file of the live journal.
//!
//! Invariant: each message's line follows the previous message's line, and occurs once, whoever writes it: a thread that nobody
//! waits for any more, or another process with the same folder. So every write locks the file and reads its end first.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::journal::import::LINE_BYTES_MAX;
use recapd_core::domain::{
    journal::{Head, JournalLine, MessageRecord},
    time::Timestamp,
};

/// How many bytes of a file's end are read first. If the last line is longer, more are read.
const END_BYTES: u64 = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePosition {
    /// After the message with the preceding number, if the file ends with it and it was received at `since` or later.
    Next { since: Timestamp },
    /// After this message, if the file ends with it, whatever the numbers.
    Behind(Last),
    /// At the beginning of a new file.
    Beginning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// All lines were written.
    All,
    /// Nothing was written: the file ends with this message, which isn't the one before the messages to write.
    Nothing(Last),
    /// There is no file, or it has no complete line.
    NoFile,
}

/// The last message of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) seq: i64,
    /// Distinguishes the message from the one with the same number in another life of the agent.
    received_at: Timestamp,
}

impl Last {
    /// Returns the last message of a file that ends with `record`.
    pub(super) fn of(record: &MessageRecord) -> Self {
        Self { seq: record.seq, received_at: record.received_at }
    }

    pub(super) fn is_before(self, time: Timestamp) -> bool {
        self.received_at < time
    }

    fn read(line: &[u8]) -> Option<Self> {
        match JournalLine::parse(str::from_utf8(line).ok()?).ok()? {
            JournalLine::Message(record) => Some(Self::of(&record)),
            JournalLine::Head(_) => None,
        }
    }
}

/// What a file ends with.
#[derive(Default)]
struct End {
    /// True if the file has no complete line.
    is_empty: bool,
    /// The message in the last line; `None` if there is no line or the last line is no message. Then anything may follow.
    last: Option<Last>,
    /// Where an incomplete line begins, in bytes. A crash or a full disk may leave one.
    torn_at: Option<u64>,
}

impl End {
    fn of(mut file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let mut window = END_BYTES;
        loop {
            let from = bytes.saturating_sub(window);
            let mut read = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            file.take(bytes - from).read_to_end(&mut read)?;
            let mut lines = read.rsplitn(3, |&byte| byte == b'\n');
            let torn = lines.next().map_or(0, <[u8]>::len) as u64;
            let last = lines.next();
            if from == 0 || lines.next().is_some() {
                return Ok(Self {
                    is_empty: last.is_none(),
                    last: last.and_then(Last::read),
                    torn_at: (torn > 0).then_some(bytes - torn),
                });
            }
            // An import refuses longer lines, so nothing is compared with such a line, and anything may follow it.
            if window >= LINE_BYTES_MAX as u64 {
                return Ok(Self::default());
            }
            window *= 8;
        }
    }
}

/// Appends the lines of messages to a file: all or none, unless the disk fails in between.
pub(super) fn append(
    path: &Path,
    position: WritePosition,
    records: &[MessageRecord],
) -> io::Result<WriteOutcome> {
    let begins = position == WritePosition::Beginning;
    let mut file = match open_private(path, begins) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(WriteOutcome::NoFile),
        opened => opened?,
    };
    lock(&file)?;
    let end = End::of(&file)?;
    if end.is_empty && !begins {
        return Ok(WriteOutcome::NoFile);
    }
    let next = records.first().map(|record| record.seq);
    let follows = |last: Last| match position {
        WritePosition::Next { since } => next == Some(last.seq + 1) && !last.is_before(since),
        WritePosition::Behind(expected) => last == expected,
        WritePosition::Beginning => false,
    };
    if let Some(last) = end.last.filter(|&last| !follows(last)) {
        return Ok(WriteOutcome::Nothing(last));
    }
    if let Some(bytes) = end.torn_at {
        file.set_len(bytes)?;
    }
    file.write_all(text(records).as_bytes())?;
    Ok(WriteOutcome::All)
}

fn text(records: &[MessageRecord]) -> String {
    let lines = records.iter().map(|record| record.line() + "\n");
    lines.collect()
}

/// A file that isn't complete yet and has a temporary name. The file is locked while this exists.
pub(super) struct DraftFile {
    file: File,
    name: PathBuf,
    /// The file's last message; `None` if the file must be written from the first line on.
    pub(super) last: Option<Last>,
}

impl DraftFile {
    /// Opens the draft under this name, or a new file.
    pub(super) fn open(name: PathBuf) -> io::Result<Self> {
        let file = open_private(&name, true)?;
        lock(&file)?;
        let End { last, torn_at, .. } = End::of(&file)?;
        if let Some(bytes) = torn_at {
            file.set_len(bytes)?;
        }
        Ok(Self { file, name, last })
    }

    /// Appends lines. With a head, replaces the whole content. On a full disk, deletes the draft, which frees space.
    pub(super) fn append_chunk(mut self, head: Option<&Head>, records: &[MessageRecord]) -> io::Result<Self> {
        match self.write(head, records) {
            Ok(()) => Ok(self),
            Err(error) => {
                drop(self.discard());
                Err(error)
            }
        }
    }

    fn write(&mut self, head: Option<&Head>, records: &[MessageRecord]) -> io::Result<()> {
        if let Some(head) = head {
            self.file.set_len(0)?;
            self.file.write_all((head.line() + "\n").as_bytes())?;
        }
        self.file.write_all(text(records).as_bytes())?;
        // Syncs each chunk, so that the last one doesn't wait for all.
        self.file.sync_all()
    }

    pub(super) fn discard(self) -> io::Result<()> {
        remove_if_there(&self.name)
    }

    /// Gives the complete file its proper name.
    pub(super) fn finish(self, path: &Path) -> io::Result<()> {
        if !has_name(&self.file, &self.name)? {
            return Err(io::Error::other("it was removed meanwhile"));
        }
        std::fs::rename(&self.name, path)?;
        sync_folder(path)
    }
}

/// Returns true if the file still has the name under which it was opened, and no other file has that name.
fn has_name(file: &File, name: &Path) -> io::Result<bool> {
    let (open_file, named_file) = (file.metadata()?, std::fs::metadata(name)?);
    Ok((open_file.dev(), open_file.ino()) == (named_file.dev(), named_file.ino()))
}

/// Moves a file into the folder `past`. Returns false if the file ends with another message by now.
pub(super) fn set_aside(path: &Path, past: &Path, last: Last) -> io::Result<bool> {
    let file = open_private(path, false)?;
    lock(&file)?;
    if End::of(&file)?.last != Some(last) || !has_name(&file, path)? {
        return Ok(false);
    }
    make_folder(past)?;
    let free_path = free_name(past)?;
    std::fs::rename(path, &free_path)?;
    sync_folder(&free_path)?;
    sync_folder(path)?;
    Ok(true)
}

fn free_name(folder: &Path) -> io::Result<PathBuf> {
    let mut number = 1_u64;
    loop {
        let path = folder.join(format!("{number}.jsonl"));
        if !path.try_exists()? {
            return Ok(path);
        }
        number += 1;
    }
}

pub(super) fn remove(draft: &Path, path: &Path, past: &Path) -> io::Result<()> {
    remove_if_there(draft)?;
    remove_if_there(path)?;
    unless_missing(std::fs::remove_dir_all(past))?;
    sync_folder(path)
}

/// Syncs a folder, so that forgotten content can't return after a power cut.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    unless_missing(std::fs::remove_file(path))
}

fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Locks a file for as long as it is open. Doesn't wait, because unwritten lines are copied later.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        // On a file system without locks other writers aren't stopped, but a journal still works there.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::Error::other("somebody else is writing it")),
    }
}

/// Creates a folder that only its owner may read, since it holds conversations.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens or creates a file that only its owner may read, since it holds conversations.
fn open_private(path: &Path, makes: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(makes);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
