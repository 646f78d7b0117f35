//! What an error of an OpenAI-compatible server means for the caller.

use crate::llm::{
    Cause, Fault, LlmError, discreet::Discreet, envelope::ErrorBody, http::HttpReply, retry::retry_after,
};

/// Codes, types and phrases that say that the account is the trouble, at any status.
const ACCOUNT: [&str; 7] = [
    "insufficient_quota",
    "credit_balance_exhausted",
    "enforced_spend_limit_reached",
    "billing_hard_limit_reached",
    "billing_not_active",
    "invalid_api_key",
    "you have reached your specified api usage limits",
];
/// Those that say that the input is too long. The last is a rate limit that one request alone exceeds: waiting won't
/// help.
const TOO_LONG: [&str; 10] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "maximum context length",
    "exceeds the available context size",
    "exceeds the context length",
    "exceeds the context window",
    "prompt is too long",
    "string_above_max_length",
    "contextwindowexceedederror", // LiteLLM
    "tokens must be reduced in order to run",
];
/// Those that say that the content is the trouble.
const CONTENT: [&str; 8] = [
    "content_policy_violation",
    "content_filter",
    "invalid_prompt",
    "bio_policy",
    "misalignment_policy_violation",
    "violating our usage policy",
    "input was flagged",
    "contentpolicyviolationerror", // LiteLLM
];

/// What an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Account,
    TooLong,
    Content,
    Rate,
    Passing(Cause),
    Request,
}

/// The error that an answer with `status` means. `status` can differ from the one on the wire.
pub(super) fn refused(reply: &HttpReply, status: u16, discreet: Discreet<'_>) -> LlmError {
    let error = ErrorBody::read(&reply.body).unwrap_or_default();
    let retry_after = retry_after(&reply.headers, &error.message);
    let message = message(reply, status, &error, discreet);
    match trouble(reply, status, &error) {
        Trouble::Account => LlmError::Auth(message),
        Trouble::TooLong => LlmError::ContextOverflow(message),
        Trouble::Content => LlmError::Refused(message),
        Trouble::Rate => LlmError::RateLimited { retry_after, message },
        Trouble::Passing(cause) => LlmError::Transient(Fault {
            cause,
            retry_after,
            message,
        }),
        Trouble::Request => LlmError::Permanent(message),
    }
}

/// Whether the request is wrong, and not its length, its content, the account or the hour.
pub(super) fn is_about_the_request(reply: &HttpReply, error: &ErrorBody) -> bool {
    trouble(reply, reply.status.as_u16(), error) == Trouble::Request
}

fn trouble(reply: &HttpReply, status: u16, error: &ErrorBody) -> Trouble {
    let words = error.words();
    let any_of = |wanted: &[&str]| wanted.iter().any(|word| words.contains(word));
    if any_of(&ACCOUNT) {
        return Trouble::Account;
    }
    if status == 413 || any_of(&TOO_LONG) {
        return Trouble::TooLong;
    }
    if any_of(&CONTENT) {
        return Trouble::Content;
    }
    match status {
        401..=403 => Trouble::Account,
        429 => Trouble::Rate,
        503 | 529 => Trouble::Passing(Cause::Overloaded),
        408 | 504 | 524 => Trouble::Passing(Cause::Timeout),
        409 | 425 | 500.. => Trouble::Passing(Cause::Server),
        _ if words.contains("server_is_overloaded") => Trouble::Passing(Cause::Overloaded),
        _ if asks_to_retry(reply) => Trouble::Passing(Cause::Server),
        _ => Trouble::Request,
    }
}

/// `x-should-retry: true` turns an error that looks lasting into a passing one. `false` isn't heeded: it speaks to
/// clients that try again within seconds.
fn asks_to_retry(reply: &HttpReply) -> bool {
    reply
        .headers
        .get("x-should-retry")
        .is_some_and(|value| value == "true")
}

/// Status, code, message and request id, as far as they are given. Without a known envelope the body isn't shown: it
/// may be a proxy's page, or echo the request.
fn message(reply: &HttpReply, status: u16, error: &ErrorBody, discreet: Discreet<'_>) -> String {
    let header = ["x-request-id", "request-id"]
        .iter()
        .find_map(|name| reply.headers.get(*name)?.to_str().ok());
    let request_id = discreet.word(header.unwrap_or(&error.request_id));
    let code = [&error.code, &error.kind]
        .into_iter()
        .find(|word| !word.is_empty() && **word != status.to_string());
    let code = code.map(|code| format!(" {}", discreet.word(code)));
    let said = Some(&error.message).filter(|said| !said.is_empty());
    let said = said.map(|said| format!(": {}", discreet.message(said)));
    let request = Some(request_id).filter(|id| !id.is_empty());
    let request = request.map(|id| format!(" (request {id})"));
    let parts = [code, said, request].into_iter().flatten();
    parts.fold(format!("status {status}"), |message, part| message + &part)
}

