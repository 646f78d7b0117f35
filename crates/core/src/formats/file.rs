//! Files of messages: JSON lines, JSON documents, benchmark traces, and aider's Markdown, recognised by their content.
//!
//! Lines are read one at a time, documents whole. Invariant: once a file is open, nothing in it stops the rest; what
//! can't be read comes out as [`SkippedEntry`], with its place, a reason and a cure. What a chunk of the underlying reader
//! holds makes no difference.

mod aider;
mod container;
mod lines;
mod opening;
mod undone;

use std::{
    collections::{HashSet, VecDeque},
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use self::lines::FileLine;
use self::undone::undone_lines;
use super::{
    FormatError, check_said,
    detect::{MessageShape, shape},
    has_unread_time, is_sidechain, is_wordless_prompt,
    json::Fields,
    pidgin, read,
};
use crate::domain::message::{Format, Message};

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// The biggest JSON document that is read, in bytes: it stands in memory twice while it is taken apart.
pub const DOCUMENT_BYTES_MAX: usize = 512 << 20;
/// How many lines are looked at to detect a format, and how many bytes.
const DETECT_LINES_MAX: usize = 1_000;
const DETECT_BYTES_MAX: usize = 16 << 20;

/// Why a file can't be read at all. Each one names the file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refuses it.
    #[error("can't read `{name}`: {error}; check the path and its permissions")]
    Io {
        /// The file.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// There is nothing in it.
    #[error(
        "`{name}` holds no messages; give a file of messages, one JSON object per line or a JSON document"
    )]
    Empty {
        /// The file.
        name: String,
    },
    /// It is JSON or lines, but of no known format.
    #[error(
        "can't tell the format of `{name}`; say it with --format {formats}", formats = Format::names()
    )]
    Unrecognised {
        /// The file.
        name: String,
    },
    /// It is one JSON document, and a broken one.
    #[error("`{name}` is no readable JSON document: {reason}; mend it, or give one JSON object per line")]
    Broken {
        /// The file.
        name: String,
        /// Where and why it breaks off.
        reason: String,
    },
}

/// One message of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its line, as [`SkippedEntry::line`].
    pub line: u64,
    /// The conversation it belongs to: the line's `conversation`, or the file's name without folder and extension,
    /// followed by what tells several conversations in one file apart.
    pub conversation: String,
    /// The line's `agent_id`, if it has one.
    pub agent_id: Option<String>,
    /// Whether it is the talk of a sub-agent of Claude Code, which others see only the result of.
    pub is_sidechain: bool,
    /// Whether it says when it was said, but not as a time that can be read: it has none then.
    pub is_time_unread: bool,
    /// The message.
    pub message: Message,
}

/// One thing in a file that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Its line, from 1; in a document that was read whole, the number of the message in it, from 1.
    pub line: u64,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub cure: String,
}

/// Reads the messages of one file, in order.
pub struct FileReader {
    /// Conversations without a name of their own are called so.
    stem: String,
    /// The format that was asked for.
    forced: Option<Format>,
    /// The format of messages that could be of several.
    format: Format,
    /// Whether a role that nobody knows is refused.
    refuses_unknown_roles: bool,
    /// What isn't read yet.
    rest: Box<dyn Iterator<Item = PendingPiece> + Send>,
    /// The start of a conversation of Pidgin's, until the system prompts behind it are read.
    held: Option<PendingPiece>,
    pending: VecDeque<PendingPiece>,
    names: HashSet<String>,
    /// The lines that the conversation went back behind, and how many messages were left out for it.
    undone: HashSet<u64>,
    undone_messages: u64,
    /// Whether prompts without a word are left out, and how many were.
    skips_wordless: bool,
    wordless: u64,
    bytes_read: Arc<AtomicU64>,
    bytes_total: Option<u64>,
}

/// A piece of the file that waits for its turn.
struct PendingPiece {
    line: u64,
    /// Given when the piece was cut out of a document or a container line.
    conversation: Option<Arc<str>>,
    text: Result<String, FormatError>,
}

