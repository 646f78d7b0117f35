//! Writes notes. HTTP, MCP and the command line share the replies.

use serde::{Deserialize, Serialize};

use super::{AppendSource, Ingestor};
use recapd_core::domain::{
    agent::AgentId,
    lineage::Step,
    note::{NOTES_MAX, Note, NoteChange, NoteName, edit::NoteEdit},
    time::Timestamp,
};
use recapd_store::{NoteQuery, StepOutcome, Store, StoreError, StoreResult};

/// The most tries of an addition. It is retried if the note has changed between the read and the write.
const TRIES_MAX: usize = 5;

/// A change of one note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NoteEdit)]
pub struct NoteRequest {
    pub name: NoteName,
    /// The whole text, or with `append` what is added to it; null deletes the note.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required)]
    pub text: Option<String>,
    /// True adds the text to the end; a note that isn't there begins with it.
    #[serde(default)]
    pub append: bool,
    /// The version that the change must replace; 0 if the note must not exist yet. If absent, any version is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<i64>,
}

impl NoteRequest {
    fn edit(&self) -> NoteEdit {
        match &self.text {
            Some(text) if self.append => NoteEdit::Append(text.clone()),
            Some(text) => NoteEdit::Write(text.clone()),
            None => NoteEdit::Delete,
        }
    }
}

/// A note, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = NoteEntry)]
pub struct NoteEntry {
    pub name: NoteName,
    /// The number of the message that wrote it.
    pub version: i64,
    pub written_at: Timestamp,
    /// When its first version was written.
    pub created_at: Timestamp,
    pub bytes: i64,
    /// Its first line.
    pub title: String,
    /// True for a version that deleted the note.
    #[serde(default)]
    pub deleted: bool,
    /// The text, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl From<NoteEntry> for Note {
    fn from(entry: NoteEntry) -> Self {
        Self {
            name: entry.name,
            version: entry.version,
            exchange: 0,
            written_at: entry.written_at,
            created_at: entry.created_at,
            bytes: entry.bytes,
            title: entry.title,
            deleted: entry.deleted,
            text: entry.text.unwrap_or_default(),
        }
    }
}

impl From<NoteChange> for NoteRequest {
    fn from(change: NoteChange) -> Self {
        Self { name: change.name, text: change.text, append: false, replaces: change.replaces }
    }
}

impl NoteEntry {
    pub fn new(note: Note, has_text: bool) -> Self {
        Self {
            name: note.name,
            version: note.version,
            written_at: note.written_at,
            created_at: note.created_at,
            bytes: note.bytes,
            title: note.title,
            deleted: note.deleted,
            text: has_text.then_some(note.text),
        }
    }
}

/// An agent's notes, in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Notes)]
pub struct NotesReply {
    pub agent_id: AgentId,
    pub notes: Vec<NoteEntry>,
    /// The most notes of an agent.
    pub notes_max: i64,
}

/// The version that a change of a note wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = WrittenNote)]
pub struct WrittenNote {
    pub name: NoteName,
    pub version: i64,
    pub bytes: i64,
    pub deleted: bool,
}

/// The result of changes of notes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = WrittenNotes)]
pub struct WrittenNotesReply {
    pub agent_id: AgentId,
    pub notes: Vec<WrittenNote>,
}

/// Returns all notes of an agent, with their texts if they are wanted.
///
/// # Errors
/// [`StoreError::UnknownAgent`], or another error of the store.
pub async fn notes(store: &dyn Store, agent: &AgentId, texts: bool) -> StoreResult<NotesReply> {
    check_agent(store, agent).await?;
    let query = NoteQuery { texts, ..NoteQuery::default() };
    let notes = store.notes(agent, &query).await?;
    Ok(NotesReply {
        agent_id: agent.clone(),
        notes: notes.into_iter().map(|note| NoteEntry::new(note, texts)).collect(),
        notes_max: NOTES_MAX,
    })
}

async fn check_agent(store: &dyn Store, agent: &AgentId) -> StoreResult<()> {
    match store.agent(agent).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::UnknownAgent(agent.clone())),
    }
}

impl Ingestor {
    /// Writes versions of notes, all or none. An addition is added to the text that the note has when it is stored.
    ///
    /// # Errors
    /// [`StoreError::UnknownAgent`], [`StoreError::UnknownNote`], [`StoreError::NoteChanged`], [`StoreError::NotesFull`],
    /// [`StoreError::Note`], or another error of the store. Then nothing is stored.
    pub async fn write_notes(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> StoreResult<WrittenNotesReply> {
        check_agent(self.store.as_ref(), agent).await?;
        for _ in 1..TRIES_MAX {
            match self.try_to_write(agent, requests).await {
                // Somebody else wrote the note between the read and the addition.
                Err(StoreError::NoteChanged { name, .. }) if is_only_added_to(requests, &name) => {}
                tried => return tried,
            }
        }
        self.try_to_write(agent, requests).await
    }

    async fn try_to_write(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> StoreResult<WrittenNotesReply> {
        let mut changes = Vec::with_capacity(requests.len());
        for request in requests {
            let edit = request.edit();
            let current = match edit {
                NoteEdit::Append(_) => self.current_note(agent, &request.name).await?,
                NoteEdit::Write(_) | NoteEdit::Delete => None,
            };
            changes.push(edit.change(&request.name, current.as_ref(), request.replaces)?);
        }
        let now = self.clock.now();
        let messages = changes.iter().map(|change| Step::Note(change.clone()).message(now));
        let request = self.count_request(agent, messages.collect(), false).await?;
        let outcome = self.append_counted(request, AppendSource::Steps).await?;
        let versions = outcome.steps.iter().filter_map(|step| match step {
            StepOutcome::Noted { version } => Some(*version),
            _ => None,
        });
        Ok(WrittenNotesReply {
            agent_id: agent.clone(),
            notes: changes.iter().zip(versions).map(written_note).collect(),
        })
    }

    /// Returns a note with its text; `None` if it doesn't exist.
    async fn current_note(&self, agent: &AgentId, name: &NoteName) -> StoreResult<Option<Note>> {
        let query =
            NoteQuery { versions_of: Some(name.clone()), latest: true, texts: true, ..NoteQuery::default() };
        let latest = self.store.notes(agent, &query).await?.pop();
        Ok(latest.filter(|note| !note.deleted))
    }
}

fn written_note((change, version): (&NoteChange, i64)) -> WrittenNote {
    WrittenNote { name: change.name.clone(), version, bytes: change.bytes(), deleted: change.text.is_none() }
}

/// Returns true if all requests for the note add to it, whatever its version.
fn is_only_added_to(requests: &[NoteRequest], name: &NoteName) -> bool {
    let mut note_requests = requests.iter().filter(|request| request.name == *name);
    note_requests.all(|request| request.append && request.replaces.is_none())
}
