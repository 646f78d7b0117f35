//! Shortens the answers of recapd's own tools: the model has already read them, and can get them again by the same call.
//!
//! Invariant: which answers are shortened depends only on the messages that existed when the boundary of the window last moved. Such a move
//! changes the beginning of a request anyway. Between two moves, each request begins with the bytes of the one before.

use super::{Elision, Piece, Turn, truncate_results::note};
use crate::domain::{
    message::{Message, Part, Role},
    own_output::{is_answer, is_tool},
};

/// Answers of more characters than this are shortened.
const CHARS_MAX: usize = 1_000;
/// Follows the note of how much is left out.
const AGAIN: &str = "(recapd's own answer: the same call answers again)";

/// Returns true if a message may hold an answer to shorten, or its call.
pub fn concerns_own_answers(message: &Message) -> bool {
    message.parts.iter().any(|part| match part {
        Part::ToolCall { name, .. } => is_tool(name),
        Part::ToolResult { name, text, .. } => is_own(name.as_deref(), text),
        _ => false,
    })
}

fn is_own(tool: Option<&str>, text: &str) -> bool {
    text.len() > CHARS_MAX && (tool.is_some_and(is_tool) || is_answer(text))
}

/// Shortens recapd's answers in the turns of exchanges before number `end`. Each answer follows the turn with its call, in call order.
pub(super) fn shorten(turns: &mut [Turn<'_>], end: i64) -> Vec<Elision> {
    let (mut called, mut elided): (Vec<String>, Vec<Elision>) = Default::default();
    for turn in turns.iter_mut().take_while(|turn| turn.exchange < end) {
        if turn.role == Role::Assistant {
            let parts = turn.parts();
            called = parts.filter_map(tool).map(str::to_owned).collect();
        } else if turn.role == Role::Tool {
            let mut tools = called.iter().map(String::as_str);
            let exchange = turn.exchange;
            for piece in &mut turn.pieces {
                elided.extend(shorten_piece(piece, &mut tools, exchange));
            }
        }
    }
    elided
}

fn tool(part: &Part) -> Option<&str> {
    match part {
        Part::ToolCall { name, .. } => Some(name),
        _ => None,
    }
}

/// Shortens the answers in a piece with results of these `tools`.
fn shorten_piece<'t>(
    piece: &mut Piece<'_>,
    tools: &mut impl Iterator<Item = &'t str>,
    exchange: i64,
) -> Vec<Elision> {
    let seq = piece.seq();
    let mut elided = Vec::new();
    for at in 0..piece.parts.len() {
        let Part::ToolResult { text, is_error, .. } = &piece.parts[at] else {
            continue;
        };
        let tool = tools.next();
        let chars = text.chars().count();
        if *is_error || chars <= CHARS_MAX || !is_own(tool, text) {
            continue;
        }
        if let Part::ToolResult { text, .. } = &mut piece.parts.to_mut()[at] {
            *text = format!("{}\n{AGAIN}", note(chars, exchange));
        }
        elided.push(Elision { exchange, seq, chars });
    }
    if !elided.is_empty() {
        (piece.source, piece.tokens) = (None, None);
    }
    elided
}
