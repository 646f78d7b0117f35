//! Writes a context as plain text, for a host that compacts its own conversation and takes a text in its place.
//!
//! Invariant: below a line that names the speaker, all the speaker's words are indented. So no content can pose as another speaker, and
//! no tag in it can end the text's own fence.

use super::{PieceOrigin, Reason, Turn, fence::escape_tags};
use crate::domain::{
    message::{Part, Role},
    neutralize::detagged,
};

/// The tags between which hosts look for the text.
const TAGS: [&str; 2] = ["summary", "analysis"];
const NEWEST: &str = "\n\n# The newest part of the conversation, as it was said\n\n";
const INDENT: &str = "    ";

/// Writes `turns` without instructions, since a host sends its own.
pub fn plain(turns: &[Turn<'_>]) -> String {
    let mut text = String::new();
    for turn in turns.iter().filter(|turn| turn.role != Role::System) {
        for piece in &turn.pieces {
            match piece.origin {
                PieceOrigin::Synthetic(Reason::Summary) => write_summary(&mut text, &piece.parts),
                // These only make a request valid; a text doesn't need them.
                PieceOrigin::Synthetic(Reason::FirstTurn | Reason::Alternation | Reason::Silence) => {}
                PieceOrigin::Synthetic(_) | PieceOrigin::Stored { .. } => {
                    for part in piece.parts.iter() {
                        write_part(&mut text, turn, part);
                    }
                }
            }
        }
    }
    // If nothing follows the document, the heading after it has no text.
    if text.ends_with(NEWEST) {
        text.truncate(text.len() - NEWEST.len());
    }
    for tag in TAGS {
        text = escape_tags(&text, tag);
    }
    text
}

/// Writes the document without its fence, and the heading of what follows it.
fn write_summary(text: &mut String, parts: &[Part]) {
    for part in parts {
        if let Part::Text(fenced) = part {
            let inner = fenced.split_once('\n').map_or("", |(_, rest)| rest);
            let inner = inner.rsplit_once('\n').map_or("", |(document, _)| document);
            text.push_str(inner.trim());
            text.push_str(NEWEST);
        }
    }
}

fn write_part(text: &mut String, turn: &Turn<'_>, part: &Part) {
    let speaker = match turn.role {
        Role::Assistant => "Assistant",
        Role::User | Role::Tool | Role::System => "User",
    };
    let number = match turn.exchange {
        0 => String::new(),
        exchange => format!(" (#{exchange})"),
    };
    match part {
        Part::Text(content) => write_block(text, &format!("{speaker}{number}:"), content),
        Part::ToolCall { name, arguments, .. } => write_block(text, &format!("Call of {name}:"), arguments),
        Part::ToolResult { text: result, is_error, .. } => {
            let head = if *is_error { "Result, an error:" } else { "Result:" };
            let lines: Vec<String> = result.lines().map(detagged).collect();
            write_block(text, head, &lines.join("\n"));
        }
        Part::Attachment { media, .. } => {
            write_block(text, &format!("{speaker}{number}:"), &format!("[{media}]"));
        }
        Part::Thinking(_) | Part::Opaque { .. } => {}
    }
}

fn write_block(text: &mut String, head: &str, content: &str) {
    if content.trim().is_empty() {
        return;
    }
    text.push_str(head);
    text.push('\n');
    for line in content.trim_end().lines() {
        text.push_str(INDENT);
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
}
