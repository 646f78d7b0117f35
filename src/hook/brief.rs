//! What a session is told at its start: the brief, fenced as data, within what its host shows.
//!
//! Hosts hold back outputs that are too long, whole: Claude Code beyond 10,000 characters, Codex beyond 2,500 tokens,
//! which it estimates by bytes.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Call, Event, Host, Input,
    daemon::Told,
    folder::{StateFolder, read_json, read_text, replace, replace_json, touched_at},
    push::Gathered,
};
use crate::{
    digest::digest,
    domain::{
        agent::AgentId,
        context::{fence, fence_copy},
        time::Timestamp,
    },
};

/// The most characters of an output that Claude Code shows.
const CLAUDE_CODE_CHARS_MAX: usize = 10_000;
/// The most tokens that Codex shows, and how many bytes it takes for one.
const CODEX_TOKENS_MAX: usize = 2_500;
const CODEX_TOKEN_BYTES: usize = 4;
/// The tokens that the daemon may fill; the rest is the fence's.
const BRIEF_TOKENS_MAX: i64 = 2_300;
/// So many of a session's injections are remembered.
const INJECTIONS_MAX: usize = 64;
/// How the first line of a cached brief begins and ends; the version stands between.
const CACHE_HEAD: (&str, &str) = ("<!-- version ", " -->\n");

/// What a session was told.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SessionState {
    /// Hashes of the briefs that it was given.
    given: Vec<String>,
    /// The version of the last one.
    version: i64,
    /// The version that was announced last.
    announced: i64,
    /// When that was.
    pub(super) at: Option<Timestamp>,
}

/// What is to be told to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// What the hook prints.
    pub output: String,
    /// What the model sees of it.
    pub text: String,
    brief: Option<String>,
    version: i64,
}

/// A brief, from the daemon or from the cache.
struct Brief {
    text: String,
    version: i64,
    /// Since when nothing newer could be read, if it is a copy.
    copied_at: Option<Timestamp>,
}

