//! Describes error answers that many routes share.
//!
//! A handler names the sets of errors that it may return: [`Always`] or [`OfAgent`], and also [`Conflicting`],
//! [`WithBody`] and so on.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::{
    IntoResponses,
    openapi::{Ref, RefOr, response::Response},
};

use recapd_client::PROBLEM_TYPES;

/// A shared answer, with a problem as an example.
struct AnswerSpec {
    name: &'static str,
    status: u16,
    description: &'static str,
    /// Code, title, detail, hint.
    example: [&'static str; 4],
}

const BAD_REQUEST: AnswerSpec = AnswerSpec {
    name: "BadRequest",
    status: 400,
    description: "The request can't be understood. `errors` says where.",
    example: [
        "unknown_parameter",
        "Unknown query parameter",
        "parameter `limti` is unknown",
        "did you mean `limit`?",
    ],
};
const UNAUTHORIZED: AnswerSpec = AnswerSpec {
    name: "Unauthorized",
    status: 401,
    description: "This daemon needs a token, and the request has no valid one.",
    example: [
        "unauthorized",
        "Token needed",
        "this request needs a token: it has none, or its token is unknown, expired or revoked",
        "send header `authorization: Bearer rcp_…`; `recapd token create` makes a token",
    ],
};
const FORBIDDEN: AnswerSpec = AnswerSpec {
    name: "Forbidden",
    status: 403,
    description: "The token doesn't allow this, or the request comes from a web page. Nothing was changed.",
    example: [
        "forbidden",
        "Not allowed",
        "this request needs a token of scope `write`; this token has scope `read`; nothing was changed",
        "`recapd token create NAME --scope SCOPE` creates such a token",
    ],
};
const NOT_FOUND: AnswerSpec = AnswerSpec {
    name: "NotFound",
    status: 404,
    description: "The path or the body names something that doesn't exist.",
    example: [
        "unknown_agent",
        "Unknown agent",
        "agent `coder` is unknown",
        "an agent's first message creates it: POST /v1/agents/{id}/messages",
    ],
};
const TOO_SLOW: AnswerSpec = AnswerSpec {
    name: "BodyTooSlow",
    status: 408,
    description: "The body didn't arrive within half of `http.request_timeout_ms`.",
    example: [
        "body_too_slow",
        "Body came too slowly",
        "the body didn't arrive within 15000 ms",
        "send fewer messages at once, or raise http.request_timeout_ms (half of it is for the body)",
    ],
};
const CONFLICT: AnswerSpec = AnswerSpec {
    name: "Conflict",
    status: 409,
    description: "The request conflicts with the current state. Nothing was changed.",
    example: [
        "agent_exists",
        "Agent exists already",
        "agent `coder` exists already; nothing was changed",
        "give the child an id of its own",
    ],
};
const TOO_LARGE: AnswerSpec = AnswerSpec {
    name: "TooLarge",
    status: 413,
    description: "The body has too many bytes (`http.body_bytes_max`, or 256 KiB on routes without messages), messages (`http.batch_messages_max`) or values (500,000).",
    example: [
        "body_too_large",
        "Body too large",
        "the body is longer than 33554432 bytes",
        "send the messages in several requests, in order, or raise http.body_bytes_max",
    ],
};
const UNSUPPORTED: AnswerSpec = AnswerSpec {
    name: "UnsupportedMediaType",
    status: 415,
    description: "The body isn't declared as JSON, or it is compressed.",
    example: [
        "unsupported_media_type",
        "Unsupported media type",
        "the body has no content type",
        "send header `content-type: application/json`, or application/x-ndjson for lines",
    ],
};
const KEY_REUSED: AnswerSpec = AnswerSpec {
    name: "KeyReused",
    status: 422,
    description: "The idempotency key was used for another request. Nothing was stored.",
    example: [
        "idempotency_key_reused",
        "Idempotency key used before",
        "idempotency key `k-1` was used for another request; nothing was stored",
        "give each request a key of its own; reuse a key only to repeat the same request",
    ],
};
const TOO_MANY: AnswerSpec = AnswerSpec {
    name: "TooManyRequests",
    status: 429,
    description: "This token, or this address, sends more requests than `http.requests_per_second` allows. Nothing was changed.",
    example: [
        "too_many_requests",
        "Too many requests",
        "you have sent more than 10 requests per second; nothing was changed",
        "retry after `retry-after`, or raise http.requests_per_second",
    ],
};
const INTERNAL: AnswerSpec = AnswerSpec {
    name: "Internal",
    status: 500,
    description: "A defect of recapd. Its log says more, under the request's id.",
    example: [
        "internal",
        "Internal error",
        "recapd failed; its log says why",
        "report it with this request's id, and what the log says about it",
    ],
};
const UNAVAILABLE: AnswerSpec = AnswerSpec {
    name: "Unavailable",
    status: 503,
    description: "The database is unavailable, other long bodies or answers use all the memory for them, or the request took too long. Retry later.",
    example: [
        "database_unavailable",
        "Database unavailable",
        "the database doesn't answer; nothing was changed",
        "retry later; summaries that this daemon has in memory can still be read",
    ],
};

const ALL: [AnswerSpec; 12] = [
    BAD_REQUEST,
    UNAUTHORIZED,
    FORBIDDEN,
    NOT_FOUND,
    TOO_SLOW,
    CONFLICT,
    TOO_LARGE,
    UNSUPPORTED,
    KEY_REUSED,
    TOO_MANY,
    INTERNAL,
    UNAVAILABLE,
];

macro_rules! sets {
    ($($(#[$doc:meta])* $set:ident: $($answer:ident),+;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $set;

        impl IntoResponses for $set {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                [$($answer),+].iter().map(AnswerSpec::reference).collect()
            }
        }
    )+};
}

sets! {
    /// The errors of a route about something that always exists.
    Always: BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, TOO_MANY, INTERNAL, UNAVAILABLE;
    /// The errors of a route like [`OfAgent`] that documents its own answer to an unavailable database.
    OfAgentInOutage: BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, TOO_MANY, INTERNAL;
    /// The errors of a route about something that may not exist.
    OfAgent: BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, TOO_MANY, INTERNAL, UNAVAILABLE;
    /// The errors of a route that may conflict with the current state.
    Conflicting: CONFLICT;
    /// The errors of a route that takes an idempotency key.
    Keyed: KEY_REUSED;
    /// The errors of a route that takes a body.
    WithBody: TOO_SLOW, TOO_LARGE, UNSUPPORTED;
}

impl AnswerSpec {
    fn reference(&self) -> (String, RefOr<Response>) {
        let component = Ref::from_response_name(self.name);
        (self.status.to_string(), RefOr::Ref(component))
    }

