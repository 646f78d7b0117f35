//! A file of the live journal.
//!
//! Invariant: a message's line stands behind that of the message before it, once, whoever writes: a thread that nobody
//! waits for any longer, or another process with the same folder. So it is written under the file's lock, after a look at
//! how the file ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::{
    domain::{
        journal::{Head, Line, MessageRecord},
        time::Timestamp,
    },
    journal::import::LINE_BYTES_MAX,
};

/// So much of a file's end is read first, in bytes; where its last line is longer, more.
const END_BYTES: u64 = 16 << 10;

/// Where lines may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind the message before them, if that was received at this time or later.
    Next { since: Timestamp },
    /// Behind this one, whichever they are.
    Behind(Last),
    /// At the beginning of a file, which is made.
    Beginning,
}

/// What came of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// They stand in the file.
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
    /// Tells it from a message that another life of the agent has in its place.
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
        match Line::parse(str::from_utf8(line).ok()?).ok()? {
            Line::Message(record) => Some(Self::of(&record)),
            Line::Head(_) => None,
        }
    }
}

/// How a file ends.
#[derive(Default)]
struct End {
    /// Whether it holds no whole line.
    is_empty: bool,
    /// None: it holds no message yet, or its last line isn't known for one. Anything may follow.
    last: Option<Last>,
    /// Where a line begins that a crash or a full disk has torn, in bytes.
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
            // A longer line no import reads either.
            if window >= LINE_BYTES_MAX as u64 {
                return Ok(Self::default());
            }
            window *= 8;
        }
    }
}

/// Appends the lines of messages to a file: all of them, unless the disk fails.
pub(super) fn append(path: &Path, place: Place, records: &[MessageRecord]) -> io::Result<Written> {
    let begins = place == Place::Beginning;
    let mut file = match open_private(path, begins) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Written::NoFile),
        opened => opened?,
    };
    hold(&file)?;
    let end = End::of(&file)?;
    if end.is_empty && !begins {
        return Ok(Written::NoFile);
    }
    let next = records.first().map(|record| record.seq);
    let follows = |last: Last| match place {
        Place::Next { since } => next == Some(last.seq + 1) && !last.is_before(since),
        Place::Behind(known) => last == known,
        Place::Beginning => false,
    };
    if let Some(last) = end.last.filter(|&last| !follows(last)) {
        return Ok(Written::Nothing(last));
    }
    if let Some(bytes) = end.torn_at {
        file.set_len(bytes)?;
    }
    file.write_all(text(records).as_bytes())?;
    Ok(Written::All)
}

/// The messages' lines.
fn text(records: &[MessageRecord]) -> String {
    let lines = records.iter().map(|record| record.line() + "\n");
    lines.collect()
}

/// A file that isn't whole yet, under another name. Whoever has it holds its lock.
pub(super) struct Beginning {
    file: File,
    name: PathBuf,
    /// The message that it ends with; none if it has to be begun from its first line on.
    pub(super) last: Option<Last>,
}

impl Beginning {
    /// What was begun under this name, be it nothing.
    pub(super) fn open(name: PathBuf) -> io::Result<Self> {
        let file = open_private(&name, true)?;
        hold(&file)?;
        let End { last, torn_at, .. } = End::of(&file)?;
        if let Some(bytes) = torn_at {
            file.set_len(bytes)?;
        }
        Ok(Self { file, name, last })
    }

    /// Writes lines behind what is there; with a head, in its place. What the disk has no room for goes, so that it gets back
    /// what it gave.
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
        // Now, so that the last chunk doesn't wait for all of them.
        self.file.sync_all()
    }

    /// Removes it.
    pub(super) fn discard(self) -> io::Result<()> {
        remove_if_there(&self.name)
    }

    /// Gives the file, which is whole, the name that it is for.
    pub(super) fn finish(self, path: &Path) -> io::Result<()> {
        if !is_called(&self.file, &self.name)? {
            return Err(io::Error::other("it was removed meanwhile"));
        }
        std::fs::rename(&self.name, path)?;
        sync_folder(path)
    }
}

/// Whether a file still has the name that it had when it was opened, and no other one has it.
fn is_called(file: &File, name: &Path) -> io::Result<bool> {
    let (held, named) = (file.metadata()?, std::fs::metadata(name)?);
    Ok((held.dev(), held.ino()) == (named.dev(), named.ino()))
}

/// Moves a file into the folder `past`, beside what is there. Says whether it did: it may end with another message by now.
pub(super) fn set_aside(path: &Path, past: &Path, last: Last) -> io::Result<bool> {
    let file = open_private(path, false)?;
    hold(&file)?;
    if End::of(&file)?.last != Some(last) || !is_called(&file, path)? {
        return Ok(false);
    }
    std::fs::create_dir_all(past)?;
    let place = free_place(past)?;
    std::fs::rename(path, &place)?;
    sync_folder(&place)?;
    sync_folder(path)?;
    Ok(true)
}

/// Where nothing stands in a folder yet.
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

/// Has the disk know what the files of a folder are called: what was forgotten must not come back with a power cut.
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

/// Takes the lock of a file, for as long as it is open. Nobody waits for it: what isn't written now is copied later.
fn hold(file: &File) -> io::Result<()> {
    match file.try_lock() {
        // A file system that has no locks keeps nobody out, but a journal can stand on it all the same.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::Error::other("somebody else is writing it")),
    }
}

/// What agents say is nobody else's business: only the owner may read a file that is made here.
fn open_private(path: &Path, makes: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(makes);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
