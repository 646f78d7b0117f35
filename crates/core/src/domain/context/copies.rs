//! Copies of pinned and important messages whose exchanges aren't in view (lecture 7.2). They are marked, in order, and limited in number
//! and tokens; each message is copied once. If there are too many, important messages are left out before pinned ones, the oldest first.

use serde::Serialize;

use super::{
    ContextInput, Piece, Reason, SourceMessage,
    fence::{attribute, escape_tags},
};
use crate::domain::{
    exchange::PREAMBLE,
    message::{Message, Part, Role},
    perspective::Perspective,
    tokens::{TokenCounter, count_message},
};

/// A context has at most this many copies. At most this many messages can be pinned at once.
pub const COPIES_MAX: usize = 50;

/// A pinned or important message.
#[derive(Clone, Copy, Debug)]
pub struct SourceCopy<'a> {
    /// The message's exchange.
    pub exchange: i64,
    /// True if it is pinned; otherwise it is important to its session.
    pub pinned: bool,
    /// The message with its tokens.
    pub message: SourceMessage<'a>,
}

/// A pinned or important message that doesn't fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LeftCopy {
    /// The message's number.
    pub seq: i64,
    /// The message's exchange.
    pub exchange: i64,
    /// True if it is pinned; otherwise it is important to its session.
    pub pinned: bool,
}

/// All messages that can be copied, in order, as copies.
pub(super) struct Copies<'a>(Vec<Copy<'a>>);

struct Copy<'a> {
    exchange: i64,
    seq: i64,
    pinned: bool,
    tokens: i64,
    piece: Piece<'a>,
}

/// The indices of the chosen copies, and the messages that don't fit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CopySelection {
    pub(super) chosen: Vec<usize>,
    pub(super) left_out: Vec<LeftCopy>,
}

impl<'a> Copies<'a> {
    /// Makes copies of the messages that have content and aren't in the preamble.
    pub(super) fn new(input: &ContextInput<'a>, counter: &dyn TokenCounter) -> Self {
        let in_preamble = |seq: i64| input.preamble.iter().any(|message| message.seq == seq);
        let sources = input.copies.iter().filter(|copy| !in_preamble(copy.message.seq));
        let copies = sources.filter_map(|copy| {
            let SourceMessage { message, tokens, .. } = copy.message;
            Some(Copy {
                exchange: copy.exchange,
                seq: copy.message.seq,
                pinned: copy.pinned,
                tokens: tokens.unwrap_or_else(|| count_message(counter, message)),
                piece: Piece::text(Reason::Copy, &text(copy, input.perspective)?),
            })
        });
        Self(copies.collect())
    }

    pub(super) fn pieces_mut(&mut self) -> impl Iterator<Item = &mut Piece<'a>> {
        self.0.iter_mut().map(|copy| &mut copy.piece)
    }

    pub(super) fn piece(&self, index: usize) -> Option<&Piece<'a>> {
        self.0.get(index).map(|copy| &copy.piece)
    }

    pub(super) fn seq(&self, index: usize) -> i64 {
        self.0.get(index).map_or(0, |copy| copy.seq)
    }

    /// Chooses the newest copies of messages before `first_exchange`, pinned ones first, up to `max_tokens` together. Leaves out the
    /// messages in `sent`, which are in view anyway. A message that is too long alone doesn't keep others out.
    pub(super) fn choose(&self, first_exchange: i64, sent: &[i64], max_tokens: i64) -> CopySelection {
        let (mut selection, mut room) = (CopySelection::default(), max_tokens);
        for pinned in [true, false] {
            let mut is_full = false;
            for (index, copy) in self.0.iter().enumerate().rev() {
                if copy.pinned != pinned || copy.exchange >= first_exchange || sent.contains(&copy.seq) {
                    continue;
                }
                is_full |=
                    selection.chosen.len() >= COPIES_MAX || (copy.tokens > room && copy.tokens <= max_tokens);
                if is_full || copy.tokens > room {
                    selection.left_out.push(LeftCopy { seq: copy.seq, exchange: copy.exchange, pinned });
                } else {
                    room -= copy.tokens;
                    selection.chosen.push(index);
                }
            }
        }
        selection.chosen.sort_unstable();
        selection.left_out.sort_unstable_by_key(|copy| copy.seq);
        selection
    }
}

/// Writes the fenced and marked copy. Returns `None` if the message has no text that `viewer` may see: only the speaker who called a tool
/// sees its results.
fn text(copy: &SourceCopy<'_>, viewer: Option<&Perspective>) -> Option<String> {
    let message = copy.message.message;
    let lines: Vec<String> =
        with_visible_parts(message, viewer, |parts| parts.iter().filter_map(line).collect())?;
    let mark = CopyMark {
        seq: copy.message.seq,
        exchange: copy.exchange,
        why: if copy.pinned { "pinned" } else { "important" },
    };
    (!lines.is_empty()).then(|| write_copy(message, mark, &lines.join("\n"), viewer.is_some()))
}

/// Returns the part of the message's text that `viewer` sees, verbatim, with attachments named.
pub(super) fn visible_text(message: &Message, viewer: Option<&Perspective>) -> Option<String> {
    let verbatim = |part: &Part| match part {
        Part::Text(text) => Some(text.clone()),
        part => line(part),
    };
    let lines: Vec<String> =
        with_visible_parts(message, viewer, |parts| parts.iter().filter_map(verbatim).collect())?;
    let says_something = lines.iter().any(|line| !line.trim().is_empty());
    says_something.then(|| lines.join("\n"))
}

fn with_visible_parts<T>(
    message: &Message,
    viewer: Option<&Perspective>,
    read: impl FnOnce(&[Part]) -> T,
) -> Option<T> {
    if !message.kind.is_conversation() {
        return None;
    }
    Some(match viewer {
        None => read(&message.parts),
        Some(viewer) => {
            let visible = viewer.see(message).filter(|visible| visible.role != Role::Tool)?;
            read(&visible.parts)
        }
    })
}

/// The attributes of a copy's tag.
#[derive(Clone, Copy)]
pub(super) struct CopyMark {
    pub(super) seq: i64,
    pub(super) exchange: i64,
    pub(super) why: &'static str,
}

/// Fences `text` as a copy of `message`. Names the speaker (`by_name`) or the message's kind.
pub(super) fn write_copy(message: &Message, mark: CopyMark, text: &str, by_name: bool) -> String {
    let speaker = message.speaker.as_deref().filter(|_| by_name);
    let by = speaker.map_or_else(|| message.kind.name().to_owned(), attribute);
    let exchange = match mark.exchange {
        PREAMBLE => "the beginning".to_owned(),
        exchange => format!("#{exchange}"),
    };
    let CopyMark { seq, why, .. } = mark;
    let text = escape_tags(text, "copy");
    format!("<copy of=\"message {seq}\" exchange=\"{exchange}\" by=\"{by}\" why=\"{why}\">\n{text}\n</copy>")
}

fn line(part: &Part) -> Option<String> {
    match part {
        Part::Text(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Part::ToolCall { name, arguments, .. } => Some(format!("[called {name} with {arguments}]")),
        Part::ToolResult { name, text, is_error, .. } => {
            let kind = if *is_error { "failed result" } else { "result" };
            let tool = name.as_deref().map_or_else(String::new, |name| format!(" of {name}"));
            Some(format!("[{kind}{tool}]\n{}", text.trim()))
        }
        Part::Attachment { media, .. } => Some(format!("[attachment: {media}]")),
        Part::Opaque { kind, .. } => Some(format!("[block: {kind}]")),
        Part::Thinking(_) => None,
    }
}