#[cfg(test)]
mod tests {
    use reqwest::{
        StatusCode,
        header::{HeaderMap, HeaderValue},
    };

    use super::*;

    fn reply(status: u16, body: &str, headers: &[(&'static str, &'static str)]) -> HttpReply {
        let pair = |&(name, value): &(&'static str, &'static str)| {
            (name.parse().unwrap(), HeaderValue::from_static(value))
        };
        HttpReply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.iter().map(pair).collect::<HeaderMap>(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn class(status: u16, body: &str) -> &'static str {
        let discreet = Discreet {
            key: None,
            material: "",
        };
        refused(&reply(status, body, &[]), status, discreet).class()
    }

    /// Bodies as the providers document them or as public reports quote them.
    const CASES: &[(u16, &str, &str)] = &[
        (
            429,
            r#"{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#,
            "provider_rate_limited",
        ),
        (
            429,
            r#"{"error":{"message":"Slow down","type":"rate_limit_error","code":"slow_down"}}"#,
            "provider_rate_limited",
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"busy"}}"#,
            "provider_rate_limited",
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            "provider_auth",
        ),
        (
            429,
            r#"{"error":{"message":"Balance is spent","code":"credit_balance_exhausted"}}"#,
            "provider_auth",
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
            "provider_auth",
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for m in organization o on tokens per min (TPM): Limit 30000, Requested 30601. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            "provider_context_length",
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01."}}"#,
            "provider_auth",
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            "provider_auth",
        ),
        (401, "", "provider_auth"),
        (
            402,
            r#"{"error":{"code":402,"message":"Insufficient credits"}}"#,
            "provider_auth",
        ),
        (403, "<html>Forbidden</html>", "provider_auth"),
        (
            403,
            r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged"}}"#,
            "provider_refusal",
        ),
        (
            400,
            r#"{"error":{"message":"m","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            "provider_context_length",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"request (4011 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4011,"n_ctx":2048}}"#,
            "provider_context_length",
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000.","type":"BadRequestError","code":400}"#,
            "provider_context_length",
        ),
        (
            400,
            r#"{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: too long","type":null,"param":null,"code":"400"}}"#,
            "provider_context_length",
        ),
        (413, "Payload Too Large", "provider_context_length"),
        (
            400,
            r#"{"error":{"message":"The response was filtered","code":"content_filter"}}"#,
            "provider_refusal",
        ),
        (
            400,
            r#"{"error":{"message":"flagged","type":"invalid_request_error","code":"invalid_prompt"}}"#,
            "provider_refusal",
        ),
        (
            400,
            r#"{"error":{"message":"you must provide a model parameter","type":"invalid_request_error","code":null}}"#,
            "provider_invalid_request",
        ),
        (
            404,
            r#"{"error":"model 'x' not found"}"#,
            "provider_invalid_request",
        ),
        (302, "", "provider_invalid_request"),
        (408, "", "provider_timeout"),
        (504, "<html>Gateway Time-out</html>", "provider_timeout"),
        (409, r#"{"error":{"message":"conflict"}}"#, "provider_server"),
        (
            500,
            r#"{"error":{"message":"The server had an error","type":"server_error"}}"#,
            "provider_server",
        ),
        (502, "<html>Bad gateway</html>", "provider_server"),
        (
            503,
            r#"{"error":{"message":"m","code":"server_is_overloaded"}}"#,
            "provider_overloaded",
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "provider_overloaded",
        ),
    ];

    #[test]
    fn every_error_has_its_class() {
        for &(status, body, expected) in CASES {
            assert_eq!(class(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn waits_and_wishes_of_the_server_are_heeded() {
        let discreet = Discreet {
            key: None,
            material: "",
        };
        for status in [429, 503] {
            let reply = reply(status, "{}", &[("retry-after", "7")]);
            let error = refused(&reply, status, discreet);
            assert_eq!(
                error.retry_after().map(|wait| wait.as_secs()),
                Some(7),
                "{status}"
            );
        }
        let again = reply(400, "{}", &[("x-should-retry", "true")]);
        assert_eq!(refused(&again, 400, discreet).class(), "provider_server");
    }

    #[test]
    fn messages_say_who_and_what_in_short() {
        let discreet = Discreet {
            key: Some("sk-1234"),
            material: "USER: the quick brown fox jumps",
        };
        let said =
            |body: &str| refused(&reply(400, body, &[("x-request-id", "req_1")]), 400, discreet).to_string();
        insta::assert_snapshot!(
            said(r#"{"error":{"message":"No such key: sk-1234","code":"bad"}}"#),
            @"the provider refuses the request: status 400 bad: No such key: [key] (request req_1)"
        );
        insta::assert_snapshot!(
            said(r#"{"error":"can't read `the quick brown fox jumps`"}"#),
            @"the provider refuses the request: status 400: (left out, it quotes the prompt) (request req_1)"
        );
        insta::assert_snapshot!(
            said("a page with sk-1234"),
            @"the provider refuses the request: status 400 (request req_1)"
        );
    }
}
