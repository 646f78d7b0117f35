//! The hooks of Claude Code and Codex: they send transcripts to the daemon, and give new sessions the brief.
//!
//! ```text
//! transcript ──► delta from the saved offset ──► spool ──► daemon ──► brief ──► cache ──► session
//! ```
//!
//! Every message goes through the spool, so a daemon that is down or slow needs no special handling: sent messages are
//! removed, and the rest waits for the next hook. If the spool is full, the transcript's offset doesn't move, so
//! nothing is lost.
//!
//! Invariants: a hook ends after [`TIME_MAX`], even if something hangs. Each message has an id, so a message that is
//! sent twice is stored once. Files are named by hashes. A hook never starts the daemon, and loads no tokenizer. A process that
//! [`drain`]s sends the messages that a hook has no time for; only one runs at a time.

mod agent;
mod brief;
mod daemon;
mod delta;
mod event;
mod files;
mod folder;
mod forget;
pub mod install;
mod push;
mod rollout;
mod spool;
mod status;
mod successor;

use std::{path::PathBuf, time::Duration};

use tokio::time::Instant;

pub use agent::{SessionOwner, project_id};
pub use brief::Injection;
use daemon::Http;
pub use event::{Event, Host, INPUT_BYTES_MAX, Input};
use folder::StateFolder;
pub use forget::{ForgetScope, forget};
use push::{DrainEnd, SessionMark};
use recapd_client::Credentials;
use recapd_config::{Config, Environment};
use recapd_platform::clock::Clock;
pub use status::{AgentStatus, statuses};
pub use successor::current_session;

/// A hook ends after this time.
pub const TIME_MAX: Duration = Duration::from_millis(290);
/// The last request to the daemon ends this long after the hook began.
const NETWORK_TIME_MAX: Duration = Duration::from_millis(200);
/// Reading transcripts ends this long after the hook began, so that time is left to send messages.
const GATHER_TIME_MAX: Duration = Duration::from_millis(120);

/// The time limit of [`drain`].
const DRAIN_TIME_MAX: Duration = Duration::from_mins(10);
/// The time limit of each request of [`drain`].
const DRAIN_REQUEST_TIME_MAX: Duration = Duration::from_mins(1);
/// The same limit if a hook called [`drain`]. It is shorter, because no other process can send while this one waits for a
/// silent daemon.
const REQUEST_AFTER_HOOK_TIME_MAX: Duration = Duration::from_secs(5);
/// After this time, a host has written the end of a turn to its transcript.
const WRITE_TIME: Duration = Duration::from_millis(500);

/// The environment variable that switches hooks off if its value is `off`.
const SWITCH: &str = "RECAPD_HOOK";
/// The environment variable with a factor for the time limits. Tests on busy machines set it.
const PATIENCE: &str = "RECAPD_HOOK_PATIENCE";
/// The largest factor.
const PATIENCE_MAX: u32 = 100;

pub struct HookCall<'a> {
    pub event: Event,
    /// The calling host. `None`: detected from the input.
    pub host: Option<Host>,
    /// The agent, as a template in which `{host}`, `{project}` and `{session}` are replaced. `None`: an agent for each
    /// session.
    pub agent: Option<&'a str>,
    /// The daemon's URL, such as `http://127.0.0.1:7411`.
    pub server: String,
    pub credentials: Credentials,
    pub config: &'a Config,
    /// The environment. It determines where files belong.
    pub environment: &'a Environment,
    pub clock: &'a dyn Clock,
    /// When the process began. Time limits count from here.
    pub began: Instant,
}

/// What is left to do after a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEnd {
    /// Nothing that can be done now.
    Done,
    /// [`drain`] can send more messages after this pause: the hook had no time for them, or the host hasn't written them yet.
    Drain { pause: Duration },
}

/// Who calls [`drain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainCaller {
    Person,
    /// A hook that ran out of time.
    Hook,
}

pub fn is_off(environment: &Environment) -> bool {
    environment.get(SWITCH).is_some_and(|value| value.eq_ignore_ascii_case("off"))
}

/// Returns the factor by which time limits are multiplied: 1, except in tests.
pub fn patience(environment: &Environment) -> u32 {
    let factor = environment.get(PATIENCE).and_then(|text| text.parse().ok());
    factor.unwrap_or(1).clamp(1, PATIENCE_MAX)
}

