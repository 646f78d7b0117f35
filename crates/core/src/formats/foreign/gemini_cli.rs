//! Reads sessions of Gemini CLI (`~/.gemini/tmp/*/chats/session-*.json` and `.jsonl`), and the events of its `stream-json` output.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{
    super::json::{self, Fields},
    ForeignFormat, Transcription, objects, quoted,
    turn::{ForeignCall, ForeignResult, TurnWriter, field},
};

pub(super) const SESSION: ForeignFormat =
    ForeignFormat { name: "gemini-cli", is_entry: is_session, read: read_session };
pub(super) const STREAM: ForeignFormat =
    ForeignFormat { name: "gemini-cli-stream", is_entry: is_event, read: read_events };
/// A line with this field takes back everything from the message on whose id it has.
const REWIND: &str = "$rewindTo";
/// A line with this field changes the session's own fields.
const SET: &str = "$set";

fn is_session(entry: &Fields<'_>) -> bool {
    let is_head = entry.text("sessionId").is_some() && entry.text("projectHash").is_some();
    let is_message = entry.text("type").is_some_and(|kind| kind == "gemini");
    is_head || is_message && entry.has("timestamp") && entry.contains("content")
}

fn read_session(entries: &[&RawValue], transcription: &mut Transcription) {
    let mut answered = HashSet::new();
    for raw in messages(entries) {
        let Some(message) = Fields::of(raw) else { continue };
        let kind = message.text("type").unwrap_or_default();
        match kind.as_str() {
            "user" => push_user(&message, &mut answered, transcription),
            "gemini" => push_answer(&message, &mut answered, transcription),
            // Notices, warnings and errors are for the user only.
            kind => transcription.leave_out(&format!("{kind} message")),
        }
    }
}

/// Returns the messages that remain at the end of the session. A later line may replace a message with a longer one of the same id.
fn messages<'a>(entries: &[&'a RawValue]) -> Vec<&'a RawValue> {
    let mut current: Vec<(String, &RawValue)> = Vec::new();
    for &raw in entries {
        let Some(entry) = Fields::of(raw) else { continue };
        let set = entry.object(SET);
        if let Some(list) = set.as_ref().unwrap_or(&entry).list("messages") {
            let id = |raw: &RawValue| Fields::of(raw)?.text("id");
            current = list.into_iter().map(|raw| (id(raw).unwrap_or_default(), raw)).collect();
        } else if let Some(first) = entry.text(REWIND) {
            let index = current.iter().position(|(id, _)| *id == first);
            current.truncate(index.unwrap_or_default());
        } else if let Some(id) = entry.text("id") {
            match current.iter_mut().find(|(current, _)| *current == id) {
                Some((_, message)) => *message = raw,
                None => current.push((id, raw)),
            }
        }
    }
    current.into_iter().map(|(_, raw)| raw).collect()
}

/// Adds a content of the user's, without the results that have been read with their calls.
fn push_user(message: &Fields<'_>, answered: &mut HashSet<String>, transcription: &mut Transcription) {
    let mut parts = parts(message.raw("content"));
    let repeated = parts.extract_if(.., |part| !is_new(part, answered)).count();
    for _ in 0..repeated {
        transcription.leave_out("repeated result");
    }
    if repeated == 0 || !parts.is_empty() {
        push_content(message, "user", &parts, transcription);
    }
}

/// Returns false for the result of a call in `answered`. Adds the result's call to `answered`.
fn is_new(part: &str, answered: &mut HashSet<String>) -> bool {
    id_within(part, "functionResponse").is_none_or(|id| answered.insert(id))
}

/// Returns the id of the call or result in a part.
fn id_within(part: &str, name: &str) -> Option<String> {
    Fields::parse(part).ok()?.object(name)?.text("id")
}

