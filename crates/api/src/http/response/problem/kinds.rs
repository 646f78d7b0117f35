//! The kinds of problems. Their codes are a contract: programs branch on them.

use axum::http::StatusCode;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProblemKind {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) title: &'static str,
}

pub(super) const fn kind(status: StatusCode, code: &'static str, title: &'static str) -> ProblemKind {
    ProblemKind { status, code, title }
}

pub(crate) const INVALID_BODY: ProblemKind = kind(StatusCode::BAD_REQUEST, "invalid_body", "Unreadable body");
pub(crate) const INVALID_MESSAGE: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "invalid_message", "Unreadable message");
pub(crate) const INVALID_AGENT_ID: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "invalid_agent_id", "Invalid agent id");
pub(crate) const UNKNOWN_PARAMETER: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "unknown_parameter", "Unknown query parameter");
pub(crate) const INVALID_PARAMETER: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "invalid_parameter", "Invalid query parameter");
pub(crate) const UNKNOWN_AGENT: ProblemKind = kind(StatusCode::NOT_FOUND, "unknown_agent", "Unknown agent");
pub(crate) const INVALID_PROJECT_ID: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "invalid_project_id", "Invalid project id");
pub(crate) const UNKNOWN_PROJECT: ProblemKind =
    kind(StatusCode::NOT_FOUND, "unknown_project", "Unknown project");
pub(crate) const UNKNOWN_MARK: ProblemKind = kind(StatusCode::NOT_FOUND, "unknown_mark", "Unknown mark");
pub(crate) const UNKNOWN_MESSAGE: ProblemKind =
    kind(StatusCode::NOT_FOUND, "unknown_message", "Unknown message");
pub(crate) const UNKNOWN_VERSION: ProblemKind =
    kind(StatusCode::NOT_FOUND, "unknown_version", "Unknown version");
pub(crate) const UNKNOWN_ITEM: ProblemKind = kind(StatusCode::NOT_FOUND, "unknown_item", "Unknown item");
pub(crate) const UNKNOWN_FACT: ProblemKind = kind(StatusCode::NOT_FOUND, "unknown_fact", "Unknown fact");
pub(crate) const FACT_CONFLICT: ProblemKind =
    kind(StatusCode::CONFLICT, "fact_conflict", "No such fact can be added");
pub(crate) const INVALID_FACT: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "invalid_fact", "Invalid fact, or change of one");
pub(crate) const INVALID_EDIT: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "invalid_edit", "Invalid change of an item");
pub(crate) const UNKNOWN_QUEUE_ROW: ProblemKind =
    kind(StatusCode::NOT_FOUND, "unknown_queue_row", "Not in the queue");
pub(crate) const UNKNOWN_RUN: ProblemKind = kind(StatusCode::NOT_FOUND, "unknown_run", "Unknown run");
pub(crate) const UNKNOWN_EXCHANGE: ProblemKind =
    kind(StatusCode::NOT_FOUND, "unknown_exchange", "Unknown exchange");
pub(crate) const EXCHANGE_TOO_LARGE: ProblemKind =
    kind(StatusCode::CONFLICT, "exchange_too_large", "Exchange too large");
pub(crate) const HAS_FORKS: ProblemKind = kind(StatusCode::CONFLICT, "has_forks", "Agent has forks");
pub(crate) const INVALID_NOTE: ProblemKind = kind(StatusCode::BAD_REQUEST, "invalid_note", "Invalid note");
pub(crate) const UNKNOWN_NOTE: ProblemKind = kind(StatusCode::NOT_FOUND, "unknown_note", "Unknown note");
pub(crate) const NOTE_CHANGED: ProblemKind =
    kind(StatusCode::CONFLICT, "note_changed", "The note has another version");
pub(crate) const NOTES_FULL: ProblemKind =
    kind(StatusCode::CONFLICT, "notes_full", "No room for another note");
pub(crate) const PINS_FULL: ProblemKind = kind(StatusCode::CONFLICT, "pins_full", "No room for another pin");
pub(crate) const UNKNOWN_SPEAKER: ProblemKind =
    kind(StatusCode::NOT_FOUND, "unknown_speaker", "Unknown speaker");
pub(crate) const UNKNOWN_ROUTE: ProblemKind = kind(StatusCode::NOT_FOUND, "unknown_route", "Unknown route");
pub(crate) const WRONG_METHOD: ProblemKind =
    kind(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "Method not allowed");
pub(crate) const AGENT_EXISTS: ProblemKind =
    kind(StatusCode::CONFLICT, "agent_exists", "Agent exists already");
pub(crate) const CLIENT_ID_REUSED: ProblemKind =
    kind(StatusCode::CONFLICT, "client_id_reused", "Client id used before");
