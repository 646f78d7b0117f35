//! Checks a request from its JSON alone. Written from the providers' rules, independently of the code that builds requests.

use std::collections::HashSet;

use serde_json::Value;

use super::RequestFormat;

/// A message or item of a request: its role, the ids of its calls, the ids of the calls that it answers, and its texts.
#[derive(Debug, Default)]
struct RequestEntry {
    role: String,
    calls: Vec<String>,
    answers: Vec<String>,
    texts: Vec<String>,
    /// True if a text precedes a result.
    answers_late: bool,
    /// True for thinking without its provider's signature.
    is_unsigned: bool,
}

/// Fails with the first rule that `body` breaks. `alternates` says that the roles of messages must alternate.
pub(super) fn check(target: RequestFormat, body: &Value, alternates: bool) -> Result<(), String> {
    let entries: Vec<RequestEntry> = match target {
        RequestFormat::Anthropic => list(&body["messages"]).map(anthropic).collect(),
        RequestFormat::OpenAiChat => list(&body["messages"]).map(chat).collect(),
        RequestFormat::OpenAiResponses => list(&body["input"]).map(response).collect(),
        RequestFormat::Gemini => list(&body["contents"]).map(gemini).collect(),
    };
    let spoken: Vec<&RequestEntry> = entries.iter().filter(|entry| entry.role != "system").collect();
    if let Some(first) = spoken.first() {
        ensure(first.role == "user" && first.answers.is_empty(), "the user is first", first)?;
    }
    // These providers take all calls of a round in one message, and all their results in the next one.
    let by_message = matches!(target, RequestFormat::Anthropic | RequestFormat::Gemini);
    for (at, entry) in spoken.iter().enumerate() {
        let is_empty = entry.calls.is_empty() && entry.answers.is_empty() && entry.texts.is_empty();
        ensure(!is_empty, "nothing is empty", entry)?;
        ensure(entry.texts.iter().all(|text| !text.trim().is_empty()), "no text is blank", entry)?;
        ensure(!entry.answers_late, "results come first", entry)?;
        ensure(!entry.is_unsigned, "thinking is signed", entry)?;
        if by_message && alternates && at > 0 {
            ensure(spoken[at - 1].role != entry.role, "roles alternate", entry)?;
        }
    }
    check_pairs(&entries, by_message)
}

/// Checks that the results of each run of calls directly follow it, in the same order, and that there are no other results.
fn check_pairs(entries: &[RequestEntry], by_message: bool) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut at = 0;
    while at < entries.len() {
        ensure(entries[at].answers.is_empty(), "a result has its call", &entries[at])?;
        let mut calls = Vec::new();
        while at < entries.len() && (calls.is_empty() || !entries[at].calls.is_empty()) {
            calls.extend(entries[at].calls.clone());
            at += 1;
            if calls.is_empty() || by_message {
                break;
            }
        }
        let mut answers = Vec::new();
        while at < entries.len() && answers.len() < calls.len() && !entries[at].answers.is_empty() {
            answers.extend(entries[at].answers.clone());
            at += 1;
            if by_message {
                break;
            }
        }
        if calls != answers {
            return Err(format!("calls {calls:?} are answered by {answers:?}"));
        }
        for call in calls {
            if !seen.insert(call.clone()) {
                return Err(format!("two calls have the id {call}"));
            }
        }
    }
    Ok(())
}

fn ensure(holds: bool, rule: &str, entry: &RequestEntry) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| format!("{rule}: {entry:?}"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn anthropic(message: &Value) -> RequestEntry {
    let mut entry = RequestEntry { role: text(&message["role"]), ..RequestEntry::default() };
    if message["content"].is_string() {
        entry.texts.push(text(&message["content"]));
    }
    for block in list(&message["content"]) {
        match block["type"].as_str().unwrap() {
            "text" => entry.texts.push(text(&block["text"])),
            "tool_use" => entry.calls.push(text(&block["id"])),
            "tool_result" => {
                entry.answers_late |= !entry.texts.is_empty();
                entry.answers.push(text(&block["tool_use_id"]));
            }
            other => {
                entry.is_unsigned |= is_unsigned(block);
                entry.texts.push(other.to_owned());
            }
        }
    }
    entry
}

/// Returns true for thinking without Anthropic's base64 signature.
fn is_unsigned(block: &Value) -> bool {
    let seal = match block["type"].as_str() {
        Some("thinking") => text(&block["signature"]),
        Some("redacted_thinking") => text(&block["data"]),
        _ => return false,
    };
    seal.trim().is_empty() || seal.contains(|c: char| !c.is_ascii_alphanumeric() && !"+/=".contains(c))
}

fn chat(message: &Value) -> RequestEntry {
    let is_result = message["role"] == "tool";
    let mut entry = RequestEntry {
        role: text(&message["role"]),
        calls: list(&message["tool_calls"]).map(|call| text(&call["id"])).collect(),
        ..RequestEntry::default()
    };
    if is_result {
        entry.answers.push(text(&message["tool_call_id"]));
    } else if message["content"].is_string() {
        entry.texts.push(text(&message["content"]));
    }
    for block in list(&message["content"]) {
        entry.texts.push(block["text"].as_str().unwrap_or("other").to_owned());
    }
    entry
}

fn response(item: &Value) -> RequestEntry {
    let id = || vec![text(&item["call_id"])];
    match item["type"].as_str().unwrap() {
        "function_call" => {
            RequestEntry { role: "assistant".to_owned(), calls: id(), ..RequestEntry::default() }
        }
        "function_call_output" => {
            RequestEntry { role: "tool".to_owned(), answers: id(), ..RequestEntry::default() }
        }
        _ => RequestEntry {
            role: text(&item["role"]),
            texts: list(&item["content"]).map(|part| text(&part["text"])).collect(),
            ..RequestEntry::default()
        },
    }
}

fn gemini(content: &Value) -> RequestEntry {
    let mut entry = RequestEntry { role: text(&content["role"]), ..RequestEntry::default() };
    for part in list(&content["parts"]) {
        if part["functionCall"].is_object() {
            entry.calls.push(text(&part["functionCall"]["id"]));
        } else if part["functionResponse"].is_object() {
            entry.answers_late |= !entry.texts.is_empty();
            entry.answers.push(text(&part["functionResponse"]["id"]));
        } else {
            entry.texts.push(text(&part["text"]));
        }
    }
    entry
}

#[test]
fn the_checker_finds_invalid_requests() {
    let user = serde_json::json!({"role": "user", "content": "go"});
    let call = serde_json::json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]});
    let result =
        serde_json::json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]});
    let late = serde_json::json!({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "1"}]});
    let thought = |signature: &str| serde_json::json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": signature}]});
    let (signed, unsigned, of_other_server) = (thought("c2lnbmVk"), thought(""), thought("by:c2ln"));
    let blank = serde_json::json!({"role": "user", "content": [{"type": "text", "text": " "}]});
    let verdict = |messages: &[&Value]| {
        let body = serde_json::json!({"messages": messages});
        check(RequestFormat::Anthropic, &body, true).is_ok()
    };
    assert!(verdict(&[&user, &call, &result]));
    assert!(verdict(&[&user, &signed]));
    for broken in [
        &[&call, &result][..],
        &[&result],
        &[&user, &call],
        &[&user, &call, &user],
        &[&user, &call, &late],
        &[&user, &call, &result, &call, &result],
        &[&user, &user],
        &[&blank],
        &[&user, &unsigned],
        &[&user, &of_other_server],
    ] {
        assert!(!verdict(broken), "{broken:?}");
    }
}
