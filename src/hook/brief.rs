//! The brief that is injected into a session at its start. It is fenced as data, and stays within the host's limits.
//!
//! Hosts drop an output that is too long: Claude Code beyond 10,000 characters, Codex beyond 2,500 tokens,
//! which it estimates from the bytes.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Event, HookCall, Host, Input, SessionOwner,
    daemon::{BriefSubject, DaemonAnswer, ReaderView},
    files::{read_json, read_text, replace, replace_json, touched_at},
    folder::StateFolder,
    push::GatherState,
};
use recapd_client::PLACEHOLDER;
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{fence, fence_copy, fence_project},
        neutralize::neutralize_document,
        time::Timestamp,
    },
    hash::short_hash,
};

/// Claude Code shows outputs of at most this many characters.
const CLAUDE_CODE_CHARS_MAX: usize = 10_000;
/// Codex shows outputs of at most this many tokens.
const CODEX_TOKENS_MAX: usize = 2_500;
/// Codex counts this many bytes as one token.
const CODEX_TOKEN_BYTES: usize = 4;
/// The brief itself has at most this many tokens. The rest is for the fence.
const BRIEF_TOKENS_MAX: i64 = 2_300;
/// Remembers this many injections of a session.
const INJECTIONS_MAX: usize = 64;
/// The first line of a cached brief, before and after the version.
const CACHE_HEAD: (&str, &str) = ("<!-- version ", " -->\n");

/// The record of injections into a session.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SessionState {
    /// Hashes of the injected briefs that the model still sees.
    given: Vec<String>,
    /// The version of the last injected brief.
    version: i64,
    /// The newest version that was announced.
    announced: i64,
    /// When the session last received anything.
    pub(super) at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    pub output: String,
    /// The part of `output` that the model sees.
    pub text: String,
    brief: Option<String>,
    version: i64,
}

/// A brief from the daemon or from the cache.
struct Brief {
    text: String,
    version: i64,
    /// For a copy from the cache: nothing newer could be read since then.
    copied_at: Option<Timestamp>,
}

