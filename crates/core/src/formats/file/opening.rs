//! Opens a transcript file and detects its format: whether it has lines or one document, and which program wrote it.

use std::io::{self, BufRead, Cursor, Read};

use serde_json::error::Category;

use super::{
    super::{
        detect::{MessageShape, shape},
        json::Fields,
        read, spelling,
    },
    DETECT_BYTES_MAX, DETECT_LINES_MAX, DOCUMENT_BYTES_MAX, FileReader, LINE_BYTES_MAX, PendingPiece,
    ReadError,
    aider::{self, Blocks},
    container,
    lines::{BYTE_ORDER_MARK, Lines},
};
use crate::domain::message::Format;

type ByteSource = Box<dyn BufRead + Send>;

impl FileReader {
    /// Reads a document as a whole, or as many lines as are needed to detect their format.
    pub(super) fn begin(&mut self, mut source: ByteSource, name: &str) -> Result<(), ReadError> {
        let io_error = |error| ReadError::Io { name: name.to_owned(), error };
        let mut head = Vec::new();
        let start = read_first_line(&mut source, &mut head).map_err(io_error)?;
        if start == head.len() {
            return Err(ReadError::Empty { name: name.to_owned() });
        }
        let is_aider = match self.forced {
            Some(format) => format == Format::Aider,
            None => aider::is_history(&mut source, &mut head, start).map_err(io_error)?,
        };
        if is_aider {
            self.format = Format::Aider;
            let lines = Lines::new(Box::new(Cursor::new(head).chain(source)));
            self.rest = Box::new(Blocks::new(lines, &self.stem));
            return Ok(());
        }
        let mut broken = None;
        if may_be_document(&mut source, &mut head, start).map_err(io_error)? {
            let rest = (DOCUMENT_BYTES_MAX + 1).saturating_sub(head.len()) as u64;
            source.by_ref().take(rest).read_to_end(&mut head).map_err(io_error)?;
            match document(&head) {
                Ok(text) => return self.begin_document(text, name),
                Err(reason) => broken = Some(reason),
            }
        }
        self.begin_lines(Box::new(Cursor::new(head).chain(source)), name, broken)
    }

    fn begin_document(&mut self, text: &str, name: &str) -> Result<(), ReadError> {
        if self.read_foreign_document(text) {
            return self.detect_format(name, Format::OpenAiChat, None);
        }
        let pieces = self.split(text, None);
        if pieces.is_empty() {
            return Err(ReadError::Empty { name: name.to_owned() });
        }
        self.pending.extend(pieces);
        self.detect_format(name, container::chat_format(text), None)
    }

    /// Begins to read lines. `broken` is the reason why the file isn't a document, if it looked like one.
    fn begin_lines(
        &mut self,
        source: ByteSource,
        name: &str,
        broken: Option<String>,
    ) -> Result<(), ReadError> {
        self.rest = Box::new(Lines::new(source).map(PendingPiece::from));
        let mut bytes = 0;
        while bytes < DETECT_BYTES_MAX && self.pending.len() < DETECT_LINES_MAX {
            let Some(pending) = self.rest.next() else { break };
            bytes += pending.text.as_ref().map_or(0, String::len);
            let shape = pending.text.as_ref().map_or(MessageShape::Unknown, |text| self.shape(text));
            self.pending.push_back(pending);
            if matches!(shape, MessageShape::Certain(_)) && !self.may_be_foreign() {
                break;
            }
        }
        self.read_foreign_lines(name)?;
        self.detect_format(name, Format::OpenAiChat, broken)
    }

