//! Reads aider's chat history: Markdown in which the beginning of a line shows who wrote it.
//!
//! `# aider chat started at …` opens a conversation, `####` marks the user's lines, `>` the program's output, and the rest is the
//! model's. aider ends a text of the user or of the program with two spaces, which tells it from a heading or a quotation of the model;
//! in a text of the program, only the first line has the mark. An editor may have removed the spaces from the whole file: there, the
//! marks alone decide. Code fences don't count, since a truncated answer leaves its fence open. Each block becomes one message in the
//! native format, without its marks and without the blank lines between blocks.

use std::{
    collections::{HashSet, VecDeque},
    io::{self, BufRead, Read},
    sync::Arc,
};

use serde_json::Value;

use super::{
    DETECT_BYTES_MAX, DETECT_LINES_MAX, LINE_BYTES_MAX, PendingPiece,
    lines::{FileLine, Lines},
};
use crate::domain::time::Timestamp;

/// The line that opens a conversation begins like this. Its time follows, in the user's local time.
const START: &str = "# aider chat started at ";
const USER_MARK: &str = "####";
const OUTPUT_MARK: &str = ">";
/// aider ends its texts with two spaces, a line break in Markdown.
const LINE_BREAK: &str = "  ";
/// Limits a block to this many bytes. A longer one becomes several messages.
const BLOCK_BYTES_MAX: usize = LINE_BYTES_MAX;

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineVoice {
    /// aider, which opens a conversation with the line.
    Start,
    User,
    /// aider or a command that it ran.
    Output,
    Model,
}

impl LineVoice {
    /// Returns the author by the mark alone.
    fn of(line: &str) -> Self {
        if line.starts_with(START) {
            Self::Start
        } else if is_marked(line, USER_MARK) {
            Self::User
        } else if is_marked(line, OUTPUT_MARK) {
            Self::Output
        } else {
            Self::Model
        }
    }

    /// Returns the kind of the messages that its lines become.
    fn kind(self) -> &'static str {
        match self {
            Self::Start => "aider_started",
            Self::User => "user",
            Self::Output => "aider_output",
            Self::Model => "assistant",
        }
    }

    /// Returns the line without its mark.
    fn content(self, line: &str) -> &str {
        let mark = match self {
            Self::Start | Self::Model => return line,
            Self::User => USER_MARK,
            Self::Output => OUTPUT_MARK,
        };
        let text = line.strip_prefix(mark).unwrap_or(line);
        let text = text.strip_prefix(' ').unwrap_or(text);
        text.strip_suffix(LINE_BREAK).unwrap_or(text)
    }
}

