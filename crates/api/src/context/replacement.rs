//! Writes the text that replaces the evicted part of a conversation, for a client that sends its whole conversation with
//! each request.

use super::{ContextMaterial, ContextQuery, build::summary_room};
use recapd_core::{
    domain::{
        context::{Alternation, ContextOptions, Piece, PieceOrigin, Reason, build},
        exchange::PREAMBLE,
        message::{Part, Role},
        tokens::TokenCounter,
    },
    formats::{outgoing::RequestFormat, request::units_of},
    tokenizer::caching,
};

/// What replaces the evicted part of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// The hash of the first unit of the user's message that the client keeps unchanged before the text.
    pub anchor: Option<u64>,
    /// The document, the request that the window works on, and copies of pinned messages.
    pub text: String,
}

impl ContextMaterial {
    /// Writes what a context shows before its window.
    pub fn replacement(&self, defaults: ContextOptions, counter: &dyn TokenCounter) -> Replacement {
        self.before_window(defaults, counter, |pieces| {
            // A message that was cut or lost its images becomes part of the text.
            let is_whole = |piece: &Piece<'_>| {
                matches!(piece.origin, PieceOrigin::Stored { .. }) && piece.source.is_some()
            };
            let anchor = pieces.iter().find(|piece| is_whole(piece));
            let anchor = anchor.and(self.anchor.as_ref());
            Replacement {
                anchor: anchor
                    .and_then(|anchor| units_of(&anchor.message).first().copied())
                    .map(|unit| unit.hash),
                text: joined(pieces.iter().filter(|piece| !is_whole(piece))),
            }
        })
    }

    /// Writes what a context shows before its window as one text. The user's first message is part of the text.
    pub(super) fn text_before_window(&self, defaults: ContextOptions, counter: &dyn TokenCounter) -> String {
        self.before_window(defaults, counter, |pieces| joined(pieces.iter()))
    }

    fn before_window<T>(
        &self,
        defaults: ContextOptions,
        counter: &dyn TokenCounter,
        read: impl FnOnce(&[Piece<'_>]) -> T,
    ) -> T {
        let counter: &dyn TokenCounter = &caching(counter);
        let query = ContextQuery {
            format: RequestFormat::Anthropic,
            budget_tokens: None,
            alternation: Some(Alternation::Keep),
            summary_max_tokens: None,
            keeps_open_thinking: false,
        };
        let options = query.options(defaults);
        let shortened = summary_room(&options).and_then(|room| self.shortened_summary(room, counter));
        let input = self.input(shortened.as_ref().unwrap_or(&self.markdown));
        let context = build(&input, &options, counter);
        let mut turns = context.turns.iter();
        let head = turns.find(|turn| turn.role == Role::User && turn.exchange == PREAMBLE);
        read(head.map_or(&[], |turn| &turn.pieces))
    }
}

fn joined<'p>(pieces: impl Iterator<Item = &'p Piece<'p>>) -> String {
    pieces.flat_map(texts).collect::<Vec<_>>().join("\n\n")
}

fn texts<'p>(piece: &'p Piece<'_>) -> impl Iterator<Item = &'p str> {
    let is_shown = match piece.origin {
        PieceOrigin::Stored { .. } => true,
        PieceOrigin::Synthetic(reason) => matches!(reason, Reason::Summary | Reason::Request | Reason::Copy),
    };
    piece.parts.iter().filter_map(move |part| match part {
        Part::Text(text) if is_shown => Some(text.as_str()),
        _ => None,
    })
}
