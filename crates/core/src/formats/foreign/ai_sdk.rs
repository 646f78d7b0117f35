//! Reads messages of Vercel's AI SDK: UIMessages (`parts`) and ModelMessages (`content` with `tool-call` and `tool-result`).

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
    ForeignFormat, Transcription, objects, quoted,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const UI: ForeignFormat =
    ForeignFormat { name: "ai-sdk-ui", is_entry: is_ui_message, read: read_ui };
pub(super) const MODEL: ForeignFormat =
    ForeignFormat { name: "ai-sdk", is_entry: is_model_message, read: read_model };
const ROLES: [&str; 3] = ["system", "user", "assistant"];
/// Blocks that only ModelMessages have.
const MODEL_BLOCKS: [&str; 4] =
    ["tool-call", "tool-result", "tool-approval-request", "tool-approval-response"];
/// The types of parts with a tool's call and result begin like this; the tool's name follows.
const TOOL: &str = "tool-";

fn is_ui_message(entry: &Fields<'_>) -> bool {
    let is_role = entry.text("role").is_some_and(|role| ROLES.contains(&role.as_str()));
    let parts = objects(entry, "parts");
    is_role && !parts.is_empty() && parts.iter().all(|part| part.text("type").is_some())
}

fn is_model_message(entry: &Fields<'_>) -> bool {
    let is_model_block = |part: &Fields<'_>| {
        let kind = part.text("type").unwrap_or_default();
        let is_file = kind == "file" && part.has("data") || kind == "image" && part.has("image");
        MODEL_BLOCKS.contains(&kind.as_str()) || is_file || kind == "reasoning" && part.has("text")
    };
    entry.has("role") && objects(entry, "content").iter().any(is_model_block)
}

fn read_ui(entries: &[&RawValue], transcription: &mut Transcription) {
    for message in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let metadata = message.object("metadata");
        let dated = metadata.as_ref().and_then(|metadata| metadata.raw("createdAt"));
        let mut turn = TurnWriter::new(&message.text("role").unwrap_or_default())
            .id(message.text("id"))
            .at(message.raw("createdAt").or(dated));
        for part in objects(&message, "parts") {
            read_ui_part(&part, &mut turn, transcription);
        }
        if !message.has("parts") {
            turn.say(&message.text("content").unwrap_or_default());
        }
        transcription.push(turn);
    }
}

fn read_ui_part(part: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let kind = part.text("type").unwrap_or_default();
    match kind.as_str() {
        "text" => turn.say(&part.text("text").unwrap_or_default()),
        "reasoning" => {
            let text = part.text("text").or_else(|| part.text("reasoning"));
            turn.think(&text.unwrap_or_default());
        }
        "file" => attach(part, turn, transcription),
        // Version 4 of the SDK has the call and its result in an object of its own.
        "tool-invocation" => match part.object("toolInvocation") {
            Some(tool) => read_tool(&tool, tool.text("toolName"), turn),
            None => transcription.leave_out(&kind),
        },
        "dynamic-tool" => read_tool(part, part.text("toolName"), turn),
        kind => {
            if let Some(name) = kind.strip_prefix(TOOL) {
                read_tool(part, Some(name.to_owned()), turn);
                return;
            }
            if kind == "step-start" {
                turn.end_round();
            }
            transcription.leave_out(kind);
        }
    }
}

fn read_tool(tool: &Fields<'_>, name: Option<String>, turn: &mut TurnWriter) {
    let id = tool.text("toolCallId");
    let inputs = ["input", "args", "rawInput"];
    turn.call(&ForeignCall {
        id: id.clone(),
        name: name.clone(),
        arguments: inputs.iter().find_map(|name| tool.raw(name)),
    });
    let error = tool.text("errorText").map(|text| quoted(&text));
    let is_denied = tool.text("state").is_some_and(|state| state == "output-denied");
    let denied = is_denied.then(|| quoted("the user denied the call"));
    let is_error = error.is_some() || is_denied;
    let output = tool.raw("output").or_else(|| tool.raw("result"));
    if let Some(content) = error.or(denied).or_else(|| output.map(|raw| raw.get().to_owned())) {
        turn.result(&ForeignResult { id, name, content: Some(content), is_error });
    }
}

fn read_model(entries: &[&RawValue], transcription: &mut Transcription) {
    for message in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let role = message.text("role").unwrap_or_default();
        let mut turn = TurnWriter::new(&role).id(message.text("id")).at(message.raw("createdAt"));
        turn.say(&message.text("content").unwrap_or_default());
        for part in objects(&message, "content") {
            read_model_part(&part, &mut turn, transcription);
        }
        transcription.push(turn);
    }
}

fn read_model_part(part: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let kind = part.text("type").unwrap_or_default();
    match kind.as_str() {
        "text" => turn.say(&part.text("text").unwrap_or_default()),
        "reasoning" => turn.think(&part.text("text").unwrap_or_default()),
        "image" | "file" => attach(part, turn, transcription),
        "tool-call" => turn.call(&ForeignCall {
            id: part.text("toolCallId"),
            name: part.text("toolName"),
            arguments: part.raw("input").or_else(|| part.raw("args")),
        }),
        "tool-result" => turn.result(&result_of(part)),
        kind => transcription.leave_out(kind),
    }
}

/// Attaches a file. Since version 7 of the SDK, its data may be an object with a type.
fn attach(part: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let media = part.text("mediaType").or_else(|| part.text("mimeType"));
    let typed_data = part.object("data").or_else(|| part.object("image"));
    if let Some(text) = typed_data.as_ref().and_then(|data| data.text("text")) {
        return turn.say(&text);
    }
    let data_of = |fields: &Fields<'_>| ["url", "data", "image"].iter().find_map(|name| fields.text(name));
    let Some(data) = typed_data.as_ref().and_then(data_of).or_else(|| data_of(part)) else {
        return transcription.leave_out("file without data");
    };
    let is_image = part.has("image");
    let media =
        media.unwrap_or_else(|| if is_image { "image/*" } else { "application/octet-stream" }.to_owned());
    turn.attach_data(&media, &data);
}

/// Reads a result. Version 4 of the SDK has the result itself in `result`; later versions have it in `output`, an object with a type.
fn result_of(part: &Fields<'_>) -> ForeignResult {
    let output = part.object("output");
    let kind = output.as_ref().and_then(|output| output.text("type")).unwrap_or_default();
    let value = output.as_ref().and_then(|output| output.raw("value").or_else(|| output.raw("reason")));
    let value = value.or_else(|| part.raw("result")).or_else(|| part.raw("output"));
    let is_denied = kind == "execution-denied";
    ForeignResult {
        id: part.text("toolCallId"),
        name: part.text("toolName"),
        content: value.map(RawValue::get).map(str::to_owned),
        is_error: is_denied || kind.starts_with("error") || part.flag("isError") == Some(true),
    }
}
