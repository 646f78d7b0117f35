//! A file of the live journal.
//!
//! Invariant: a message's line follows that of the message before it, once, whatever writes it: a thread that isn't
//! waited for any longer, or another process with the same folder. So it is written under the file's lock, after a look
//! at the file's end.

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

/// How many bytes of a file's end are read first; more, if its last line is longer.
const END_BYTES: u64 = 16 << 10;

/// Where lines may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePosition {
    /// After the message before them, if that was received at this time or later.
    Next { since: Timestamp },
    /// After this message, whatever their numbers.
    Behind(Last),
    /// At the beginning of a new file.
    Beginning,
}

/// The result of writing lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    All,
    /// None was written: the file ends with another message than the one before them.
    Nothing(Last),
    /// There is no file, or one without a whole line.
    NoFile,
}

/// The last message of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// Its number.
    pub(super) seq: i64,
    /// Tells it from the message that has its number in another life of the agent.
    received_at: Timestamp,
}

impl Last {
    /// A file's last message, if it is this one.
    pub(super) fn of(record: &MessageRecord) -> Self {
        Self {
            seq: record.seq,
            received_at: record.received_at,
        }
    }

    /// Whether it was received before then.
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

#[derive(Default)]
struct End {
    /// Whether it holds no whole line.
    is_empty: bool,
    /// `None` if it holds no message yet, or its last line isn't a message. Anything may follow.
    last: Option<Last>,
    /// Where an incomplete line begins, left by a crash or a full disk, in bytes.
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
            // An import doesn't read a longer line either.
            if window >= LINE_BYTES_MAX as u64 {
                return Ok(Self::default());
            }
            window *= 8;
        }
    }
}

/// Appends the lines of messages to a file: all of them, unless the disk fails.
pub(super) fn append(
    path: &Path,
    place: WritePosition,
    records: &[MessageRecord],
) -> io::Result<WriteOutcome> {
    let begins = place == WritePosition::Beginning;
    let mut file = match open_private(path, begins) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(WriteOutcome::NoFile),
        opened => opened?,
    };
    hold(&file)?;
    let end = End::of(&file)?;
    if end.is_empty && !begins {
        return Ok(WriteOutcome::NoFile);
    }
    let next = records.first().map(|record| record.seq);
    let follows = |last: Last| match place {
        WritePosition::Next { since } => next == Some(last.seq + 1) && !last.is_before(since),
        WritePosition::Behind(known) => last == known,
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

/// The messages' lines.
fn text(records: &[MessageRecord]) -> String {
    let lines = records.iter().map(|record| record.line() + "\n");
    lines.collect()
}

/// A file that isn't whole yet, under another name. It is locked while this exists.
pub(super) struct DraftFile {
    file: File,
    name: PathBuf,
    /// The message that it ends with; `None` if it has to be begun from its first line on.
    pub(super) last: Option<Last>,
}

impl DraftFile {
    /// Opens what was begun under this name, or a new file.
    pub(super) fn open(name: PathBuf) -> io::Result<Self> {
        let file = open_private(&name, true)?;
        hold(&file)?;
        let End { last, torn_at, .. } = End::of(&file)?;
        if let Some(bytes) = torn_at {
            file.set_len(bytes)?;
        }
        Ok(Self { file, name, last })
    }

    /// Appends lines, or with a head replaces what is there. If the disk has no room for them they are removed again,
    /// so that it gets the room back.
    pub(super) fn go_on(mut self, head: Option<&Head>, records: &[MessageRecord]) -> io::Result<Self> {
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
        // Here, so that the last chunk doesn't have to wait for all of them.
        self.file.sync_all()
    }

    /// Removes it.
    pub(super) fn discard(self) -> io::Result<()> {
        remove_if_there(&self.name)
    }

    /// Gives the file, which is whole, its proper name.
    pub(super) fn finish(self, path: &Path) -> io::Result<()> {
        if !is_called(&self.file, &self.name)? {
            return Err(io::Error::other("it was removed meanwhile"));
        }
        std::fs::rename(&self.name, path)?;
        sync_folder(path)
    }
}

/// Whether a file still has the name that it was opened by, and no other file has it.
fn is_called(file: &File, name: &Path) -> io::Result<bool> {
    let (held, named) = (file.metadata()?, std::fs::metadata(name)?);
    Ok((held.dev(), held.ino()) == (named.dev(), named.ino()))
}

/// Moves a file into the folder `past`. Returns whether it did: it may end with another message by now.
pub(super) fn set_aside(path: &Path, past: &Path, last: Last) -> io::Result<bool> {
    let file = open_private(path, false)?;
    hold(&file)?;
    if End::of(&file)?.last != Some(last) || !is_called(&file, path)? {
        return Ok(false);
    }
    make_folder(past)?;
    let place = free_place(past)?;
    std::fs::rename(path, &place)?;
    sync_folder(&place)?;
    sync_folder(path)?;
    Ok(true)
}

/// A free name in a folder.
fn free_place(folder: &Path) -> io::Result<PathBuf> {
    let mut number = 1_u64;
    loop {
        let place = folder.join(format!("{number}.jsonl"));
        if !place.try_exists()? {
            return Ok(place);
        }
        number += 1;
    }
}

/// Removes the files of an agent, if there are any.
pub(super) fn remove(begun: &Path, path: &Path, past: &Path) -> io::Result<()> {
    remove_if_there(begun)?;
    remove_if_there(path)?;
    unless_missing(std::fs::remove_dir_all(past))?;
    sync_folder(path)
}

/// Syncs a folder, so that forgotten content can't come back after a power cut.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Removes a file, if there is one.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    unless_missing(std::fs::remove_file(path))
}

fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes the lock of a file, for as long as it is open. It doesn't wait: what isn't written now is copied later.
fn hold(file: &File) -> io::Result<()> {
    match file.try_lock() {
        // A file system that has no locks keeps nobody out, but a journal can stand on it all the same.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::Error::other("somebody else is writing it")),
    }
}

/// Makes a folder of conversations, for its owner alone, if it isn't there.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens or makes a file that only its owner may read, since it holds conversations.
fn open_private(path: &Path, makes: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(makes);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
