//! Reads files of messages: JSON lines, JSON documents, benchmark traces, and aider's Markdown. Detects the format from the content.
//!
//! Lines are read one at a time, documents as a whole. Invariant: once a file is open, nothing in it stops the rest. An unreadable entry
//! comes out as a [`SkippedEntry`], with its place, a reason and a cure. The results don't depend on the chunks in which the underlying
//! reader delivers bytes.

mod aider;
mod container;
mod folder;
mod foreign;
mod lines;
mod opening;
mod undone;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    io::{self, BufReader, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub use self::folder::is_conversation as is_conversation_folder;
use self::lines::FileLine;
use self::undone::undone_lines;
use super::{
    FormatError, check_strict,
    detect::{MessageShape, shape},
    has_unreadable_time, is_sidechain, is_wordless_prompt,
    json::Fields,
    pidgin, read, role, spelling,
};
use crate::domain::message::{Format, Message};

/// Reads lines of at most this many bytes.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Reads JSON documents of at most this many bytes: a document is in memory twice while it is split.
pub const DOCUMENT_BYTES_MAX: usize = 512 << 20;
/// A transcript may have this many messages of unknown roles. They are stored as metadata, which no model sees.
const UNKNOWN_ROLES_MAX: u32 = 3;
/// Reads at most this many lines to detect a format.
const DETECT_LINES_MAX: usize = 1_000;
/// Reads at most this many bytes to detect a format.
const DETECT_BYTES_MAX: usize = 16 << 20;

/// Why a whole file can't be read. Each error names the file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system can't read the file.
    #[error("can't read `{name}`: {error}; check the path and its permissions")]
    Io {
        /// The file.
        name: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The file is empty.
    #[error(
        "`{name}` holds no messages; give a file of messages, one JSON object per line or a JSON document"
    )]
    Empty {
        /// The file.
        name: String,
    },
    /// The file has no message of a known format.
    #[error(
        "can't tell the format of `{name}`; name it with --format {formats}", formats = Format::names()
    )]
    Unrecognised {
        /// The file.
        name: String,
    },
    /// The file looks like a JSON document, but is broken or too long.
    #[error("`{name}` isn't a readable JSON document: {reason}; mend it, or give one JSON object per line")]
    Broken {
        /// The file.
        name: String,
        /// Where and why it can't be read.
        reason: String,
    },
}

/// A message of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The line number, as in [`SkippedEntry::line`].
    pub line: u64,
    /// The conversation of the message: the line's `conversation`, or the file's name without folder and extension, with a suffix if the
    /// file has several conversations.
    pub conversation: String,
    /// The line's `agent_id`, if it has one.
    pub agent_id: Option<String>,
    /// True for a message of a sub-agent of Claude Code. Other agents see only the sub-agent's result.
    pub is_sidechain: bool,
    /// True if the message has a time field that can't be read as a time. Its time is then `None`.
    pub is_time_unread: bool,
    /// The message.
    pub message: Message,
}

/// An entry of a file that isn't a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// The number of the line, from 1. In a document, the number of the message, from 1.
    pub line: u64,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub cure: String,
}

/// Reads the messages of one file, in order.
pub struct FileReader {
    /// The name of conversations without a name of their own.
    stem: String,
    /// The format that the caller requires.
    forced: Option<Format>,
    /// The format of messages that don't show their format.
    format: Format,
    refuses_unknown_roles: bool,
    /// How many messages of unknown roles were read.
    unknown_roles: u32,
    /// The pieces that haven't been read from the file yet.
    rest: Box<dyn Iterator<Item = PendingPiece> + Send>,
    /// The event that starts a Pidgin conversation, until the system prompts after it have been read.
    delayed: Option<PendingPiece>,
    /// Pieces that have been read to detect the format, or that were split off a container.
    pending: VecDeque<PendingPiece>,
    /// The names of conversations that were given so far, since ids repeat.
    names: HashSet<String>,
    /// The numbers of the lines that the conversation took back.
    undone: HashSet<u64>,
    /// How many messages of such lines were left out.
    undone_messages: u64,
    /// True if conversations of other programs are read, too.
    reads_foreign: bool,
    /// The other program that wrote the conversations, if one did.
    program: Option<&'static str>,
    /// How many parts of that program's conversations weren't read, by name.
    left_out: BTreeMap<String, u64>,
    /// True if empty prompts are left out.
    skips_wordless: bool,
    /// How many empty prompts were left out.
    wordless: u64,
    bytes_read: Arc<AtomicU64>,
    bytes_total: Option<u64>,
}

/// Where a file comes from, and how it is read.
struct FileSource {
    /// The name for errors.
    name: String,
    /// The name of conversations without a name of their own.
    stem: String,
    /// True if conversations of other programs are read, too.
    reads_foreign: bool,
}

