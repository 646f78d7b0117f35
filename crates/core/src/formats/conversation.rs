//! Extracts the conversation from a line of a host's transcript. Leaves out everything else that the host writes: instructions, skills,
//! events, settings of the request, second copies of results, sealed reasoning.
//!
//! Invariant: the result is a line of the same format. It reads as the same message, except for sealed reasoning.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{COMPACT_SUMMARY, is_wordless_prompt, json::Fields, unknown_kind};
use crate::domain::message::{Format, Kind, Message, Metadata, Part};

/// The fields of a Claude Code line that belong to the conversation.
const CLAUDE_LINE: [&str; 4] = ["type", "uuid", "timestamp", "origin"];
/// The flag of a line with the summary of Claude Code's own compaction.
const CLAUDE_SUMMARY: &str = "isCompactSummary";
/// The fields of the message in such a line that belong to the conversation, besides its content.
const CLAUDE_MESSAGE: [&str; 2] = ["id", "role"];
/// The fields of an attachment with a queued prompt that belong to the conversation.
const CLAUDE_QUEUED: [&str; 4] = ["type", "prompt", "commandMode", "origin"];
/// The fields of a Codex line that belong to the conversation.
const CODEX_LINE: [&str; 3] = ["type", "timestamp", "client_id"];
/// The fields of an event's or a compaction's payload that belong to the conversation.
const CODEX_EVENT: [&str; 2] = ["type", "message"];
/// The field of an item that only its provider can read.
const CODEX_SEALED: &str = "encrypted_content";
/// The type of a line with the summary of Codex's own compaction.
const CODEX_COMPACTED: &str = "compacted";

type Members = BTreeMap<String, Box<RawValue>>;

/// Returns the line of a message of Claude Code or Codex with only its conversation; `None` if the message doesn't belong to the
/// conversation. Returns lines of other formats unchanged.
pub fn conversation_line(message: &Message) -> Option<String> {
    if !is_conversation(message) {
        return None;
    }
    let line = Fields::parse(&message.payload).ok()?;
    match message.format {
        Format::ClaudeCode => claude_code(&line),
        Format::Codex => codex(&line),
        _ => Some(message.payload.clone()),
    }
}

/// Returns true if a message belongs to the conversation. Instructions, events and prompts without a word don't. A host's summary does,
/// since it replaces a part of the conversation; so does the end of a turn, since it closes an exchange.
fn is_conversation(message: &Message) -> bool {
    match &message.kind {
        Kind::System => false,
        Kind::Metadata(Metadata::Interrupted | Metadata::TurnEnd) => true,
        kind @ Kind::Metadata(_) => {
            message.interrupts || [COMPACT_SUMMARY, CODEX_COMPACTED].map(unknown_kind).contains(kind)
        }
        _ => !is_wordless_prompt(message) && message.parts.iter().any(is_readable),
    }
}

/// Returns false for reasoning that only its provider can read.
fn is_readable(part: &Part) -> bool {
    !matches!(part, Part::Thinking(thought) if thought.text.trim().is_empty())
}

fn claude_code(line: &Fields<'_>) -> Option<String> {
    if line.flag("isSidechain") == Some(true) {
        return None;
    }
    let mut fields = members(line, &CLAUDE_LINE);
    if line.flag(CLAUDE_SUMMARY) == Some(true) {
        fields.insert(CLAUDE_SUMMARY.to_owned(), raw(&true)?);
    }
    if let Some(attachment) = line.object("attachment") {
        fields.insert("attachment".to_owned(), raw(&members(&attachment, &CLAUDE_QUEUED))?);
    }
    if let Some(message) = line.object("message") {
        let mut inner = members(&message, &CLAUDE_MESSAGE);
        inner.insert("content".to_owned(), content(&message)?);
        fields.insert("message".to_owned(), raw(&inner)?);
    }
    serde_json::to_string(&fields).ok()
}

/// Returns the content of a message without sealed reasoning and signatures.
fn content(message: &Fields<'_>) -> Option<Box<RawValue>> {
    let Some(blocks) = message.list("content") else {
        return message.raw("content").map(ToOwned::to_owned);
    };
    let blocks: Vec<Box<RawValue>> = blocks.into_iter().filter_map(block).collect();
    raw(&blocks)
}

