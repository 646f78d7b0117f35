//! Builds the context: the turns to send to a model. Every provider accepts them once they are written in its format.
//!
//! ```text
//! preamble │ anchor, fenced summary │ window: whole exchanges, pairs complete, roles alternating
//! ```
//!
//! Invariants: every call is followed at once by the results of all calls of its turn, in call order. After the system's turns, the first
//! turn is the user's. No turn is empty. The newest leg is always there. recapd reports whatever doesn't fit. The same input gives the
//! same turns. Synthetic content is never stored; [`PieceOrigin::Synthetic`] marks it.
//!
//! In a conversation of several speakers, the context is built for one of them: it shows messages from that speaker's perspective
//! ([`super::perspective`]). Then calls and results are paired, the oldest exchanges are left out if they don't fit, and roles are made to
//! alternate.
//!
//! `formats::outgoing` writes the turns for a provider.

mod alternation;
mod anchor;
mod copies;
mod draft;
mod fence;
mod fit;
mod ladder;
mod last_n;
mod own_answers;
mod pairs;
mod passes;
mod plain;
mod plan;
mod request;
mod steps;
#[cfg(test)]
pub(crate) mod tests;
mod truncate_results;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    message::{Message, Part, Role},
    perspective::Perspective,
    tokens::{MESSAGE_OVERHEAD_TOKENS, TokenCounter, count_part},
};
pub use copies::{COPIES_MAX, LeftCopy, SourceCopy};
pub use fence::{fence, fence_copy, fence_project};
pub use last_n::{is_safe_boundary, last_n};
pub use own_answers::concerns_own_answers;
pub use passes::{Pass, Passes};
pub use plain::plain;
pub use truncate_results::{Elision, shorten_results};

/// Stands for a tool result that was never recorded.
pub const MISSING_RESULT: &str = "interrupted: no result was recorded";
/// The model's synthetic turn between two turns of the user (the lecture's text).
pub const ACKNOWLEDGEMENT: &str = "Understood.";
/// The user's synthetic turn: between two turns of the model, before the model's first turn, and after the model's last turn if the
/// newest message is a late result or the provider demands a last turn of the user.
pub const CONTINUATION: &str = "Continue.";
/// The output reserve gets at most 1/`SHARE_MAX` of a request. Anchor, summary and copies each get at most 1/`SHARE_MAX` of the context.
pub const SHARE_MAX: i64 = 4;

/// Where a piece comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceOrigin {
    /// A stored message, whole or in part.
    Stored {
        /// The message's number in the agent's history.
        seq: i64,
    },
    /// Made for this request; never stored.
    Synthetic(Reason),
}

/// Why a synthetic piece was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The fenced summary.
    Summary,
    /// The name of the next speaker, in a turn merged from several speakers' turns.
    Speaker,
    /// A copy of a pinned or important message whose exchange isn't in view.
    Copy,
    /// A copy of the request of an exchange that has only later legs in view.
    Request,
    /// A note about exchanges that were left out because they don't fit.
    LeftOut,
    /// The conversation would begin with a turn of the model.
    FirstTurn,
    /// Two turns of one side would follow each other, or the provider demands that the user's turn be the last one.
    Alternation,
    /// The newest message is a late result, which was moved to its call, before later words of the model. The model must still answer it.
    LateResult,
    /// A call has no result.
    MissingResult,
    /// The other speaker said nothing.
    Silence,
}

/// A part of a turn that comes from one stored message or is synthetic.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<'a> {
    /// Its content, in order; never empty.
    pub parts: Cow<'a, [Part]>,
    /// The stored message that it comes from, or why it was made.
    pub origin: PieceOrigin,
    /// The stored message, if `parts` are all of it except blank texts and thinking. Its own provider may then get it unchanged.
    pub source: Option<&'a Message>,
    /// The speaker, where turns may have to name one. `None` with a perspective, whose texts name speakers already.
    pub speaker: Option<&'a str>,
    /// True if the message's thinking may be sent.
    pub keeps_thinking: bool,
    /// Tokens of `parts`; `None` until counted.
    tokens: Option<i64>,
}

/// A message as a provider sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn<'a> {
    /// The role that its provider gets.
    pub role: Role,
    /// Its exchange; 0 for preamble, anchor and summary.
    pub exchange: i64,
    /// Its content, in order; never empty.
    pub pieces: Vec<Piece<'a>>,
}

/// What to do with two consecutive turns of the same side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Alternation {
    /// Puts a short turn of the other side between them (seed 004).
    Ack,
    /// Merges them into one turn.
    Merge,
    /// Leaves them as they are. Current providers accept that; some gateways and chat templates don't.
    Keep,
}

impl Alternation {
    /// Returns the name used in the configuration, on the command line and in HTTP queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Merge => "merge",
            Self::Keep => "keep",
        }
    }

    /// Parses a mode's name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Ack, Self::Merge, Self::Keep].into_iter().find(|mode| mode.name() == name)
    }
}

