//! Reads messages of LangChain and LangGraph: `messages_to_dict` (`{type, data}`), serialised constructors (`lc`, `kwargs`), and
//! dictionaries with the fields of a message.

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
    ForeignFormat, Transcription, content, objects,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const MESSAGES: ForeignFormat = ForeignFormat { name: "langchain", is_entry, read };
/// The names of the user and of the model, as LangChain writes them.
const AUTHORS: [&str; 4] = ["human", "ai", "HumanMessage", "AIMessage"];

fn is_entry(entry: &Fields<'_>) -> bool {
    let is_message = |name: String| name.ends_with("Message") || name.ends_with("MessageChunk");
    if entry.has("lc") {
        return entry.has("kwargs") && class(entry).is_some_and(is_message);
    }
    let Some(kind) = entry.text("type").filter(|_| !entry.has("message")) else {
        return false;
    };
    let data = entry.object("data").is_some_and(|data| data.has("content") && data.has("type"));
    data || AUTHORS.contains(&author(&kind)) && entry.contains("content") && !entry.has("source")
}

/// Returns the name of a serialised object's class, which is the last name of its `id`.
fn class(entry: &Fields<'_>) -> Option<String> {
    super::json::string(entry.list("id")?.last()?)
}

/// Returns the author that a kind of messages names.
fn author(kind: &str) -> &str {
    kind.strip_suffix("Chunk").unwrap_or(kind)
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    for entry in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let kind = if entry.has("lc") { class(&entry) } else { entry.text("type") };
        let kind = kind.or_else(|| entry.text("role")).unwrap_or_default();
        let inner = entry.object("kwargs").or_else(|| entry.object("data"));
        read_message(author(&kind), inner.as_ref().unwrap_or(&entry), transcription);
    }
}

fn read_message(kind: &str, message: &Fields<'_>, transcription: &mut Transcription) {
    let role = match kind {
        "human" | "HumanMessage" | "user" => "user",
        "ai" | "AIMessage" | "assistant" => "assistant",
        "system" | "SystemMessage" | "developer" => "system",
        "tool" | "ToolMessage" | "function" | "FunctionMessage" => "tool",
        other => return transcription.leave_out(&format!("{other} message")),
    };
    let extra = message.object("additional_kwargs");
    let extra = extra.as_ref();
    let at =
        ["created_at", "timestamp"].iter().find_map(|name| message.raw(name).or_else(|| extra?.raw(name)));
    let mut turn = TurnWriter::new(role).id(message.text("id")).at(at);
    if role == "tool" {
        turn.result(&ForeignResult {
            id: message.text("tool_call_id"),
            name: message.text("name"),
            content: message.raw("content").map(|raw| raw.get().to_owned()),
            is_error: message.text("status").is_some_and(|status| status == "error"),
        });
    } else {
        turn = turn.speaker(message.text("name"));
        turn.think(&extra.and_then(|extra| extra.text("reasoning_content")).unwrap_or_default());
        let calls = calls(message, extra);
        content::add_content(message.raw("content"), calls.is_empty(), &mut turn, transcription);
        for call in &calls {
            turn.call(call);
        }
    }
    transcription.push(turn);
}

/// Returns the calls of a message: those that LangChain parsed and those that it couldn't parse or, if there are none, the calls as the
/// provider sent them.
fn calls<'a>(message: &Fields<'a>, extra: Option<&Fields<'a>>) -> Vec<ForeignCall<'a>> {
    let parsed = objects(message, "tool_calls").into_iter().chain(objects(message, "invalid_tool_calls"));
    let parsed: Vec<ForeignCall<'_>> = parsed.map(|call| read_call(&call)).collect();
    if !parsed.is_empty() {
        return parsed;
    }
    let sent = extra.map(|extra| objects(extra, "tool_calls")).unwrap_or_default();
    sent.iter().map(read_call).collect()
}

fn read_call<'a>(call: &Fields<'a>) -> ForeignCall<'a> {
    let function = call.object("function");
    let inner = function.as_ref().unwrap_or(call);
    ForeignCall {
        id: call.text("id"),
        name: inner.text("name"),
        arguments: inner.raw("args").or_else(|| inner.raw("arguments")),
    }
}
