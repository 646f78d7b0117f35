//! `POST /v1/agents/{id}/conversation`: takes a whole conversation and stores what is new in it.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
};

use crate::http::{
    App, SharedApp,
    edge::access::{self, CallerExtension},
    openapi::{answers, parameters::AgentPath},
    request::{
        body::{self, BodyShare, BufferedBody},
        extract::{Agent, Parameters, invalid},
        message_body::check_values,
    },
    response::problem::{INVALID_BODY, INVALID_MESSAGE, Problem},
};
use recapd_core::{
    domain::{agent::AgentId, continuation::SentExtent, message::Format},
    formats::{
        FormatError,
        outgoing::RequestFormat,
        request::{SentMessage, conversation},
    },
};
use recapd_engine::conversations::{ConversationError, ConversationReply};

/// Stores what is new in the conversation of a request to a provider. If the host has withdrawn, edited or compacted
/// messages, the stored conversation follows.
#[utoipa::path(
    post, path = "/v1/agents/{id}/conversation", operation_id = "store_conversation", tag = "messages",
    params(AgentPath,
        ("format" = RequestFormat, Query, description = "The provider that the request is for."),
        ("host" = Option<String>, Query, pattern = "^(claude-code|codex)$", description = "The coding agent that wrote the request. recapd then recognises what it adds to the user's messages."),
        ("extent" = Option<String>, Query, pattern = "^(whole|end)$", description = "`whole` (the default): the conversation from its beginning or from the host's summary, as in each request to the provider. `end`: only what follows the stored conversation, such as an answer.")),
    request_body(description = "The body of the request, or an object with its `messages`, `input` or `contents` alone.", content = Value, content_type = "application/json"),
    responses((status = 200, description = "What was new.", body = ConversationReply),
        answers::Always, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn store(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<ConversationReply>, Problem> {
    let parameters = Parameters::read(request.uri(), &["format", "host", "extent"])?;
    let format = ConversationFormat::of(&parameters)?;
    let extent = match parameters.text("extent") {
        None | Some("whole") => SentExtent::Whole,
        Some("end") => SentExtent::End,
        Some(other) => {
            return Err(invalid("extent", &format!("can't be `{other}`"), "send whole or end"));
        }
    };
    access::check_may_make(&caller, &agent)?;
    let (_, body) = body::read(&app, request).await?;
    let (sent, share) = format.parse(body).await?;
    Ok(Json(store_conversation(&app, agent, Arc::new(sent), extent, share).await?))
}

/// Stores what is new, even if the request is cancelled.
pub(super) async fn store_conversation(
    app: &App,
    agent: AgentId,
    sent: Arc<Vec<SentMessage>>,
    extent: SentExtent,
    share: BodyShare,
) -> Result<ConversationReply, Problem> {
    let conversations = app.parts.conversations.clone();
    let storing = app.parts.writes.spawn(async move {
        let stored = conversations.store(&agent, &sent, extent).await;
        drop(share);
        stored
    });
    let stored = storing.await.map_err(|_| Problem::internal())?;
    Ok(stored?)
}

/// The format of a sent conversation: the provider's, with what the host adds.
pub(super) struct ConversationFormat {
    format: Format,
    host: Option<Format>,
}

impl ConversationFormat {
    pub(super) fn of(parameters: &Parameters) -> Result<Self, Problem> {
        let formats = "send anthropic, openai, openai-responses or gemini";
        let format = parameters.text("format").ok_or_else(|| invalid("format", "is missing", formats))?;
        let format = RequestFormat::from_name(format)
            .and_then(|format| Format::from_name(format.name()))
            .ok_or_else(|| invalid("format", &format!("can't be `{format}`"), formats))?;
        let host = named_host(parameters)?;
        Ok(Self { format, host })
    }

    pub(super) async fn parse(self, body: BufferedBody) -> Result<(Vec<SentMessage>, BodyShare), Problem> {
        let Self { format, host } = self;
        let parse = move |bytes: Vec<u8>| {
            check_values(&bytes)?;
            let text = std::str::from_utf8(&bytes)
                .map_err(|_| Problem::new(INVALID_BODY, "the body isn't UTF-8").hint("send UTF-8"))?;
            conversation(format, host, text).map_err(unreadable)
        };
        body.parse(parse).await
    }
}

/// Returns the format of the coding agent that the parameter `host` names.
pub(super) fn named_host(parameters: &Parameters) -> Result<Option<Format>, Problem> {
    match parameters.text("host") {
        None => Ok(None),
        Some("claude-code") => Ok(Some(Format::ClaudeCode)),
        Some("codex") => Ok(Some(Format::Codex)),
        Some(other) => {
            Err(invalid("host", &format!("can't be `{other}`"), "send claude-code or codex, or leave it out"))
        }
    }
}

fn unreadable(error: FormatError) -> Problem {
    Problem::new(INVALID_MESSAGE, error.reason).hint(error.cure)
}

impl From<ConversationError> for Problem {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Format(error) => unreadable(error),
            ConversationError::Store(error) => error.into(),
            ConversationError::AnotherConversation(_) => Self::new(INVALID_BODY, error.to_string()),
        }
    }
}