/// Returns true if a line is a mark alone, or a mark, a space and more.
fn is_marked(line: &str, mark: &str) -> bool {
    line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Returns true if one of the first lines begins like [`START`]. `head` has the first line, which begins at `start`; this function appends
/// everything that it reads.
pub(super) fn is_history(source: &mut impl BufRead, head: &mut Vec<u8>, start: usize) -> io::Result<bool> {
    let mut begin = start;
    let is_json = head.get(start).is_some_and(|byte| b"{[".contains(byte));
    for _ in 0..DETECT_LINES_MAX {
        if is_json || head.get(begin..).is_some_and(|line| line.starts_with(START.as_bytes())) {
            return Ok(!is_json);
        }
        begin = head.len();
        let limit = DETECT_BYTES_MAX.saturating_sub(begin) as u64;
        if source.take(limit).read_until(b'\n', head)? == 0 {
            return Ok(false);
        }
    }
    Ok(false)
}

/// Consecutive lines of one author.
struct LineBlock {
    voice: LineVoice,
    /// The number of the first line.
    line: u64,
    text: String,
}

/// Reads lines as blocks, one message each.
pub(super) struct Blocks {
    lines: Lines,
    stem: String,
    names: HashSet<String>,
    conversation: Option<Arc<str>>,
    started_at: Option<Timestamp>,
    /// The block to which the next line may belong.
    open: Option<LineBlock>,
    /// True if the open block ends with a text of the program that isn't complete.
    is_mid_output: bool,
    /// True once an output has had its [`LINE_BREAK`], so that the file still has them.
    has_line_breaks: bool,
    /// Messages that are read, but not returned yet.
    ready: VecDeque<PendingPiece>,
}

impl Blocks {
    /// Reads `lines`. Names conversations `<stem>-<time>`.
    pub(super) fn new(lines: Lines, stem: &str) -> Self {
        Self {
            lines,
            stem: stem.to_owned(),
            names: HashSet::new(),
            conversation: None,
            started_at: None,
            open: None,
            is_mid_output: false,
            has_line_breaks: false,
            ready: VecDeque::new(),
        }
    }

    fn take(&mut self, line: FileLine) {
        match line.text {
            Ok(text) if text.trim().is_empty() => self.take_blank(&text),
            Ok(text) => self.take_text(line.number, &text),
            Err(error) => {
                self.close();
                self.ready.push_back(PendingPiece {
                    line: line.number,
                    conversation: self.conversation.clone(),
                    text: Err(error),
                });
            }
        }
    }

    /// Reads a blank line. Between two prompts of the user, it separates their blocks.
    fn take_blank(&mut self, text: &str) {
        match &mut self.open {
            Some(block) if block.voice != LineVoice::User => block.add(text),
            _ => self.close(),
        }
    }

    /// Returns the author of a line, by its mark, its end and the line before.
    fn voice_of(&mut self, text: &str) -> LineVoice {
        let marked = LineVoice::of(text);
        let is_complete = text.ends_with(LINE_BREAK);
        self.has_line_breaks |= marked == LineVoice::Output && is_complete;
        let voice = match marked {
            _ if !self.has_line_breaks || marked == LineVoice::Start => marked,
            LineVoice::User | LineVoice::Output if is_complete => marked,
            LineVoice::Output if self.may_begin_output() => marked,
            _ if self.is_mid_output => LineVoice::Output,
            _ => LineVoice::Model,
        };
        self.is_mid_output = voice == LineVoice::Output && self.has_line_breaks && !is_complete;
        voice
    }

    /// Returns true if the program may write next: after its own text, or after a command of the user.
    fn may_begin_output(&self) -> bool {
        self.open.as_ref().is_none_or(|block| match block.voice {
            LineVoice::Start | LineVoice::Output => true,
            LineVoice::User => block.text.starts_with(['/', '!']),
            LineVoice::Model => false,
        })
    }

    fn take_text(&mut self, line: u64, text: &str) {
        let voice = self.voice_of(text);
        let content = voice.content(text);
        match &mut self.open {
            Some(block) if block.voice == voice && block.text.len() + content.len() < BLOCK_BYTES_MAX => {
                block.add(content);
            }
            _ => {
                self.close();
                if voice == LineVoice::Start {
                    self.start(line, text);
                }
                self.open = Some(LineBlock { voice, line, text: content.to_owned() });
            }
        }
        if voice == LineVoice::Start {
            self.close();
        }
    }

    /// Begins a conversation, and names it by its time. If another conversation began at the same time, adds the number of the line.
    fn start(&mut self, line: u64, text: &str) {
        let time = text.strip_prefix(START).unwrap_or_default().trim();
        self.started_at = Timestamp::parse(time);
        let time = self.started_at.map_or_else(|| line.to_string(), |at| at.to_string());
        let mut name = format!("{}-{time}", self.stem);
        while !self.names.insert(name.clone()) {
            name = format!("{name}-{line}");
        }
        self.conversation = Some(name.into());
    }

    fn close(&mut self) {
        let Some(LineBlock { voice, line, text }) = self.open.take() else {
            return;
        };
        let at = self.started_at.map(|at| format!(r#""at":"{at}","#)).unwrap_or_default();
        let content = Value::from(text.trim_end());
        self.ready.push_back(PendingPiece {
            line,
            conversation: self.conversation.clone(),
            text: Ok(format!(r#"{{"kind":"{}",{at}"content":{content}}}"#, voice.kind())),
        });
    }
}

impl LineBlock {
    fn add(&mut self, line: &str) {
        self.text.push('\n');
        self.text.push_str(line);
    }
}

impl Iterator for Blocks {
    type Item = PendingPiece;

    fn next(&mut self) -> Option<PendingPiece> {
        while self.ready.is_empty() {
            let Some(line) = self.lines.next_line() else {
                self.close();
                break;
            };
            self.take(line);
        }
        self.ready.pop_front()
    }
}
