//! Writes texts that replace a conversation: `POST /v1/agents/{id}/compact` for hosts that compact, `GET
//! /v1/agents/{id}/handoff` for another agent that continues the conversation.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::Uri,
    response::{IntoResponse as _, Response},
};

use super::{
    context::ContextSource,
    conversation::{ConversationFormat, named_host, store_conversation},
};
use crate::{
    context::{CompactReply, HANDOFF_TOKENS, HANDOFF_TOKENS_MAX, HANDOFF_TOKENS_MIN},
    http::{
        SharedApp,
        edge::access::{self, CallerExtension},
        openapi::{answers, parameters::AgentPath},
        request::{
            body,
            extract::{Agent, Parameters},
        },
        response::problem::Problem,
    },
};
use recapd_core::{
    domain::{agent::AgentId, continuation::SentExtent},
    formats::outgoing::RequestFormat,
};
use recapd_platform::threads;

/// Limits `keep_tokens`: more than any model takes.
const KEEP_TOKENS_MAX: i64 = 1_000_000;

/// Writes a text that replaces the conversation, from memory and the window, without a model.
///
/// With `format`, the body is the conversation as the host has it. Messages that are new in it are stored. The answer's
/// `first_kept` is the index of the first message to keep: the text replaces all messages before it.
#[utoipa::path(
    post, path = "/v1/agents/{id}/compact", operation_id = "compact", tag = "messages",
    params(AgentPath,
        ("format" = Option<RequestFormat>, Query, description = "The provider whose messages the body holds. Without it there is no body, and the text replaces the whole conversation."),
        ("host" = Option<String>, Query, pattern = "^(claude-code|codex)$", description = "The coding agent that wrote the messages."),
        ("keep_tokens" = Option<i64>, Query, minimum = 0, maximum = 1_000_000, description = "Keeps about this many tokens of the newest messages unchanged, and always the newest leg. By default, keeps the agent's window.")),
    request_body(description = "An object with the conversation's `messages`, `input` or `contents`.", content = Option<Value>, content_type = "application/json"),
    responses((status = 200, description = "The text.", body = CompactReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn compact(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(request.uri(), &["format", "host", "keep_tokens"])?;
    let keep_tokens = parameters.integer("keep_tokens", 0..=KEEP_TOKENS_MAX)?;
    if parameters.text("format").is_none() {
        named_host(&parameters)?;
        let source = ContextSource::of(&app, &agent, None).await?;
        return source
            .answer("writing a compaction", move |material, defaults, counter| match keep_tokens {
                None => material.compact(defaults, counter),
                kept => material.compact_before(kept, defaults, counter),
            })
            .await;
    }
    access::check_may_make(&caller, &agent)?;
    let format = ConversationFormat::of(&parameters)?;
    let (_, body) = body::read(&app, request).await?;
    let (sent, share) = format.parse(body).await?;
    let sent = Arc::new(sent);
    let reply = store_conversation(&app, agent, Arc::clone(&sent), SentExtent::Whole, share).await?;
    let agent = reply.agent_id;
    access::see(&app, &caller, &agent).await?;
    let ContextSource { material, defaults, counter, share } = ContextSource::of(&app, &agent, None).await?;
    let write = move || material.compact_before(keep_tokens, defaults, counter.as_ref());
    let reply = threads::computed("writing a compaction", write).await?;
    let first_kept = app.parts.conversations.index_after(&agent, &sent, reply.first_exchange).await?;
    let reply = reply.with_first_kept(first_kept);
    Ok(share.until_sent(Json(reply).into_response()).await)
}

/// Writes one document with which another agent can continue.
///
/// The document names the files that the window is about. It holds the summary, the newest part word for word, and how
/// to look things up.
#[utoipa::path(
    get, path = "/v1/agents/{id}/handoff", operation_id = "hand_off", tag = "summary",
    params(AgentPath,
        ("max_tokens" = Option<i64>, Query, minimum = 1_000, maximum = 1_000_000, description = "The most tokens, by default 20,000. If the newest exchange alone has more, the document has more.")),
    responses((status = 200, description = "The document, as Markdown in `text`.", body = CompactReply),
        answers::OfAgent, answers::Conflicting),
)]
pub(super) async fn hand_off(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["max_tokens"])?;
    let requested = parameters.integer("max_tokens", HANDOFF_TOKENS_MIN..=HANDOFF_TOKENS_MAX)?;
    let max_tokens = requested.unwrap_or(HANDOFF_TOKENS);
    let source = ContextSource::of(&app, &agent, None).await?;
    source
        .answer("writing a handoff", move |material, defaults, counter| {
            material.handoff(max_tokens, defaults, counter)
        })
        .await
}

/// Writes a handoff for a reader that doesn't use HTTP.
pub(in crate::http) async fn write_handoff(
    app: &SharedApp,
    agent: &AgentId,
    max_tokens: Option<i64>,
) -> Result<CompactReply, Problem> {
    let max_tokens = max_tokens.unwrap_or(HANDOFF_TOKENS);
    let ContextSource { material, defaults, counter, share } = ContextSource::of(app, agent, None).await?;
    let write = move || (material.handoff(max_tokens, defaults, counter.as_ref()), share);
    let (reply, _share) = threads::computed("writing a handoff", write).await?;
    Ok(reply)
}
