//! Error responses: `application/problem+json` (RFC 9457), always with the same fields.
//!
//! A handler returns a [`Problem`]. The frame around all routes writes it out, and turns errors of libraries into
//! problems, too.

mod kinds;

use axum::{
    Extension,
    body::Body,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;

pub(crate) use self::kinds::*;
use recapd_client::PROBLEM_TYPES;
use recapd_core::domain::{agent::AgentId, project::ProjectId};
use recapd_platform::threads::ComputationPanic;
use recapd_store::{FactFault, StoreError};

/// A client should retry after this many seconds if the failure may be temporary.
pub(super) const RETRY_AFTER_SECONDS: u32 = 5;

/// An error that isn't written out yet.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: ProblemKind,
    detail: String,
    hint: Option<Box<str>>,
    findings: Box<[Finding]>,
    /// A retry may help after this many seconds. `None` if retrying is useless.
    retry_after: Option<u32>,
    /// The name of the database's error in `recapd_db_errors_total`, if the database caused the problem.
    db_error: Option<&'static str>,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ProblemFinding)]
pub(crate) struct Finding {
    #[serde(flatten)]
    pub(crate) place: RequestPlace,
    /// What is wrong, and what to do about it.
    pub(crate) detail: String,
}

/// A place in a request.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProblemPlace)]
pub(crate) enum RequestPlace {
    /// A JSON pointer into the body (RFC 6901).
    Pointer(String),
    /// A line of the body; the first is 1.
    Line(usize),
    /// A query parameter.
    Parameter(String),
}

impl RequestPlace {
    pub(crate) fn member(name: &str) -> Self {
        Self::Pointer(format!("/{}", name.replace('~', "~0").replace('/', "~1")))
    }
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            hint: None,
            findings: Box::default(),
            retry_after: (kind.status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_AFTER_SECONDS),
            db_error: None,
        }
    }

    pub(crate) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into().into()), ..self }
    }

    pub(crate) fn findings(self, findings: Vec<Finding>) -> Self {
        Self { findings: findings.into(), ..self }
    }

    pub(crate) fn unknown_agent(agent: &AgentId) -> Self {
        Self::new(UNKNOWN_AGENT, format!("agent `{agent}` is unknown"))
            .hint("an agent's first message creates it: POST /v1/agents/{id}/messages")
    }

    pub(crate) fn unknown_project(project: &ProjectId) -> Self {
        Self::new(UNKNOWN_PROJECT, format!("project `{project}` is unknown: no agent belongs to it"))
            .hint("the first agent that joins a project creates it: PUT /v1/projects/{id}/agents/{agent}")
    }

    /// Returns the problem for a defect of recapd. The log has the details, under the request's id.
    pub(crate) fn internal() -> Self {
        Self::new(INTERNAL, "recapd failed; its log says why")
            .hint("report it with this request's id, and what the log says about it")
    }

    /// Returns the problem for a library's error, with its `text` if it has one.
    pub(crate) fn from_library_error(status: StatusCode, text: Option<&str>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self::new(kind(status, "http_error", title), text.unwrap_or(title))
    }

    /// Returns the problem for an error response without a body; `None` for other responses.
    fn of_bare_error(response: &Response) -> Option<Self> {
        let status = response.status();
        let is_bare = !response.headers().contains_key(CONTENT_TYPE);
        if !is_bare || !(status.is_client_error() || status.is_server_error()) {
            return None;
        }
        Some(match status {
            // The router adds this header afterwards.
            StatusCode::METHOD_NOT_ALLOWED => {
                Self::new(WRONG_METHOD, "the route exists, but not for this method")
                    .hint("the header Allow of this answer names the route's methods")
            }
            StatusCode::SERVICE_UNAVAILABLE => Self::new(TIMED_OUT, "the request took longer than it may").hint(
                "retry; the request may have been stored, but messages with a client id are never stored twice",
            ),
            status => Self::from_library_error(status, None),
        })
    }

    /// Takes the problem out of `response`. If `response` is a library's error, returns the problem for that.
    pub(crate) fn take_from(response: &mut Response) -> Option<Self> {
        let problem = response.extensions_mut().remove::<Self>();
        problem.or_else(|| Self::of_bare_error(response))
    }

    /// Returns the name of the database's error that caused `response`, if one did.
    pub(crate) fn db_error(response: &Response) -> Option<&'static str> {
        response.extensions().get::<Self>()?.db_error
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        self.retry_after
    }

    /// Returns the problem's name for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.kind.code
    }

    /// Returns the problem's texts for people: title, what went wrong this time, and what to do about it.
    pub(crate) fn texts(&self) -> (&str, &str, Option<&str>) {
        (self.kind.title, &self.detail, self.hint.as_deref())
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.kind.status == StatusCode::SERVICE_UNAVAILABLE
    }
}