impl FileSource {
    fn of(path: &Path) -> Self {
        let stem = stem(&folder::named_path(path).display().to_string());
        Self { stem, name: path.display().to_string(), reads_foreign: false }
    }
}

/// A piece of the file that hasn't been parsed yet.
struct PendingPiece {
    /// The line number, as in [`SkippedEntry::line`].
    line: u64,
    /// The conversation, if the piece comes from a document or a line with several messages.
    conversation: Option<Arc<str>>,
    text: Result<String, FormatError>,
}

impl FileReader {
    /// Opens a file. Detects the format if `format` is `None`.
    ///
    /// # Errors
    /// When the file can't be read, is empty, is a broken document, or is of no known format.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, ReadError> {
        Self::open_source(path, FileSource::of(path), format)
    }

    /// Opens the file of a conversation. The conversation's `name` may differ from the file's. Leaves out empty prompts, and edited
    /// prompts and turns that were taken back, with everything that followed from them. From a pipe, leaves out only empty prompts, since
    /// finding the others takes a second reading.
    ///
    /// # Errors
    /// The same as those of [`Self::open`].
    pub fn open_conversation(
        path: &Path,
        name: Option<&str>,
        format: Option<Format>,
    ) -> Result<Self, ReadError> {
        let source = FileSource::of(path);
        let source = FileSource {
            stem: name.map_or(source.stem, str::to_owned),
            reads_foreign: format.is_none(),
            ..source
        };
        let file = Self::open_source(path, source, format)?;
        Ok(Self { undone: undone_lines(path, file.format), skips_wordless: true, ..file })
    }

    fn open_source(path: &Path, source: FileSource, format: Option<Format>) -> Result<Self, ReadError> {
        let io_error = |error| ReadError::Io { name: source.name.clone(), error };
        let file = folder::open(path).map_err(io_error)?;
        let meta = path.metadata().map_err(io_error)?;
        let mut reader = Self::make(file, source, format)?;
        reader.bytes_total = meta.is_file().then_some(meta.len());
        Ok(reader)
    }

    /// Reads from any source, such as standard input. `name` stands for the file's name.
    ///
    /// # Errors
    /// The same as those of [`Self::open`].
    pub fn from_reader(
        reader: impl Read + Send + 'static,
        name: &str,
        format: Option<Format>,
    ) -> Result<Self, ReadError> {
        Self::make(reader, FileSource::of(Path::new(name)), format)
    }

    fn make(
        reader: impl Read + Send + 'static,
        source: FileSource,
        format: Option<Format>,
    ) -> Result<Self, ReadError> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counting = CountingReader { reader, bytes_read: bytes_read.clone() };
        let mut file = Self {
            stem: source.stem,
            forced: format,
            format: format.unwrap_or(Format::OpenAiChat),
            refuses_unknown_roles: false,
            unknown_roles: 0,
            rest: Box::new(std::iter::empty()),
            delayed: None,
            pending: VecDeque::new(),
            names: HashSet::new(),
            undone: HashSet::new(),
            undone_messages: 0,
            reads_foreign: source.reads_foreign,
            program: None,
            left_out: BTreeMap::new(),
            skips_wordless: false,
            wordless: 0,
            bytes_read,
            bytes_total: None,
        };
        file.begin(Box::new(BufReader::new(counting)), &source.name)?;
        Ok(file)
    }

    /// Refuses unknown roles and blocks, like [`parse_strict`](super::parse_strict). For new messages, not for transcripts.
    #[must_use]
    pub fn refusing_unknown_roles(self) -> Self {
        Self { refuses_unknown_roles: true, ..self }
    }

    /// Returns the file's format, as requested or detected. A message that is certainly of another format is read in that format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns how many messages have been left out so far because the conversation took them back.
    pub fn undone(&self) -> u64 {
        self.undone_messages
    }

    /// Returns how many empty prompts have been left out so far.
    pub fn wordless(&self) -> u64 {
        self.wordless
    }

    /// Returns the program that wrote the conversations, if they had to be converted to a format that recapd stores.
    pub fn program(&self) -> Option<&'static str> {
        self.program
    }

    /// Returns how many parts of such conversations weren't read, by name.
    pub fn left_out(&self) -> &BTreeMap<String, u64> {
        &self.left_out
    }

    /// Returns the bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Returns the size of the whole file, if known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    fn next_pending(&mut self) -> Option<PendingPiece> {
        self.pending.pop_front().or_else(|| self.rest.next())
    }

    /// Returns the next piece in the order of the conversation. In Pidgin's files, the event with the first words stands before the
    /// agents' system prompts.
    fn next_in_order(&mut self) -> Option<PendingPiece> {
        if self.format != Format::Pidgin {
            return self.next_pending();
        }
        while let Some(pending) = self.next_pending() {
            let fields = pending.text.as_ref().ok().and_then(|text| Fields::parse(text).ok());
            let is = |what: fn(&Fields<'_>) -> bool| fields.as_ref().is_some_and(what);
            let has_delayed = self.delayed.is_some();
            if !has_delayed && is(pidgin::opens) {
                self.delayed = Some(pending);
            } else if has_delayed && !is(pidgin::is_system_prompt) {
                self.pending.push_front(pending);
                break;
            } else {
                return Some(pending);
            }
        }
        self.delayed.take()
    }

    /// Parses a piece into a message. Returns `None` if the piece has several messages, which are then pending one by one.
    fn take(&mut self, pending: PendingPiece) -> Option<Result<Record, SkippedEntry>> {
        let line = pending.line;
        let read = pending.text.and_then(|text| self.record(line, pending.conversation, text));
        read.map_err(|FormatError { reason, cure }| SkippedEntry { line, reason, cure }).transpose()
    }

    /// Refuses unknown roles and blocks in new messages. A transcript may have a few unknown roles. If it has more, recapd doesn't
    /// understand the conversation, and refuses them, too.
    fn check(&mut self, message: &Message, fields: &Fields<'_>) -> Result<(), FormatError> {
        if self.refuses_unknown_roles {
            return check_strict(message, fields);
        }
        let checked = role::check(message, fields);
        self.unknown_roles += u32::from(checked.is_err());
        checked.or_else(|error| match self.unknown_roles {
            ..=UNKNOWN_ROLES_MAX => Ok(()),
            _ => Err(error),
        })
    }

    fn record(
        &mut self,
        line: u64,
        conversation: Option<Arc<str>>,
        text: String,
    ) -> Result<Option<Record>, FormatError> {
        let fields = Fields::parse(&text)?;
        let shape = shape(&fields);
        if shape == MessageShape::Unknown && container::is_container(&fields) {
            let pieces = self.split(&text, Some(line));
            for piece in pieces.into_iter().rev() {
                self.pending.push_front(PendingPiece { line, ..piece });
            }
            return Ok(None);
        }
        let format = match (self.forced, shape) {
            (None, MessageShape::Certain(certain)) => format_within(self.format, certain),
            _ => self.format,
        };
        spelling::check(&fields)?;
        let message = read(format, &fields)?;
        self.check(&message, &fields)?;
        Ok(Some(Record {
            line,
            conversation: self.conversation(format, conversation, &fields),
            // Pidgin's agents are speakers of one conversation.
            agent_id: fields.text("agent_id").filter(|_| format != Format::Pidgin),
            is_sidechain: is_sidechain(format, &fields),
            is_time_unread: has_unreadable_time(&message, &fields),
            message: Message { payload: text, ..message },
        }))
    }

    /// Returns the conversation of a message: the one of its piece, or else the one that the message names, or else the file's. A
    /// sidechain of Claude Code is a separate conversation.
    fn conversation(&self, format: Format, piece_name: Option<Arc<str>>, fields: &Fields<'_>) -> String {
        let pidgin = || pidgin::conversation(fields).filter(|_| format == Format::Pidgin);
        let name = piece_name
            .map(|name| name.to_string())
            .or_else(|| fields.label("conversation"))
            .or_else(pidgin)
            .unwrap_or_else(|| self.stem.clone());
        if !is_sidechain(format, fields) {
            return name;
        }
        match fields.text("agentId") {
            // A sidechain may also have its own file, named after its agent.
            Some(agent) if name.ends_with(&format!("-{agent}")) => name,
            Some(agent) => format!("{name}-{agent}"),
            None => format!("{name}-sidechain"),
        }
    }
}

