//! The context: what to send to a model, as turns that every provider accepts once they are written in its format.
//!
//! ```text
//! preamble │ anchor, fenced summary │ window: whole exchanges, pairs complete, roles alternating
//! ```
//!
//! Invariants: every call is followed at once by the results of all calls of its turn, in call order; the first turn
//! after the system's is the user's own; no turn is empty; the newest exchange is always there; what doesn't fit is
//! reported. The same input gives the same turns. Nothing made up here is ever stored: [`PieceOrigin::Synthetic`] marks it.
//!
//! In a conversation of several speakers the context is built for one of them: exchanges are left out by their original
//! boundaries as always, then the rest is shown from the speaker's perspective ([`super::perspective`]), then roles are
//! made to alternate.
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
mod pairs;
mod passes;
mod plan;
mod request;
mod steps;
#[cfg(test)]
pub(crate) mod tests;
mod truncate_results;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    message::{Message, Part},
    perspective::Perspective,
    tokens::{MESSAGE_OVERHEAD_TOKENS, TokenCounter, count_part},
};
pub use copies::{COPIES_MAX, LeftCopy, SourceCopy};
pub use fence::{fence, fence_copy};
pub use last_n::{is_safe_boundary, last_n};
pub use passes::{Pass, Passes};
pub use truncate_results::{Elision, shorten_results};

/// The text that stands for a tool result which was never recorded.
pub const MISSING_RESULT: &str = "interrupted: no result was recorded";
/// The assistant's made-up turn between two turns of the user's (the lecture's text).
pub const ACKNOWLEDGEMENT: &str = "Understood.";
/// The user's made-up turn between two turns of the model's, before the model's first turn, and after its last if the
/// newest message is a late result.
pub const CONTINUATION: &str = "Continue.";
/// The reserve for output takes at most this fraction (one in so many) of a request; so do anchor, summary and copies,
/// each, of what is sent.
pub const SHARE_MAX: i64 = 4;

/// Who a turn is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The user's words, without tool results.
    User,
    /// The model's words or tool calls.
    Assistant,
    /// The results of the calls in the turn before, perhaps followed by the user's words.
    Tool,
}

/// Where a piece comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceOrigin {
    /// A stored message, whole or in part.
    Stored {
        /// Its place in the agent's history.
        seq: i64,
    },
    /// Made up for this request, and why; never to be stored.
    Synthetic(Reason),
}

/// Why something was made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The fenced summary.
    Summary,
    /// Says whose words follow, where neighbouring turns of several speakers become one.
    Speaker,
    /// A pinned or important message whose exchange isn't in view.
    Copy,
    /// What the user asked for, where only later legs of the exchange are in view.
    Request,
    /// A note of which exchanges were left out to fit.
    LeftOut,
    /// The conversation would begin with the model's turn.
    FirstTurn,
    /// Two turns of one side would follow each other.
    Alternation,
    /// The newest message is a result that was moved to its call, before what the model said since.
    LateResult,
    /// A call has no result.
    MissingResult,
    /// The other speaker said nothing.
    Silence,
}

/// The part of a turn that comes from one stored message, or was made up.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<'a> {
    /// Its content, in order; never empty.
    pub parts: Cow<'a, [Part]>,
    /// Where it comes from.
    pub origin: PieceOrigin,
    /// The stored message, if `parts` are all of it except blank texts and thinking: then the provider that wrote it
    /// may get it back unchanged.
    pub source: Option<&'a Message>,
    /// Who says it, if turns may have to tell that: a perspective tells it by itself.
    pub speaker: Option<&'a str>,
    /// Whether the source's thinking may be sent.
    pub keeps_thinking: bool,
    /// Tokens of `parts`, once known.
    tokens: Option<i64>,
}

/// What a provider sees as one message.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn<'a> {
    /// The role it is sent with.
    pub role: Role,
    /// The exchange it belongs to; 0 for preamble, anchor and summary.
    pub exchange: i64,
    /// Its content, in order; never empty.
    pub pieces: Vec<Piece<'a>>,
}

/// How two neighbouring turns of one side are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Alternation {
    /// A short turn of the other side is put between them (seed 004).
    Ack,
    /// They become one turn.
    Merge,
    /// They stay as they are: no current provider minds, some gateways and chat templates do.
    Keep,
}