impl HookCall<'_> {
    /// Returns the brief for a session that begins; `None` if there is no brief, or none that the session doesn't know.
    pub(super) fn injection(
        &self,
        folder: &StateFolder,
        owner: &SessionOwner,
        input: &Input,
    ) -> Option<Injection> {
        let agent = &owner.agent;
        if input.is_subagent || (owner.project.is_none() && is_own_past(folder, agent, input)) {
            return None;
        }
        let is_compacted = input.source.as_deref() == Some("compact");
        let view = if is_compacted {
            ReaderView::Nothing
        } else {
            ReaderView::Everything
        };
        let subject = BriefSubject { owner, view };
        let mut brief = self.brief(folder, subject)?;
        if brief.text.trim().is_empty() {
            return None;
        }
        let mark = short_hash(&[brief.text.as_bytes()]);
        let state: SessionState = read_json(&folder.agent(agent).session(&input.session)).unwrap_or_default();
        // What was injected before the context was emptied isn't in the context any more.
        let is_emptied = matches!(input.source.as_deref(), Some("compact" | "clear"));
        if !is_emptied && state.given.contains(&mark) {
            return None;
        }
        // The answer or the copy may come from another program than the daemon.
        brief.text = neutralize_document(&brief.text);
        let (text, output) = self.fitted(subject, self.host(input), &brief)?;
        Some(Injection {
            output,
            text,
            brief: Some(mark),
            version: brief.version,
        })
    }

    /// Announces once for each version that there is a newer version of the injected brief.
    pub(super) fn announcement(
        &self,
        folder: &StateFolder,
        owner: &SessionOwner,
        input: &Input,
    ) -> Option<Injection> {
        if input.is_subagent || !self.config.hook.announce {
            return None;
        }
        let state: SessionState = read_json(&folder.agent(&owner.agent).session(&input.session))?;
        let view = ReaderView::Everything;
        let brief = self.brief(folder, BriefSubject { owner, view })?;
        if brief.copied_at.is_some() || brief.version <= state.version.max(state.announced) {
            return None;
        }
        let whose = match &owner.project {
            Some(project) => format!("--project {}", project.id),
            None => owner.agent.to_string(),
        };
        let text = format!(
            "The summary of earlier work has a version {} that is newer than the one in this session, {}; \
             `recapd summary {whose}` prints it.",
            brief.version, state.version
        );
        Some(Injection {
            output: output(Event::UserPromptSubmit, &text),
            text,
            brief: None,
            version: brief.version,
        })
    }

    /// Returns the daemon's brief, or its last copy.
    fn brief(&self, folder: &StateFolder, subject: BriefSubject<'_>) -> Option<Brief> {
        let told = self.daemon().map_or(DaemonAnswer::Away, |daemon| {
            daemon.brief(subject, self.config.hook.max_chars, BRIEF_TOKENS_MAX)
        });
        let cache = match subject.project() {
            Some(project) => folder.project_cache(&project.id),
            None => folder.cache(&subject.owner.agent),
        };
        match told {
            DaemonAnswer::Brief {
                text,
                version,
                stale_ms,
            } => {
                if stale_ms.is_none() {
                    let cached = format!("{}{version}{}{text}", CACHE_HEAD.0, CACHE_HEAD.1);
                    // If this fails, the next session has no copy to fall back on, but this session has its brief.
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
                // The agent may have been forgotten, so its copy must not be shown.
                std::fs::remove_file(&cache).ok();
                None
            }
            DaemonAnswer::Away => cached(&cache),
            // The session should know that there is a summary, so that it can ask for it later (seed 003).
            DaemonAnswer::Unavailable => cached(&cache).or_else(|| {
                Some(Brief {
                    text: PLACEHOLDER.to_owned(),
                    version: 0,
                    copied_at: None,
                })
            }),
        }
    }

    /// Returns the brief in its fence, and the output. Drops last lines (the oldest) until both fit the limits,
    /// but keeps the closing line, which says where the whole document is.
    fn fitted(&self, subject: BriefSubject<'_>, host: Host, brief: &Brief) -> Option<(String, String)> {
        let agent = &subject.owner.agent;
        let lines: Vec<&str> = brief.text.trim_end().lines().collect();
        let (closing, lines) = lines.split_last()?;
        (0..=lines.len()).rev().find_map(|count| {
            let kept = lines.get(..count).unwrap_or_default().join("\n");
            let markdown = format!("{}\n\n{closing}", kept.trim_end());
            let text = match (subject.project(), brief.copied_at) {
                (Some(project), at) => fence_project(&project.id, brief.version, &markdown, at),
                (None, None) => fence(agent, brief.version, &markdown, None),
                (None, Some(at)) => fence_copy(agent, brief.version, &markdown, at),
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
        // If this fails, the brief may be injected once more.
        replace_json(&file, &state).ok();
    }
}

fn cached(cache: &Path) -> Option<Brief> {
    let text = read_text(cache)?;
    let (version, text) = text.strip_prefix(CACHE_HEAD.0)?.split_once(CACHE_HEAD.1)?;
    Some(Brief {
        text: text.to_owned(),
        version: version.parse().ok()?,
        copied_at: Some(touched_at(cache)?),
    })
}

/// Records that the session's context was emptied, and with it all injected briefs.
pub(super) fn forget(folder: &StateFolder, agent: &AgentId, input: &Input) {
    let file = folder.agent(agent).session(&input.session);
    if let Some(state) = read_json::<SessionState>(&file) {
        let emptied = SessionState {
            given: Vec::new(),
            ..state
        };
        // If this fails, a brief may not be injected again although it should be.
        replace_json(&file, &emptied).ok();
    }
}

/// True if the agent's last session is resumed. It already holds everything that its summary says.
fn is_own_past(folder: &StateFolder, agent: &AgentId, input: &Input) -> bool {
    let gathered = read_json::<GatherState>(&folder.agent(agent).gathered());
    let is_last = gathered.is_some_and(|last| last.session == short_hash(&[input.session.as_bytes()]));
    input.source.as_deref() == Some("resume") && is_last
}

fn output(event: Event, text: &str) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": event.name(), "additionalContext": text } }).to_string()
}
