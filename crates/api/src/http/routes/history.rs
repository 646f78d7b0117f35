//! `GET /v1/agents/{id}/history`: shows the exchanges before and after the boundary.

use axum::{
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};

use super::recall::{answer, unknown_exchange};
use crate::{
    history::{self, ARCHIVE_SHOWN, ARCHIVE_SHOWN_MAX, HistoryQuery},
    http::{
        SharedApp,
        openapi::{answers, parameters::AgentPath, values::Switch},
        request::extract::{Agent, Parameters},
        response::problem::Problem,
    },
};
use recapd_core::domain::history::{HistoryView, render_text};
use recapd_store::StoreError;

/// The width of the text: the default of the command line.
const TEXT_COLUMNS: usize = 80;

/// Shows a history.
#[utoipa::path(
    get, path = "/v1/agents/{id}/history", operation_id = "get_history", tag = "history",
    params(AgentPath,
        ("archived" = Option<i64>, Query, minimum = 0, maximum = 10_000, description = "The most exchanges before the window."),
        ("all" = Option<Switch>, Query, description = "Shows as many exchanges as possible."),
        ("exchange" = Option<i64>, Query, minimum = 1, description = "Only this exchange, with all of its lines, in the window or before it."),
        ("tokens" = Option<Switch>, Query, description = "Adds the tokens of each message, and lines for tool results.")),
    responses((status = 200, description = "The history. An exchange of more than 8 MB of payloads has lines for its first messages, and a last line that says where the rest is.", content((HistoryView = "application/json"), (String = "text/plain"))),
        answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["archived", "all", "exchange", "tokens"])?;
    let archived = parameters.integer("archived", 0..=ARCHIVE_SHOWN_MAX)?;
    let query = HistoryQuery {
        archived: archived.unwrap_or(ARCHIVE_SHOWN),
        only: parameters.integer("exchange", 1..=i64::MAX)?,
        tokens: parameters.flag("tokens")?,
        summary_tokens_max: app.settings.summary_tokens_max,
        convergence: app.settings.configured.convergence,
        ..HistoryQuery::default()
    };
    let query = if parameters.flag("all")? { query.all() } else { query };
    let now = app.parts.clock.now();
    let redactor = app.parts.snapshots.redactor();
    let found = history::load(app.parts.store.as_ref(), &agent, query, now, redactor).await;
    let view = found
        .map_err(|error| match error {
            StoreError::UnknownExchange(number) => unknown_exchange(&agent, number),
            error => error.into(),
        })?
        .ok_or_else(|| Problem::unknown_agent(&agent))?;
    Ok(answer(&headers, &view, |view| render_text(view, TEXT_COLUMNS)))
}
