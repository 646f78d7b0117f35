//! What is injected into a session at its start: the brief, fenced as data, within what its host shows.
//!
//! Hosts drop an output entirely if it is too long: Claude Code beyond 10,000 characters, Codex beyond 2,500 tokens,
//! which it estimates by bytes.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Event, HookCall, Host, Input,
    daemon::DaemonAnswer,
    folder::{StateFolder, read_json, read_text, replace, replace_json, touched_at},
    push::GatherState,
};
use recapd_client::PLACEHOLDER;
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{fence, fence_copy},
        neutralize::neutralize_document,
        time::Timestamp,
    },
    hash::short_hash,
};

/// The most characters of an output that Claude Code shows.
const CLAUDE_CODE_CHARS_MAX: usize = 10_000;
/// The most tokens that Codex shows, and how many bytes it counts as one.
const CODEX_TOKENS_MAX: usize = 2_500;
const CODEX_TOKEN_BYTES: usize = 4;
/// The most tokens of the brief itself; the rest is for the fence.
const BRIEF_TOKENS_MAX: i64 = 2_300;
/// How many of a session's injections are remembered.
const INJECTIONS_MAX: usize = 64;
/// The beginning and the end of a cached brief's first line, with the version between them.
const CACHE_HEAD: (&str, &str) = ("<!-- version ", " -->\n");

/// What was injected into a session.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SessionState {
    /// Hashes of the briefs that it got.
    given: Vec<String>,
    /// The version of the last brief that it got.
    version: i64,
    /// The last newer version that was announced to it.
    announced: i64,
    /// When the session was last given anything.
    pub(super) at: Option<Timestamp>,
}

/// What is to be injected into a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// What the hook prints.
    pub output: String,
    /// The part of it that the model sees.
    pub text: String,
    brief: Option<String>,
    version: i64,
}

/// A brief, from the daemon or from the cache.
struct Brief {
    text: String,
    version: i64,
    /// If it is a copy: since when nothing newer could be read.
    copied_at: Option<Timestamp>,
}

impl HookCall<'_> {
    /// The brief for a session that begins; `None` if there is none, or nothing new for the session.
    pub(super) fn injection(
        &self,
        folder: &StateFolder,
        agent: &AgentId,
        input: &Input,
    ) -> Option<Injection> {
        if input.is_subagent || is_own_past(folder, agent, input) {
            return None;
        }
        let mut brief = self.brief(folder, agent)?;
        if brief.text.trim().is_empty() {
            return None;
        }
        // Whoever answered, or wrote the copy, may be no daemon.
        brief.text = neutralize_document(&brief.text);
        let mark = short_hash(&[brief.text.as_bytes()]);
        let state: SessionState = read_json(&folder.agent(agent).session(&input.session)).unwrap_or_default();
        // What the session got before its context was emptied is no longer in view.
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

    /// A line for a session that got a brief of which there is a newer version now; once per version.
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

    /// The daemon's brief, or the last copy of it.
    fn brief(&self, folder: &StateFolder, agent: &AgentId) -> Option<Brief> {
        let told = self.daemon().map_or(DaemonAnswer::Away, |daemon| {
            daemon.brief(agent, self.config.hook.max_chars, BRIEF_TOKENS_MAX)
        });
        let cache = folder.cache(agent);
        match told {
            DaemonAnswer::Brief {
                text,
                version,
                stale_ms,
            } => {
                if stale_ms.is_none() {
                    let cached = format!("{}{version}{}{text}", CACHE_HEAD.0, CACHE_HEAD.1);
                    // Without a copy the next session has no fallback, but this one has its brief.
                    replace(&cache, cached.as_bytes()).ok();
                }
                let copied_at = stale_ms.map(|age| self.clock.now().plus_ms(-age));
                Some(Brief {
                    text,
                    version,
                    copied_at,
                })
            }
            DaemonAnswer::Unknown => {
                // What was forgotten must not be told from a copy either.
                std::fs::remove_file(&cache).ok();
                None
            }
            DaemonAnswer::Away => cached(&cache),
            // That there is something to be told is worth knowing: it can be asked for later (seed 003).
            DaemonAnswer::Unavailable => cached(&cache).or_else(|| {
                Some(Brief {
                    text: PLACEHOLDER.to_owned(),
                    version: 0,
                    copied_at: None,
                })
            }),
        }
    }

    /// The brief in its fence and as an output, without as many of its last lines (the oldest) as needed to keep all
    /// limits. The very last line, which says where the whole is, stays.
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
    /// Remembers what was injected into the session.
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
        // At worst it is injected again.
        replace_json(&file, &state).ok();
    }
}

/// The last copy of a brief.
fn cached(cache: &Path) -> Option<Brief> {
    let text = read_text(cache)?;
    let (version, text) = text.strip_prefix(CACHE_HEAD.0)?.split_once(CACHE_HEAD.1)?;
    Some(Brief {
        text: text.to_owned(),
        version: version.parse().ok()?,
        copied_at: Some(touched_at(cache)?),
    })
}

/// Notes that a session's context was emptied: nothing that was injected is in view any more.
pub(super) fn forget(folder: &StateFolder, agent: &AgentId, input: &Input) {
    let file = folder.agent(agent).session(&input.session);
    if let Some(state) = read_json::<SessionState>(&file) {
        let emptied = SessionState {
            given: Vec::new(),
            ..state
        };
        // At worst something isn't injected again that should be.
        replace_json(&file, &emptied).ok();
    }
}

/// Whether this session was the agent's last one: then it already holds everything that a summary tells.
fn is_own_past(folder: &StateFolder, agent: &AgentId, input: &Input) -> bool {
    let gathered = read_json::<GatherState>(&folder.agent(agent).gathered());
    let is_last = gathered.is_some_and(|last| last.session == short_hash(&[input.session.as_bytes()]));
    input.source.as_deref() == Some("resume") && is_last
}

fn output(event: Event, text: &str) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": event.name(), "additionalContext": text } }).to_string()
}