/// Settings for building a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "switches that have nothing to do with each other")]
pub struct ContextOptions {
    /// Limits the whole request, output included, to this many tokens; 0 means no limit.
    pub max_tokens: i64,
    /// Keeps this many of these tokens free for the answer, but at most a quarter.
    pub output_reserve_tokens: i64,
    /// Keeps this many of these tokens free for what the agent adds itself: system prompt and tools.
    pub system_reserve_tokens: i64,
    /// Limits the copies of pinned and important messages to this many tokens together.
    pub pins_max_tokens: i64,
    /// The tokens that leave the window in one step; 0 if unknown. The copy of a request before later legs is cut if the request is
    /// bigger than a step or than half of the context.
    pub step_tokens: i64,
    /// True if the first message of the session stays in view after its exchange has left the window.
    pub anchor: bool,
    /// What to do with consecutive turns of one side.
    pub alternation: Alternation,
    /// True if instructions stay in their place; otherwise all of them come first.
    pub system_in_place: bool,
    /// True if the open exchange keeps its thinking even after an eviction.
    pub keep_open_thinking: bool,
    /// True if the last turn must be the user's, as some providers demand. A synthetic turn is then added if needed.
    pub ends_with_user: bool,
    /// True if turns name their speaker. Turns of different speakers then aren't merged, and may follow each other.
    pub names_speakers: bool,
}

impl ContextOptions {
    /// Returns how many tokens the context may have, after the reserves; `None` means no limit.
    pub fn limit_tokens(&self) -> Option<i64> {
        let output = self.output_reserve_tokens.min(self.max_tokens / SHARE_MAX);
        let reserved = output.max(0) + self.system_reserve_tokens.max(0);
        (self.max_tokens > 0).then(|| (self.max_tokens - reserved).max(0))
    }

    /// Returns how many tokens the copies of pinned and important messages may have, without the markup around them.
    pub fn copies_max_tokens(&self) -> i64 {
        let share = self.limit_tokens().map(|limit| limit / SHARE_MAX);
        share.map_or(self.pins_max_tokens, |share| share.min(self.pins_max_tokens))
    }
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self {
            max_tokens: 0,
            output_reserve_tokens: 0,
            system_reserve_tokens: 0,
            pins_max_tokens: 4_000,
            step_tokens: 0,
            anchor: true,
            alternation: Alternation::Merge,
            system_in_place: false,
            keep_open_thinking: false,
            ends_with_user: false,
            names_speakers: false,
        }
    }
}

/// A stored message with its tokens.
#[derive(Clone, Copy, Debug)]
pub struct SourceMessage<'a> {
    /// The message's number in the agent's history.
    pub seq: i64,
    /// The message as stored.
    pub message: &'a Message,
    /// Its tokens by the context's counter ([`super::tokens::count_message`]), if known.
    pub tokens: Option<i64>,
}

impl<'a> SourceMessage<'a> {
    /// Wraps a message whose tokens aren't counted.
    pub fn uncounted(seq: i64, message: &'a Message) -> Self {
        Self { seq, message, tokens: None }
    }
}

/// An exchange of the window, or a leg of one.
#[derive(Clone, Debug)]
pub struct SourceExchange<'a> {
    /// The number of the exchange or leg.
    pub exchange: i64,
    /// The number of the first leg of its exchange.
    pub first_leg: i64,
    /// True if its exchange isn't finished.
    pub is_open: bool,
    /// Its messages, in stored order.
    pub messages: Vec<SourceMessage<'a>>,
}

/// The request that an exchange works on.
#[derive(Clone, Copy, Debug)]
pub struct SourceRequest<'a> {
    /// The first leg of its exchange.
    pub exchange: i64,
    /// The user's message.
    pub message: SourceMessage<'a>,
}

/// The input of a context.
#[derive(Clone, Debug, Default)]
pub struct ContextInput<'a> {
    /// The leading instructions of the history.
    pub preamble: Vec<SourceMessage<'a>>,
    /// The user's first message of the session; with a perspective, the first message to that speaker.
    pub anchor: Option<SourceMessage<'a>>,
    /// The summary's text, already fenced ([`fence`]).
    pub summary: Option<String>,
    /// Pinned messages and the session's important messages, in order, whether they are in the window or not.
    pub copies: Vec<SourceCopy<'a>>,
    /// If the window begins with a later leg: the request of its exchange, which is the user's first message in it.
    pub request: Option<SourceRequest<'a>>,
    /// The exchanges of the window, oldest first.
    pub exchanges: Vec<SourceExchange<'a>>,
    /// Exchanges of the window that weren't read, oldest first. They come before `exchanges`.
    pub left_out: Vec<i64>,
    /// True if exchanges of the session have left the window.
    pub evicted: bool,
    /// In exchanges before this one, long answers of recapd's own tools are shortened; 0 shortens none. The number changes only when the
    /// boundary of the window moves.
    pub passed_before: i64,
    /// The perspective of the speaker for whom the context is built; `None` in a conversation of two.
    pub perspective: Option<&'a Perspective>,
}

