//! `POST /v1/agents/{id}/messages`: appends messages.

use axum::{
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

use crate::http::{
    SharedApp,
    openapi::{
        answers,
        parameters::AgentPath,
        values::{MessageFormat, MessagesBody},
    },
    request::{
        body,
        extract::{Agent, Parameters, invalid},
        idempotency::Key,
        message_body::{self, MessageBatch},
    },
    response::problem::{INVALID_HEADER, Problem},
};
use recapd_core::domain::{convergence::ConvergenceScore, message::Format};
use recapd_store::AppendOutcome;

/// The header that names the source of messages.
const SOURCE: &str = "recapd-source";
const TRANSCRIPT: &str = "transcript";

/// The result of an append. HTTP and the command line use the same fields.
#[derive(Serialize, utoipa::ToSchema)]
pub struct AppendReply {
    accepted: i64,
    duplicates: i64,
    exchange: i64,
    window: WindowFigures,
    /// The exchanges that came back into the window because the budget was raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<EvictedExchanges>,
    evicted: Vec<EvictedExchanges>,
    /// The session that this append ended, because its newest exchange is too big.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_ended: Option<i64>,
    summary: SummaryFigures,
    /// How much the speakers sound alike. With `stop`, the client should end the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    convergence: Option<ConvergenceScore>,
}

/// The window after the append. Without a budget (0), `fill_ratio` and `tokens_until_eviction` are null.
#[derive(Serialize, utoipa::ToSchema)]
struct WindowFigures {
    tokens: i64,
    budget_tokens: i64,
    fill_ratio: Option<f64>,
    tokens_until_eviction: Option<i64>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Moved)]
struct EvictedExchanges {
    from_exchange: i64,
    through_exchange: i64,
    tokens: i64,
}

#[derive(Serialize, utoipa::ToSchema)]
struct SummaryFigures {
    /// The newest version; 0 if there is no summary yet. A client whose document has another version should fetch the
    /// document.
    version: i64,
    /// At most this many exchanges wait to be summarised. Ones that a rewind set aside, and preambles between them, are
    /// counted, too.
    pending_exchanges: i64,
    covers_through: i64,
}

/// Stores messages. Returns how the window changed.
#[utoipa::path(
    post, path = "/v1/agents/{id}/messages", operation_id = "append_messages", tag = "messages",
    params(AgentPath,
        ("format" = Option<MessageFormat>, Query, description = "The format of the messages; detected by default."),
        ("recapd-source" = Option<String>, Header, pattern = "^transcript$", description = "`transcript`: the messages are lines of a session's transcript, in order. A message that the proxy has already stored counts as a duplicate."),
        ("idempotency-key" = Option<String>, Header, pattern = "^[!#-~]{1,200}$", description = "Makes it safe to repeat an append of messages without ids: with the same key they are stored only once. A repeated request gets the same answer; if that is no longer remembered, an answer that counts duplicates.")),
    request_body(description = "Messages in order, in a format that `format` names: one message, an array, `{messages, usage}`, or one message on each line.", content((MessagesBody = "application/json", examples(("turn" = (summary = "A finished turn", value = json!([{"role": "user", "content": "Fix the parser"}, {"role": "assistant", "content": "Fixed: the loop ended too early."}]))), ("once" = (summary = "Messages that may be sent again", value = json!([{"id": "m-1", "kind": "user", "content": "Fix the parser"}]))))), (String = "application/x-ndjson"))),
    responses((status = 200, description = "The messages are stored. The answer says how the window changed.", body = AppendReply),
        answers::Always, answers::Conflicting, answers::Keyed, answers::WithBody),
)]
pub(super) async fn append(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(request.uri(), &["format"])?;
    let key = Key::read(request.headers(), &agent)?;
    let is_transcript = is_transcript(request.headers())?;
    let format = parameters.text("format").map(named_format).transpose()?;
    let (body_format, body) = body::read(&app, request).await?;
    let (messages_max, own_key) = (app.settings.batch_messages_max, key.clone());
    let ((batch, request_key), share) = body
        .parse(move |bytes| {
            let batch = message_body::messages(body_format, &bytes, format, messages_max)?;
            Ok((batch, own_key.map(|key| key.of_request(&bytes))))
        })
        .await?;
    let MessageBatch { mut messages, usage } = batch;
    if let Some(key) = &key {
        key.assign_ids(&mut messages);
    }
    let (ingestor, stored_key) = (app.parts.ingestor.clone(), request_key.clone());
    let conversations = app.parts.conversations.clone();
    let stored = app.see_through_result(async move {
        let stored = if is_transcript {
            conversations.append(&agent, messages).await.map(|outcome| (outcome, None))
        } else {
            ingestor.append_and_score(&agent, messages, usage, stored_key).await
        };
        drop(share);
        stored
    });
    let (outcome, convergence) = stored.await?.map_err(|error| match &key {
        Some(key) => key.problem(error),
        None => error.into(),
    })?;
    let keyed = key.zip(request_key);
    // A repetition stores nothing. If messages were stored, the agent has been deleted since the first request, perhaps by
    // another daemon, and the remembered answer is about the deleted agent.
    if outcome.accepted == 0
        && let Some((key, request_key)) = &keyed
        && let Some(answer) = app.answers.get(key, &request_key.digest, outcome.created_at)
    {
        return Ok(json(answer));
    }
    let appended = AppendReply { convergence, ..AppendReply::from(&outcome) };
    let answer = serde_json::to_vec(&appended).map_err(|_| Problem::internal())?;
    let answer = Bytes::from(answer);
    if let Some((key, request_key)) = keyed {
        app.answers.remember(key, request_key.digest, outcome.created_at, answer.clone());
    }
    Ok(json(answer))
}

