//! Judges a finished request. The validator, which is independent of the builder, says what a provider accepts; this module
//! checks what one request doesn't show (which exchanges there were, which left).

use serde_json::{Value, json};

use super::findings::WindowPromise;
use recapd_core::{
    domain::{
        context::{Alternation, Context, ContextInput, ContextOptions, PieceOrigin, SourceExchange},
        message::{Kind, Message, Part},
        tokens::{MESSAGE_OVERHEAD_TOKENS, TokenCounter, count_part},
    },
    formats::outgoing::RequestFormat,
    validator::{Severity, Target, validate},
};

pub(super) struct RequestBreach {
    pub(super) promise: WindowPromise,
    pub(super) what: String,
}

/// The side that speaks, as providers see it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    User,
    Model,
    /// Results are the user's; in OpenAI's formats each is a message of its own.
    Results,
}

/// The breaches of a request, at most one of each kind.
pub(super) fn judge(
    input: &ContextInput<'_>,
    options: &ContextOptions,
    context: &Context<'_>,
    format: RequestFormat,
    body: Value,
    counter: &dyn TokenCounter,
) -> Vec<RequestBreach> {
    let mut breaches = Vec::new();
    let mut broken =
        |promise, what: Option<String>| breaches.extend(what.map(|what| RequestBreach { promise, what }));
    let evicted = input.evicted || !context.left_out.is_empty();
    broken(WindowPromise::Accepted, stands_alone(format, &body, options.alternation, evicted));
    broken(WindowPromise::Accepted, refusal(format, body));
    let (left_out, kept) = parted(input, context);
    broken(WindowPromise::Whole, lost_message(kept, context));
    broken(WindowPromise::Newest, kept.is_empty().then(|| "the newest exchange is left out".to_owned()));
    broken(WindowPromise::Fits, overflow(left_out, kept, context, counter));
    breaches
}

fn refusal(format: RequestFormat, body: Value) -> Option<String> {
    let (target, request) = request(format, body);
    let violations = validate(target, &request, None);
    let refused = violations.iter().find(|violation| violation.severity == Severity::Refused)?;
    Some(format!("{} at {}: {}", refused.rule, refused.path, refused.message))
}

/// The body with the other fields that every request needs.
fn request(format: RequestFormat, mut body: Value) -> (Target, Value) {
    let (target, extra) = match format {
        RequestFormat::Anthropic => {
            (Target::Anthropic, json!({"model": "claude-sonnet-4-5", "max_tokens": 1_024}))
        }
        RequestFormat::OpenAiChat => (Target::OpenAiChat, json!({"model": "gpt-5"})),
        RequestFormat::OpenAiResponses => (Target::OpenAiResponses, json!({"model": "gpt-5"})),
        RequestFormat::Gemini => (Target::Gemini, json!({})),
    };
    if let (Some(body), Value::Object(extra)) = (body.as_object_mut(), extra) {
        body.extend(extra);
    }
    (target, body)
}

/// Rules of recapd's own requests: thinking depends on everything before it, and roles alternate as requested.
fn stands_alone(format: RequestFormat, body: &Value, mode: Alternation, evicted: bool) -> Option<String> {
    let messages = match format {
        RequestFormat::Anthropic | RequestFormat::OpenAiChat => body.get("messages"),
        RequestFormat::OpenAiResponses => body.get("input"),
        RequestFormat::Gemini => body.get("contents"),
    };
    let messages = messages?.as_array()?;
    if evicted && messages.iter().any(holds_thinking) {
        return Some("thinking is sent although what stood before it is gone".to_owned());
    }
    let sides: Vec<Option<Side>> = messages.iter().map(side).collect();
    let first = sides.iter().flatten().next();
    if first.is_some_and(|&first| first != Side::User) {
        return Some("it doesn't begin with the user".to_owned());
    }
    let clashes =
        |pair: &[Option<Side>]| pair[0] == pair[1] && matches!(pair[0], Some(Side::User | Side::Model));
    let place = sides.windows(2).position(clashes);
    // In the Responses format, items of one turn are separate entries, so that turns can't be distinguished.
    let is_asked = mode != Alternation::Keep && format != RequestFormat::OpenAiResponses;
    let place = place.filter(|_| is_asked)?;
    Some(format!("messages {place} and {} are of the same role", place + 1))
}

fn holds_thinking(message: &Value) -> bool {
    let is_thinking = |block: &Value| {
        let kind = block.get("type").and_then(Value::as_str);
        matches!(kind, Some("thinking" | "redacted_thinking" | "reasoning"))
            || block.get("thought") == Some(&Value::Bool(true))
    };
    let inside = [message.get("content"), message.get("parts")];
    let blocks = inside.into_iter().flatten().filter_map(Value::as_array).flatten();
    is_thinking(message) || { blocks }.any(is_thinking)
}

/// `None` for instructions.
fn side(message: &Value) -> Option<Side> {
    let text = |key| message.get(key).and_then(Value::as_str);
    match (text("role"), text("type")) {
        (Some("user"), _) => Some(Side::User),
        (Some("assistant" | "model"), _) | (None, Some("function_call" | "reasoning")) => Some(Side::Model),
        (Some("tool"), _) | (None, Some("function_call_output")) => Some(Side::Results),
        _ => None,
    }
}

fn parted<'i, 'a>(
    input: &'i ContextInput<'a>,
    context: &Context<'_>,
) -> (&'i [SourceExchange<'a>], &'i [SourceExchange<'a>]) {
    input.exchanges.split_at(context.left_out.len().min(input.exchanges.len()))
}

/// A message of a sent exchange that isn't in the request. A late result leaves with its call.
fn lost_message(kept: &[SourceExchange<'_>], context: &Context<'_>) -> Option<String> {
    let mut sent: Vec<i64> = context
        .turns
        .iter()
        .flat_map(|turn| &turn.pieces)
        .filter_map(|piece| match piece.origin {
            PieceOrigin::Stored { seq } => Some(seq),
            PieceOrigin::Synthetic(_) => None,
        })
        .collect();
    sent.sort_unstable();
    let said = kept.iter().flat_map(|exchange| &exchange.messages);
    let lost =
        { said }.find(|said| says_something(said.message) && sent.binary_search(&said.seq).is_err())?;
    Some(format!("message {} of an exchange in view is missing", lost.seq))
}

fn says_something(message: &Message) -> bool {
    let has_content = message.parts.iter().any(|part| match part {
        Part::Text(text) => !text.trim().is_empty(),
        Part::ToolCall { .. } => true,
        _ => false,
    });
    has_content && matches!(message.kind, Kind::User | Kind::Assistant | Kind::ToolCall)
}

/// Over the limit with more than the newest exchange and what must go with it, or over it without reporting that.
fn overflow(
    left_out: &[SourceExchange<'_>],
    kept: &[SourceExchange<'_>],
    context: &Context<'_>,
    counter: &dyn TokenCounter,
) -> Option<String> {
    let limit = context.limit_tokens?;
    let turns = context.turns.iter().map(|turn| {
        let parts = turn.parts().map(|part| count_part(counter, part));
        parts.sum::<i64>() + MESSAGE_OVERHEAD_TOKENS
    });
    let tokens: i64 = turns.sum();
    let is_allowed = context.over_budget && kept.len() == 1;
    let numbers = left_out.iter().map(|exchange| exchange.exchange);
    if !numbers.eq(context.left_out.iter().copied()) {
        return Some("what is left out is not the oldest".to_owned());
    }
    (tokens > limit && !is_allowed).then(|| format!("{tokens} tokens in {} exchanges", kept.len()))
}