    /// Detects the file's format from the pending pieces. If they have only roles and texts, the format is `chat`. If they aren't messages,
    /// fails with `broken`, the reason why the file isn't a document, if there is one.
    fn detect_format(&mut self, name: &str, chat: Format, broken: Option<String>) -> Result<(), ReadError> {
        let mut best = MessageShape::Unknown;
        for text in self.pending.iter().filter_map(|pending| pending.text.as_ref().ok()) {
            match self.shape(text) {
                MessageShape::Certain(format) => {
                    best = MessageShape::Certain(format);
                    break;
                }
                MessageShape::Chat => best = MessageShape::Chat,
                MessageShape::Unknown => {}
            }
        }
        let name = name.to_owned();
        self.format = match (self.forced, best, broken) {
            (_, MessageShape::Unknown, Some(reason)) => return Err(ReadError::Broken { name, reason }),
            (Some(forced), ..) => forced,
            (None, MessageShape::Certain(format), _) => format,
            (None, MessageShape::Chat, _) => chat,
            // A session of another program in which nobody said anything yet.
            (None, MessageShape::Unknown, None) if self.program.is_some() => {
                return Err(ReadError::Empty { name });
            }
            // Each entry gets an error of its own, which says why it is refused.
            (None, MessageShape::Unknown, None) if self.is_refused() => chat,
            (None, MessageShape::Unknown, None) => return Err(ReadError::Unrecognised { name }),
        };
        Ok(())
    }

    /// Returns true if a pending piece is from Pydantic-AI, whose messages are refused.
    fn is_refused(&self) -> bool {
        let mut texts = self.pending.iter().filter_map(|pending| pending.text.as_ref().ok());
        texts.any(|text| Fields::parse(text).is_ok_and(|fields| spelling::check(&fields).is_err()))
    }

    /// Returns the shape of a line or of a document's message, or of the messages in a line that is a container. If the caller requires a
    /// format, a line that can be read in this format is certain.
    fn shape(&self, text: &str) -> MessageShape {
        let Ok(fields) = Fields::parse(text) else {
            return MessageShape::Unknown;
        };
        match self.forced {
            Some(format) if read(format, &fields).is_ok() => MessageShape::Certain(format),
            _ => match shape(&fields) {
                MessageShape::Unknown => container::shape_within(&fields),
                shape => shape,
            },
        }
    }
}

/// Reads up to the first line that isn't blank, and returns where that line begins. Returns the end of `head` if there are only blank
/// lines up to the length limit. Reads only a part of an overlong line.
fn read_first_line(source: &mut ByteSource, head: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        let start = head.len();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let bytes = source.by_ref().take(limit).read_until(b'\n', head)?;
        let line = head.get(start..).unwrap_or_default();
        let text = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii_start();
        if bytes == 0 || !text.is_empty() || head.len() > LINE_BYTES_MAX {
            return Ok(head.len() - text.len());
        }
    }
}

/// Returns true if the file may be one JSON document, which must be read as a whole, unlike JSON lines.
fn may_be_document(source: &mut ByteSource, head: &mut Vec<u8>, start: usize) -> io::Result<bool> {
    let first = head.get(start..).unwrap_or_default();
    if first.starts_with(b"[") {
        return Ok(true);
    }
    if !first.starts_with(b"{") || first.len() >= LINE_BYTES_MAX || !breaks_off(first) {
        return Ok(false);
    }
    // A truncated first line of JSON lines looks like the beginning of a document. The next line then begins a new object, which makes
    // both lines together invalid.
    source.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', head)?;
    let lines = head.get(start..).unwrap_or_default();
    Ok(breaks_off(lines) || serde_json::from_slice::<serde::de::IgnoredAny>(lines).is_ok())
}

/// Returns true if `json` is valid so far but unfinished, and may go on in the next line. A string can't go on there.
fn breaks_off(json: &[u8]) -> bool {
    let error = serde_json::from_slice::<serde::de::IgnoredAny>(json).err();
    error.is_some_and(|error| error.classify() == Category::Eof && !error.to_string().contains("string"))
}

/// Returns the whole file as one JSON value, or why it isn't one.
fn document(head: &[u8]) -> Result<&str, String> {
    if head.len() > DOCUMENT_BYTES_MAX {
        return Err(format!("it is longer than {DOCUMENT_BYTES_MAX} bytes"));
    }
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let text =
        std::str::from_utf8(head).map_err(|error| format!("byte {} isn't UTF-8", error.valid_up_to() + 1))?;
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}