/// Adds an answer of the model, and the results of its calls as a content of the user's.
fn push_answer(message: &Fields<'_>, answered: &mut HashSet<String>, transcription: &mut Transcription) {
    let calls: Vec<Fields<'_>> = objects(message, "toolCalls");
    let thoughts = objects(message, "thoughts").into_iter().map(|thought| {
        let text = [thought.text("subject"), thought.text("description")];
        let text = text.into_iter().flatten().collect::<Vec<_>>().join("\n");
        format!(r#"{{"text":{},"thought":true}}"#, quoted(&text))
    });
    let texts = parts(message.raw("content"));
    let written_calls = calls.iter().map(|call| format!(r#"{{"functionCall":{}}}"#, call_json(call)));
    let answer: Vec<String> = thoughts.chain(texts).chain(written_calls).collect();
    push_content(message, "model", &answer, transcription);
    // Some providers use an id again, for a call that has no result yet.
    for id in answer.iter().filter_map(|part| id_within(part, "functionCall")) {
        answered.remove(&id);
    }
    let results = calls.iter().flat_map(results).filter(|part| is_new(part, answered));
    let results: Vec<String> = results.collect();
    if results.is_empty() {
        return;
    }
    let at = calls.last().and_then(|call| call.raw("timestamp"));
    let at = at.or_else(|| message.raw("timestamp"));
    let id = message.text("id").map(|id| format!("{id}/results"));
    transcription.push_message(content_json("user", &results, id.as_deref(), at));
}

fn call_json(call: &Fields<'_>) -> String {
    let args = call.raw("args").map_or("{}", RawValue::get);
    let id = field("id", call.text("id").as_deref());
    format!(r#"{{{id}{}"args":{args}}}"#, field("name", call.text("name").as_deref()))
}

/// Returns the result's parts as Gemini got them. If a call has no parts, returns the text that the user saw.
fn results(call: &Fields<'_>) -> Vec<String> {
    let sent: Vec<String> = parts(call.raw("result"));
    let is_whole = |part: &String| part.contains("\"functionResponse\"");
    if sent.iter().any(is_whole) {
        return sent;
    }
    let status = call.text("status").unwrap_or_default();
    let display = call.text("resultDisplay").filter(|_| sent.is_empty());
    let (name, text) = match status.as_str() {
        "error" | "cancelled" => ("error", display.unwrap_or(status)),
        _ if sent.is_empty() && display.is_none() => return Vec::new(),
        _ => ("output", display.unwrap_or_else(|| sent.join("\n"))),
    };
    let head =
        [field("id", call.text("id").as_deref()), field("name", call.text("name").as_deref())].concat();
    vec![format!(r#"{{"functionResponse":{{{head}"response":{{"{name}":{}}}}}}}"#, quoted(&text))]
}

/// Adds a content of Gemini's, unless it has no parts.
pub(super) fn push_content(
    message: &Fields<'_>,
    role: &str,
    parts: &[String],
    transcription: &mut Transcription,
) {
    if parts.is_empty() {
        transcription.leave_out("message without content");
        return;
    }
    let id = message.text("id").or_else(|| message.text("uuid"));
    transcription.push_message(content_json(role, parts, id.as_deref(), message.raw("timestamp")));
}

fn content_json(role: &str, parts: &[String], id: Option<&str>, at: Option<&RawValue>) -> String {
    let at = at.map(|at| format!(r#""at":{at},"#)).unwrap_or_default();
    let id = field("client_id", id);
    format!(r#"{{{id}{at}"role":"{role}","parts":[{}]}}"#, parts.join(","))
}

/// Returns the parts of a content: a text, a part, or a list of both.
pub(super) fn parts(content: Option<&RawValue>) -> Vec<String> {
    let Some(content) = content else { return Vec::new() };
    let list = json::list(content).unwrap_or_else(|| vec![content]);
    let part = |raw: &RawValue| match json::string(raw) {
        Some(text) if text.is_empty() => None,
        Some(text) => Some(format!(r#"{{"text":{}}}"#, quoted(&text))),
        None => Some(raw.get().to_owned()),
    };
    list.into_iter().filter_map(part).collect()
}

fn is_event(entry: &Fields<'_>) -> bool {
    match entry.text("type").as_deref() {
        Some("init") => entry.text("session_id").is_some() && entry.has("model"),
        Some("tool_use") => entry.has("tool_name") && entry.has("tool_id"),
        Some("tool_result") => entry.has("tool_id"),
        _ => false,
    }
}

/// Reads the events in sequence. An answer comes in pieces (`delta`), which are joined.
fn read_events(entries: &[&RawValue], transcription: &mut Transcription) {
    let mut answer: Option<(TurnWriter, String)> = None;
    for event in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let kind = event.text("type").unwrap_or_default();
        let text = event.text("content").unwrap_or_default();
        if kind == "message" && event.text("role").is_some_and(|role| role == "assistant") {
            let (_, answer_text) = answer.get_or_insert_with(|| {
                (TurnWriter::new("assistant").at(event.raw("timestamp")), String::new())
            });
            answer_text.push_str(&text);
            continue;
        }
        if let Some((turn, answer_text)) = answer.take() {
            transcription.push(turn.saying(&answer_text));
        }
        let mut turn = TurnWriter::new("assistant").at(event.raw("timestamp"));
        match kind.as_str() {
            "message" => turn = TurnWriter::new("user").at(event.raw("timestamp")).saying(&text),
            "tool_use" => turn.call(&ForeignCall {
                id: event.text("tool_id"),
                name: event.text("tool_name"),
                arguments: event.raw("parameters"),
            }),
            "tool_result" => turn.result(&stream_result(&event)),
            kind => {
                transcription.leave_out(&format!("{kind} event"));
                continue;
            }
        }
        transcription.push(turn);
    }
    if let Some((turn, answer_text)) = answer {
        transcription.push(turn.saying(&answer_text));
    }
}

fn stream_result(event: &Fields<'_>) -> ForeignResult {
    let error = event.object("error").and_then(|error| error.text("message"));
    let output = error.or_else(|| event.text("output")).unwrap_or_default();
    ForeignResult {
        id: event.text("tool_id"),
        content: Some(quoted(&output)),
        is_error: event.text("status").is_some_and(|status| status == "error"),
        ..ForeignResult::default()
    }
}