fn is_transcript(headers: &HeaderMap) -> Result<bool, Problem> {
    let mut sources = headers.get_all(SOURCE).iter();
    match (sources.next(), sources.next()) {
        (None, _) => Ok(false),
        (Some(source), None) if source == TRANSCRIPT => Ok(true),
        _ => {
            let detail = format!("the value of header `{SOURCE}` is invalid");
            let cure = format!("send it once, as `{TRANSCRIPT}`, or leave it out");
            Err(Problem::new(INVALID_HEADER, detail).hint(cure))
        }
    }
}

fn json(answer: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], answer).into_response()
}

fn named_format(name: &str) -> Result<Format, Problem> {
    Format::from_name(name).ok_or_else(|| {
        let names = Format::ALL.map(Format::name).join(", ");
        let cure = format!("send one of {names}, or leave it out to have the format detected");
        invalid("format", &format!("can't be `{name}`"), &cure)
    })
}

impl From<&AppendOutcome> for AppendReply {
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    fn from(outcome: &AppendOutcome) -> Self {
        let (tokens, budget_tokens) = (outcome.window_tokens, outcome.budget.budget_tokens());
        let limited = (budget_tokens > 0).then_some(budget_tokens);
        let evictions = outcome.evictions.iter();
        Self {
            accepted: outcome.accepted,
            duplicates: outcome.duplicates,
            exchange: outcome.exchange,
            window: WindowFigures {
                tokens,
                budget_tokens,
                fill_ratio: limited.map(|limit| tokens as f64 / limit as f64),
                tokens_until_eviction: limited.map(|limit| (limit - tokens).max(0)),
            },
            returned: outcome.returned.map(|back| EvictedExchanges {
                from_exchange: back.from_exchange,
                through_exchange: back.through_exchange,
                tokens: back.tokens,
            }),
            session_ended: outcome.session_ended,
            evicted: evictions
                .map(|eviction| EvictedExchanges {
                    from_exchange: eviction.from_exchange,
                    through_exchange: eviction.through_exchange,
                    tokens: eviction.tokens,
                })
                .collect(),
            summary: SummaryFigures {
                version: outcome.version,
                pending_exchanges: outcome.first_exchange - 1 - outcome.summarized_through,
                covers_through: outcome.summarized_through,
            },
            convergence: None,
        }
    }
}
