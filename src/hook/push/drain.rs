//! Sends the messages in the spool.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    super::{
        Host, SessionOwner,
        daemon::{Daemon, SendFailure},
        files::{read_json, replace_json},
        folder::{AgentFolder, SEND_LOCK},
        spool::{Segment, Spool},
    },
    GatherState, Gatherer,
};
use recapd_core::domain::{agent::AgentId, text::cut, time::Timestamp};

/// Longer error texts are cut.
const REASON_CHARS_MAX: usize = 200;
/// The most bytes in a request. A single message may be larger.
const REQUEST_BYTES_MAX: usize = 2 << 20;
const DAMAGED: &str = "some unsent messages are unreadable; they were moved aside";
/// Once the learned limit reaches this many messages, it is removed.
const MANY: usize = 1_024;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SendState {
    pub(crate) last_push_at: Option<Timestamp>,
    /// Messages that the daemon has refused for good.
    pub(crate) refused: u64,
    /// The last error. A success clears it, but not after a message was refused for good.
    pub(crate) last_error: Option<String>,
    /// True if the agent was put into its project, or the daemon refused that.
    #[serde(default)]
    joined: bool,
    /// The learned limit: at most this many messages per request, because the daemon didn't answer in time to more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    most: Option<usize>,
}

/// How sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainEnd {
    /// The daemon has everything that can be read.
    Sent,
    /// Another process is sending.
    Busy,
    /// The daemon accepts nothing of this agent now.
    Declined,
    /// The time was over, or the daemon is slow.
    OutOfTime,
    /// No daemon answers.
    Away,
}

impl DrainEnd {
    /// True if it makes sense to ask the daemon about other agents.
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, Self::Sent | Self::Busy | Self::Declined)
    }
}

struct DrainProgress {
    /// Messages sent or refused for good.
    lines: usize,
    end: DrainEnd,
}

/// Sends spooled messages until the daemon accepts no more. Does nothing while another process is sending.
pub(crate) fn drain(
    folder: &AgentFolder,
    owner: &SessionOwner,
    daemon: &dyn Daemon,
    now: Timestamp,
) -> io::Result<DrainEnd> {
    let Some(_lock) = folder.lock(SEND_LOCK, Instant::now())? else {
        return Ok(DrainEnd::Busy);
    };
    let mut sent: SendState = read_json(&folder.sent()).unwrap_or_default();
    let (mut end, mut unread) = (DrainEnd::Sent, None);
    for path in Spool::new(folder.spool()).segments() {
        let segment = match Segment::read(path) {
            Ok(segment) => segment,
            Err(error) => {
                // This segment is tried again later; the next segments are still sent.
                unread = Some(format!("unsent messages can't be read: {error}"));
                continue;
            }
        };
        let done = send(segment.lines(), &owner.agent, daemon, &mut sent);
        end = done.end;
        let is_all = done.lines == segment.lines().len();
        if done.lines > 0 {
            sent.last_push_at = Some(now);
        }
        if done.lines > 0 || is_all {
            if segment.is_damaged() {
                unread = Some(DAMAGED.to_owned());
            }
            segment.sent(done.lines)?;
        }
        if !is_all {
            break;
        }
    }
    if let Some(project) = &owner.project
        && end.is_answer()
        && !sent.joined
        && sent.last_push_at.is_some()
    {
        sent.joined = daemon.join(project, &owner.agent);
    }
    // A later success doesn't clear the error about an unreadable segment.
    sent.last_error = unread.or(sent.last_error);
    replace_json(&folder.sent(), &sent)?;
    Ok(end)
}

/// Gathers and sends what other agents' sessions haven't sent yet, because no hook of theirs may ever run again. Stops
/// at `deadline`, or when the daemon stops answering.
pub(crate) fn visit(
    folders: &[AgentFolder],
    daemon: &dyn Daemon,
    host: Host,
    deadline: Instant,
    now: Timestamp,
) {
    for folder in folders {
        if folder.is_settled() {
            continue;
        }
        let Some(GatherState { agent, project, .. }) = read_json(&folder.gathered()) else {
            continue;
        };
        let owner = SessionOwner { agent, project };
        let gathering = Gatherer {
            folder,
            owner: &owner,
            former: None,
            host,
            deadline,
        };
        // The transcript keeps whatever can't be gathered now.
        gathering.gather_left().ok();
        let is_over = || deadline <= Instant::now();
        let waits = || !Spool::new(folder.spool()).segments().is_empty();
        let drained = || drain(folder, &owner, daemon, now).unwrap_or(DrainEnd::Sent);
        if is_over() || (waits() && !drained().is_answer()) {
            return;
        }
        if !waits() {
            folder.settle(now);
        }
    }
}

/// Sends messages in order and returns the progress. If the daemon refuses several messages together, sends ever fewer
/// of them until the wrong message is found and skipped. If the daemon doesn't answer in time, the next request has
/// fewer messages.
fn send(
    lines: &[(String, String)],
    agent: &AgentId,
    daemon: &dyn Daemon,
    sent: &mut SendState,
) -> DrainProgress {
    let (mut done, mut most) = (0, sent.most.unwrap_or(lines.len()));
    let (mut is_late, mut end) = (false, DrainEnd::Sent);
    while let Some(rest) = lines.get(done..).filter(|rest| !rest.is_empty()) {
        let (format, body, count) = request(rest, most.max(1));
        match daemon.append(agent, format, body) {
            Ok(()) => {
                sent.last_error = sent.last_error.take().filter(|_| sent.refused > 0);
                done += count;
                // While a learned limit applies, each success adds one message; otherwise each success doubles the
                // size.
                most = sent.most.map_or(most.saturating_mul(2), |_| most + 1);
            }
            Err(SendFailure::Refused(reason)) if count == 1 => {
                sent.refused += 1;
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                done += 1;
            }
            Err(SendFailure::Refused(_)) => most = count / 2,
            Err(SendFailure::Late(reason)) => {
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                (most, is_late, end) = (count / 2, true, DrainEnd::OutOfTime);
                break;
            }
            Err(SendFailure::OutOfTime) => {
                end = DrainEnd::OutOfTime;
                break;
            }
            Err(SendFailure::Declined(reason)) => {
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                end = DrainEnd::Declined;
                break;
            }
            Err(SendFailure::Away(reason)) => {
                sent.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                end = DrainEnd::Away;
                break;
            }
        }
    }
    sent.most = if is_late {
        Some(most)
    } else {
        sent.most.map(|most| most.max(1) * 2).filter(|most| *most < MANY)
    };
    DrainProgress { lines: done, end }
}

/// Takes up to `most` leading messages that share a format. Returns the format, the request body and the number of
/// messages.
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
