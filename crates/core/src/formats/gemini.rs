//! Reads Gemini's contents: a role, and parts that each hold one thing. Field names come in two spellings: that of HTTP requests
//! (`functionCall`) and that of the Python library (`function_call`).

use serde_json::value::RawValue;

use super::{
    FormatError,
    content::{measured, text_part, tool_call, tool_result},
    json::Fields,
    message, unknown_kind,
};
use crate::domain::{
    message::{Format, Kind, Message, Part},
    outcome,
    thought::{Seal, Sealer, Thought},
};

pub(super) const ROLES: [&str; 5] = ["user", "model", "system", "function", "tool"];
/// The name of the tool that runs code on Gemini's servers.
const CODE_EXECUTION: &str = "code_execution";
/// The outcome of such code that has succeeded.
const OUTCOME_OK: &str = "OUTCOME_OK";
/// The media type of data that names none.
const DEFAULT_MEDIA: &str = "application/octet-stream";

/// Reads a content. A content without a role is the user's, as in Gemini's API.
pub(super) fn read(fields: &Fields<'_>) -> Result<Message, FormatError> {
    let list = fields.list("parts").ok_or_else(|| {
        FormatError::new(
            "content has no `parts`",
            "give its parts as an array of objects, or specify the format of the messages",
        )
    })?;
    let role = fields.text("role").unwrap_or_else(|| "user".to_owned());
    let parts: Vec<Part> = list.into_iter().filter_map(Fields::of).flat_map(|part| parts(&part)).collect();
    Ok(message(Format::Gemini, fields, kind(&role, &parts), parts))
}

/// Returns the kind of a content. Results of functions have the user's role, but aren't the user's words.
fn kind(role: &str, parts: &[Part]) -> Kind {
    let has_call = || parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
    let has_result = || parts.iter().any(|part| matches!(part, Part::ToolResult { .. }));
    match role {
        "system" => Kind::System,
        "user" if has_result() => Kind::ToolResult,
        "user" => Kind::User,
        "model" if has_call() => Kind::ToolCall,
        "model" => Kind::Assistant,
        "function" | "tool" => Kind::ToolResult,
        other => unknown_kind(other),
    }
}

/// Reads a part. Parts of unknown kinds remain in the payload only.
fn parts(part: &Fields<'_>) -> Vec<Part> {
    if let Some(response) = either(part, "functionResponse", "function_response")
        .or_else(|| either(part, "toolResponse", "tool_response"))
    {
        return self::response(&response);
    }
    if let Some(result) = either(part, "codeExecutionResult", "code_execution_result") {
        let is_error = result.text("outcome").is_some_and(|outcome| outcome != OUTCOME_OK);
        return tool_result(None, Some(CODE_EXECUTION.to_owned()), result.raw("output"), is_error);
    }
    text_or_thinking(part).or_else(|| call(part)).or_else(|| attachment(part)).into_iter().collect()
}

fn text_or_thinking(part: &Fields<'_>) -> Option<Part> {
    let text = part.text("text")?;
    if part.flag("thought") == Some(true) {
        let signature = part.text("thoughtSignature").or_else(|| part.text("thought_signature"));
        let seal = Seal::of(Sealer::Other, &signature.unwrap_or_default());
        Some(Part::Thinking(Thought { text, seal }))
    } else {
        text_part(text)
    }
}

fn call(part: &Fields<'_>) -> Option<Part> {
    if let Some(code) = either(part, "executableCode", "executable_code") {
        let name = Some(CODE_EXECUTION.to_owned());
        return Some(tool_call(code.text("id"), name, code.raw("code")));
    }
    let call =
        either(part, "functionCall", "function_call").or_else(|| either(part, "toolCall", "tool_call"))?;
    Some(tool_call(call.text("id"), tool_name(&call), call.raw("args")))
}

fn response(response: &Fields<'_>) -> Vec<Part> {
    let (content, is_error) = unwrap_result(response.raw("response"));
    let mut parts = tool_result(response.text("id"), tool_name(response), content, is_error);
    let nested = response.list("parts").unwrap_or_default();
    parts.extend(nested.into_iter().filter_map(|raw| attachment(&Fields::of(raw)?)));
    parts
}

/// Returns the function's result without the object around it, which Gemini requires, and whether the function failed.
fn unwrap_result(response: Option<&RawValue>) -> (Option<&RawValue>, bool) {
    let wrapped = response.and_then(Fields::of).and_then(Fields::sole);
    let has_failed = || response.is_some_and(|raw| outcome::is_failure(raw.get()));
    match wrapped {
        Some((name, inner)) if name == "error" => (Some(inner), has_failed()),
        Some((name, inner)) if name == "output" || name == "result" => (Some(inner), false),
        // An `error` may come with a code or a partial result.
        _ => (response, has_failed()),
    }
}

/// Returns the tool's name. Google's own tools have a type in place of it.
fn tool_name(tool: &Fields<'_>) -> Option<String> {
    tool.text("name").or_else(|| tool.text("toolType")).or_else(|| tool.text("tool_type"))
}

fn attachment(part: &Fields<'_>) -> Option<Part> {
    let data = either(part, "inlineData", "inline_data").or_else(|| either(part, "fileData", "file_data"))?;
    let media = data.text("mimeType").or_else(|| data.text("mime_type"));
    Some(measured(media.unwrap_or_else(|| DEFAULT_MEDIA.to_owned()), data.raw("data")))
}

/// Returns the object in a field of either spelling.
fn either<'a>(part: &Fields<'a>, wire: &str, python: &str) -> Option<Fields<'a>> {
    part.object(wire).or_else(|| part.object(python))
}
