//! From transcripts to the daemon: gathering puts what is new into the spool, draining sends what waits there.
//!
//! ```text
//! lock ─► lines from the cursor on ─► segment written ─► cursor moved ─► unlock      lock ─► segment sent ─► removed
//! ```
//!
//! Killed between two of these steps a hook leaves something to be done twice, which the messages' ids make harmless,
//! and nothing to be done never.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use super::{
    Host, Input,
    daemon::{Daemon, Unsent},
    delta::{Cursor, Transcript, id, spooled},
    folder::{AgentFolder, files, hash, read_json, replace_json},
    spool::{Segment, Spool},
};
use crate::domain::{agent::AgentId, message::Format, text::cut, time::Timestamp};

/// At most so many transcripts of other sessions are looked at for what came after their last hook.
const STRAGGLERS_MAX: usize = 32;
/// The longest reason that is kept, in characters.
const REASON_CHARS_MAX: usize = 200;
/// A request has at most so many bytes of messages, if more than one.
const REQUEST_BYTES_MAX: usize = 2 << 20;

/// What happened at a point of a conversation, beside what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The model's context was emptied.
    Clear,
    /// The turn broke off.
    Interrupted,
}

/// What is known of the last gathering.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Gathered {
    pub(super) agent: AgentId,
    /// A hash of the session that the agent worked in last.
    pub(super) session: String,
}

/// What is known of what was sent.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sent {
    /// When the daemon last took something.
    pub(super) last_push_at: Option<Timestamp>,
    /// Messages that the daemon didn't take and never will.
    pub(super) refused: u64,
    /// Why something wasn't taken, if that was the last thing to happen, or it was refused.
    pub(super) last_error: Option<String>,
}

/// Puts what is new in transcripts into the spool.
pub(super) struct Gathering<'a> {
    pub(super) folder: &'a AgentFolder,
    pub(super) agent: &'a AgentId,
    pub(super) host: Host,
    /// Until when it may be at it.
    pub(super) deadline: Instant,
}

