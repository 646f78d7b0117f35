//! Turns a provider's error into an [`LlmError`], which says what the caller does next. One table serves all providers, because
//! compatible servers and gateways use each other's words.

use super::{
    Cause, LlmError, TransientFailure,
    discreet::Discreet,
    envelope::{ErrorBody, Quota},
    http::HttpReply,
    retry::{OUTAGE_WAIT_MAX, QUOTA_WAIT_MIN, retry_after},
};

/// Codes, types and phrases of errors that concern the account, at any status.
const ACCOUNT: [&str; 13] = [
    "insufficient_quota",
    "credit_balance_exhausted",
    "credit balance is too low",
    "enforced_spend_limit_reached",
    "billing_hard_limit_reached",
    "billing_not_active",
    "budget_exceeded", // LiteLLM
    "invalid_api_key",
    "api_key_invalid", // Gemini, with status 400
    "api key not valid",
    "api key expired",
    "user location is not supported",
    "you have reached your specified api usage limits",
];
/// Codes and phrases for an input that is too long.
const TOO_LONG: [&str; 22] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "maximum context length",
    "maximum number of tokens allowed", // Gemini
    "exceed context limit",             // older Claude models, input and `max_tokens` together
    "request_too_large",
    "exceeds the available context size",
    "exceeds the context length",
    "exceeds the context window",
    "prompt is too long",
    "string_above_max_length",
    "contextwindowexceedederror",      // LiteLLM
    "greater than the context length", // LM Studio, as the next five
    "cannot truncate prompt with n_keep",
    "context size has been exceeded",
    "context the overflows", // in these words
    "the context overflows",
    "is loaded with context length of only",
    "maximum prompt length is", // xAI
    "input is too long",        // Bedrock
    // A rate limit that a single request exceeds, so waiting doesn't help.
    "tokens must be reduced in order to run",
    "is too large to process", // llama.cpp, for embeddings
];
/// Codes and phrases of errors that concern the content.
const CONTENT: [&str; 9] = [
    "content_policy_violation",
    "content_filter",
    "invalid_prompt",
    "bio_policy",
    "misalignment_policy_violation",
    "violating our usage policy",
    "input was flagged",
    "blocked by content filtering policy",
    "contentpolicyviolationerror", // LiteLLM
];

/// What a provider's error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The key, the account or its money.
    Account,
    /// The input is too long.
    TooLong,
    /// The provider refuses the content.
    Content,
    /// The rate limit is reached.
    Rate,
    /// The quota of a day is used up.
    Day,
    /// The provider fails for a while.
    Passing(Cause),
    /// The request is wrong in another way.
    Request,
}

/// Why a successful response has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It was cut off at the output limit, or at the end of the model's window.
    Truncated,
    /// The model declined or a filter stopped the answer. Contains the provider's explanation.
    Refused(String),
    /// The answer broke off, and a retry may succeed. Contains the provider's explanation.
    Broken(String),
    /// The response isn't one of this API; it may contain an error.
    Unknown,
}

/// Returns the error of a reply with `status`, which can differ from the HTTP status.
pub(super) fn error_of_refusal(reply: &HttpReply, status: u16, discreet: Discreet<'_>) -> LlmError {
    let error = ErrorBody::read(&reply.body).unwrap_or_default();
    let retry_after = retry_after(&reply.headers, error.retry_after);
    let details = provider_details(reply, status, &error, discreet);
    let message = format!("status {status}{details}");
    match trouble(reply, status, &error) {
        Trouble::Account => LlmError::Auth(account(status, &error, discreet.provider, &details)),
        Trouble::TooLong => LlmError::ContextOverflow(message),
        Trouble::Content => declined(message),
        Trouble::Rate => LlmError::RateLimited { retry_after, message },
        // The time that is given with a day's quota is when the next request could be counted, not when one could succeed.
        Trouble::Day => LlmError::RateLimited {
            retry_after: Some(retry_after.unwrap_or_default().max(QUOTA_WAIT_MIN)),
            message,
        },
        Trouble::Passing(cause) => LlmError::Transient(TransientFailure {
            cause,
            retry_after: retry_after.map(|wait| wait.min(OUTAGE_WAIT_MAX)),
            outage: None,
            usage: None,
            message,
        }),
        Trouble::Request => LlmError::Permanent(message),
    }
}

/// Formats an error about the account: who refuses what, and the provider's own words: `OpenAI refuses the API key (401)
/// invalid_api_key: …`.
fn account(status: u16, error: &ErrorBody, provider: &str, details: &str) -> String {
    let provider = match provider {
        "anthropic" => "Anthropic",
        "gemini" => "Gemini",
        "ollama" => "Ollama",
        _ => "OpenAI",
    };
    let is_key = status == 401 || error.message.to_lowercase().contains("api key");
    let what = if is_key { "API key" } else { "account" };
    format!("{provider} refuses the {what} ({status}){details}")
}

