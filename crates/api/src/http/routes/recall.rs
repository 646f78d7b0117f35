//! `GET /v1/agents/{id}/recall` and `GET /v1/agents/{id}/exchanges/{n}`: finds what is archived, by words or by number.

use axum::{
    Json,
    extract::{FromRequestParts, Path, State},
    http::{HeaderMap, HeaderValue, Uri, header::VARY, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{
    http::{
        SharedApp,
        openapi::{answers, parameters::AgentPath},
        request::extract::{Agent, Parameters, agent_id, invalid},
        response::{
            negotiate::preferred,
            problem::{INVALID_PARAMETER, Problem, UNKNOWN_EXCHANGE},
        },
    },
    recall::{self, ArchiveQuestion, ExpandQuery, ExpandReply, MESSAGES_MAX, MESSAGES_SHOWN, RecallReply},
};
use recapd_core::{domain::agent::AgentId, formats::outgoing::RequestFormat};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// Searches an archive.
#[utoipa::path(
    get, path = "/v1/agents/{id}/recall", operation_id = "recall", tag = "history",
    params(AgentPath,
        ("q" = String, Query, min_length = 1, description = "A question, words, or phrases in quotation marks.", example = "jwt \"refresh token\""),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 50, description = "The most exchanges."),
        ("role" = Option<String>, Query, description = "Only messages of this role: `user`, `assistant`, `tool` or `system`."),
        ("tool" = Option<String>, Query, description = "Only exchanges that call this tool.", example = "bash"),
        ("since" = Option<String>, Query, description = "Only messages from this time on: RFC 3339, a date, or words such as `last week`."),
        ("until" = Option<String>, Query, description = "Only messages before this time. A date includes the whole day."),
        ("session" = Option<i64>, Query, minimum = 1, description = "Only exchanges of this session."),
        ("order" = Option<String>, Query, description = "`best`: the best matches first (default); `recent`: the newest exchanges first."),
        ("as_of" = Option<String>, Query, description = "Words such as `yesterday` are relative to this time; by default, to now.")),
    responses((status = 200, description = "The matching exchanges.", content((RecallReply = "application/json"), (String = "text/plain"))),
        answers::OfAgent),
)]
pub(super) async fn search(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &ArchiveQuestion::PARAMETERS)?;
    let question = ArchiveQuestion::read(|name| parameters.text(name), app.parts.clock.now())
        .map_err(|error| invalid(error.name, &error.what, &error.cure))?;
    let redactor = app.parts.snapshots.redactor();
    let found =
        recall::search(app.parts.store.as_ref(), &agent, &question, redactor, app.parts.embedder.as_deref())
            .await?;
    let found = found.ok_or_else(|| Problem::unknown_agent(&agent))?;
    Ok(answer(&headers, &found, recall::found_text))
}

/// The path's agent and exchange.
pub(crate) struct ExchangePath {
    pub(crate) agent: AgentId,
    pub(crate) exchange: i64,
}

impl<S: Send + Sync> FromRequestParts<S> for ExchangePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((id, number)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::new(INVALID_PARAMETER, rejection.body_text()))?;
        let exchange = number.strip_prefix('#').unwrap_or(&number).parse();
        Ok(Self {
            agent: agent_id(&id)?,
            exchange: exchange.map_err(|_| {
                Problem::new(INVALID_PARAMETER, format!("`{number}` isn't the number of an exchange"))
                    .hint("send the number that follows a # in the summary: /exchanges/38")
            })?,
        })
    }
}

/// Shows the messages of an exchange verbatim.
#[utoipa::path(
    get, path = "/v1/agents/{id}/exchanges/{n}", operation_id = "get_exchange", tag = "history",
    params(AgentPath,
        ("n" = i64, Path, description = "The exchange's number, as written after the # in a summary.", minimum = 0),
        ("after" = Option<i64>, Query, minimum = 0, description = "Only messages after this number."),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 1000, description = "The most messages."),
        ("scope" = Option<String>, Query, pattern = "^(all|conversation)$", description = "`conversation` leaves out instructions and events of the host; `all`, the default, doesn't."),
        ("format" = Option<RequestFormat>, Query, description = "Also returns the messages in the form of this provider's request.")),
    responses((status = 200, description = "The exchange.", content((ExpandReply = "application/json"), (String = "text/plain"))),
        answers::OfAgent),
)]
pub(super) async fn expand(
    State(app): State<SharedApp>,
    ExchangePath { agent, exchange }: ExchangePath,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["after", "limit", "scope", "format"])?;
    let format = |name| {
        let cure = "send anthropic, openai, openai-responses or gemini";
        RequestFormat::from_name(name).ok_or_else(|| invalid("format", &format!("can't be `{name}`"), cure))
    };
    let scope = |name: &str| {
        let mut scopes = recall::SCOPES.into_iter();
        let found = scopes.find(|(key, _)| *key == name).map(|(_, scope)| scope);
        found.ok_or_else(|| invalid("scope", &format!("can't be `{name}`"), "send all or conversation"))
    };
    let query = ExpandQuery {
        scope: parameters.text("scope").map(scope).transpose()?.unwrap_or_default(),
        after_seq: parameters.integer("after", 0..=i64::MAX)?.unwrap_or(0),
        limit: parameters.integer("limit", 1..=MESSAGES_MAX)?.unwrap_or(MESSAGES_SHOWN),
        format: parameters.text("format").map(format).transpose()?,
    };
    let store = app.parts.store.as_ref();
    match recall::expand(store, &agent, exchange, query).await? {
        Some(reply) => Ok(answer(&headers, &reply, recall::expanded_text)),
        None if store.agent(&agent).await?.is_none() => Err(Problem::unknown_agent(&agent)),
        None => Err(unknown_exchange(&agent, exchange)),
    }
}

pub(crate) fn unknown_exchange(agent: &AgentId, exchange: i64) -> Problem {
    Problem::new(UNKNOWN_EXCHANGE, format!("agent `{agent}` has no exchange #{exchange}")).hint(
        "GET /v1/agents/{id}/history lists exchanges, GET /v1/agents/{id}/recall?q=… finds them by words",
    )
}

/// Returns the reply as JSON, or as text if the client prefers text.
pub(super) fn answer<T: Serialize>(headers: &HeaderMap, reply: &T, text: impl Fn(&T) -> String) -> Response {
    let vary = [(VARY, HeaderValue::from_static("accept"))];
    if preferred(headers, &[JSON, TEXT]) == TEXT {
        (vary, text(reply)).into_response()
    } else {
        (vary, Json(reply)).into_response()
    }
}
