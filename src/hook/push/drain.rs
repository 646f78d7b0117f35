//! Sending what waits in the spool.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    super::{
        Host,
        daemon::{Daemon, Unsent},
        folder::{AgentFolder, read_json, replace_json},
        spool::{Segment, Spool},
    },
    Gathered, Gathering,
};
use crate::domain::{agent::AgentId, text::cut, time::Timestamp};

/// The longest reason that is kept, in characters.
const REASON_CHARS_MAX: usize = 200;
/// A request has at most so many bytes of messages, if more than one.
const REQUEST_BYTES_MAX: usize = 2 << 20;
/// Requests of so many messages needn't be remembered as small.
const MANY: usize = 1_024;

/// What is known of what was sent.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct Sent {
    /// When the daemon last took something.
    pub(in super::super) last_push_at: Option<Timestamp>,
    /// Messages that the daemon didn't take and never will.
    pub(in super::super) refused: u64,
    /// Why something wasn't taken, if that was the last thing to happen, or it was refused.
    pub(in super::super) last_error: Option<String>,
    /// So many messages the daemon is asked to take at once, when it didn't answer in time for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    most: Option<usize>,
}

/// How far sending came.
struct Done {
    /// So many messages are done with.
    lines: usize,
    /// The daemon answered to the last, whatever it said.
    answers: bool,
}

/// Sends what waits, until the daemon takes no more of it. If another hook is at it, it is left to that one. Tells whether
/// the daemon answered, whatever it said.
pub(in super::super) fn drain(
    folder: &AgentFolder,
    agent: &AgentId,
    daemon: &dyn Daemon,
    now: Timestamp,
) -> io::Result<bool> {
    let Some(_lock) = folder.lock("send.lock", Instant::now())? else {
        return Ok(true);
    };
    let mut sent: Sent = read_json(&folder.sent()).unwrap_or_default();
    let mut answers = true;
    for path in Spool::new(folder.spool()).segments() {
        let segment = match Segment::read(path) {
            Ok(segment) => segment,
            Err(error) => {
                sent.last_error = Some(format!("what waited can't be read, and was put aside: {error}"));
                continue;
            }
        };
        let done = send(segment.lines(), agent, daemon, &mut sent);
        answers = done.answers;
        let is_all = done.lines == segment.lines().len();
        if done.lines > 0 {
            sent.last_push_at = Some(now);
        }
        if done.lines > 0 || is_all {
            segment.sent(done.lines)?;
        }
        if !is_all {
            break;
        }
    }
    replace_json(&folder.sent(), &sent)?;
    Ok(answers)
}

/// Gathers and sends what is left of other agents' sessions, until `deadline` or the daemon doesn't answer any more: they
/// may never have another hook.
pub(in super::super) fn visit(
    folders: &[AgentFolder],
    daemon: &dyn Daemon,
    host: Host,
    deadline: Instant,
    now: Timestamp,
) {
    for folder in folders {
        let Some(Gathered { agent, .. }) = read_json(&folder.gathered()) else {
            continue;
        };
        let gathering = Gathering {
            folder,
            agent: &agent,
            host,
            deadline,
        };
        // What can't be gathered now is still in the transcript.
        gathering.gather_left().ok();
        let is_over = || deadline <= Instant::now();
        let waits = !Spool::new(folder.spool()).segments().is_empty();
        if is_over() || (waits && !drain(folder, &agent, daemon, now).unwrap_or(true)) {
            return;
        }
    }
}

/// Sends messages in order and tells how far it came. When the daemon refuses some together, they are sent in
/// ever smaller pieces, until the one is found that it refuses alone; that one is passed over. When it doesn't answer in
/// time, it is sent less the next time.
fn send(lines: &[(String, String)], agent: &AgentId, daemon: &dyn Daemon, sent: &mut Sent) -> Done {
    let (mut done, mut most) = (0, sent.most.unwrap_or(lines.len()));
    let (mut is_late, mut answers) = (false, true);
    while let Some(rest) = lines.get(done..).filter(|rest| !rest.is_empty()) {
        let (format, body, count) = request(rest, most.max(1));
        match daemon.append(agent, format, body) {
            Ok(()) => {
                sent.last_error = sent.last_error.take().filter(|_| sent.refused > 0);
                done += count;
                // Nearing what takes too long, it goes slowly.
                most = sent.most.map_or(most.saturating_mul(2), |_| most + 1);
            }
            Err(Unsent::Refused(reason)) if count == 1 => {
                sent.refused += 1;
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                done += 1;
            }
            Err(Unsent::Refused(_)) => most = count / 2,
            Err(Unsent::Late(reason)) => {
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                (most, is_late, answers) = (count / 2, true, false);
                break;
            }
            Err(Unsent::Declined(reason)) => {
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                break;
            }
            Err(Unsent::Away(reason)) => {
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                answers = false;
                break;
            }
        }
    }
    sent.most = if is_late {
        Some(most)
    } else {
        sent.most.map(|most| most.max(1) * 2).filter(|most| *most < MANY)
    };
    Done { lines: done, answers }
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