impl Alternation {
    /// The name in the configuration, on the command line and in HTTP queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Merge => "merge",
            Self::Keep => "keep",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Ack, Self::Merge, Self::Keep]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// How a context is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches that have nothing to do with each other"
)]
pub struct ContextOptions {
    /// The most tokens of the whole request, output included; 0 is no limit.
    pub max_tokens: i64,
    /// How many of these stay free for the answer; at most a quarter is kept free.
    pub output_reserve_tokens: i64,
    /// How many of these stay free for what the agent sends beside the conversation: system prompt and tools.
    pub system_reserve_tokens: i64,
    /// The most tokens of copies of pinned and important messages.
    pub pins_max_tokens: i64,
    /// The tokens that leave the window in one step; a bigger request is cut where it stands before later legs. 0 if
    /// nobody knows; whatever a step is, a request takes no more than half of what is sent.
    pub step_tokens: i64,
    /// Whether the first message of the session stays in view after its exchange has left the window.
    pub anchor: bool,
    /// What to do with consecutive turns of one side.
    pub alternation: Alternation,
    /// Whether instructions stay where they were said; otherwise they all come first.
    pub system_in_place: bool,
    /// Whether thinking of the open exchange is kept even after an eviction.
    pub keep_open_thinking: bool,
    /// Whether the last turn must be the user's, made up if need be: some providers ask for that.
    pub ends_with_user: bool,
    /// Turns say who speaks, and may follow others of their side: those of several speakers don't become one.
    pub names_speakers: bool,
}

impl ContextOptions {
    /// The most tokens of what is sent, if limited.
    pub fn limit_tokens(&self) -> Option<i64> {
        let output = self.output_reserve_tokens.min(self.max_tokens / SHARE_MAX);
        let reserved = output.max(0) + self.system_reserve_tokens.max(0);
        (self.max_tokens > 0).then(|| (self.max_tokens - reserved).max(0))
    }
}

impl ContextOptions {
    /// The most tokens of copies of pinned and important messages, counted as the messages were; the lines around them
    /// come on top.
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

/// A stored message.
#[derive(Clone, Copy, Debug)]
pub struct SourceMessage<'a> {
    /// Its place in the agent's history.
    pub seq: i64,
    /// The message.
    pub message: &'a Message,
    /// Its tokens by the same counter, if known (`domain::tokens::count_message`).
    pub tokens: Option<i64>,
}

impl<'a> SourceMessage<'a> {
    /// A message that nobody has counted.
    pub fn uncounted(seq: i64, message: &'a Message) -> Self {
        Self {
            seq,
            message,
            tokens: None,
        }
    }
}

/// An exchange in the window, or a leg of one.
#[derive(Clone, Debug)]
pub struct SourceExchange<'a> {
    /// Its number.
    pub exchange: i64,
    /// The first leg of its exchange: itself, or one before it.
    pub begins_with: i64,
    /// Whether more messages are expected in its exchange.
    pub is_open: bool,
    /// Its messages, in stored order.
    pub messages: Vec<SourceMessage<'a>>,
}

/// What an exchange works on.
#[derive(Clone, Copy, Debug)]
pub struct SourceRequest<'a> {
    /// The first leg of the exchange.
    pub exchange: i64,
    /// What the user said.
    pub message: SourceMessage<'a>,
}

/// What a context is built from.
#[derive(Clone, Debug, Default)]
pub struct ContextInput<'a> {
    /// The leading instructions.
    pub preamble: Vec<SourceMessage<'a>>,
    /// The first message of the session, said by the user; for a speaker, the first that was said to that one.
    pub anchor: Option<SourceMessage<'a>>,
    /// The summary's text, already fenced ([`fence`]).
    pub summary: Option<String>,
    /// Pinned messages, and important ones of the session, in order, in the window or not.
    pub copies: Vec<SourceCopy<'a>>,
    /// The request of the exchange whose later legs the window begins with: its first message that the user said.
    pub request: Option<SourceRequest<'a>>,
    /// The exchanges in the window, oldest first.
    pub exchanges: Vec<SourceExchange<'a>>,
    /// Exchanges of the window that weren't even read, oldest first; they come before these.
    pub left_out: Vec<i64>,
    /// Whether exchanges of the session have left the window.
    pub evicted: bool,
    /// The speaker for whom it is built, in a conversation of several speakers; `None` for the assistant.
    pub perspective: Option<&'a Perspective>,
}