impl FileReader {
    /// Opens a file. Without a `format`, it is detected.
    ///
    /// # Errors
    /// When the file can't be read, holds nothing, is a broken document, or of no known format.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, ReadError> {
        Self::open_as(path, None, format)
    }

    /// Opens the file of a conversation, which may have a name of its own instead of the file's. What it went back behind is
    /// left out: prompts that were edited and turns that were taken back, with all that followed from them. Only a whole file
    /// shows that: a pipe, which can't be read twice, is read as it stands. Prompts without a word are left out, too.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_conversation(
        path: &Path,
        name: Option<&str>,
        format: Option<Format>,
    ) -> Result<Self, ReadError> {
        let file = Self::open_as(path, name, format)?;
        Ok(Self {
            undone: undone_lines(path, file.format),
            skips_wordless: true,
            ..file
        })
    }

    fn open_as(path: &Path, conversation: Option<&str>, format: Option<Format>) -> Result<Self, ReadError> {
        let name = path.display().to_string();
        let io_error = |error| ReadError::Io {
            name: name.clone(),
            error,
        };
        let file = File::open(path).map_err(io_error)?;
        let meta = file.metadata().map_err(io_error)?;
        let stem = conversation.map_or_else(|| stem(&name), str::to_owned);
        let mut reader = Self::make(file, &name, stem, format)?;
        reader.bytes_total = meta.is_file().then_some(meta.len());
        Ok(reader)
    }

    /// Reads from anything, standard input for example; `name` stands for the file's name.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_reader(
        reader: impl Read + Send + 'static,
        name: &str,
        format: Option<Format>,
    ) -> Result<Self, ReadError> {
        Self::make(reader, name, stem(name), format)
    }

    fn make(
        reader: impl Read + Send + 'static,
        name: &str,
        stem: String,
        format: Option<Format>,
    ) -> Result<Self, ReadError> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counting = CountingReader {
            reader,
            bytes_read: bytes_read.clone(),
        };
        let mut file = Self {
            stem,
            forced: format,
            format: format.unwrap_or(Format::OpenAiChat),
            refuses_unknown_roles: false,
            rest: Box::new(std::iter::empty()),
            held: None,
            pending: VecDeque::new(),
            names: HashSet::new(),
            undone: HashSet::new(),
            undone_messages: 0,
            skips_wordless: false,
            wordless: 0,
            bytes_read,
            bytes_total: None,
        };
        file.begin(Box::new(BufReader::new(counting)), name)?;
        Ok(file)
    }

    /// Reads what is said now: a role or blocks that nobody knows are refused, as [`parse_said`](super::parse_said) does,
    /// where a transcript's are kept.
    #[must_use]
    pub fn refusing_unknown_roles(self) -> Self {
        Self {
            refuses_unknown_roles: true,
            ..self
        }
    }

    /// The file's format: what was asked for, or what was detected. A message that is certainly of another one is
    /// read as that.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How many messages were left out so far, since the conversation went back behind them.
    pub fn undone(&self) -> u64 {
        self.undone_messages
    }

    /// How many prompts were left out so far, since there is no word in them.
    pub fn wordless(&self) -> u64 {
        self.wordless
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Bytes of the whole file, where that is known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// The next piece, from what was read ahead or from the file.
    fn next_pending(&mut self) -> Option<PendingPiece> {
        self.pending.pop_front().or_else(|| self.rest.next())
    }

    /// The next piece in the order in which it counts: in Pidgin's files the agents' system prompts come before the
    /// event that holds the first words.
    fn next_in_order(&mut self) -> Option<PendingPiece> {
        if self.format != Format::Pidgin {
            return self.next_pending();
        }
        while let Some(pending) = self.next_pending() {
            let fields = pending
                .text
                .as_ref()
                .ok()
                .and_then(|text| Fields::parse(text).ok());
            let is = |what: fn(&Fields<'_>) -> bool| fields.as_ref().is_some_and(what);
            let waits = self.held.is_some();
            if !waits && is(pidgin::opens) {
                self.held = Some(pending);
            } else if waits && !is(pidgin::is_system_prompt) {
                self.pending.push_front(pending);
                break;
            } else {
                return Some(pending);
            }
        }
        self.held.take()
    }

    /// Reads one piece: a message, or none when the piece turned out to hold several and was taken apart.
    fn take(&mut self, pending: PendingPiece) -> Option<Result<Record, SkippedEntry>> {
        let line = pending.line;
        let read = pending
            .text
            .and_then(|text| self.record(line, pending.conversation, text));
        read.map_err(|FormatError { reason, cure }| SkippedEntry { line, reason, cure })
            .transpose()
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
            let pieces = self.take_apart(&text, Some(line));
            for piece in pieces.into_iter().rev() {
                self.pending.push_front(PendingPiece { line, ..piece });
            }
            return Ok(None);
        }
        let format = match (self.forced, shape) {
            (None, MessageShape::Certain(certain)) => within(self.format, certain),
            _ => self.format,
        };
        let message = read(format, &fields)?;
        if self.refuses_unknown_roles {
            check_said(&message, &fields)?;
        }
        Ok(Some(Record {
            line,
            conversation: self.conversation(format, conversation, &fields),
            // Pidgin's agents are speakers of one conversation.
            agent_id: fields.text("agent_id").filter(|_| format != Format::Pidgin),
            is_sidechain: is_sidechain(format, &fields),
            is_time_unread: has_unread_time(&message, &fields),
            message: Message {
                payload: text,
                ..message
            },
        }))
    }

    /// The conversation of a message: a sidechain of Claude Code is one of its own.
    fn conversation(&self, format: Format, given: Option<Arc<str>>, fields: &Fields<'_>) -> String {
        let pidgin = || pidgin::conversation(fields).filter(|_| format == Format::Pidgin);
        let name = given
            .map(|name| name.to_string())
            .or_else(|| fields.label("conversation"))
            .or_else(pidgin)
            .unwrap_or_else(|| self.stem.clone());
        if !is_sidechain(format, fields) {
            return name;
        }
        match fields.text("agentId") {
            // Sidechains also have files of their own, named after their agent.
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
                taken => return taken,
            }
        }
    }
}

/// The name of a conversation that has none: the file's, without folder and extension.
fn stem(name: &str) -> String {
    let stem = Path::new(name).file_stem().map(|stem| stem.to_string_lossy());
    stem.filter(|stem| !stem.is_empty())
        .map_or_else(|| "messages".to_owned(), Into::into)
}

/// The format of a message that is certainly of one, in a file of another: transcripts hold what is written in both.
fn within(file: Format, certain: Format) -> Format {
    match (file, certain) {
        (Format::Aider, Format::Native) | (Format::Codex, Format::OpenAiResponses) => file,
        _ => certain,
    }
}

impl From<FileLine> for PendingPiece {
    fn from(line: FileLine) -> Self {
        Self {
            line: line.number,
            conversation: None,
            text: line.text,
        }
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
