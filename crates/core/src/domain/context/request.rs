//! Copies of requests: if a window begins with a later leg of an exchange, a marked copy of the user's request comes before it. The copy
//! is verbatim, unless the request is bigger than a step or than half of the context.

use super::{
    ContextInput, ContextOptions, Piece, Reason, SourceExchange, SourceMessage, SourceRequest,
    copies::{CopyMark, visible_text, write_copy},
    is_safe_boundary,
};
use crate::domain::{
    number::{i64_or_max, usize_or_max},
    perspective::Perspective,
    text::head_tail,
    tokens::{TokenCounter, count_message},
};

/// With room for fewer characters, a copy no longer shows the task and is left out.
pub(super) const CHARS_MIN: usize = 80;
/// A request takes at most 1/`REQUEST_SHARE` of the context, however big a step is.
const REQUEST_SHARE: i64 = 2;
const WHY: &str = "the user's request that the following messages work on";

/// Copies of the requests of all exchanges whose later legs are in the window.
pub(super) struct Requests<'a>(Vec<RequestCopy<'a>>);

pub(super) struct RequestCopy<'a> {
    exchange: i64,
    pub(super) seq: i64,
    pub(super) piece: Piece<'a>,
}

impl<'a> Requests<'a> {
    pub(super) fn new(
        input: &ContextInput<'a>,
        options: &ContextOptions,
        counter: &dyn TokenCounter,
    ) -> Self {
        let max_tokens = request_max_tokens(options);
        let copies = sources(input).filter_map(|source| {
            let piece = copy(source, input.perspective, max_tokens, counter)?;
            Some(RequestCopy { exchange: source.exchange, seq: source.message.seq, piece })
        });
        Self(copies.collect())
    }

    pub(super) fn pieces_mut(&mut self) -> impl Iterator<Item = &mut Piece<'a>> {
        self.0.iter_mut().map(|request| &mut request.piece)
    }

    /// Returns the copy that may have to be shown before `first`, if `first` is a later leg.
    pub(super) fn before(&self, first: &SourceExchange<'a>) -> Option<&RequestCopy<'a>> {
        let is_later = first.first_leg < first.exchange;
        self.0.iter().find(|request| is_later && request.exchange == first.first_leg)
    }
}

/// Returns true if `message` is the request of an exchange whose later legs are in the window.
pub(super) fn is_request(input: &ContextInput<'_>, message: SourceMessage<'_>) -> bool {
    sources(input).any(|source| source.message.seq == message.seq)
}

/// Returns the most tokens of a request that is copied in full; `None` means no limit.
pub(super) fn request_max_tokens(options: &ContextOptions) -> Option<i64> {
    let share = options.limit_tokens().map(|limit| limit / REQUEST_SHARE);
    let step = Some(options.step_tokens).filter(|&step| step > 0);
    share.into_iter().chain(step).min()
}

fn sources<'i, 'a>(input: &'i ContextInput<'a>) -> impl Iterator<Item = SourceRequest<'a>> + use<'i, 'a> {
    let later = input.exchanges.iter().filter(|row| row.first_leg < row.exchange);
    let mut previous = None;
    let firsts = later.map(|row| row.first_leg).filter(move |&first| previous.replace(first) != Some(first));
    firsts.filter_map(|first| source(input, first))
}

fn source<'a>(input: &ContextInput<'a>, first: i64) -> Option<SourceRequest<'a>> {
    if let Some(request) = input.request.filter(|request| request.exchange == first) {
        return Some(request);
    }
    let row = input.exchanges.iter().find(|row| row.exchange == first)?;
    let mut messages = row.messages.iter();
    let message = *messages.find(|source| is_safe_boundary(source.message))?;
    Some(SourceRequest { exchange: first, message })
}

fn copy<'a>(
    source: SourceRequest<'a>,
    viewer: Option<&Perspective>,
    max_tokens: Option<i64>,
    counter: &dyn TokenCounter,
) -> Option<Piece<'a>> {
    let SourceMessage { message, tokens, .. } = source.message;
    let text = visible_text(message, viewer)?;
    let tokens = tokens.unwrap_or_else(|| count_message(counter, message));
    let text = match max_tokens {
        Some(max_tokens) if tokens > max_tokens => shorten(&text, max_tokens, tokens)?,
        _ => text,
    };
    let mark = CopyMark { seq: source.message.seq, exchange: source.exchange, why: WHY };
    let copy = write_copy(message, mark, &text, viewer.is_some());
    Some(Piece::text(Reason::Request, &copy))
}

/// Cuts `text`, which has `tokens` tokens, to its head and tail, which together have about `max_tokens`. Returns `None` if too little
/// would remain.
fn shorten(text: &str, max_tokens: i64, tokens: i64) -> Option<String> {
    let all_chars = i64_or_max(text.chars().count());
    let chars = usize_or_max(all_chars.saturating_mul(max_tokens) / tokens.max(1));
    (chars >= CHARS_MIN).then(|| head_tail(text, chars * 2 / 3, chars / 3))
}