    fn component(&self) -> Value {
        let [code, title, detail, hint] = self.example;
        let example = json!({
            "type": format!("{PROBLEM_TYPES}{code}"), "title": title, "status": self.status, "detail": detail,
            "instance": "urn:recapd:request:19a-2f", "code": code, "hint": hint,
        });
        let content = json!({ "schema": { "$ref": "#/components/schemas/Problem" }, "example": example });
        let mut component = json!({
            "description": self.description,
            "content": { "application/problem+json": content },
        });
        with_request_id(&mut component);
        if [UNAVAILABLE.status, TOO_MANY.status].contains(&self.status) {
            with_header(&mut component, "retry-after", "Retry after this many seconds.", "integer");
        }
        component
    }
}

/// Returns `components/responses`.
pub(super) fn components() -> Value {
    ALL.iter().map(|answer| (answer.name.to_owned(), answer.component())).collect()
}

/// Adds the header that every answer has.
pub(super) fn with_request_id(answer: &mut Value) {
    with_header(answer, "x-request-id", "The request's id: the client's own, if it sent one.", "string");
}

fn with_header(answer: &mut Value, name: &str, description: &str, kind: &str) {
    let Some(answer) = answer.as_object_mut() else {
        return;
    };
    let headers = answer.entry("headers").or_insert_with(|| json!({}));
    if let Some(headers) = headers.as_object_mut() {
        let header = json!({ "description": description, "schema": { "type": kind } });
        headers.insert(name.to_owned(), header);
    }
}
