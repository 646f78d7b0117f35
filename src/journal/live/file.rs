//! A file of the live journal.
//!
//! Invariant: a message's line stands behind that of the message before it, once, whoever writes: a thread that nobody
//! waits for any longer, or another process with the same folder. So it is written under the file's lock, after a look at
//! how the file ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use crate::{
    domain::{
        journal::{Line, MessageRecord},
        time::Timestamp,
    },
    journal::import::LINE_BYTES_MAX,
};

/// So much of a file's end is read first, in bytes; where its last line is longer, more.
const END_BYTES: u64 = 16 << 10;

/// Where lines may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind the message before them.
    Next,
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
        Place::Next => next == Some(last.seq + 1),
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
pub(super) fn text(records: &[MessageRecord]) -> String {
    let lines = records.iter().map(|record| record.line() + "\n");
    lines.collect()
}

/// Begins a file, in the place of what an earlier attempt left. Whoever has it holds its lock.
pub(super) fn begin(path: &Path) -> io::Result<File> {
    let file = open_private(path, true)?;
    hold(&file)?;
    file.set_len(0)?;
    Ok(file)
}

/// Gives its name to the file that was begun, if it was written as a whole: says whether it was. Else it goes, since
/// whoever has something forgotten looks for the file itself, and a full disk gets its room back.
pub(super) fn finish(begun: &Path, path: &Path, written: io::Result<Option<File>>) -> io::Result<bool> {
    let named = written.and_then(|file| match file {
        Some(held) => {
            held.sync_all()?;
            std::fs::rename(begun, path)?;
            sync_folder(path).map(|()| true)
        }
        None => Ok(false),
    });
    if !matches!(named, Ok(true)) {
        drop(remove_if_there(begun));
    }
    named
}

/// Removes the files of an agent, if there are any.
pub(super) fn remove(begun: &Path, path: &Path) -> io::Result<()> {
    remove_if_there(begun)?;
    remove_if_there(path)?;
    sync_folder(path)
}

/// Has the disk know what the files of a folder are called: what was forgotten must not come back with a power cut.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Removes a file, if there is one.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
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
