//! Reads files that other programs wrote. Reads such a file as a whole, since its messages may depend on later entries.

use serde_json::value::RawValue;

use super::{
    super::{
        FormatError,
        foreign::{self, Transcription},
        json,
    },
    DOCUMENT_BYTES_MAX, FileReader, PendingPiece, ReadError,
    container::conversation_name,
};

/// Reads this many lines before it accepts one of recapd's formats, since lines of some programs look like Claude Code's.
const LINES_LOOKED_AT: usize = 16;

impl FileReader {
    /// Returns true while too few lines were read to know whether another program wrote them.
    pub(super) fn may_be_foreign(&self) -> bool {
        self.reads_foreign && self.pending.len() < LINES_LOOKED_AT
    }

    /// Reads a document of another program. Returns false if no other program writes such documents.
    pub(super) fn read_foreign_document(&mut self, text: &str) -> bool {
        let raw = serde_json::from_str::<&RawValue>(text).ok();
        let Some(raw) = raw.filter(|_| self.reads_foreign) else {
            return false;
        };
        let entries = json::list(raw).unwrap_or_else(|| vec![raw]);
        let Some(transcription) = foreign::read(&entries) else {
            return false;
        };
        self.take_foreign(transcription);
        true
    }

    /// Reads the lines of another program, if one of the pending lines is of such a program.
    pub(super) fn read_foreign_lines(&mut self, name: &str) -> Result<(), ReadError> {
        let is_known = |piece: &PendingPiece| piece.text.as_ref().is_ok_and(|text| foreign::is_known(text));
        if !self.reads_foreign || !self.pending.iter().any(is_known) {
            return Ok(());
        }
        let (mut lines, mut skipped, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(PendingPiece { line, text, .. }) = self.next_pending() {
            match text.and_then(check_json) {
                Ok(text) => {
                    bytes += text.len();
                    lines.push(text);
                }
                Err(error) => skipped.push((line, error)),
            }
            if bytes > DOCUMENT_BYTES_MAX {
                return Err(ReadError::Broken {
                    name: name.to_owned(),
                    reason: format!("it is longer than {DOCUMENT_BYTES_MAX} bytes"),
                });
            }
        }
        let entries: Vec<&RawValue> =
            lines.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        if let Some(transcription) = foreign::read(&entries) {
            self.take_foreign(transcription);
        }
        for (line, error) in skipped {
            self.pending.push_back(PendingPiece { line, conversation: None, text: Err(error) });
        }
        Ok(())
    }

    fn take_foreign(&mut self, transcription: Transcription) {
        self.program = Some(transcription.program);
        self.left_out = transcription.left_out;
        let (is_one, mut line) = (transcription.conversations.len() == 1, 0);
        for (number, conversation) in (1..).zip(transcription.conversations) {
            let has_name = !is_one || conversation.name.is_some();
            let name =
                has_name.then(|| conversation_name(&self.stem, &mut self.names, conversation.name, number));
            for text in conversation.messages {
                line += 1;
                self.pending.push_back(PendingPiece { line, conversation: name.clone(), text: Ok(text) });
            }
        }
    }
}

/// Returns the text if it is JSON.
fn check_json(text: String) -> Result<String, FormatError> {
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            Err(FormatError::new(json::broken(&error), "give each message as one complete JSON object"))
        }
    }
}