impl Iterator for FileReader {
    type Item = Result<Record, SkippedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let pending = self.next_in_order()?;
            match self.take(pending) {
                Some(Ok(record)) if self.undone.contains(&record.line) => self.undone_messages += 1,
                Some(Ok(record)) if self.skips_wordless && is_wordless_prompt(&record.message) => {
                    self.wordless += 1;
                }
                None => {}
                item => return item,
            }
        }
    }
}

/// Returns the name for a conversation without one: the file's name without folder and extension.
fn stem(name: &str) -> String {
    let stem = Path::new(name).file_stem().map(|stem| stem.to_string_lossy());
    stem.filter(|stem| !stem.is_empty()).map_or_else(|| "messages".to_owned(), Into::into)
}

/// Returns the format in which to read a message of the format `certain` in a file of the format `file`. The lines of Codex and aider look
/// like messages of another format, and are read as lines of theirs.
fn format_within(file: Format, certain: Format) -> Format {
    match (file, certain) {
        (Format::Aider, Format::Native) | (Format::Codex, Format::OpenAiResponses) => file,
        _ => certain,
    }
}

impl From<FileLine> for PendingPiece {
    fn from(line: FileLine) -> Self {
        Self { line: line.number, conversation: None, text: line.text }
    }
}

struct CountingReader<R> {
    reader: R,
    bytes_read: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.read(buffer)?;
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
