//! `/v1/agents/{id}/notes`: reads and writes an agent's notes.

use axum::{
    Json,
    extract::{FromRequestParts, Path, Request, State},
    http::{StatusCode, Uri, request::Parts},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::agents::existing_agent;
use crate::http::{
    SharedApp,
    openapi::{answers, parameters::AgentPath, values::Switch},
    request::{
        body,
        extract::{Agent, Parameters, agent_id},
    },
    response::problem::{INVALID_BODY, INVALID_NOTE, Problem},
};
use recapd_core::domain::{
    agent::AgentId,
    note::{NOTES_MAX, NoteFault, NoteName},
    number::i64_or_max,
};
use recapd_engine::ingest::{self, NoteEntry, NoteRequest, NotesReply, WrittenNotesReply};
use recapd_store::{NoteQuery, StoreError};

const EXAMPLE: &str =
    r#"send an object such as {"changes": [{"name": "plan.md", "text": "1. Find the cause"}]}"#;

const TEXT_EXAMPLE: &str = r#"send an object such as {"text": "1. Find the cause"}"#;

/// The agent and the note in a path. A slash in the note's name is written as `%2F`.
pub(super) struct AgentNote(AgentId, NoteName);

impl<S: Send + Sync> FromRequestParts<S> for AgentNote {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((id, name)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::new(INVALID_NOTE, rejection.body_text()))?;
        let name = name.parse().map_err(|fault: NoteFault| Problem::from(StoreError::Note(fault)))?;
        Ok(Self(agent_id(&id)?, name))
    }
}

/// A note with its text and its versions.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Note)]
pub(super) struct NoteReply {
    agent_id: AgentId,
    #[serde(flatten)]
    note: NoteEntry,
    /// The note's versions, newest first, at most 100.
    versions: Vec<NoteEntry>,
}

/// The body of a request to change notes.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NotesBody)]
struct NotesRequest {
    #[schema(min_items = 1, max_items = 200)]
    changes: Vec<NoteRequest>,
}

/// The body of a request to write a note.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NoteBody)]
struct NoteTextRequest {
    /// The whole text. With `append`, the text to add. A note has at most 64 KiB.
    text: String,
    /// If true, adds the text to the end of the note.
    #[serde(default)]
    append: bool,
    /// The version that this one replaces; 0 if the note must not exist yet.
    #[serde(default)]
    replaces: Option<i64>,
}

/// Lists an agent's notes.
#[utoipa::path(
    get, path = "/v1/agents/{id}/notes", operation_id = "list_notes", tag = "notes",
    params(AgentPath,
        ("texts" = Option<Switch>, Query, description = "Includes the notes' texts.")),
    responses((status = 200, description = "The notes, ordered by name.", body = NotesReply),
        answers::OfAgent),
)]
pub(super) async fn list(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
) -> Result<Json<NotesReply>, Problem> {
    let texts = Parameters::read(&uri, &["texts"])?.flag("texts")?;
    Ok(Json(ingest::notes(app.parts.store.as_ref(), &agent, texts).await?))
}