impl HookCall<'_> {
    /// Runs the hook, and passes its output for the host to `print`. The next hook does what fails here.
    pub fn run(&self, input: &Input, print: impl FnOnce(&str)) -> HookEnd {
        let Some(folder) = StateFolder::of(self.environment) else {
            return HookEnd::Done;
        };
        successor::note(&folder, self.event, input, self.environment);
        let owner = self.owner(input);
        let injection = match self.event {
            Event::SessionStart => self.injection(&folder, &owner, input),
            Event::UserPromptSubmit => self.announcement(&folder, &owner, input),
            _ => None,
        };
        if let Some(injection) = injection {
            print(&injection.output);
            injection.remember(&folder, &owner.agent, input, self.clock.now());
        }
        // A sub-agent's end doesn't end the session.
        let mark = mark(self.event).filter(|_| !input.is_subagent);
        self.push(&folder, &owner, input, mark)
    }

    /// Returns what a `SessionStart` would inject now. Doesn't record it.
    pub fn preview(&self, input: &Input) -> Option<Injection> {
        let folder = StateFolder::of(self.environment)?;
        self.injection(&folder, &self.owner(input), input)
    }

    pub fn owner(&self, input: &Input) -> SessionOwner {
        agent::owner(self.agent, self.host(input), input, self.environment)
    }

    pub fn host(&self, input: &Input) -> Host {
        self.host.unwrap_or_else(|| input.host())
    }

    fn push(
        &self,
        folder: &StateFolder,
        owner: &SessionOwner,
        input: &Input,
        mark: Option<SessionMark>,
    ) -> HookEnd {
        let agent = &owner.agent;
        let agent_folder = folder.agent(agent);
        let is_sessions = |path: &PathBuf| self.host(input) != Host::Codex || !rollout::is_of_subagent(path);
        if mark == Some(SessionMark::Clear) && input.transcript.as_ref().is_none_or(is_sessions) {
            // The injected briefs leave the model's context, too.
            brief::forget(folder, agent, input);
        }
        let gathering = push::Gatherer {
            folder: &agent_folder,
            owner,
            former: owner.project.as_ref().map(|project| folder.agent(&project.former)),
            host: self.host(input),
            deadline: self.began + GATHER_TIME_MAX * patience(self.environment),
        };
        // This hook is responsible for what is in the transcript now. The host may go on writing meanwhile.
        let length = input.transcript_bytes();
        // Before gathering: what the host writes meanwhile may be left to the drain.
        let is_answer_missing =
            self.event == Event::Stop && !input.is_subagent && gathering.lacks_answer(input);
        // If gathering fails, the next hook reads the transcript again.
        gathering.gather(input, mark).ok();
        let (now, deadline) = (self.clock.now(), self.network_deadline());
        let drained = self.daemon().map_or(DrainEnd::Away, |daemon| {
            let drained = push::drain(&agent_folder, owner, &daemon, now).unwrap_or(DrainEnd::Sent);
            if drained.may_send_others() {
                let other_folders = folder.other_folders(&agent_folder);
                push::gather_and_drain(&other_folders, &daemon, self.host(input), deadline, now);
            }
            drained
        });
        if self.event == Event::SessionEnd {
            folder.prune(now, deadline);
        }
        let pause = match drained {
            DrainEnd::Busy | DrainEnd::OutOfTime => Duration::ZERO,
            DrainEnd::Sent if gathering.is_short_of(length, input) => Duration::ZERO,
            DrainEnd::Sent if is_answer_missing => WRITE_TIME * patience(self.environment),
            DrainEnd::Sent | DrainEnd::Declined | DrainEnd::Away => return HookEnd::Done,
        };
        HookEnd::Drain { pause }
    }

    fn network_deadline(&self) -> Instant {
        self.began + NETWORK_TIME_MAX * patience(self.environment)
    }

    fn daemon(&self) -> Option<Http> {
        let time = NETWORK_TIME_MAX * patience(self.environment);
        let daemon = Http::new(&self.server, self.network_deadline(), time)?;
        Some(daemon.with_credentials(self.credentials.clone()))
    }
}

/// Gathers and sends the remaining messages of all agents to the daemon at `server`, with longer time limits than a hook.
/// Messages that the daemon can't accept now stay; see [`statuses`]. Waits for another process that drains; but if a hook
/// calls and a third process waits already, returns at once.
pub fn drain(
    environment: &Environment,
    server: &str,
    credentials: Credentials,
    clock: &dyn Clock,
    caller: DrainCaller,
) {
    let deadline = Instant::now() + DRAIN_TIME_MAX;
    let Some(folder) = StateFolder::of(environment).filter(StateFolder::exists) else {
        return;
    };
    let (turn, request_time_max) = match caller {
        DrainCaller::Person => (folder.lock_drain(deadline), DRAIN_REQUEST_TIME_MAX),
        DrainCaller::Hook => {
            (folder.lock_next_drain(deadline), REQUEST_AFTER_HOOK_TIME_MAX * patience(environment))
        }
    };
    let Ok(Some(_turn)) = turn else { return };
    if let Some(daemon) = Http::new(server, deadline, request_time_max) {
        // Only new cursors need the host, and none are created here.
        let host = Host::ClaudeCode;
        push::gather_and_drain(
            &folder.agents(),
            &daemon.with_credentials(credentials),
            host,
            deadline,
            clock.now(),
        );
    }
}

/// Returns the mark that an event adds after the transcript's messages.
fn mark(event: Event) -> Option<SessionMark> {
    match event {
        // After this event, the model sees nothing of the conversation verbatim.
        Event::PreCompact => Some(SessionMark::Clear),
        Event::SessionEnd => Some(SessionMark::End),
        Event::StopFailure => Some(SessionMark::Interrupted),
        _ => None,
    }
}
