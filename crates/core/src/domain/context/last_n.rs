//! The lecture's sliding window (seed 004): the last messages of a plain list, cut at a safe boundary.

use super::{
    Alternation, CONTINUATION, Passes, SourceMessage, Turn, alternation,
    draft::{self, Draft},
    pairs,
};
use crate::domain::{
    message::{Kind, Message},
    number::i64_or_max,
    user_text::OwnWords,
};

/// Returns true if a window may begin with `message`: it is a request of the user without tool results.
pub fn is_safe_boundary(message: &Message) -> bool {
    OwnWords::of(message).is_request && !message.parts.iter().any(draft::is_result)
}

/// Returns the last `n` of `messages`, or fewer: the window begins at their first safe boundary. If they have none, the window begins at
/// the newest safe boundary before them, and there are more than `n`.
/// With `anchor`, the user's first message stays in front. Leading instructions stay and don't count. Roles alternate
/// ([`Alternation::Ack`]), so there may be more than `n` turns.
pub fn last_n(messages: &[Message], n: usize, anchor: bool) -> Vec<Turn<'_>> {
    let instructions = messages.iter().take_while(|message| message.kind == Kind::System).count();
    let newest = messages.iter().rposition(is_safe_boundary);
    let cut = messages.len().saturating_sub(n);
    let start = match newest {
        _ if messages.len() - instructions <= n => instructions,
        Some(newest) => next_boundary(cut, newest, |index| is_safe_boundary(&messages[index])),
        None => instructions,
    };
    let first = messages.iter().position(is_safe_boundary);
    let first = first.filter(|&first| anchor && first < start);
    let keeps_thinking = start == instructions;
    let indices = (0..instructions).chain(first).chain(start..messages.len());
    let drafts: Vec<Draft<'_>> = indices
        .flat_map(|index| {
            let seq = i64_or_max(index);
            let source = SourceMessage::uncounted(seq, &messages[index]);
            // Instructions and anchor are apart from the rest, which is one conversation.
            let exchange = i64::from(index >= start);
            draft::message_drafts(source, exchange, keeps_thinking, None)
        })
        .collect();
    let mut turns = pairs::repair(&drafts, Passes::ALL);
    alternation::begin_with_user(&mut turns, CONTINUATION);
    alternation::repair(turns, Alternation::Ack, false)
}

/// Returns the first safe boundary from `cut` on, at the latest `newest`.
fn next_boundary(cut: usize, newest: usize, is_safe: impl Fn(usize) -> bool) -> usize {
    (cut..newest).find(|&index| is_safe(index)).unwrap_or(newest)
}
