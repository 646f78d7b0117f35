//! `GET /v1/agents/{id}/context`: the one call that an agent makes before each model request.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::Uri,
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

use crate::{
    context::{self, ContextError, ContextMaterial, ContextQuery, ContextReply, Viewer},
    http::{
        SharedApp,
        openapi::{answers, parameters::AgentPath},
        request::extract::{Agent, Parameters, invalid},
        response::problem::{EXCHANGE_TOO_LARGE, Problem, UNKNOWN_SPEAKER},
        room::RoomShare,
    },
};
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{Alternation, ContextOptions},
        tokens::TokenCounter,
        window::Budget,
    },
    formats::outgoing::RequestFormat,
};
use recapd_engine::snapshot::Snapshot;
use recapd_platform::threads;

/// How many times a window's bytes are in memory until the context is sent: as payload, as parts, twice as JSON values,
/// which are larger than their text, and as text.
const MEMORY_PER_BYTE: usize = 6;
const BUDGET_TOKENS_MAX: i64 = 100_000_000;
/// The largest summary that can be requested, in tokens: far more than a summary has.
const SUMMARY_TOKENS_MAX: i64 = 1_000_000;

/// Builds a context.
#[utoipa::path(
    get, path = "/v1/agents/{id}/context", operation_id = "get_context", tag = "messages",
    params(AgentPath,
        ("format" = RequestFormat, Query, description = "The provider whose request format is used."),
        ("budget" = Option<i64>, Query, minimum = 0, maximum = 100_000_000, description = "The most tokens; 0 for no limit."),
        ("summary_max_tokens" = Option<i64>, Query, minimum = 1, maximum = 1_000_000, description = "The most tokens of the summary in the context. The summary never takes more than a quarter of the budget."),
        ("alternation" = Option<Alternation>, Query, description = "What to do with consecutive turns of the same side."),
        ("thinking" = Option<String>, Query, pattern = "^open$", example = "open", description = "`open`: sends the thinking of the open exchange even if an earlier message has changed. This is for a provider that requires the thinking of an open tool round, and for a request with `drop_block`, which lets the provider drop thinking that no longer fits the earlier messages. By default, recapd leaves such thinking out. With `openai-responses` it always sends it, because OpenAI drops it itself."),
        ("as" = Option<String>, Query, description = "In a shared conversation: the speaker who sees the context.")),
    responses((status = 200, description = "The context.", body = ContextReply),
        answers::OfAgent, answers::Conflicting),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Response, Problem> {
    let (query, speaker) = query(&uri)?;
    let source = ContextSource::of(&app, &agent, speaker).await?;
    source
        .answer("building a context", move |material, defaults, counter| {
            material.build(query, defaults, counter)
        })
        .await
}

/// What a context is built from, and the options.
pub(crate) struct ContextSource {
    pub(crate) material: ContextMaterial,
    pub(crate) defaults: ContextOptions,
    pub(crate) counter: Arc<dyn TokenCounter>,
    /// The room in memory for the answer.
    pub(crate) share: RoomShare,
}

impl ContextSource {
    /// Answers with what `write` makes of the material. Computes in another thread, because shortening a long tool
    /// result takes a while.
    pub(super) async fn answer<T: Serialize + Send + 'static>(
        self,
        name: &'static str,
        write: impl FnOnce(&ContextMaterial, ContextOptions, &dyn TokenCounter) -> T + Send + 'static,
    ) -> Result<Response, Problem> {
        let Self { material, defaults, counter, share } = self;
        let compute = move || (write(&material, defaults, counter.as_ref()), share);
        let (reply, share) = threads::computed(name, compute).await?;
        Ok(share.until_sent(Json(reply).into_response()).await)
    }

    /// Reads what the context of `agent` is built from. `speaker` sees it, in a conversation of several.
    pub(crate) async fn of(
        app: &SharedApp,
        agent: &AgentId,
        speaker: Option<String>,
    ) -> Result<Self, Problem> {
        let snapshot = app.parts.snapshots.of_step(agent).await?;
        let snapshot = snapshot.ok_or_else(|| Problem::unknown_agent(agent))?;
        Self::with(app, agent, &snapshot, speaker).await
    }

    /// Like [`Self::of`], but with a given summary of a step.
    pub(super) async fn with(
        app: &SharedApp,
        agent: &AgentId,
        snapshot: &Snapshot,
        speaker: Option<String>,
    ) -> Result<Self, Problem> {
        let parts = &app.parts;
        let configured = &app.settings.configured;
        let viewer = speaker.map(|speaker| Viewer { speaker, telling: configured.telling.clone() });
        let payload_bytes = context::payload_bytes(parts.store.as_ref(), agent, snapshot).await?;
        let share = app.answers_room.for_answer(MEMORY_PER_BYTE * payload_bytes).await?;
        let material = context::load(parts.store.as_ref(), agent, snapshot, viewer).await?;
        let counter = parts.ingestor.counter_of(agent).await?;
        let row = parts.store.agent(agent).await?;
        let settings = row.map(|row| row.settings).unwrap_or_default();
        let in_force = settings.expanded(&configured.basis);
        let budget = in_force.budget(configured.settings.budget(Budget::unlimited()));
        let defaults = ContextOptions {
            step_tokens: budget.step_tokens(),
            ..in_force.context_options(configured.context)
        };
        Ok(Self { material, defaults, counter, share })
    }
}

/// Returns the query, and the speaker who is to see the context.
fn query(uri: &Uri) -> Result<(ContextQuery, Option<String>), Problem> {
    let names = ["format", "budget", "summary_max_tokens", "alternation", "thinking", "as"];
    let parameters = Parameters::read(uri, &names)?;
    let formats = "send anthropic, openai, openai-responses or gemini";
    let format = match parameters.text("format") {
        Some(name) => RequestFormat::from_name(name)
            .ok_or_else(|| invalid("format", &format!("can't be `{name}`"), formats))?,
        None => return Err(invalid("format", "is missing", formats)),
    };
    let mode = |name| {
        let cure = "send ack, merge or keep";
        Alternation::from_name(name)
            .ok_or_else(|| invalid("alternation", &format!("can't be `{name}`"), cure))
    };
    let keeps_open_thinking = match parameters.text("thinking") {
        None => false,
        Some("open") => true,
        Some(name) => {
            let what = format!("can't be `{name}`");
            return Err(invalid("thinking", &what, "send open, or leave it out"));
        }
    };
    let query = ContextQuery {
        format,
        budget_tokens: parameters.integer("budget", 0..=BUDGET_TOKENS_MAX)?,
        alternation: parameters.text("alternation").map(mode).transpose()?,
        summary_max_tokens: parameters.integer("summary_max_tokens", 1..=SUMMARY_TOKENS_MAX)?,
        keeps_open_thinking,
    };
    Ok((query, parameters.text("as").map(str::to_owned)))
}

impl From<ContextError> for Problem {
    fn from(error: ContextError) -> Self {
        match error {
            ContextError::UnknownSpeaker(error) => Self::new(UNKNOWN_SPEAKER, error.to_string()).hint(
                "name a speaker who takes part; the agent's settings can name participants: PATCH /v1/agents/{id} with `participants`",
            ),
            ContextError::TooLarge(_) => Self::new(EXCHANGE_TOO_LARGE, error.to_string()).hint(
                "read the exchange in parts: GET /v1/agents/{id}/exchanges/{n}; it can leave the window once a new exchange or session begins",
            ),
            ContextError::Store(error) => error.into(),
        }
    }
}