pub(crate) const WOULD_OVERFLOW: ProblemKind =
    kind(StatusCode::CONFLICT, "would_overflow", "Exchange over the budget");
pub(crate) const INVALID_SETTING: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "invalid_setting", "Invalid setting");
pub(crate) const BODY_TOO_SLOW: ProblemKind =
    kind(StatusCode::REQUEST_TIMEOUT, "body_too_slow", "Body came too slowly");
pub(crate) const BODY_TOO_LARGE: ProblemKind =
    kind(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Body too large");
pub(crate) const TOO_MANY_MESSAGES: ProblemKind =
    kind(StatusCode::PAYLOAD_TOO_LARGE, "too_many_messages", "Too many messages");
pub(crate) const UNSUPPORTED_BODY: ProblemKind =
    kind(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Unsupported media type");
pub(crate) const INTERNAL: ProblemKind =
    kind(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error");
pub(crate) const DATABASE_UNAVAILABLE: ProblemKind =
    kind(StatusCode::SERVICE_UNAVAILABLE, "database_unavailable", "Database unavailable");
pub(crate) const INVALID_HEADER: ProblemKind =
    kind(StatusCode::BAD_REQUEST, "invalid_header", "Invalid header");
pub(crate) const IDEMPOTENCY_KEY_REUSED: ProblemKind =
    kind(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", "Idempotency key used before");
pub(crate) const TOO_MANY_REQUESTS: ProblemKind =
    kind(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", "Too many requests");
pub(crate) const TOO_MANY_SUBSCRIBERS: ProblemKind =
    kind(StatusCode::SERVICE_UNAVAILABLE, "too_many_subscribers", "Too many subscribers");
pub(crate) const TOO_MANY_ANSWERS: ProblemKind =
    kind(StatusCode::SERVICE_UNAVAILABLE, "too_many_answers", "Too many long answers");
pub(crate) const TOO_MANY_BODIES: ProblemKind =
    kind(StatusCode::SERVICE_UNAVAILABLE, "too_many_bodies", "Too many long bodies");
pub(crate) const NOT_READY: ProblemKind = kind(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "Not ready");
pub(crate) const TIMED_OUT: ProblemKind = kind(StatusCode::SERVICE_UNAVAILABLE, "timed_out", "Took too long");

pub(crate) const UNAUTHORIZED: ProblemKind = kind(StatusCode::UNAUTHORIZED, "unauthorized", "Token needed");
pub(crate) const FORBIDDEN: ProblemKind = kind(StatusCode::FORBIDDEN, "forbidden", "Not allowed");
pub(crate) const FOREIGN_ORIGIN: ProblemKind =
    kind(StatusCode::FORBIDDEN, "foreign_origin", "Request of a web page");
pub(crate) const FOREIGN_HOST: ProblemKind = kind(StatusCode::FORBIDDEN, "foreign_host", "Unknown host");

pub(super) const ALL: [ProblemKind; 51] = [
    UNAUTHORIZED,
    FORBIDDEN,
    FOREIGN_ORIGIN,
    FOREIGN_HOST,
    UNKNOWN_QUEUE_ROW,
    UNKNOWN_RUN,
    INVALID_BODY,
    INVALID_MESSAGE,
    INVALID_AGENT_ID,
    UNKNOWN_PARAMETER,
    INVALID_PARAMETER,
    UNKNOWN_AGENT,
    INVALID_PROJECT_ID,
    UNKNOWN_PROJECT,
    UNKNOWN_MARK,
    UNKNOWN_MESSAGE,
    UNKNOWN_VERSION,
    UNKNOWN_ITEM,
    INVALID_EDIT,
    UNKNOWN_FACT,
    FACT_CONFLICT,
    INVALID_FACT,
    UNKNOWN_EXCHANGE,
    EXCHANGE_TOO_LARGE,
    HAS_FORKS,
    INVALID_NOTE,
    UNKNOWN_NOTE,
    NOTE_CHANGED,
    NOTES_FULL,
    PINS_FULL,
    UNKNOWN_SPEAKER,
    UNKNOWN_ROUTE,
    WRONG_METHOD,
    AGENT_EXISTS,
    CLIENT_ID_REUSED,
    WOULD_OVERFLOW,
    INVALID_SETTING,
    BODY_TOO_SLOW,
    BODY_TOO_LARGE,
    TOO_MANY_MESSAGES,
    UNSUPPORTED_BODY,
    INTERNAL,
    DATABASE_UNAVAILABLE,
    NOT_READY,
    TOO_MANY_SUBSCRIBERS,
    TOO_MANY_ANSWERS,
    TOO_MANY_BODIES,
    INVALID_HEADER,
    IDEMPOTENCY_KEY_REUSED,
    TOO_MANY_REQUESTS,
    TIMED_OUT,
];