/// Writes, extends and deletes notes: all of them, or none if one fails.
#[utoipa::path(
    post, path = "/v1/agents/{id}/notes", operation_id = "change_notes", tag = "notes",
    params(AgentPath),
    request_body(content = NotesRequest, example = json!({"changes": [{"name": "plan.md", "text": "1. Find the cause"}]})),
    responses((status = 200, description = "The versions that were written.", body = WrittenNotesReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn change(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    request: Request,
) -> Result<Json<WrittenNotesReply>, Problem> {
    let NotesRequest { changes } = body(&app, request, EXAMPLE).await?;
    if !(1..=NOTES_MAX).contains(&i64_or_max(changes.len())) {
        let detail = format!("`changes` has {} entries; 1 to {NOTES_MAX} are allowed", changes.len());
        return Err(Problem::new(INVALID_BODY, detail).hint(EXAMPLE));
    }
    Ok(Json(write(&app, agent, changes).await?))
}

/// Reads a note, or one version of it.
#[utoipa::path(
    get, path = "/v1/agents/{id}/notes/{name}", operation_id = "read_note", tag = "notes",
    params(AgentPath,
        ("name" = NoteName, Path, description = "The note's name, each slash in it written as `%2F`."),
        ("version" = Option<i64>, Query, minimum = 1, description = "An earlier version.")),
    responses((status = 200, description = "The note.", body = NoteReply),
        answers::OfAgent),
)]
pub(super) async fn read(
    State(app): State<SharedApp>,
    AgentNote(agent, name): AgentNote,
    uri: Uri,
) -> Result<Json<NoteReply>, Problem> {
    let version = Parameters::read(&uri, &["version"])?.integer("version", 1..=i64::MAX)?;
    existing_agent(&app, &agent).await?;
    let query = NoteQuery { versions_of: Some(name.clone()), texts: true, ..NoteQuery::default() };
    let found = app.parts.store.notes(&agent, &query).await?;
    let requested = match version {
        Some(version) => found.iter().find(|note| note.version == version),
        None => found.first().filter(|note| !note.deleted),
    };
    let note = requested.cloned().ok_or(StoreError::UnknownNote(name))?;
    Ok(Json(NoteReply {
        agent_id: agent,
        note: NoteEntry::new(note, true),
        versions: found.into_iter().map(|note| NoteEntry::new(note, false)).collect(),
    }))
}

/// Writes a note, or adds to it.
#[utoipa::path(
    put, path = "/v1/agents/{id}/notes/{name}", operation_id = "write_note", tag = "notes",
    params(AgentPath,
        ("name" = NoteName, Path, description = "The note's name, each slash in it written as `%2F`.")),
    request_body(content = NoteTextRequest, example = json!({"text": "1. Find the cause", "append": false})),
    responses((status = 200, description = "The version that was written.", body = WrittenNotesReply),
        answers::OfAgent, answers::Conflicting, answers::WithBody),
)]
pub(super) async fn put(
    State(app): State<SharedApp>,
    AgentNote(agent, name): AgentNote,
    request: Request,
) -> Result<Json<WrittenNotesReply>, Problem> {
    let NoteTextRequest { text, append, replaces } = body(&app, request, TEXT_EXAMPLE).await?;
    let change = NoteRequest { name, text: Some(text), append, replaces };
    Ok(Json(write(&app, agent, vec![change]).await?))
}

/// Deletes a note. Its versions stay in the archive, as messages do. A rewind to before the deletion restores the note.
#[utoipa::path(
    delete, path = "/v1/agents/{id}/notes/{name}", operation_id = "delete_note", tag = "notes",
    params(AgentPath,
        ("name" = NoteName, Path, description = "The note's name, each slash in it written as `%2F`."),
        ("replaces" = Option<i64>, Query, minimum = 1, description = "Deletes only if this is the newest version. By default, deletes whatever version is the newest.")),
    responses((status = 204, description = "The note is deleted."),
        answers::OfAgent, answers::Conflicting),
)]
pub(super) async fn delete(
    State(app): State<SharedApp>,
    AgentNote(agent, name): AgentNote,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let change = NoteRequest {
        name,
        text: None,
        append: false,
        replaces: Parameters::read(&uri, &["replaces"])?.integer("replaces", 1..=i64::MAX)?,
    };
    write(&app, agent, vec![change]).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads a body with texts of notes. It may be longer than the bodies of other requests.
async fn body<T: DeserializeOwned>(
    app: &SharedApp,
    request: Request,
    example: &'static str,
) -> Result<T, Problem> {
    Parameters::read(request.uri(), &[])?;
    let (_, body) = body::read(app, request).await?;
    let read = serde_json::from_slice(&body.bytes);
    read.map_err(|error| Problem::new(INVALID_BODY, error.to_string()).hint(example))
}

async fn write(
    app: &SharedApp,
    agent: AgentId,
    changes: Vec<NoteRequest>,
) -> Result<WrittenNotesReply, Problem> {
    let ingestor = app.parts.ingestor.clone();
    app.see_through(async move { ingestor.write_notes(&agent, &changes).await }).await
}
