//! Brings transcripts to the daemon: gathering puts new messages into the spool, and draining sends them.
//!
//! ```text
//! lock ─► lines from the cursor on ─► segment written ─► cursor moved ─► unlock      lock ─► segment sent ─► removed
//! ```
//!
//! A mark is stored with its position in the transcript before anything is read. The hook whose cursor reaches that
//! position puts the mark into the spool.
//!
//! If a hook is killed between two of these steps, some work is done twice, but nothing is lost. The ids of messages
//! make repetitions harmless.

mod answer;
mod drain;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use super::{
    Host, Input,
    agent::{SessionOwner, SessionProject},
    delta::{Cursor, Transcript, id, spool_line},
    files::{files, read_json, replace_json},
    folder::AgentFolder,
    rollout::{self, Original},
    spool::Spool,
};
pub(super) use drain::{DrainEnd, SendState, drain, gather_and_drain};
use recapd_core::{
    domain::{agent::AgentId, message::Format},
    hash::short_hash,
};

/// Searches at most this many transcripts of other sessions for messages that came after their last hook.
const STRAGGLERS_MAX: usize = 32;

/// A point in a conversation that isn't a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SessionMark {
    /// The model's context was emptied.
    Clear,
    /// The session ended. It may be resumed.
    End,
    /// The turn ended in an error.
    Interrupted,
}

impl SessionMark {
    fn kind(self) -> &'static str {
        match self {
            Self::Clear | Self::End => "clear",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the name in ids and file names.
    fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            mark => mark.kind(),
        }
    }
}

/// A mark that waits until the transcript is read up to its position.
#[derive(Debug, Serialize, Deserialize)]
struct WaitingMark {
    mark: SessionMark,
    /// The length of the transcript in bytes when the mark was set.
    at: u64,
}

/// What hooks record about an agent when they gather its messages.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GatherState {
    pub(super) agent: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<SessionProject>,
    /// A hash of the session in which the agent last worked.
    pub(super) session: String,
}

/// Puts new messages from transcripts into the spool.
pub(super) struct Gatherer<'a> {
    pub(super) folder: &'a AgentFolder,
    pub(super) owner: &'a SessionOwner,
    /// The folder of the project's former agent, which may have read the beginning of the session.
    pub(super) former: Option<AgentFolder>,
    pub(super) host: Host,
    pub(super) deadline: Instant,
}

