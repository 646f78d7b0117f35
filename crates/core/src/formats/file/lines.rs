//! Reads the lines of a file one at a time, in bounded memory.

use std::io::{self, BufRead, Read};

use super::{super::FormatError, LINE_BYTES_MAX};

/// The byte order mark that some editors write before UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) struct FileLine {
    /// The line's number, from 1. Blank lines are numbered, too.
    pub(super) number: u64,
    /// The line without its line ending and without a byte order mark.
    pub(super) text: Result<String, FormatError>,
}

/// Reads lines that end with LF or CR LF. The iterator skips blank lines.
pub(super) struct Lines {
    source: Box<dyn BufRead + Send>,
    number: u64,
    line_bytes_max: usize,
}

impl Lines {
    pub(super) fn new(source: Box<dyn BufRead + Send>) -> Self {
        Self { source, number: 0, line_bytes_max: LINE_BYTES_MAX }
    }

    #[cfg(test)]
    pub(super) fn with_line_bytes_max(self, line_bytes_max: usize) -> Self {
        Self { line_bytes_max, ..self }
    }

    /// Returns the next line, even if it is blank; `None` at the end. After an error of the source, returns the error as the last line.
    pub(super) fn next_line(&mut self) -> Option<FileLine> {
        let text = match self.read() {
            Ok(text) => text?,
            Err(error) => {
                self.source = Box::new(io::empty());
                self.number += 1;
                Err(unreadable(&error))
            }
        };
        Some(FileLine { number: self.number, text })
    }

    fn read(&mut self) -> io::Result<Option<Result<String, FormatError>>> {
        let mut bytes = Vec::new();
        let limit = self.line_bytes_max as u64 + 1;
        (&mut self.source).take(limit).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let is_whole = bytes.pop_if(|byte| *byte == b'\n').is_some();
        if !is_whole && bytes.len() > self.line_bytes_max {
            self.source.skip_until(b'\n')?;
            return Ok(Some(Err(too_long(self.line_bytes_max))));
        }
        bytes.pop_if(|byte| *byte == b'\r');
        if self.number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(String::from_utf8(bytes).map_err(|error| not_utf8(&error))))
    }
}

impl Iterator for Lines {
    type Item = FileLine;

    fn next(&mut self) -> Option<FileLine> {
        let is_blank = |line: &FileLine| line.text.as_ref().is_ok_and(|text| text.trim().is_empty());
        std::iter::from_fn(|| self.next_line()).find(|line| !is_blank(line))
    }
}

fn too_long(line_bytes_max: usize) -> FormatError {
    FormatError::new(
        format!("line is longer than {line_bytes_max} bytes"),
        "split the message, or move its attachments out of it",
    )
}

fn not_utf8(error: &std::string::FromUtf8Error) -> FormatError {
    FormatError::new(
        format!("byte {} of the line isn't UTF-8", error.utf8_error().valid_up_to() + 1),
        "convert the file to UTF-8",
    )
}

fn unreadable(error: &io::Error) -> FormatError {
    FormatError::new(
        format!("the rest of the file can't be read: {error}"),
        "check the disk or the pipe, then read the file again",
    )
}