impl Call<'_> {
    /// The brief for a session that begins; none if there is nothing, or nothing new for it.
    pub(super) fn injection(
        &self,
        folder: &StateFolder,
        agent: &AgentId,
        input: &Input,
    ) -> Option<Injection> {
        if input.is_subagent || is_own_past(folder, agent, input) {
            return None;
        }
        let brief = self.brief(folder, agent)?;
        if brief.text.trim().is_empty() {
            return None;
        }
        let mark = digest(&[brief.text.as_bytes()]);
        let state: SessionState = read_json(&folder.agent(agent).session(&input.session)).unwrap_or_default();
        // Whatever a session was given before its context was emptied isn't in view any more.
        let is_emptied = matches!(input.source.as_deref(), Some("compact" | "clear"));
        if !is_emptied && state.given.contains(&mark) {
            return None;
        }
        let (text, output) = self.fitted(agent, self.host(input), &brief)?;
        Some(Injection {
            output,
            text,
            brief: Some(mark),
            version: brief.version,
        })
    }

    /// One line for a session that was given a brief of which there is a newer one by now; once per version.
    pub(super) fn announcement(
        &self,
        folder: &StateFolder,
        agent: &AgentId,
        input: &Input,
    ) -> Option<Injection> {
        if input.is_subagent || !self.config.hook.announce {
            return None;
        }
        let state: SessionState = read_json(&folder.agent(agent).session(&input.session))?;
        let brief = self.brief(folder, agent)?;
        if brief.copied_at.is_some() || brief.version <= state.version.max(state.announced) {
            return None;
        }
        let text = format!(
            "The summary of earlier work has a version {} that is newer than the one in this session, {}; \
             `recapd summary {agent}` prints it.",
            brief.version, state.version
        );
        Some(Injection {
            output: output(Event::UserPromptSubmit, &text),
            text,
            brief: None,
            version: brief.version,
        })
    }

    /// The brief as the daemon has it, or the last copy of it.
    fn brief(&self, folder: &StateFolder, agent: &AgentId) -> Option<Brief> {
        let told = self.daemon().map_or(Told::Away, |daemon| {
            daemon.brief(agent, self.config.hook.max_chars, BRIEF_TOKENS_MAX)
        });
        let cache = folder.cache(agent);
        match told {
            Told::Brief {
                text,
                version,
                stale_ms,
            } => {
                if stale_ms.is_none() {
                    let cached = format!("{}{version}{}{text}", CACHE_HEAD.0, CACHE_HEAD.1);
                    // Without a copy the next session has none to fall back on, this one has what it needs.
                    replace(&cache, cached.as_bytes()).ok();
                }
                let copied_at = stale_ms.map(|age| self.clock.now().plus_ms(-age));
                Some(Brief {
                    text,
                    version,
                    copied_at,
                })
            }
            Told::Unknown => {
                // What was forgotten isn't told from a copy either.
                std::fs::remove_file(&cache).ok();
                None
            }
            Told::Away => {
                let text = read_text(&cache)?;
                let (version, text) = text.strip_prefix(CACHE_HEAD.0)?.split_once(CACHE_HEAD.1)?;
                Some(Brief {
                    text: text.to_owned(),
                    version: version.parse().ok()?,
                    copied_at: Some(touched_at(&cache)?),
                })
            }
        }
    }

    /// The brief in its fence and as an output: without as many of its last lines, the oldest ones, as it takes to keep
    /// all limits. The very last one says where the whole is and stays.
    fn fitted(&self, agent: &AgentId, host: Host, brief: &Brief) -> Option<(String, String)> {
        let lines: Vec<&str> = brief.text.trim_end().lines().collect();
        let (closing, lines) = lines.split_last()?;
        (0..=lines.len()).rev().find_map(|count| {
            let kept = lines.get(..count).unwrap_or_default().join("\n");
            let markdown = format!("{}\n\n{closing}", kept.trim_end());
            let text = match brief.copied_at {
                None => fence(agent, brief.version, &markdown, None),
                Some(at) => fence_copy(agent, brief.version, &markdown, at),
            };
            let output = output(Event::SessionStart, &text);
            let is_shown = match host {
                Host::ClaudeCode => output.chars().count() <= CLAUDE_CODE_CHARS_MAX,
                Host::Codex => output.len() <= CODEX_TOKENS_MAX * CODEX_TOKEN_BYTES,
            };
            (is_shown && text.chars().count() <= self.config.hook.max_chars).then_some((text, output))
        })
    }
}

impl Injection {
    /// Remembers what the session was told.
    pub(super) fn remember(&self, folder: &StateFolder, agent: &AgentId, input: &Input, now: Timestamp) {
        let file = folder.agent(agent).session(&input.session);
        let mut state: SessionState = read_json(&file).unwrap_or_default();
        match &self.brief {
            Some(brief) => {
                state.given.push(brief.clone());
                let surplus = state.given.len().saturating_sub(INJECTIONS_MAX);
                state.given.drain(..surplus);
                state.version = self.version;
                state.at = Some(now);
            }
            None => state.announced = self.version,
        }
        // At worst it is told again.
        replace_json(&file, &state).ok();
    }
}

/// A session's context was emptied: nothing that it was given is in view any more.
pub(super) fn forget(folder: &StateFolder, agent: &AgentId, input: &Input) {
    let file = folder.agent(agent).session(&input.session);
    if let Some(state) = read_json::<SessionState>(&file) {
        let emptied = SessionState {
            given: Vec::new(),
            ..state
        };
        // At worst something isn't told again that could be.
        replace_json(&file, &emptied).ok();
    }
}

/// Whether a session goes on in which the agent worked last: all that a summary tells stands in it already.
fn is_own_past(folder: &StateFolder, agent: &AgentId, input: &Input) -> bool {
    let gathered = read_json::<Gathered>(&folder.agent(agent).gathered());
    let is_last = gathered.is_some_and(|last| last.session == digest(&[input.session.as_bytes()]));
    input.source.as_deref() == Some("resume") && is_last
}

fn output(event: Event, text: &str) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": event.name(), "additionalContext": text } }).to_string()
}
