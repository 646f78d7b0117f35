//! Error bodies from providers' documentation and public reports, and their meaning.

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
    let discreet = Discreet { provider: "openai", key: None, material: "" };
    error_of_refusal(&reply(status, body, &[]), status, discreet).class()
}

const CASES: &[(u16, &str, &str)] = &[
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
        "provider_auth",
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        "provider_context_length",
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000"}}"#,
        "provider_context_length",
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}"#,
        "provider_refusal",
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
        "provider_auth",
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
        "provider_context_length",
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#,
        "provider_auth",
    ),
    (
        429,
        r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"0"}]}]}}"#,
        "provider_auth",
    ),
    (
        429,
        r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]"#,
        "provider_rate_limited",
    ),
    (
        503,
        r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
        "provider_overloaded",
    ),
    (
        504,
        r#"{"error":{"code":504,"message":"Deadline expired","status":"DEADLINE_EXCEEDED"}}"#,
        "provider_timeout",
    ),
    (400, r#"{"error":"the input length exceeds the context length"}"#, "provider_context_length"),
    (
        400,
        r#"{"error":{"code":400,"message":"request (4011 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4011,"n_ctx":2048}}"#,
        "provider_context_length",
    ),
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
    (429, r#"{"error":{"message":"Balance is spent","code":"credit_balance_exhausted"}}"#, "provider_auth"),
    (
        400,
        r#"{"error":{"message":"Budget has been exceeded! Current cost: 10.2, Max budget: 10.0","type":"budget_exceeded","param":null,"code":"400"}}"#,
        "provider_auth",
    ),
    (
        429,
        r#"{"error":{"message":"Budget has been exceeded! Current cost: 10.2, Max budget: 10.0","type":"budget_exceeded","param":null,"code":"429"}}"#,
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
    (402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, "provider_auth"),
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
    (
        400,
        r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."}"#,
        "provider_context_length",
    ),
    (
        400,
        r#"{"error":"Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}"#,
        "provider_context_length",
    ),
    (400, r#"{"error":"Context size has been exceeded."}"#, "provider_context_length"),
    (
        400,
        r#"{"error":"Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
        "provider_context_length",
    ),
    (
        400,
        r#"{"error":"Trying to keep the first 15857 tokens when the context overflows."}"#,
        "provider_context_length",
    ),
    (
        400,
        r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 136973 tokens."}"#,
        "provider_context_length",
    ),
    (400, r#"{"message":"Input is too long for requested model."}"#, "provider_context_length"),
    (413, "Payload Too Large", "provider_context_length"),
    (400, r#"{"error":{"message":"The response was filtered","code":"content_filter"}}"#, "provider_refusal"),
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
    (404, r#"{"error":"model 'x' not found"}"#, "provider_invalid_request"),
    (302, "", "provider_invalid_request"),
    (408, "", "provider_timeout"),
    (504, "<html>Gateway Time-out</html>", "provider_timeout"),
    (409, r#"{"error":{"message":"conflict"}}"#, "provider_server"),
    (500, r#"{"error":{"message":"The server had an error","type":"server_error"}}"#, "provider_server"),
    (502, "<html>Bad gateway</html>", "provider_server"),
    (503, r#"{"error":{"message":"m","code":"server_is_overloaded"}}"#, "provider_overloaded"),
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
fn the_servers_waits_and_retry_hints_are_obeyed() {
    let discreet = Discreet { provider: "openai", key: None, material: "" };
    // A wait for an outage is limited to an hour.
    for (status, retry_after, wait_s) in [
        (429, "7", 7),
        (503, "7", 7),
        (529, "7", 7),
        (429, "86400", 86_400),
        (503, "86400", 3_600),
        (529, "86400", 3_600),
    ] {
        let reply = reply(status, "{}", &[("retry-after", retry_after)]);
        let error = error_of_refusal(&reply, status, discreet);
        assert_eq!(error.retry_after().map(|wait| wait.as_secs()), Some(wait_s), "{status} {retry_after}");
    }
    let again = reply(400, "{}", &[("x-should-retry", "true")]);
    assert_eq!(error_of_refusal(&again, 400, discreet).class(), "provider_server");
}

#[test]
fn messages_are_short_and_name_the_request() {
    let discreet =
        Discreet { provider: "openai", key: Some("sk-1234"), material: "USER: the quick brown fox jumps" };
    let said = |body: &str| {
        error_of_refusal(&reply(400, body, &[("x-request-id", "req_1")]), 400, discreet).to_string()
    };
    insta::assert_snapshot!(
        said(r#"{"error":{"message":"No such key: sk-1234","code":"bad"}}"#),
        @"the provider refuses the request: status 400 bad: No such key: [key] (request req_1)"
    );
    insta::assert_snapshot!(
        said(r#"{"error":"can't read `the quick brown fox jumps`"}"#),
        @"the provider refuses the request: status 400: (left out, it quotes the prompt) (request req_1)"
    );
    insta::assert_snapshot!(
        error_of_refusal(&reply(401, r#"{"error":{"message":"Incorrect API key provided: sk-1234","code":"invalid_api_key"}}"#, &[]), 401, discreet),
        @"OpenAI refuses the API key (401) invalid_api_key: Incorrect API key provided: [key]"
    );
    insta::assert_snapshot!(
        said("a page with sk-1234"),
        @"the provider refuses the request: status 400 (request req_1)"
    );
}

#[test]
fn a_daily_quota_waits_longer_than_google_says() {
    let body = |wait: &str| {
        format!(
            r#"{{"error":{{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[
            {{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"RequestsPerDay","quotaValue":"250"}}]}},
            {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{wait}"}}]}}}}"#
        )
    };
    let discreet = Discreet { provider: "openai", key: None, material: "" };
    for (delay, wait_s) in [("46s", 3_600), ("7200s", 7_200)] {
        let error = error_of_refusal(&reply(429, &body(delay), &[]), 429, discreet);
        assert_eq!(error.class(), "provider_rate_limited");
        assert_eq!(error.retry_after().map(|wait| wait.as_secs()), Some(wait_s), "{delay}");
    }
}

#[test]
fn a_success_that_holds_an_error_means_that_error() {
    let discreet = Discreet { provider: "openai", key: None, material: "" };
    for (body, class) in [
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#, "provider_overloaded"),
        (
            r#"{"status":"failed","output":[],"error":{"code":"server_error","message":"m"}}"#,
            "provider_server",
        ),
        (
            r#"{"status":"failed","output":[],"error":{"code":"rate_limit_exceeded","message":"m"}}"#,
            "provider_rate_limited",
        ),
        (
            r#"{"status":"failed","output":[],"error":{"code":"invalid_prompt","message":"m"}}"#,
            "provider_refusal",
        ),
        (r#"{"error":{"code":401,"message":"m"}}"#, "provider_auth"),
        (r#"{"choices":[]}"#, "provider_server"),
        ("<html>", "provider_server"),
    ] {
        let error = error_in_success(&reply(200, body, &[]), discreet);
        assert_eq!(error.class(), class, "{body}");
    }
}
