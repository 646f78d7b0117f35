//! The anchor: the user's first message of the session, which stays in view.

use super::{ContextInput, ContextOptions, Piece, SHARE_MAX, draft, request};
use crate::domain::{
    exchange::PREAMBLE,
    message::{Part, Role},
    text::head_tail,
    tokens::TokenCounter,
};

/// Limits the anchor to this many characters, even if its share is larger.
const ANCHOR_CHARS_MAX: usize = 100_000;

/// Returns the first message of the session, with images replaced by their names: images would be sent again each time and take the room
/// of current ones. If the message exceeds its share, cuts the middle of its text.
pub(super) fn anchor<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    counter: &dyn TokenCounter,
) -> Option<Piece<'a>> {
    let drafts = draft::message_drafts(input.anchor?, PREAMBLE, false, input.perspective);
    let draft = drafts.into_iter().find(|draft| draft.role == Role::User)?;
    let has_images = draft.parts.iter().any(|part| matches!(part, Part::Attachment { .. }));
    let piece = if has_images {
        draft.piece_with(draft.parts.iter().map(with_image_named).collect())
    } else {
        draft.piece()
    };
    let texts: Vec<&str> = draft.parts.iter().filter_map(text_of).collect();
    let text = texts.join("\n");
    let text = text.trim();
    let share = if input.anchor.is_some_and(|anchor| request::is_request(input, anchor)) {
        request::request_max_tokens(options)
    } else {
        options.limit_tokens().map(|limit| limit / SHARE_MAX)
    };
    let is_within = share.is_none_or(|share| piece.cost(counter) <= share);
    if is_within && text.chars().nth(ANCHOR_CHARS_MAX).is_none() {
        return Some(piece);
    }
    // A token has at least one character, with rare exceptions. So a text of `share` characters has at most `share` tokens.
    let chars = share.map_or(ANCHOR_CHARS_MAX, |share| usize::try_from(share).unwrap_or(0));
    let chars = chars.min(ANCHOR_CHARS_MAX);
    let shortened = head_tail(text, chars * 2 / 3, chars / 3);
    let says_enough = shortened == text || chars >= request::CHARS_MIN;
    (says_enough && !shortened.is_empty()).then(|| draft.piece_with(vec![Part::Text(shortened)]))
}

fn with_image_named(part: &Part) -> Part {
    match part {
        Part::Attachment { media, .. } => Part::Text(format!("[attachment: {media}]")),
        part => part.clone(),
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        _ => None,
    }
}