impl ContextInput<'_> {
    /// Returns true if a forgotten message stands before thinking of the model.
    fn forgets_before_thinking(&self) -> bool {
        let window = self.exchanges.iter().flat_map(|exchange| &exchange.messages);
        let messages = self.preamble.iter().chain(window).map(|source| source.message);
        let is_intact = |message: &&Message| !(message.is_forgotten() && message.kind.is_conversation());
        messages.skip_while(is_intact).any(|message| message.parts.iter().any(is_thinking))
    }
}

/// A finished context.
#[derive(Clone, Debug, PartialEq)]
pub struct Context<'a> {
    /// The turns in order.
    pub turns: Vec<Turn<'a>>,
    /// The tokens of all turns.
    pub tokens: i64,
    /// The limit in tokens; `None` means no limit.
    pub limit_tokens: Option<i64>,
    /// True if the turns exceed the limit because the newest exchange, with what must come with it, is too big.
    pub over_budget: bool,
    /// Exchanges of the window that don't fit, oldest first.
    pub left_out: Vec<i64>,
    /// The numbers of the pinned and important messages that are sent as copies.
    pub copied: Vec<i64>,
    /// Pinned and important messages that don't fit among the copies.
    pub left_copies: Vec<LeftCopy>,
    /// The tool results that were shortened.
    pub elided: Vec<Elision>,
}

/// Which thinking of the model to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thinking {
    All,
    /// Only the thinking of the open exchange.
    Open,
    None,
}

/// Builds the context of `input`. `counter` counts its tokens.
pub fn build<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    counter: &dyn TokenCounter,
) -> Context<'a> {
    build_with(input, options, counter, Passes::ALL)
}

/// Like [`build`], but runs only the given passes.
pub fn build_with<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    counter: &dyn TokenCounter,
    passes: Passes,
) -> Context<'a> {
    let limited = if options.keep_open_thinking { Thinking::Open } else { Thinking::None };
    // Thinking is valid only after everything that the model saw before it (provider documentation, "Preserved thinking"). So all of it
    // is sent only if nothing was removed or moved.
    if !input.evicted && !input.forgets_before_thinking() {
        let complete = fit::build_complete(input, options, counter, passes);
        if let Some(context) = complete.filter(|context| !context.moved_before_thinking()) {
            return context;
        }
    }
    fit::fit(input, options, passes.thinking(limited), counter, passes)
}

fn is_thinking(part: &Part) -> bool {
    matches!(part, Part::Thinking(_))
}

impl Context<'_> {
    /// Returns true if a late result or instructions were moved, so that newer content stands before older thinking.
    fn moved_before_thinking(&self) -> bool {
        let mut newest = i64::MIN;
        let mut pieces = self.turns.iter().flat_map(|turn| &turn.pieces);
        pieces.any(|piece| match piece.origin {
            PieceOrigin::Stored { seq } => {
                newest = newest.max(seq);
                seq < newest && piece.parts.iter().any(is_thinking)
            }
            PieceOrigin::Synthetic(_) => false,
        })
    }
}

impl Piece<'_> {
    fn synthetic(reason: Reason, part: Part) -> Self {
        Self {
            parts: Cow::Owned(vec![part]),
            origin: PieceOrigin::Synthetic(reason),
            source: None,
            speaker: None,
            keeps_thinking: false,
            tokens: None,
        }
    }

    fn text(reason: Reason, text: &str) -> Self {
        Self::synthetic(reason, Part::Text(text.to_owned()))
    }

    fn seq(&self) -> Option<i64> {
        match self.origin {
            PieceOrigin::Stored { seq } => Some(seq),
            PieceOrigin::Synthetic(_) => None,
        }
    }

    /// Caches the tokens, so that each piece is counted once.
    fn measure(&mut self, counter: &dyn TokenCounter) {
        self.tokens = Some(self.cost(counter));
    }

    /// Returns its tokens.
    pub fn cost(&self, counter: &dyn TokenCounter) -> i64 {
        self.tokens.unwrap_or_else(|| {
            let parts = self.parts.iter();
            parts.map(|part| count_part(counter, part)).sum()
        })
    }
}

impl<'a> Turn<'a> {
    fn new(role: Role, exchange: i64, pieces: Vec<Piece<'a>>) -> Self {
        Self { role, exchange, pieces }
    }

    /// Returns the speaker if all pieces have the same one.
    fn speaker(&self) -> Option<&'a str> {
        let mut speakers = self.pieces.iter().map(|piece| piece.speaker);
        let first = speakers.next()?;
        speakers.all(|speaker| speaker == first).then_some(first).flatten()
    }

    /// Returns the content in order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.pieces.iter().flat_map(|piece| piece.parts.iter())
    }

    /// Returns true if no part of it comes from a stored message.
    pub fn is_synthetic(&self) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.all(|piece| matches!(piece.origin, PieceOrigin::Synthetic(_)))
    }

    /// Returns the tokens of all pieces and of the message around them.
    pub fn tokens(&self, counter: &dyn TokenCounter) -> i64 {
        let pieces = self.pieces.iter();
        pieces.map(|piece| piece.cost(counter)).sum::<i64>() + MESSAGE_OVERHEAD_TOKENS
    }
}