impl Gatherer<'_> {
    /// Gathers the rest of other sessions, then the new messages of this session, then `mark`.
    pub(super) fn gather(&self, input: &Input, mark: Option<SessionMark>) -> io::Result<()> {
        // Sub-agents' messages aren't stored, but Codex calls hooks for sub-agents, too.
        let transcript = input
            .transcript
            .as_deref()
            .filter(|path| self.host != Host::Codex || !rollout::is_of_subagent(path));
        if let (Some(mark), Some(transcript)) = (mark, transcript) {
            self.set_mark(mark, &input.session, transcript)?;
        }
        let transcript_cursor = transcript.map(|path| {
            let new = Cursor::new(path, self.host.format(), &input.session);
            (self.cursor_file(path), new)
        });
        if let Some((file, new)) = transcript_cursor.as_ref().filter(|(file, _)| !file.exists()) {
            // If this hook doesn't get the lock, a hook of another session reads the transcript from this cursor.
            replace_json(file, &self.taken_over(file).unwrap_or_else(|| new.clone()))?;
        }
        let Some(_lock) = self.folder.lock("gather.lock", self.deadline)? else {
            return Ok(());
        };
        self.folder.unsettle();
        let spool = Spool::new(self.folder.spool());
        let current_file = transcript_cursor.as_ref().map(|(file, _)| file.clone());
        self.take_stragglers(&spool, current_file.as_ref());
        let gathered = GatherState {
            agent: self.owner.agent.clone(),
            project: self.owner.project.clone(),
            session: short_hash(&[input.session.as_bytes()]),
        };
        replace_json(&self.folder.gathered_file(), &gathered)?;
        let Some((file, new)) = transcript_cursor else {
            return Ok(());
        };
        self.take(&spool, &file, read_json(&file).unwrap_or(new))
    }

    /// True if the session's transcript wasn't gathered up to `length` bytes.
    pub(super) fn is_short_of(&self, length: u64, input: &Input) -> bool {
        let cursor = input.transcript.as_ref().and_then(|path| self.cursor(path));
        cursor.is_some_and(|cursor| cursor.seen() < length)
    }

    /// True if the unread part of the session's transcript lacks the turn's last answer, which the input names.
    pub(super) fn lacks_answer(&self, input: &Input) -> bool {
        let (Some(transcript), Some(answer)) = (&input.transcript, &input.last_answer) else {
            return false;
        };
        let offset = self.cursor(transcript).map_or(0, |cursor| cursor.offset);
        !answer::is_written(transcript, offset, answer)
    }

    /// Gathers the rest of all sessions, unless another hook is gathering for the agent.
    pub(super) fn gather_left(&self) -> io::Result<()> {
        let lock = self.folder.lock("gather.lock", Instant::now())?;
        if lock.is_some() {
            self.take_stragglers(&Spool::new(self.folder.spool()), None);
        }
        Ok(())
    }

    /// Takes over the cursor of a session whose transcript the former agent has read so far.
    fn taken_over(&self, file: &Path) -> Option<Cursor> {
        let former_file = self.former.as_ref()?.cursors().join(file.file_name()?);
        let cursor = read_json(&former_file)?;
        // If the former agent kept this cursor, it would continue to read the session, too.
        fs::remove_file(former_file).ok()?;
        Some(cursor)
    }

    /// Records a mark that follows everything that is in the transcript now.
    fn set_mark(&self, mark: SessionMark, session: &str, transcript: &Path) -> io::Result<()> {
        let at = transcript.metadata().map_or(0, |metadata| metadata.len());
        let name = format!("{}-{}.json", short_hash(&[session.as_bytes()]), mark.name());
        replace_json(&self.folder.marks().join(name), &WaitingMark { mark, at })
    }

    /// Returns the waiting marks of a session, last first.
    fn marks(&self, session: &str) -> Vec<(PathBuf, WaitingMark)> {
        let files = files(&self.folder.marks()).into_iter();
        let mut marks: Vec<_> = files
            .filter(|file| is_mark_of(file, session))
            .filter_map(|file| Some((file.clone(), read_json::<WaitingMark>(&file)?)))
            .collect();
        marks.sort_by_key(|(_, waiting)| std::cmp::Reverse(waiting.at));
        marks
    }

    /// Moves new messages of one transcript to the spool, as far as time and room allow, but at least one segment.
    fn take(&self, spool: &Spool, file: &Path, cursor: Cursor) -> io::Result<()> {
        let (mut marks, session) = (self.marks(&cursor.session), cursor.session.clone());
        // Lines that were copied from another session are new to an agent that has this session alone. An agent that
        // sessions share has them from the other session.
        let is_per_session = self.owner.project.is_some();
        let mut transcript = Transcript::open(cursor, !is_per_session)?;
        if transcript.may_begin_as_copy() && !self.pass_copy(file, &mut transcript)? {
            return Ok(());
        }
        let (mut has_moved, mut half) = (false, transcript.cursor.half);
        loop {
            let until = marks.last().map_or(u64::MAX, |(_, waiting)| waiting.at);
            if let Some(lines) = transcript.next_block(until)? {
                if (has_moved && self.deadline <= Instant::now()) || !spool.add(&lines)? {
                    return Ok(());
                }
                replace_json(file, &transcript.cursor)?;
                (has_moved, half) = (true, transcript.cursor.half);
            } else if let Some((path, waiting)) = marks.pop() {
                let offset = transcript.cursor.offset;
                if offset > 0 && !spool.add(&line(waiting.mark, &session, offset))? {
                    return Ok(());
                }
                fs::remove_file(path)?;
            } else if transcript.cursor.half == half {
                return Ok(());
            } else {
                return replace_json(file, &transcript.cursor);
            }
        }
    }

    /// Skips the copy of another rollout with which this rollout begins, if the original was gathered. Returns false if
    /// the copy can't be skipped as a whole yet: time is up, or the original isn't gathered up to the end of the copy.
    fn pass_copy(&self, file: &Path, transcript: &mut Transcript) -> io::Result<bool> {
        let cursor = &mut transcript.cursor;
        if cursor.offset == 0 {
            cursor.original = self.original(&cursor.transcript);
        }
        let Some(mut original) = cursor.original.take() else {
            return Ok(true);
        };
        let compared = original.compare(&cursor.transcript, cursor.offset, self.deadline);
        let gathered = read_json::<Cursor>(&self.cursor_file(&original.rollout));
        let is_gathered = gathered.is_none_or(|cursor| original.offset <= cursor.offset);
        let Ok((offset, copy_ends)) = compared else {
            // The original can't be read any more. At worst its messages are stored a second time.
            if !is_gathered {
                transcript.pass_to(0)?;
            }
            return Ok(true);
        };
        let is_done = copy_ends && is_gathered;
        cursor.original = (!is_done).then_some(original);
        transcript.pass_to(offset)?;
        replace_json(file, &transcript.cursor)?;
        Ok(is_done)
    }

    /// Returns the rollout whose copy this one begins with, if that rollout was gathered for the same agent.
    fn original(&self, path: &Path) -> Option<Original> {
        let parent = rollout::parent(path)?;
        let cursors = files(&self.folder.cursors()).into_iter();
        cursors
            .filter_map(|file| read_json::<Cursor>(&file))
            .find(|cursor| cursor.is_of(&parent) && rollout::is_of(&cursor.transcript, &parent))
            .map(|cursor| Original { rollout: cursor.transcript, offset: 0 })
    }

    /// Moves messages after the cursors of other sessions to the spool while there is time: hosts continue to write
    /// transcripts after their hooks have run. An incomplete line is read again only once it has grown: some lines are
    /// never finished, and would keep other transcripts from being read.
    fn take_stragglers(&self, spool: &Spool, current_file: Option<&PathBuf>) {
        let cursor_files = files(&self.folder.cursors()).into_iter();
        let cursor_files = cursor_files.filter(|file| Some(file) != current_file);
        let in_time = cursor_files.take_while(|_| Instant::now() < self.deadline);
        let cursors = in_time.filter_map(|file| Some((file.clone(), read_json::<Cursor>(&file)?)));
        let marks = files(&self.folder.marks());
        // A mark without a transcript has no position, and must not keep other marks waiting.
        let has_unread = |cursor: &Cursor| {
            cursor.transcript.metadata().is_ok_and(|metadata| {
                metadata.is_file()
                    && (cursor.is_behind(metadata.len())
                        || marks.iter().any(|file| is_mark_of(file, &cursor.session)))
            })
        };
        let unread = cursors.filter(|(_, cursor)| has_unread(cursor));
        for (file, cursor) in unread.take(STRAGGLERS_MAX) {
            // An unreadable transcript doesn't stop the other ones.
            self.take(spool, &file, cursor).ok();
        }
    }

    fn cursor(&self, transcript: &Path) -> Option<Cursor> {
        read_json(&self.cursor_file(transcript))
    }

    fn cursor_file(&self, transcript: &Path) -> PathBuf {
        let name = short_hash(&[transcript.as_os_str().as_encoded_bytes()]);
        self.folder.cursors().join(format!("{name}.json"))
    }
}

fn is_mark_of(file: &Path, session: &str) -> bool {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(short_hash(&[session.as_bytes()]).as_bytes())
}

/// Formats a mark as a message. The same position in a session always gives the same id.
fn line(mark: SessionMark, session: &str, offset: u64) -> String {
    let name = mark.name().as_bytes();
    let id = id(&[session.as_bytes(), name, &offset.to_be_bytes()]);
    let mut message = json!({ "kind": mark.kind(), "id": id });
    if mark == SessionMark::End {
        message["data"] = json!({ "resumable": true });
    }
    spool_line(Format::Native, &message.to_string())
}

#[cfg(test)]
mod tests;
