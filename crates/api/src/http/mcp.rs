//! `/mcp`: serves the Model Context Protocol from the daemon's own parts.

mod refusal;

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Router,
    extract::{Request, State},
    response::Response,
    routing::any,
};

use super::{
    SharedApp,
    edge::access,
    request::body::{self, BufferedBody},
    response::problem::Problem,
    routes,
};
use crate::{
    history::HistoryQuery,
    mcp::{AgentHints, DaemonParts, Desk, Endpoint, EndpointSettings, Local, ServerState, SourceError, Way},
};
use recapd_core::domain::agent::AgentId;
use recapd_engine::ingest::{NoteRequest, WrittenNotesReply};

/// Writes notes and handoffs for MCP clients, with the daemon's parts.
struct DaemonDesk(SharedApp);

#[async_trait]
impl Desk for DaemonDesk {
    async fn write_notes(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> Result<WrittenNotesReply, SourceError> {
        let (ingestor, agent, requests) = (self.0.parts.ingestor.clone(), agent.clone(), requests.to_vec());
        let written = self.0.see_through(async move { ingestor.write_notes(&agent, &requests).await });
        written.await.map_err(|problem| source_error(&problem))
    }

    async fn handoff(&self, agent: &AgentId, max_tokens: Option<i64>) -> Result<String, SourceError> {
        let written = routes::compact::write_handoff(&self.0, agent, max_tokens).await;
        Ok(written.map_err(|problem| source_error(&problem))?.text)
    }
}

/// Turns a problem into an MCP error. The caller has already checked that the client may see the agent.
fn source_error(problem: &Problem) -> SourceError {
    let detail = problem.texts().1.to_owned();
    match problem.code() {
        "note_changed" => SourceError::NoteChanged(detail),
        _ if problem.is_temporary() => SourceError::Unavailable(detail),
        _ => SourceError::Refused(detail),
    }
}

/// Adds `/mcp` to `routes`. It isn't in the `OpenAPI` document: the protocol describes itself.
pub(super) fn mount(routes: Router<SharedApp>, app: &SharedApp) -> Router<SharedApp> {
    let (parts, settings) = (&app.parts, &app.settings);
    let local = Local {
        store: Arc::clone(&parts.store),
        snapshots: Arc::clone(&parts.snapshots),
        embedder: parts.embedder.clone(),
        clock: Arc::clone(&parts.clock),
        history: HistoryQuery {
            summary_tokens_max: settings.summary_tokens_max,
            convergence: settings.configured.convergence,
            ..HistoryQuery::default()
        },
        followed: Some(parts.stop.clone()),
        scope: None,
        desk: Arc::new(DaemonDesk(Arc::clone(app))),
    };
    let way = Way::DaemonParts(DaemonParts { local, access: Arc::clone(&parts.access) });
    let state = ServerState::new(way, AgentHints::default(), Vec::new(), parts.stop.clone());
    let endpoint_settings = EndpointSettings { allowed_hosts: settings.allowed_hosts.clone() };
    let endpoint = Arc::new(Endpoint::new(&state, &endpoint_settings, &parts.stop));
    let answer = move |State(app): State<SharedApp>, request: Request| {
        let endpoint = Arc::clone(&endpoint);
        async move {
            let (parts, body) = request.into_parts();
            let BufferedBody { bytes, share } = body::read_short_parts(&app, &parts, body).await?;
            let holder = access::holder(&parts.extensions);
            let request = Request::from_parts(parts, bytes.into());
            let answer = endpoint.answer(holder, request).await;
            drop(share);
            Ok::<Response, Problem>(refusal::bare_refusal_as_problem(answer).await)
        }
    };
    routes.route("/mcp", any(answer))
}
