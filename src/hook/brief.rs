//! The brief that is injected into a session at its start. It is fenced as data, and stays within the host's limits.
//!
//! Hosts drop an output that is too long: Claude Code beyond 10,000 characters, Codex beyond 2,500 tokens,
//! which it estimates from the bytes.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Event, HookCall, Host, Input, SessionOwner,
    daemon::{BriefSubject, DaemonAnswer, OwnPast},
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
    /// Hashes of the injected briefs that the model still sees: a compaction or a clear empties the list.
    given: Vec<String>,
    /// The version of the last injected brief.
    version: i64,
    /// The newest version that was announced.
    announced: i64,
    /// When a brief was last injected.
    pub(super) at: Option<Timestamp>,
}

/// A brief, or the announcement of a newer one, for the model of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// What the hook prints for the host.
    pub output: String,
    /// The part of `output` that the model sees.
    pub text: String,
    /// The hash of an injected brief; `None` for an announcement.
    brief_hash: Option<String>,
    version: i64,
}

/// A brief from the daemon or from the cache.
struct Brief {
    text: String,
    version: i64,
    /// When this text was last known to be the newest; `None` if the daemon read it from its database just now.
    copied_at: Option<Timestamp>,
}

impl HookCall<'_> {
    /// Returns the brief for a session that begins; `None` if there is no brief, or the session's model sees it already.
    pub(super) fn injection(
        &self,
        folder: &StateFolder,
        owner: &SessionOwner,
        input: &Input,
    ) -> Option<Injection> {
        let agent = &owner.agent;
        if input.is_subagent || (owner.project.is_none() && resumes_last_session(folder, agent, input)) {
            return None;
        }
        let is_compacted = input.source.as_deref() == Some("compact");
        let own_past = if is_compacted { OwnPast::Gone } else { OwnPast::Visible };
        let subject = BriefSubject { owner, own_past };
        let mut brief = self.brief(folder, subject)?;
        if brief.text.trim().is_empty() {
            return None;
        }
        let hash = short_hash(&[brief.text.as_bytes()]);
        let state: SessionState = read_json(&folder.agent(agent).session(&input.session)).unwrap_or_default();
        // After a compaction or a clear, the model no longer sees earlier briefs.
        let is_emptied = matches!(input.source.as_deref(), Some("compact" | "clear"));
        if !is_emptied && state.given.contains(&hash) {
            return None;
        }
        // Another program may have sent the answer, or written the copy.
        brief.text = neutralize_document(&brief.text);
        let (text, output) = self.fit(subject, self.host(input), &brief)?;
        Some(Injection { output, text, brief_hash: Some(hash), version: brief.version })
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
        let own_past = OwnPast::Visible;
        let brief = self.brief(folder, BriefSubject { owner, own_past })?;
        if brief.copied_at.is_some() || brief.version <= state.version.max(state.announced) {
            return None;
        }
        let argument = match &owner.project {
            Some(project) => format!("--project {}", project.id),
            None => owner.agent.to_string(),
        };
        let text = format!(
            "The summary of earlier work now has version {}; this session has version {}. \
             `recapd summary {argument}` prints the new one.",
            brief.version, state.version
        );
        Some(Injection {
            output: output(Event::UserPromptSubmit, &text),
            text,
            brief_hash: None,
            version: brief.version,
        })
    }

    /// Returns the daemon's brief, or its last copy.
    fn brief(&self, folder: &StateFolder, subject: BriefSubject<'_>) -> Option<Brief> {
        let answer = self.daemon().map_or(DaemonAnswer::Away, |daemon| {
            daemon.brief(subject, self.config.hook.max_chars, BRIEF_TOKENS_MAX)
        });
        let cache = match subject.project() {
            Some(project) => folder.project_cache(&project.id),
            None => folder.cache(&subject.owner.agent),
        };
        match answer {
            DaemonAnswer::Brief { text, version, stale_ms } => {
                if stale_ms.is_none() {
                    let cached = format!("{}{version}{}{text}", CACHE_HEAD.0, CACHE_HEAD.1);
                    // If this fails, the next session has no copy to fall back on, but this session has its brief.
                    replace(&cache, cached.as_bytes()).ok();
                }
                let copied_at = stale_ms.map(|age| self.clock.now().plus_ms(-age));
                Some(Brief { text, version, copied_at })
            }
            DaemonAnswer::Unknown => {
                // The agent may have been forgotten, so its copy must not be shown.
                std::fs::remove_file(&cache).ok();
                None
            }
            DaemonAnswer::Away => cached(&cache),
            // The placeholder tells the model that there is a summary, which it can ask for later.
            DaemonAnswer::Unavailable => cached(&cache)
                .or_else(|| Some(Brief { text: PLACEHOLDER.to_owned(), version: 0, copied_at: None })),
        }
    }

    /// Returns the brief in its fence, and the output. Drops lines from the end, where the oldest work is, until both fit
    /// the limits, but keeps the closing line, which says where the whole document is.
    fn fit(&self, subject: BriefSubject<'_>, host: Host, brief: &Brief) -> Option<(String, String)> {
        let agent = &subject.owner.agent;
        let lines: Vec<&str> = brief.text.trim_end().lines().collect();
        let (closing, lines) = lines.split_last()?;
        (0..=lines.len()).rev().find_map(|count| {
            let kept_lines = lines.get(..count).unwrap_or_default().join("\n");
            let markdown = format!("{}\n\n{closing}", kept_lines.trim_end());
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
    /// Records the injection in the session's state.
    pub(super) fn remember(&self, folder: &StateFolder, agent: &AgentId, input: &Input, now: Timestamp) {
        let file = folder.agent(agent).session(&input.session);
        let mut state: SessionState = read_json(&file).unwrap_or_default();
        match &self.brief_hash {
            Some(hash) => {
                state.given.push(hash.clone());
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

/// Reads a brief from the cache.
fn cached(cache: &Path) -> Option<Brief> {
    let text = read_text(cache)?;
    let (version, text) = text.strip_prefix(CACHE_HEAD.0)?.split_once(CACHE_HEAD.1)?;
    Some(Brief { text: text.to_owned(), version: version.parse().ok()?, copied_at: Some(touched_at(cache)?) })
}

/// Records that the session's context was emptied, and with it all injected briefs.
pub(super) fn forget(folder: &StateFolder, agent: &AgentId, input: &Input) {
    let file = folder.agent(agent).session(&input.session);
    if let Some(state) = read_json::<SessionState>(&file) {
        let emptied = SessionState { given: Vec::new(), ..state };
        // If this fails, the session may not get a brief again that its model no longer sees.
        replace_json(&file, &emptied).ok();
    }
}

/// True if the host resumes the agent's last session. Its context already holds everything that the agent's summary says.
fn resumes_last_session(folder: &StateFolder, agent: &AgentId, input: &Input) -> bool {
    let gathered = read_json::<GatherState>(&folder.agent(agent).gathered_file());
    let is_last = gathered.is_some_and(|last| last.session == short_hash(&[input.session.as_bytes()]));
    input.source.as_deref() == Some("resume") && is_last
}

fn output(event: Event, text: &str) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": event.name(), "additionalContext": text } }).to_string()
}
