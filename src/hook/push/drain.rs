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
/// Once the learned limit reaches this many messages, requests are no longer limited.
const LEARNED_LIMIT_MAX: usize = 1_024;

/// What hooks record about an agent when they send its messages.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SendState {
    pub(crate) last_push_at: Option<Timestamp>,
    /// Messages that the daemon has refused for good.
    pub(crate) refused: u64,
    /// The last error. A success clears it, unless a message was refused for good.
    pub(crate) last_error: Option<String>,
    /// True if the agent was put into its project, or the daemon refused to put it there.
    #[serde(default)]
    joined: bool,
    /// The learned limit: at most this many messages per request, because the daemon was late with its answer to more.
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
    /// Time was up, or the daemon is slow.
    OutOfTime,
    /// No daemon answers.
    Away,
}

impl DrainEnd {
    /// True if the daemon may accept messages of other agents now.
    pub(crate) fn may_send_others(self) -> bool {
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
    let mut state: SendState = read_json(&folder.sent()).unwrap_or_default();
    let (mut end, mut read_error) = (DrainEnd::Sent, None);
    for path in Spool::new(folder.spool()).segments() {
        let segment = match Segment::read(path) {
            Ok(segment) => segment,
            Err(error) => {
                // The next hook tries this segment again; the following segments are sent now.
                read_error = Some(format!("unsent messages can't be read: {error}"));
                continue;
            }
        };
        let done = send(segment.lines(), &owner.agent, daemon, &mut state);
        end = done.end;
        let is_whole = done.lines == segment.lines().len();
        if done.lines > 0 {
            state.last_push_at = Some(now);
        }
        if done.lines > 0 || is_whole {
            if segment.is_damaged() {
                read_error = Some(DAMAGED.to_owned());
            }
            segment.sent(done.lines)?;
        }
        if !is_whole {
            break;
        }
    }
    if let Some(project) = &owner.project
        && end.may_send_others()
        && !state.joined
        && state.last_push_at.is_some()
    {
        state.joined = daemon.join(project, &owner.agent);
    }
    // An unreadable segment is reported even if later segments were sent.
    state.last_error = read_error.or(state.last_error);
    replace_json(&folder.sent(), &state)?;
    Ok(end)
}

/// Gathers and sends the remaining messages of these agents, because no hook of theirs may ever run again. Stops at
/// `deadline`, or when the daemon stops answering.
pub(crate) fn gather_and_drain(
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
        let Some(GatherState { agent, project, .. }) = read_json(&folder.gathered_file()) else {
            continue;
        };
        let owner = SessionOwner { agent, project };
        let gathering = Gatherer { folder, owner: &owner, former: None, host, deadline };
        // The transcript keeps whatever can't be gathered now.
        gathering.gather_left().ok();
        let is_over = || deadline <= Instant::now();
        let waits = || !Spool::new(folder.spool()).segments().is_empty();
        let drained = || drain(folder, &owner, daemon, now).unwrap_or(DrainEnd::Sent);
        if is_over() || (waits() && !drained().may_send_others()) {
            return;
        }
        if !waits() {
            folder.settle(now);
        }
    }
}

/// Sends messages in order and returns the progress. If the daemon refuses several messages together, bisects them until
/// the refused message is found, and skips it. If the daemon doesn't answer in time, the next drain begins with fewer
/// messages per request.
fn send(
    lines: &[(String, String)],
    agent: &AgentId,
    daemon: &dyn Daemon,
    state: &mut SendState,
) -> DrainProgress {
    let (mut done, mut count_max) = (0, state.most.unwrap_or(lines.len()));
    let (mut is_late, mut end) = (false, DrainEnd::Sent);
    while let Some(rest) = lines.get(done..).filter(|rest| !rest.is_empty()) {
        let (format, body, count) = request(rest, count_max.max(1));
        match daemon.append(agent, format, body) {
            Ok(()) => {
                state.last_error = state.last_error.take().filter(|_| state.refused > 0);
                done += count;
                // While a learned limit applies, each success adds one message; otherwise each success doubles the
                // size.
                count_max = state.most.map_or(count_max.saturating_mul(2), |_| count_max + 1);
            }
            Err(SendFailure::Refused(reason)) if count == 1 => {
                state.refused += 1;
                state.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                done += 1;
            }
            Err(SendFailure::Refused(_)) => count_max = count / 2,
            Err(SendFailure::Late(reason)) => {
                state.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                (count_max, is_late, end) = (count / 2, true, DrainEnd::OutOfTime);
                break;
            }
            Err(SendFailure::OutOfTime) => {
                end = DrainEnd::OutOfTime;
                break;
            }
            Err(SendFailure::Declined(reason)) => {
                state.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                end = DrainEnd::Declined;
                break;
            }
            Err(SendFailure::Away(reason)) => {
                state.last_error = Some(cut(&reason, REASON_CHARS_MAX));
                end = DrainEnd::Away;
                break;
            }
        }
    }
    state.most = if is_late {
        Some(count_max)
    } else {
        state.most.map(|count_max| count_max.max(1) * 2).filter(|count_max| *count_max < LEARNED_LIMIT_MAX)
    };
    DrainProgress { lines: done, end }
}

/// Takes up to `count_max` leading messages that share a format. Returns the format, the request body and the number of
/// messages.
fn request(lines: &[(String, String)], count_max: usize) -> (&str, String, usize) {
    let format = lines.first().map_or("", |(format, _)| format);
    let (mut body, mut count) = (String::new(), 0);
    for (_, json) in lines.iter().take(count_max).take_while(|(other, _)| other == format) {
        if count > 0 && body.len() + json.len() > REQUEST_BYTES_MAX {
            break;
        }
        body.push_str(json);
        body.push('\n');
        count += 1;
    }
    (format, body, count)
}