impl IntoResponse for Problem {
    /// Makes a bare response that carries the problem, for [`write_out`].
    fn into_response(self) -> Response {
        (self.kind.status, Extension(self)).into_response()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let db_error = error.class();
        Self { db_error, ..Self::of(error) }
    }
}

impl Problem {
    fn of_fact(fault: FactFault) -> Self {
        let detail = format!("{fault}; nothing was changed");
        match fault {
            FactFault::Unknown(_) => Self::new(UNKNOWN_FACT, detail)
                .hint("GET /v1/agents/{id}/facts lists the facts with their numbers"),
            FactFault::Duplicate(_) | FactFault::Full => Self::new(FACT_CONFLICT, detail)
                .hint("close a fact: PATCH /v1/agents/{id}/facts/{fact} with {\"closed\": true}"),
        }
    }

    fn of(error: StoreError) -> Self {
        match error {
            StoreError::UnknownAgent(agent) => Self::unknown_agent(&agent),
            StoreError::UnknownMark(_) => Self::new(UNKNOWN_MARK, format!("{error}; nothing was changed")).hint(
                "set one: POST /v1/agents/{id}/mark; a clear removes all marks, and a rewind removes later ones",
            ),
            StoreError::AgentExists(_) => Self::new(AGENT_EXISTS, format!("{error}; nothing was changed"))
                .hint("give the child an id of its own"),
            StoreError::ClientIdReused(_) => {
                Self::new(CLIENT_ID_REUSED, format!("{error}; nothing was stored")).hint(
                    "give each message an id of its own; the same message may be sent again under its id",
                )
            }
            StoreError::KeyReused(_) => {
                Self::new(IDEMPOTENCY_KEY_REUSED, format!("{error}; nothing was stored"))
                    .hint("give each request a key of its own; reuse a key only to repeat the same request")
            }
            StoreError::WouldOverflow { .. } => {
                Self::new(WOULD_OVERFLOW, format!("{error}; nothing was stored")).hint(
                    "begin a new exchange, send less, raise budget_tokens, or set on_overflow to evict: \
                     PATCH /v1/agents/{id}",
                )
            }
            StoreError::UnknownMessage(_) => {
                Self::new(UNKNOWN_MESSAGE, format!("{error}; nothing was changed")).hint(
                    "messages are numbered in the order in which they were stored; GET /v1/agents/{id}/pins lists \
                     what is pinned",
                )
            }
            StoreError::UnknownVersion { .. } => {
                Self::new(UNKNOWN_VERSION, error.to_string()).hint(
                    "GET /v1/agents/{id}/summary/versions lists the stored versions; schedule.versions_keep says how many are kept",
                )
            }
            StoreError::UnknownItem { .. } => {
                Self::new(UNKNOWN_ITEM, format!("{error}; nothing was changed"))
                    .hint("GET /v1/agents/{id}/items lists the items with their numbers")
            }
            StoreError::ItemPinsFull => Self::new(PINS_FULL, format!("{error}; nothing was changed"))
                .hint("remove a pin: PATCH /v1/agents/{id}/items/{item} with {\"pinned\": false}"),
            StoreError::Fact(fault) => Self::of_fact(fault),
            StoreError::UnknownExchange(_) => {
                Self::new(UNKNOWN_EXCHANGE, format!("{error}; nothing was changed")).hint(
                    "GET /v1/agents/{id}/history lists exchanges, GET /v1/agents/{id}/recall?q=… finds them by words",
                )
            }
            StoreError::HasForks { .. } => Self::new(HAS_FORKS, format!("{error}; nothing was changed"))
                .hint("delete its forks first, or forget its exchanges: POST /v1/agents/{id}/forget"),
            StoreError::Note(_) => Self::new(INVALID_NOTE, format!("{error}; nothing was changed"))
                .hint("give a name such as repository/build.md, and split a long text into several notes"),
            StoreError::UnknownNote(_) => Self::new(UNKNOWN_NOTE, format!("{error}; nothing was changed"))
                .hint("GET /v1/agents/{id}/notes lists the notes; GET /v1/agents/{id}/notes/{name} lists a note's versions"),
            StoreError::NoteChanged { .. } => Self::new(NOTE_CHANGED, format!("{error}; nothing was changed"))
                .hint("read the note, and change what it says now: GET /v1/agents/{id}/notes/{name}"),
            StoreError::NotesFull => Self::new(NOTES_FULL, format!("{error}; nothing was changed"))
                .hint("delete or merge some: GET /v1/agents/{id}/notes lists them"),
            StoreError::PinsFull { .. } => Self::new(PINS_FULL, format!("{error}; nothing was changed")).hint(
                "unpin something: POST /v1/agents/{id}/unpin; or raise context.pins_max_tokens, of which at most a \
                 quarter of a request is used",
            ),
            StoreError::Unavailable(_) | StoreError::Contended(_) => Self::of_outage(&error),
            // The code that started the computation has already logged the panic, with the agent.
            StoreError::Panicked(panicked) => Self::new(INTERNAL, panicked.to_string()).hint(
                "the same request will fail again; report it with this request's id, and what the log says about it",
            ),
            error => {
                tracing::error!(%error, "http.database_failed");
                Self::internal()
            }
        }
    }
}