fn block(block: &RawValue) -> Option<Box<RawValue>> {
    let fields = Fields::of(block);
    match fields.as_ref().and_then(|fields| Some((fields.text("type")?, fields))) {
        Some((kind, _)) if kind == "redacted_thinking" => None,
        Some((kind, fields)) if kind == "thinking" => {
            fields.text("thinking")?;
            raw(&members(fields, &["type", "thinking"]))
        }
        _ => Some(block.to_owned()),
    }
}

fn codex(line: &Fields<'_>) -> Option<String> {
    let Some(payload) = line.object("payload") else {
        return serde_json::to_string(&without_sealed(line)).ok();
    };
    let payload = match line.text("type")?.as_str() {
        "response_item" => without_sealed(&payload),
        _ => members(&payload, &CODEX_EVENT),
    };
    let mut fields = members(line, &CODEX_LINE);
    fields.insert("payload".to_owned(), raw(&payload)?);
    serde_json::to_string(&fields).ok()
}

/// Returns the fields of a Codex item, except null and what only its provider can read.
fn without_sealed(item: &Fields<'_>) -> Members {
    let all = item.entries();
    all.filter(|(name, value)| *name != CODEX_SEALED && value.get() != "null")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn members(fields: &Fields<'_>, names: &[&str]) -> Members {
    let present = names.iter().filter_map(|name| Some((*name, fields.raw(name)?)));
    present.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn raw(value: &impl Serialize) -> Option<Box<RawValue>> {
    to_raw_value(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::parse;

    fn extract(format: Format, line: &str) -> Option<String> {
        conversation_line(&parse(format, line).unwrap())
    }

    /// Extracts a line's conversation, and asserts that it reads as the same message.
    fn extract_same(format: Format, line: &str) -> String {
        let whole = parse(format, line).unwrap();
        let line_of_conversation = conversation_line(&whole).unwrap();
        let read = parse(format, &line_of_conversation).unwrap();
        let without_thinking = |message: &Message| {
            let parts = message.parts.iter().filter(|part| !matches!(part, Part::Thinking(_)));
            let parts: Vec<Part> = parts.cloned().collect();
            Message { parts, payload: String::new(), ..message.clone() }
        };
        assert_eq!(without_thinking(&read), without_thinking(&whole), "{line}");
        assert_eq!(conversation_line(&read).as_ref(), Some(&line_of_conversation), "{line}");
        line_of_conversation
    }

    #[test]
    fn a_line_of_claude_code_keeps_its_conversation_only() {
        let prompt = r#"{"parentUuid":null,"isSidechain":false,"promptId":"p","type":"user","message":{"role":"user","content":"Port it"},"uuid":"u1","timestamp":"2026-11-20T08:40:00.000Z","cwd":"/x","sessionId":"s","version":"2.1.332","gitBranch":"main"}"#;
        insta::assert_snapshot!(extract_same(Format::ClaudeCode, prompt), @r#"{"message":{"content":"Port it","role":"user"},"timestamp":"2026-11-20T08:40:00.000Z","type":"user","uuid":"u1"}"#);
        let answer = r#"{"type":"assistant","uuid":"u2","message":{"id":"msg_1","model":"m","role":"assistant","usage":{"input_tokens":1},"content":[{"type":"thinking","thinking":"","signature":"c2VhbA=="},{"type":"thinking","thinking":"Hm","signature":"c2VhbA=="},{"type":"text","text":"Done"}]}}"#;
        insta::assert_snapshot!(extract_same(Format::ClaudeCode, answer), @r#"{"message":{"content":[{"thinking":"Hm","type":"thinking"},{"type":"text","text":"Done"}],"id":"msg_1","role":"assistant"},"type":"assistant","uuid":"u2"}"#);
        let result = r#"{"type":"user","uuid":"u3","toolUseResult":{"stdout":"hi"},"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"hi"}]}}"#;
        assert!(!extract_same(Format::ClaudeCode, result).contains("stdout"));
        let summary = r#"{"type":"user","uuid":"u4","isCompactSummary":true,"message":{"role":"user","content":"This session is being continued"}}"#;
        assert!(extract_same(Format::ClaudeCode, summary).contains(r#""isCompactSummary":true"#));
        let queued = r#"{"type":"attachment","uuid":"u5","attachment":{"type":"queued_command","prompt":"And tests","commandMode":"prompt","extra":1}}"#;
        assert!(!extract_same(Format::ClaudeCode, queued).contains("extra"));
        let interrupt = r#"{"type":"user","uuid":"u6","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
        extract_same(Format::ClaudeCode, interrupt);
    }

    #[test]
    fn lines_of_claude_code_without_conversation_are_left_out() {
        for line in [
            r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{}}"#,
            r#"{"type":"queue-operation","operation":"enqueue","content":"Do it","sessionId":"s"}"#,
            r#"{"type":"last-prompt","lastPrompt":"Do it","sessionId":"s"}"#,
            r#"{"type":"summary","summary":"A title","leafUuid":"l"}"#,
            r#"{"type":"progress","uuid":"u","data":{"type":"hook_progress"}}"#,
            r#"{"type":"system","uuid":"u","subtype":"turn_duration","durationMs":5}"#,
            r#"{"type":"attachment","uuid":"u","attachment":{"type":"skill_listing","content":"- skill"}}"#,
            r#"{"type":"attachment","uuid":"u","attachment":{"type":"hook_additional_context","content":["<summary agent=\"a\">"]}}"#,
            r#"{"type":"user","uuid":"u","isMeta":true,"message":{"role":"user","content":"Base directory for this skill: /x"}}"#,
            r#"{"type":"user","uuid":"u","message":{"role":"user","content":"<command-name>/model</command-name>"}}"#,
            r#"{"type":"user","uuid":"u","isSidechain":true,"message":{"role":"user","content":"Sub-task"}}"#,
            r#"{"type":"user","uuid":"u","message":{"role":"user","content":[]}}"#,
            r#"{"type":"assistant","uuid":"u","isApiErrorMessage":true,"message":{"role":"assistant","content":[{"type":"text","text":"API Error"}]}}"#,
            r#"{"type":"assistant","uuid":"u","message":{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2VhbA=="}]}}"#,
        ] {
            assert_eq!(extract(Format::ClaudeCode, line), None, "{line}");
        }
    }

    #[test]
    fn a_line_of_codex_keeps_its_conversation_only() {
        let call = r#"{"timestamp":"2026-11-20T08:40:00.000Z","type":"response_item","payload":{"type":"function_call","namespace":null,"name":"shell","arguments":"{}","call_id":"c1"}}"#;
        insta::assert_snapshot!(extract_same(Format::Codex, call), @r#"{"payload":{"arguments":"{}","call_id":"c1","name":"shell","type":"function_call"},"timestamp":"2026-11-20T08:40:00.000Z","type":"response_item"}"#);
        let thought = r#"{"type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"c2VhbA=="}}"#;
        assert!(!extract_same(Format::Codex, thought).contains("c2VhbA"));
        let end = r#"{"type":"event_msg","client_id":"hook-1","payload":{"type":"task_complete","turn_id":"t","last_agent_message":"Done"}}"#;
        insta::assert_snapshot!(extract_same(Format::Codex, end), @r#"{"client_id":"hook-1","payload":{"type":"task_complete"},"type":"event_msg"}"#);
        let compacted = r#"{"type":"compacted","payload":{"message":"What was done","replacement_history":[{"type":"message"}]}}"#;
        assert!(!extract_same(Format::Codex, compacted).contains("replacement"));
    }

    #[test]
    fn lines_of_codex_without_conversation_are_left_out() {
        for line in [
            r#"{"type":"session_meta","payload":{"id":"s","base_instructions":"You are"}}"#,
            r#"{"type":"turn_context","payload":{"cwd":"/x"}}"#,
            r#"{"type":"event_msg","payload":{"type":"token_count","info":null}}"#,
            r#"{"type":"event_msg","payload":{"type":"agent_message","message":"Done"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"<permissions>"}]}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n<cwd>/x</cwd>\n</environment_context>"}]}}"#,
            r#"{"type":"response_item","payload":{"type":"reasoning","summary":[],"encrypted_content":"c2VhbA=="}}"#,
        ] {
            assert_eq!(extract(Format::Codex, line), None, "{line}");
        }
    }
}