impl ContextInput<'_> {
    /// Whether something was forgotten that stood before what the model thought, and perhaps was still there then.
    fn forgets_before_thinking(&self) -> bool {
        let of_window = self.exchanges.iter().flat_map(|exchange| &exchange.messages);
        let messages = self.preamble.iter().chain(of_window).map(|source| source.message);
        let was_seen = |message: &&Message| !(message.is_forgotten() && message.kind.is_conversation());
        messages
            .skip_while(was_seen)
            .any(|message| message.parts.iter().any(is_thinking))
    }
}

/// The context that was built.
#[derive(Clone, Debug, PartialEq)]
pub struct Context<'a> {
    /// The turns, in order.
    pub turns: Vec<Turn<'a>>,
    /// Their tokens.
    pub tokens: i64,
    /// The most tokens that they may have, if limited.
    pub limit_tokens: Option<i64>,
    /// Whether they have more: the newest exchange, with what must go along, is too big by itself.
    pub over_budget: bool,
    /// Exchanges of the window that didn't fit, oldest first.
    pub left_out: Vec<i64>,
    /// Pinned and important messages that are sent as copies, by number.
    pub copied: Vec<i64>,
    /// Pinned and important messages that didn't fit among the copies.
    pub left_copies: Vec<LeftCopy>,
    /// Tool results that were shortened.
    pub elided: Vec<Elision>,
}

/// Which thinking is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thinking {
    All,
    /// Only that of the exchange that is still open.
    Open,
    None,
}

/// Builds the context of `input`. Costs are counted with `counter`.
pub fn build<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    counter: &dyn TokenCounter,
) -> Context<'a> {
    build_with(input, options, counter, Passes::ALL)
}

/// As [`build`], with these repairs.
pub fn build_with<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    counter: &dyn TokenCounter,
    passes: Passes,
) -> Context<'a> {
    let bound = if options.keep_open_thinking {
        Thinking::Open
    } else {
        Thinking::None
    };
    // Thinking is bound to everything before it (provider documentation, "Preserved thinking").
    if !input.evicted && !input.forgets_before_thinking() {
        let whole = fit::whole(input, options, counter, passes);
        if let Some(whole) = whole.filter(|whole| !whole.moved_before_thinking()) {
            return whole;
        }
    }
    fit::fit(input, options, passes.thinking(bound), counter, passes)
}

fn is_thinking(part: &Part) -> bool {
    matches!(part, Part::Thinking(_))
}

impl Context<'_> {
    /// Whether something that came after the model had thought stands before that now: a late result, or instructions where
    /// they can't stay in their place.
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

    /// The stored message that it comes from.
    fn seq(&self) -> Option<i64> {
        match self.origin {
            PieceOrigin::Stored { seq } => Some(seq),
            PieceOrigin::Synthetic(_) => None,
        }
    }

    /// Counts the tokens that aren't known yet, so that each is counted once.
    fn measure(&mut self, counter: &dyn TokenCounter) {
        self.tokens = Some(self.cost(counter));
    }

    fn cost(&self, counter: &dyn TokenCounter) -> i64 {
        self.tokens.unwrap_or_else(|| {
            let parts = self.parts.iter();
            parts.map(|part| count_part(counter, part)).sum()
        })
    }
}

impl<'a> Turn<'a> {
    fn new(role: Role, exchange: i64, pieces: Vec<Piece<'a>>) -> Self {
        Self {
            role,
            exchange,
            pieces,
        }
    }

    /// Who says all of it, if that is known.
    fn speaker(&self) -> Option<&'a str> {
        let mut speakers = self.pieces.iter().map(|piece| piece.speaker);
        let first = speakers.next()?;
        speakers
            .all(|speaker| speaker == first)
            .then_some(first)
            .flatten()
    }

    /// Its content, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.pieces.iter().flat_map(|piece| piece.parts.iter())
    }

    /// Whether all of it was made up.
    pub fn is_synthetic(&self) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.all(|piece| matches!(piece.origin, PieceOrigin::Synthetic(_)))
    }

    /// Its tokens.
    pub fn tokens(&self, counter: &dyn TokenCounter) -> i64 {
        let pieces = self.pieces.iter();
        pieces.map(|piece| piece.cost(counter)).sum::<i64>() + MESSAGE_OVERHEAD_TOKENS
    }
}
