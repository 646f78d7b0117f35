//! `/sessions/{id}/memory`: the three routes of motorhead, a similar server that is no longer developed, so that its
//! clients can use recapd unchanged.
//!
//! A session is an agent. Answers have motorhead's shapes: messages with the newest first, `Human` and `AI` for roles, and
//! `{"status": "Ok"}`. There are differences: the window is counted in tokens, and a session is deleted for good, as by
//! `DELETE /v1/agents/{id}`. A context is a system message. The newest one in the window is shown. Earlier ones stay in the
//! history, since messages never change, and are shown again when the later ones have left the window.

use axum::{
    Json,
    extract::{Request, State},
    http::Uri,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{
    SharedApp,
    openapi::{answers, parameters::AgentPath},
    request::{
        body,
        extract::{Agent, Parameters},
        message_body,
    },
    response::problem::{Finding, INVALID_BODY, INVALID_MESSAGE, Problem, RequestPlace, TOO_MANY_MESSAGES},
};
use recapd_core::{
    domain::{
        agent::AgentId,
        exchange::PREAMBLE,
        fnv::fnv32,
        message::{Format, Kind, Message},
    },
    formats,
};
use recapd_store::{
    AgentRow, ExchangeQuery, StoreError, StoreResult, StoredMessage,
    page::{PAGE_BYTES_MAX, page},
};

/// The most exchanges of the window that are shown, the newest.
const EXCHANGES_MAX: i64 = 200;
/// The prefix of the id of a message that holds a session's context.
const CONTEXT_ID: &str = "motorhead-context";

/// The memory of a session.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = MotorheadMemory)]
pub(super) struct Memory {
    /// The window, newest first.
    messages: Vec<MemoryMessage>,
    /// The newest context in the window, and the summary.
    context: Option<String>,
    /// The summary's size in tokens.
    tokens: i64,
}

/// A message of motorhead.
#[derive(Deserialize, Serialize, utoipa::ToSchema)]
#[schema(as = MotorheadMessage)]
struct MemoryMessage {
    /// `Human`, `AI` or `System`; `user`, `assistant` and `system` are accepted, too.
    role: String,
    content: String,
}

/// Messages to remember. Unknown members are ignored, as by motorhead.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = MotorheadMessages)]
pub(super) struct MemoryRequest {
    /// Oldest first.
    messages: Vec<MemoryMessage>,
    /// A context from elsewhere. It replaces the last one in this interface; models get both, as system messages in order.
    context: Option<String>,
}

/// Confirms a request.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = MotorheadStatus)]
pub(super) struct MotorheadStatus {
    status: &'static str,
}

const OK: Json<MotorheadStatus> = Json(MotorheadStatus { status: "Ok" });

/// Shows the memory of a session. An unknown session's memory is empty.
#[utoipa::path(
    get, path = "/sessions/{id}/memory", operation_id = "motorhead_get", tag = "messages",
    params(AgentPath),
    responses((status = 200, description = "Window and summary.", body = Memory), answers::Always, answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<Memory>, Problem> {
    Parameters::read(&uri, &[])?;
    let Some(row) = app.parts.store.agent(&agent).await? else {
        return Ok(Json(Memory {
            messages: Vec::new(),
            context: None,
            tokens: 0,
        }));
    };
    let window = window(&app, &agent, &row).await?;
    let summary = app.parts.snapshots.get(&agent).await?;
    let summary = summary.map(|reading| reading.snapshot);
    let tokens = summary.as_ref().map_or(0, |snapshot| snapshot.tokens);
    let (sent, said): (Vec<_>, Vec<_>) = window.into_iter().partition(|stored| is_context(&stored.message));
    let sent = sent.last().map(|stored| stored.message.text());
    let told = summary.iter().map(|snapshot| snapshot.markdown.clone());
    let context: Vec<String> = sent
        .into_iter()
        .chain(told)
        .filter(|text| !text.is_empty())
        .collect();
    Ok(Json(Memory {
        messages: said.iter().rev().filter_map(shown).collect(),
        context: (!context.is_empty()).then(|| context.join("\n\n")),
        tokens,
    }))
}

/// Reads the messages of the window, oldest first.
async fn window(app: &SharedApp, agent: &AgentId, row: &AgentRow) -> StoreResult<Vec<StoredMessage>> {
    let ask = |from, through, limit| ExchangeQuery {
        from,
        through,
        limit,
        bytes_max: PAGE_BYTES_MAX,
    };
    let store = app.parts.store.as_ref();
    // The running session's preamble belongs to the window, too.
    let preamble = page(store, agent, ask(PREAMBLE, PREAMBLE, 1)).await?;
    let (first, last) = (row.ledger.first_exchange.max(1), row.ledger.last_exchange);
    let exchanges = page(store, agent, ask(first, last, EXCHANGES_MAX)).await?;
    let all = preamble.into_iter().chain(exchanges);
    Ok(all.flat_map(|paged| paged.stored.messages).collect())
}

fn is_context(message: &Message) -> bool {
    let id = message.client_id.as_deref();
    id.is_some_and(|id| id.starts_with(CONTEXT_ID))
}

fn shown(stored: &StoredMessage) -> Option<MemoryMessage> {
    let role = match stored.message.kind {
        Kind::User => "Human",
        Kind::Assistant => "AI",
        Kind::System => "System",
        _ => return None,
    };
    let content = stored.message.text();
    (!content.is_empty()).then(|| MemoryMessage {
        role: role.to_owned(),
        content,
    })
}

/// Stores messages.
#[utoipa::path(
    post, path = "/sessions/{id}/memory", operation_id = "motorhead_post", tag = "messages",
    params(AgentPath),
    request_body(content = MemoryRequest, example = json!({"messages": [{"role": "Human", "content": "ping"}, {"role": "AI", "content": "pong"}]})),
    responses((status = 200, description = "The messages are stored.", body = MotorheadStatus),
        answers::Always, answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn append(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<MotorheadStatus>, Problem> {
    Parameters::read(request.uri(), &[])?;
    let (_, body) = body::read(&app, request).await?;
    let messages_max = app.settings.batch_messages_max;
    let (mut messages, share) = body
        .parsed(move |bytes| read_messages(bytes, messages_max))
        .await?;
    renew_context(&app, &agent, &mut messages).await?;
    if !messages.is_empty() {
        let ingestor = app.parts.ingestor.clone();
        let stored = app.see_through(async move {
            let stored = ingestor.append(&agent, messages).await;
            drop(share);
            stored
        });
        stored.await?;
    }
    Ok(OK)
}

/// Makes a message of a context. The id is in the payload, since only that is read again.
fn context_of(id: &str, text: &str) -> Result<Message, Problem> {
    native(None, &json!({ "id": id, "kind": "system", "content": text }))
}

/// Gives a context at the front of `messages` an id of its own, or removes it if it is the session's current one.
async fn renew_context(app: &SharedApp, agent: &AgentId, messages: &mut Vec<Message>) -> Result<(), Problem> {
    let Some(context) = messages.first_mut().filter(|first| is_context(first)) else {
        return Ok(());
    };
    let row = app.parts.store.agent(agent).await?;
    let window = match &row {
        Some(row) => window(app, agent, row).await?,
        None => Vec::new(),
    };
    let text = context.text();
    let known = window.iter().rev().find(|stored| is_context(&stored.message));
    if known.is_some_and(|known| known.message.text() == text) {
        messages.remove(0);
    } else {
        let last = row.map_or(0, |row| row.ledger.last_seq);
        let id = format!("{CONTEXT_ID}-{last}-{:08x}", fnv32(text.bytes()));
        *context = context_of(&id, &text)?;
    }
    Ok(())
}

/// Reads the messages of a body, at most `messages_max`, after its context.
fn read_messages(body: Vec<u8>, messages_max: usize) -> Result<Vec<Message>, Problem> {
    message_body::check_values(&body)?;
    let given: MemoryRequest = serde_json::from_slice(&body).map_err(|error| {
        Problem::new(INVALID_BODY, error.to_string())
            .hint(r#"send `{"messages": [{"role": "Human", "content": "ping"}]}`"#)
    })?;
    drop(body);
    if given.messages.len() > messages_max {
        let detail = format!("more messages than one request may hold, {messages_max}");
        return Err(Problem::new(TOO_MANY_MESSAGES, detail).hint("send them in several requests, in order"));
    }
    messages(given)
}

/// Converts the messages of a request one by one, so that each text is freed once its message exists.
fn messages(given: MemoryRequest) -> Result<Vec<Message>, Problem> {
    let context = given.context.filter(|text| !text.is_empty());
    let context = context.map(|text| context_of(CONTEXT_ID, &text));
    let said = given.messages.into_iter().enumerate().map(|(number, said)| {
        let kind = kind(&said.role).ok_or_else(|| {
            wrong(
                Some(number),
                format!("role `{}` is unknown: give Human, AI or System", said.role),
            )
        })?;
        native(Some(number), &json!({ "kind": kind, "content": said.content }))
    });
    context.into_iter().chain(said).collect()
}

fn native(number: Option<usize>, message: &Value) -> Result<Message, Problem> {
    let message = formats::parse(Format::Native, &message.to_string());
    message.map_err(|error| wrong(number, error.to_string()))
}

/// Returns the kind for a role of motorhead's clients.
fn kind(role: &str) -> Option<&'static str> {
    match role.to_ascii_lowercase().as_str() {
        "human" | "user" => Some("user"),
        "ai" | "assistant" => Some("assistant"),
        "system" => Some("system"),
        _ => None,
    }
}

fn wrong(number: Option<usize>, detail: String) -> Problem {
    let pointer = number.map_or_else(|| "/context".to_owned(), |number| format!("/messages/{number}"));
    Problem::new(INVALID_MESSAGE, format!("{detail}; nothing was stored")).findings(vec![Finding {
        place: RequestPlace::Pointer(pointer),
        detail,
    }])
}

/// Deletes a session for good. Deleting an unknown session succeeds.
#[utoipa::path(
    delete, path = "/sessions/{id}/memory", operation_id = "motorhead_delete", tag = "messages",
    params(AgentPath),
    responses((status = 200, description = "The session is deleted.", body = MotorheadStatus),
        answers::Always, answers::OfAgent, answers::Conflicting),
)]
pub(super) async fn delete(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<MotorheadStatus>, Problem> {
    Parameters::read(&uri, &[])?;
    let ingestor = app.parts.ingestor.clone();
    let deleted = app.seen_through(async move { ingestor.delete(&agent).await });
    match deleted.await? {
        Ok(_) | Err(StoreError::UnknownAgent(_)) => Ok(OK),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(
            body in "(\\{|\\}|\\[|\\]|:|,|\"messages\"|\"context\"|\"role\"|\"content\"|\"Human\"|\"ai\"|\"x\"|null|[0-9]|\\PC){0,24}",
            roles in proptest::collection::vec("(Human|AI|System|user|ASSISTANT|\\PC{0,8})", 0..5),
            content in "\\PC{0,40}",
        ) {
            for text in [body, said(&roles, &content)] {
                let Ok(given) = serde_json::from_str::<MemoryRequest>(&text) else { continue };
                let context = given.context.iter().filter(|text| !text.is_empty()).count();
                let contents: Vec<String> = given.messages.iter().map(|said| said.content.clone()).collect();
                let Ok(messages) = messages(given) else { continue };
                prop_assert_eq!(messages.len(), contents.len() + context);
                for (message, content) in messages.iter().skip(context).zip(&contents) {
                    prop_assert_eq!(&message.text(), content);
                }
            }
        }
    }

    fn said(roles: &[String], content: &str) -> String {
        let messages: Vec<_> = roles
            .iter()
            .map(|role| json!({ "role": role, "content": content }))
            .collect();
        json!({ "messages": messages, "context": content }).to_string()
    }
}
