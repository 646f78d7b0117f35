//! `GET /v1/agents/{id}/context`: the one call before a model request.

use axum::{Json, extract::State, http::Uri};

use super::{
    SharedApp,
    extract::{Agent, Parameters, invalid},
    problem::Problem,
};
use crate::{
    context::{self, ContextQuery, ContextReply},
    domain::context::Alternation,
    formats::outgoing::RequestFormat,
};

/// The largest budget that can be asked for, in tokens.
const BUDGET_TOKENS_MAX: i64 = 100_000_000;

/// Builds a context.
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<ContextReply>, Problem> {
    let query = query(&uri)?;
    let parts = &app.parts;
    let snapshot = parts.snapshots.of_step(&agent).await?;
    let snapshot = snapshot.ok_or_else(|| Problem::unknown_agent(&agent))?;
    let material = context::load(parts.store.as_ref(), &agent, &snapshot).await?;
    let (counter, defaults) = (parts.keeper.counter_of(&agent).await?, app.settings.context);
    // A long tool result takes a while to be shortened; other requests shouldn't wait for it.
    let building = tokio::task::spawn_blocking(move || material.build(query, defaults, counter.as_ref()));
    building.await.map(Json).map_err(|error| {
        tracing::error!(%error, "http.context_panicked");
        Problem::internal()
    })
}

fn query(uri: &Uri) -> Result<ContextQuery, Problem> {
    let parameters = Parameters::read(uri, &["format", "budget", "alternation"])?;
    let formats = "give anthropic, openai, openai-responses or gemini";
    let format = match parameters.text("format") {
        Some(name) => RequestFormat::from_name(name)
            .ok_or_else(|| invalid("format", &format!("can't be `{name}`"), formats))?,
        None => return Err(invalid("format", "is missing", formats)),
    };
    let mode = |name| {
        let cure = "give ack, merge or keep";
        Alternation::from_name(name)
            .ok_or_else(|| invalid("alternation", &format!("can't be `{name}`"), cure))
    };
    Ok(ContextQuery {
        format,
        budget_tokens: parameters.integer("budget", 0..=BUDGET_TOKENS_MAX)?,
        alternation: parameters.text("alternation").map(mode).transpose()?,
    })
}
