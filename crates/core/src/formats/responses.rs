//! Reads items of OpenAI's Responses API: messages, reasoning, and many kinds of calls with their outputs.
//!
//! OpenAI adds kinds of calls every few months, so they are read by a rule: `x_call` is a call of the tool `x`, and `x_output` is a
//! result. Other items become metadata with their own names.

use serde_json::value::RawValue;

use super::{
    FormatError, chat,
    content::{measured, parts, tool_call, tool_result},
    json::{self, Fields},
    message, unknown_kind,
};
use crate::domain::{
    message::{Format, Kind, Message, Part},
    outcome,
    thought::{Seal, Sealer, Thought},
};

/// The types of calls end like this.
const CALL: &str = "_call";
/// The types of results end like this.
const OUTPUT: &str = "_output";
/// The only type of a call that ends differently: code that the model wrote to call tools.
const PROGRAM: &str = "program";
/// Calls that OpenAI runs itself. Such a call contains its result.
const HOSTED: [&str; 5] =
    ["web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"];
/// The fields that may have a call's arguments.
const ARGUMENTS: [&str; 8] =
    ["arguments", "input", "action", "actions", "operation", "code", "queries", "revised_prompt"];
/// The fields that may have results.
const RESULTS: [&str; 6] = ["output", "outputs", "results", "result", "tools", "error"];

pub(super) fn read(item: &Fields<'_>) -> Result<Message, FormatError> {
    read_as(Format::OpenAiResponses, item)
}

/// Reads an item, alone or from the line of a transcript.
pub(super) fn read_as(format: Format, item: &Fields<'_>) -> Result<Message, FormatError> {
    let untyped = || item.has("role").then(|| "message".to_owned());
    let name = item.text("type").or_else(untyped).ok_or_else(|| {
        FormatError::new(
            "item has no `type` and no `role`",
            "give its type (message, function_call, function_call_output, …), or specify the format of the messages",
        )
    })?;
    let (kind, parts) = match name.as_str() {
        "message" => read_message(item)?,
        "reasoning" => (Kind::Assistant, thinking(item)),
        _ if is_output(&name) => (Kind::ToolResult, output(item)),
        _ if is_call(&name) => (Kind::ToolCall, call(&name, item)),
        _ => (unknown_kind(&name), parts(item.raw("content"))),
    };
    Ok(message(format, item, kind, parts))
}

pub(super) fn is_call(name: &str) -> bool {
    name.ends_with(CALL) || name == PROGRAM
}

pub(super) fn is_output(name: &str) -> bool {
    name.ends_with(OUTPUT)
}

fn read_message(item: &Fields<'_>) -> Result<(Kind, Vec<Part>), FormatError> {
    let role = item.text("role").ok_or_else(|| {
        FormatError::new("message item has no `role`", "give its role: user, assistant, system or developer")
    })?;
    let parts = parts(item.raw("content"));
    Ok((chat::kind(&role, &parts), parts))
}

/// Returns the summary and the text of reasoning, one part for each block. Encrypted reasoning is one part, since its seal covers all
/// blocks.
fn thinking(item: &Fields<'_>) -> Vec<Part> {
    let blocks = ["summary", "content"].into_iter().filter_map(|name| item.list(name));
    let texts = blocks.flatten().filter_map(|raw| Fields::of(raw)?.text("text"));
    let sealed = item.text("encrypted_content");
    match Seal::of(Sealer::OpenAi, &sealed.unwrap_or_default()) {
        None => texts.map(|text| Part::Thinking(text.into())).collect(),
        seal => {
            let text = texts.collect::<Vec<_>>().join("\n");
            vec![Part::Thinking(Thought { text, seal })]
        }
    }
}

fn call(name: &str, item: &Fields<'_>) -> Vec<Part> {
    let tool = item.text("name").unwrap_or_else(|| name.strip_suffix(CALL).unwrap_or(name).to_owned());
    let id = call_id(item);
    let mut parts = vec![tool_call(id.clone(), Some(tool.clone()), first(item, &ARGUMENTS))];
    if HOSTED.contains(&name) {
        parts.extend(hosted_result(name, item, id, tool));
    }
    parts
}

/// Returns the result of a call that OpenAI ran itself.
fn hosted_result(name: &str, item: &Fields<'_>, id: Option<String>, tool: String) -> Vec<Part> {
    let is_image = name == "image_generation_call" && item.has("result");
    let content = first(item, &RESULTS).filter(|_| !is_image);
    let mut parts = tool_result(id, Some(tool), content, is_failed(item) || item.has("error"));
    if is_image {
        let kind = item.text("output_format").unwrap_or_else(|| "*".to_owned());
        parts.push(measured(format!("image/{kind}"), item.raw("result")));
    }
    parts
}

fn output(item: &Fields<'_>) -> Vec<Part> {
    let raw = first(item, &RESULTS);
    let object = raw.and_then(Fields::of);
    // An object with a type is a block, such as a screenshot. One without is a wrapper: older clients send a text with a success flag.
    let wrapped = object.as_ref().filter(|object| !object.has("type"));
    let content = wrapped.and_then(|object| object.raw("content")).or(raw);
    let is_error = is_failed(item)
        || wrapped.is_some_and(|object| object.flag("success") == Some(false))
        || content.is_some_and(|content| is_failed_command(content) || has_failed_command(content));
    tool_result(call_id(item), item.text("name"), content, is_error)
}

/// Returns true if Codex reports a failed command: as JSON in a string, or in lines before the command's output.
fn is_failed_command(content: &RawValue) -> bool {
    json::string(content).is_some_and(|text| outcome::is_failure(&text))
}

/// Returns true if a command in the output of OpenAI's shell failed or timed out.
fn has_failed_command(content: &RawValue) -> bool {
    let commands = json::list(content).unwrap_or_default();
    commands.into_iter().filter_map(Fields::of).any(|command| {
        let is_timeout = |end: &Fields<'_>| end.text("type").as_deref() == Some("timeout");
        command.raw("outcome").is_some_and(|end| {
            outcome::is_failure(end.get()) || Fields::of(end).as_ref().is_some_and(is_timeout)
        })
    })
}

fn is_failed(item: &Fields<'_>) -> bool {
    item.text("status").is_some_and(|status| status == "failed" || status == "incomplete")
}

fn call_id(item: &Fields<'_>) -> Option<String> {
    item.text("call_id").or_else(|| item.text("id"))
}

fn first<'a>(item: &Fields<'a>, names: &[&str]) -> Option<&'a RawValue> {
    names.iter().find_map(|name| item.raw(name))
}
