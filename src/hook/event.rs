//! The events and inputs that hosts pass to hooks.

use std::path::PathBuf;

use serde_json::Value;

use recapd_core::domain::message::Format;

/// At most this many bytes of an input are read. An input can hold prompts and answers.
pub const INPUT_BYTES_MAX: u64 = 8 << 20;

/// A program whose hooks recapd runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Host {
    /// Anthropic's Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    Codex,
}

impl Host {
    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    pub(super) fn format(self) -> Format {
        match self {
            Self::ClaudeCode => Format::ClaudeCode,
            Self::Codex => Format::Codex,
        }
    }
}

/// The events that recapd has hooks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session begins, or continues after its context was emptied.
    SessionStart,
    UserPromptSubmit,
    /// The model finished its turn.
    Stop,
    /// A sub-agent finished.
    SubagentStop,
    /// The turn ended in an error.
    StopFailure,
    /// The host is about to compact the context.
    PreCompact,
    PostCompact,
    SessionEnd,
}

impl Event {
    pub const ALL: [Self; 8] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::Stop,
        Self::SubagentStop,
        Self::StopFailure,
        Self::PreCompact,
        Self::PostCompact,
        Self::SessionEnd,
    ];

    /// Returns the name that hosts use.
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::StopFailure => "StopFailure",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// Finds an event by its name, ignoring case.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut events = Self::ALL.into_iter();
        events.find(|event| event.name().eq_ignore_ascii_case(name))
    }
}

/// The relevant fields of a hook's input. A field that is missing or has another type counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// The host's id of the session.
    pub session: String,
    pub transcript: Option<PathBuf>,
    /// The folder in which the agent works.
    pub folder: Option<PathBuf>,
    /// Why a session starts: `startup`, `resume`, `clear`, `compact`, in Claude Code also `fork`.
    pub source: Option<String>,
    /// Why a session ends, such as `clear`.
    pub reason: Option<String>,
    /// The last answer of the turn, which its end names.
    pub(super) last_answer: Option<String>,
    /// True if the hook was called for a sub-agent rather than the session itself.
    pub is_subagent: bool,
    /// True if the input has fields that only Codex sends.
    pub(super) is_codex: bool,
}

impl Input {
    /// Parses an input; `None` if it isn't a JSON object that names a session.
    pub fn read(json: &str) -> Option<Self> {
        let fields: Value = serde_json::from_str(json).ok()?;
        let text = |name: &str| {
            let value = fields.get(name).and_then(Value::as_str);
            value.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let transcript = text("transcript_path").map(PathBuf::from);
        let is_rollout = transcript.as_ref().is_some_and(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("rollout-") || path.components().any(|part| part.as_os_str() == ".codex")
        });
        Some(Self {
            session: text("session_id")?,
            transcript,
            folder: text("cwd").map(PathBuf::from),
            source: text("source"),
            reason: text("reason"),
            last_answer: text("last_assistant_message"),
            is_subagent: text("agent_id").is_some(),
            is_codex: is_rollout || text("turn_id").is_some(),
        })
    }

    /// Returns the present length of the transcript; 0 if there is no transcript.
    pub(super) fn transcript_bytes(&self) -> u64 {
        let metadata = self.transcript.as_ref().and_then(|path| path.metadata().ok());
        metadata.map_or(0, |metadata| metadata.len())
    }

    pub(super) fn host(&self) -> Host {
        if self.is_codex { Host::Codex } else { Host::ClaudeCode }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_input_shows_which_host_calls() {
        for (json, expected) in [
            (
                r#"{"session_id":"s","transcript_path":"/home/a/.claude/projects/x/s.jsonl"}"#,
                Host::ClaudeCode,
            ),
            (r#"{"session_id":"s"}"#, Host::ClaudeCode),
            (r#"{"session_id":"s","turn_id":"t"}"#, Host::Codex),
            (
                r#"{"session_id":"s","transcript_path":"/x/sessions/2026/11/20/rollout-2026.jsonl"}"#,
                Host::Codex,
            ),
            (r#"{"session_id":"s","transcript_path":"/home/a/.codex/x.jsonl"}"#, Host::Codex),
        ] {
            assert_eq!(Input::read(json).unwrap().host(), expected, "{json}");
        }
    }

    #[test]
    fn invalid_fields_of_an_input_count_as_absent() {
        for nothing in ["", "[]", "{}", "null", r#"{"session_id":7}"#, r#"{"session_id":""}"#, "{"] {
            assert_eq!(Input::read(nothing), None, "{nothing}");
        }
        let input = Input::read(r#"{"session_id":"s","cwd":7,"source":null,"agent_id":"a"}"#).unwrap();
        assert!(input.is_subagent && input.folder.is_none() && input.source.is_none());
    }

    proptest! {
        #[test]
        fn any_input_is_parsed_without_a_panic(
            json in "(\\{|\\}|\\[|\\]|:|,|\"session_id\"|\"transcript_path\"|\"cwd\"|\"/x/rollout-1\"|\"s\"|null|[0-9]|\\PC){0,24}",
            session in "\\PC{0,12}", path in "(/|\\.\\.|rollout-|\\.codex|\\PC){0,8}",
        ) {
            let whole = serde_json::json!({ "session_id": session, "transcript_path": path, "cwd": path }).to_string();
            for text in [json, whole] {
                if let Some(input) = Input::read(&text) {
                    prop_assert!(!input.session.is_empty());
                    prop_assert_ne!(input.transcript.as_deref(), Some(std::path::Path::new("")));
                    input.host();
                }
            }
        }
    }
}
