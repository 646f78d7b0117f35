//! `POST /v1/agents/{id}/replacement`: the text that replaces the evicted part of a conversation in a request.

use axum::{Extension, Json, extract::State, http::Uri};
use serde::Serialize;

use super::context::ContextSource;
use crate::{
    context::Replacement,
    http::{
        SharedApp,
        edge::access::{self, CallerExtension},
        openapi::{answers, parameters::AgentPath},
        request::extract::{Agent, Parameters, invalid},
        response::problem::Problem,
    },
};
use recapd_core::domain::{agent::AgentId, continuation::Beginning, number::i64_or_max};
use recapd_platform::threads;

/// A hash has this many hexadecimal digits.
const HASH_DIGITS: usize = 16;

/// What replaces the evicted part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct ReplacementReply {
    /// The agent that holds the conversation. If the conversation of the requested agent begins differently, this is
    /// another agent.
    agent_id: AgentId,
    summary_version: i64,
    first_exchange: i64,
    /// How many units of the conversation the text replaces; 0 if all of it is in the window.
    units: i64,
    /// A hash of these units, in hexadecimal digits. A request that begins with other units is another conversation.
    hash: String,
    /// A tag that changes with each step.
    tag: String,
    /// The hash of the first unit of the user's message that stays before the text; null if none stays.
    anchor: Option<String>,
    /// The document, with the request that the window works on and copies of pinned messages; null if the caller has it
    /// already.
    text: Option<String>,
}

/// Says which part of a conversation has left the window, and returns the text that replaces that part. For clients
/// that send their whole conversation with each request. The text stays the same between two steps.
#[utoipa::path(
    post, path = "/v1/agents/{id}/replacement", operation_id = "replacement", tag = "messages",
    params(AgentPath,
        ("begins_with" = String, Query, pattern = "^[0-9a-f]{16}$", description = "The hash of the conversation's first unit."),
        ("known" = Option<String>, Query, description = "The tag of the step whose text the caller has.")),
    responses((status = 200, description = "The text, and what it replaces.", body = ReplacementReply),
        answers::OfAgent, answers::Conflicting),
)]
pub(super) async fn replace(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<ReplacementReply>, Problem> {
    let parameters = Parameters::read(&uri, &["begins_with", "known"])?;
    let first = first_unit_hash(&parameters)?;
    let conversations = &app.parts.conversations;
    let agent = conversations.holder(&agent, first).await?;
    access::see(&app, &caller, &agent).await?;
    let snapshot = app.parts.snapshots.of_step(&agent).await?;
    let snapshot = snapshot.ok_or_else(|| Problem::unknown_agent(&agent))?;
    let Beginning { units, hash } = conversations.part_before(&agent, snapshot.first_exchange).await?;
    // The `ETag` ends with the hash of the text. Its other parts may change while the text stays the same.
    let text_hash = snapshot.etag.trim_matches('"').rsplit('.').next();
    let tag = format!("{}.{}", snapshot.first_exchange, text_hash.unwrap_or_default());
    let written = if units == 0 || parameters.text("known") == Some(&tag) {
        None
    } else {
        let source = ContextSource::with(&app, &agent, &snapshot, None).await?;
        let write = move || source.material.replacement(source.defaults, source.counter.as_ref());
        Some(threads::computed("writing a replacement", write).await?)
    };
    let anchor = written.as_ref().and_then(|Replacement { anchor, .. }| *anchor);
    Ok(Json(ReplacementReply {
        agent_id: agent,
        summary_version: snapshot.version,
        first_exchange: snapshot.first_exchange,
        units: i64_or_max(units),
        hash: format!("{hash:016x}"),
        tag,
        anchor: anchor.map(|anchor| format!("{anchor:016x}")),
        text: written.map(|written| written.text),
    }))
}

/// Reads the parameter `begins_with`.
fn first_unit_hash(parameters: &Parameters) -> Result<u64, Problem> {
    let text = parameters.text("begins_with").unwrap_or_default();
    let is_hash =
        text.len() == HASH_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let hash = u64::from_str_radix(text, 16).ok().filter(|_| is_hash);
    hash.ok_or_else(|| {
        invalid(
            "begins_with",
            "isn't a hash",
            "send 16 hexadecimal digits, as the hash of the conversation's first unit",
        )
    })
}