impl Problem {
    /// Returns the problem for a database that can't carry out a request now.
    fn of_outage(error: &StoreError) -> Self {
        if matches!(error, StoreError::Contended(_)) {
            tracing::warn!(%error, "http.contended");
            let detail =
                "other transactions hold the rows that this request would change; nothing was changed";
            return Self::new(DATABASE_UNAVAILABLE, detail).hint("retry; messages with ids are stored once");
        }
        tracing::warn!(%error, "http.database_unavailable");
        let detail = "the database doesn't answer; nothing was changed";
        Self::new(DATABASE_UNAVAILABLE, detail)
            .hint("retry later; summaries that this daemon has in memory can still be read")
    }
}

impl From<ComputationPanic> for Problem {
    fn from(panicked: ComputationPanic) -> Self {
        tracing::error!(error = %panicked, "http.panicked");
        StoreError::from(panicked).into()
    }
}

/// A problem (RFC 9457).
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Wire<'a> {
    /// `urn:recapd:problem:` and the code.
    r#type: String,
    /// The kind of problem, for people.
    title: &'a str,
    /// The HTTP status of the answer.
    status: u16,
    /// What went wrong this time.
    detail: &'a str,
    /// `urn:recapd:request:` and the request's id.
    instance: String,
    /// The kind of problem, for programs.
    code: &'a str,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// What is wrong with the request, item by item.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Finding],
}

pub(crate) fn codes() -> Vec<&'static str> {
    ALL.iter().map(|kind| kind.code).collect()
}

/// Writes out the problem of `response`, if it has one. `request_id` names this occurrence.
pub(crate) fn write_out(mut response: Response, request_id: &str) -> Response {
    let Some(problem) = Problem::take_from(&mut response) else {
        return response;
    };
    let wire = Wire {
        r#type: format!("{PROBLEM_TYPES}{}", problem.kind.code),
        title: problem.kind.title,
        status: problem.kind.status.as_u16(),
        detail: &problem.detail,
        instance: format!("urn:recapd:request:{request_id}"),
        code: problem.kind.code,
        hint: problem.hint.as_deref(),
        errors: &problem.findings,
    };
    let body = serde_json::to_vec_pretty(&wire).expect("texts and numbers can be written as JSON");
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(seconds) = problem.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    *response.body_mut() = Body::from(body);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_differs_from_an_unavailable_database() {
        let unavailable = Problem::from(StoreError::Unavailable("it is gone".to_owned().into()));
        assert_eq!(unavailable.kind.status, StatusCode::SERVICE_UNAVAILABLE);
        let defect = Problem::from(StoreError::from(ComputationPanic("counting tokens")));
        assert_eq!(defect.kind.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(defect.detail.starts_with("counting tokens panicked"), "{}", defect.detail);
        assert!(!defect.is_temporary());
    }
}