impl Gathering<'_> {
    /// Gathers what other sessions left behind, then what is new in this one, then `mark`.
    pub(super) fn gather(&self, input: &Input, mark: Option<Mark>) -> io::Result<()> {
        let Some(_lock) = self.folder.lock("gather.lock", self.deadline)? else {
            return Ok(());
        };
        let spool = Spool::new(self.folder.spool());
        let own = input.transcript.as_ref().map(|path| {
            let file = self.cursor_file(path);
            let cursor =
                read_json(&file).unwrap_or_else(|| Cursor::new(path, self.host.format(), &input.session));
            (file, cursor)
        });
        let own_file = own.as_ref().map(|(file, _)| file.clone());
        for (file, cursor) in self.stragglers(own_file.as_ref()) {
            // A transcript that can't be read has nothing for anybody.
            self.take(&spool, &file, cursor).ok();
        }
        let gathered = Gathered {
            agent: self.agent.clone(),
            session: hash(&[input.session.as_bytes()]),
        };
        replace_json(&self.folder.gathered(), &gathered)?;
        let Some((file, cursor)) = own else {
            return Ok(());
        };
        match (self.take(&spool, &file, cursor)?, mark) {
            (Some(offset), Some(mark)) if offset > 0 => spool.add(&line(mark, input, offset)).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Moves what is new in one transcript. Tells how far it reaches; none if there is more than there was time or room
    /// for.
    fn take(&self, spool: &Spool, file: &Path, cursor: Cursor) -> io::Result<Option<u64>> {
        let mut transcript = Transcript::open(cursor)?;
        while let Some(lines) = transcript.next_block()? {
            if !spool.add(&lines)? {
                return Ok(None);
            }
            replace_json(file, &transcript.cursor)?;
            if self.deadline <= Instant::now() {
                return Ok(None);
            }
        }
        Ok(Some(transcript.cursor.offset))
    }

    /// Other sessions' cursors behind which something stands: hosts write transcripts behind their hooks' backs.
    fn stragglers(&self, own: Option<&PathBuf>) -> Vec<(PathBuf, Cursor)> {
        let others = files(&self.folder.cursors()).into_iter();
        let others = others.filter(|file| Some(file) != own);
        let cursors = others.filter_map(|file| Some((file.clone(), read_json::<Cursor>(&file)?)));
        let behind = |cursor: &Cursor| {
            let length = cursor.transcript.metadata().map(|of| of.len());
            length.is_ok_and(|length| length > cursor.offset)
        };
        cursors
            .filter(|(_, cursor)| behind(cursor))
            .take(STRAGGLERS_MAX)
            .collect()
    }

    fn cursor_file(&self, transcript: &Path) -> PathBuf {
        let name = hash(&[transcript.as_os_str().as_encoded_bytes()]);
        self.folder.cursors().join(format!("{name}.json"))
    }
}

/// A mark as a message: at the same place of a session it is the same one.
fn line(mark: Mark, input: &Input, offset: u64) -> String {
    let kind = match mark {
        Mark::Clear => "clear",
        Mark::Interrupted => "interrupted",
    };
    let id = id(&[input.session.as_bytes(), kind.as_bytes(), &offset.to_be_bytes()]);
    spooled(Format::Native, &json!({ "kind": kind, "id": id }).to_string())
}

/// Sends what waits, until the daemon doesn't answer any more. If another hook is at it, it is left to that one.
pub(super) fn drain(
    folder: &AgentFolder,
    agent: &AgentId,
    daemon: &dyn Daemon,
    now: Timestamp,
) -> io::Result<()> {
    let Some(_lock) = folder.lock("send.lock", Instant::now())? else {
        return Ok(());
    };
    let mut sent: Sent = read_json(&folder.sent()).unwrap_or_default();
    let mut is_told = false;
    for path in Spool::new(folder.spool()).segments() {
        let segment = Segment::read(path)?;
        let done = send(segment.lines(), agent, daemon, &mut sent);
        let is_whole = done == segment.lines().len();
        if done > 0 {
            is_told = true;
            segment.sent(done)?;
        }
        if !is_whole {
            break;
        }
    }
    if is_told {
        sent.last_push_at = Some(now);
    }
    replace_json(&folder.sent(), &sent)
}

/// Sends messages in order and tells how many are done with. When the daemon refuses some together, they are sent in
/// ever smaller pieces, until the one is found that it refuses alone; that one is passed over.
fn send(lines: &[(String, String)], agent: &AgentId, daemon: &dyn Daemon, sent: &mut Sent) -> usize {
    let (mut done, mut most) = (0, lines.len());
    while let Some(rest) = lines.get(done..).filter(|rest| !rest.is_empty()) {
        let (format, body, count) = request(rest, most.max(1));
        match daemon.append(agent, format, body) {
            Ok(()) => {
                sent.last_error = sent.last_error.take().filter(|_| sent.refused > 0);
                done += count;
                most = most.saturating_mul(2);
            }
            Err(Unsent::Refused(reason)) if count == 1 => {
                sent.refused += 1;
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                done += 1;
            }
            Err(Unsent::Refused(_)) => most = count / 2,
            Err(Unsent::Away(reason)) => {
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                break;
            }
        }
    }
    done
}

/// At most `most` of the first messages that are written alike: their format, a body, and how many they are.
fn request(lines: &[(String, String)], most: usize) -> (&str, String, usize) {
    let format = lines.first().map_or("", |(format, _)| format);
    let (mut body, mut count) = (String::new(), 0);
    for (_, json) in lines.iter().take(most).take_while(|(of, _)| of == format) {
        if count > 0 && body.len() + json.len() > REQUEST_BYTES_MAX {
            break;
        }
        body.push_str(json);
        body.push('\n');
        count += 1;
    }
    (format, body, count)
}

#[cfg(test)]
mod tests;