/// Returns the error of a successful reply whose answer can't be used.
pub(super) fn error_without_answer(reply: &HttpReply, why: &NoAnswer, discreet: Discreet<'_>) -> LlmError {
    match why {
        NoAnswer::Truncated => LlmError::Truncated { usage: None },
        NoAnswer::Refused(message) => declined(with_request_id(reply, message, discreet)),
        NoAnswer::Broken(message) => LlmError::Transient(TransientFailure::new(
            Cause::Server,
            with_request_id(reply, message, discreet),
        )),
        NoAnswer::Unknown => error_in_success(reply, discreet),
    }
}

fn declined(message: String) -> LlmError {
    let usage = None;
    LlmError::Refused { message, usage }
}

/// Returns the error of a successful reply without content. Routers send errors this way.
pub(super) fn error_in_success(reply: &HttpReply, discreet: Discreet<'_>) -> LlmError {
    match ErrorBody::read(&reply.body) {
        Some(error) => error_of_refusal(reply, error.implied_status().unwrap_or(502), discreet),
        None => LlmError::Transient(TransientFailure::new(
            Cause::Server,
            with_request_id(reply, "the answer doesn't have this API's format", discreet),
        )),
    }
}

/// Returns true if the request itself is wrong, and the cause isn't its length, its content, the account or the present load.
pub(super) fn is_about_the_request(reply: &HttpReply, error: &ErrorBody) -> bool {
    trouble(reply, reply.status.as_u16(), error) == Trouble::Request
}

/// Returns true if the server refuses a request because the input, or input and answer together, are too long.
pub(super) fn is_too_long(reply: &HttpReply) -> bool {
    let is_too_long = |error| trouble(reply, reply.status.as_u16(), &error) == Trouble::TooLong;
    !reply.status.is_success() && ErrorBody::read(&reply.body).is_some_and(is_too_long)
}

fn trouble(reply: &HttpReply, status: u16, error: &ErrorBody) -> Trouble {
    let text = error.lower_text();
    let any_of = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if any_of(&ACCOUNT) {
        return Trouble::Account;
    }
    if status == 413 || any_of(&TOO_LONG) {
        return Trouble::TooLong;
    }
    if any_of(&CONTENT) {
        return Trouble::Content;
    }
    match (status, error.quota) {
        (429, Quota::None) => return Trouble::Account,
        (429, Quota::Day) => return Trouble::Day,
        _ => {}
    }
    match status {
        401..=403 => Trouble::Account,
        429 => Trouble::Rate,
        503 | 529 => Trouble::Passing(Cause::Overloaded),
        408 | 504 | 524 => Trouble::Passing(Cause::Timeout),
        409 | 425 | 500.. => Trouble::Passing(Cause::Server),
        _ if text.contains("server_is_overloaded") => Trouble::Passing(Cause::Overloaded),
        _ if asks_to_retry(reply) => Trouble::Passing(Cause::Server),
        _ => Trouble::Request,
    }
}

/// Returns true for `x-should-retry: true`, which makes a seemingly permanent error temporary. Ignores `false`, which is meant
/// for clients that retry within seconds.
fn asks_to_retry(reply: &HttpReply) -> bool {
    reply.headers.get("x-should-retry").is_some_and(|value| value == "true")
}

/// Formats code, message and request id, as far as they exist. Doesn't show a body of an unknown format: it may be a proxy's
/// page, or repeat the request.
fn provider_details(reply: &HttpReply, status: u16, error: &ErrorBody, discreet: Discreet<'_>) -> String {
    let code =
        [&error.code, &error.kind].into_iter().find(|word| !word.is_empty() && **word != status.to_string());
    let code = code.map(|code| format!(" {}", discreet.word(code)));
    let message = Some(&error.message).filter(|message| !message.is_empty());
    let message = message.map(|message| format!(": {}", discreet.message(message)));
    let request = request_id(reply, &error.request_id, discreet);
    let request = request.map(|id| format!(" (request {id})"));
    [code, message, request].into_iter().flatten().collect()
}

pub(super) fn with_request_id(reply: &HttpReply, message: &str, discreet: Discreet<'_>) -> String {
    let message = discreet.message(message);
    match request_id(reply, "", discreet) {
        Some(id) => format!("{message} (request {id})"),
        None => message,
    }
}

/// Returns the request's id from the headers, otherwise `in_body`; `None` if both are empty.
pub(super) fn request_id(reply: &HttpReply, in_body: &str, discreet: Discreet<'_>) -> Option<String> {
    let header =
        ["x-request-id", "request-id"].iter().find_map(|name| reply.headers.get(*name)?.to_str().ok());
    let id = discreet.word(header.unwrap_or(in_body));
    Some(id).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests;
