//! Reads content as most programs write it: a text, or a list of OpenAI's and Anthropic's blocks.

use serde_json::value::RawValue;

use super::{
    super::json::{self, Fields},
    Transcription, texts,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

/// Blocks that the readers of OpenAI's and Anthropic's formats know. They are copied as they are.
const KNOWN_BLOCKS: [&str; 7] =
    ["image", "image_url", "input_image", "input_audio", "file", "document", "refusal"];

/// Blocks with a call, as a whole or in pieces.
const CALL_BLOCKS: [&str; 5] =
    ["tool_use", "tool_call", "function_call", "input_json_delta", "tool_call_chunk"];

/// Adds a content to a turn. Counts the blocks that it doesn't read.
pub(super) fn add(content: Option<&RawValue>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let Some(content) = content else { return };
    for raw in json::list(content).unwrap_or_else(|| vec![content]) {
        match (json::string(raw), Fields::of(raw)) {
            (Some(text), _) => turn.say(&text),
            (None, Some(block)) => add_block(raw, &block, turn, transcription),
            (None, None) => transcription.leave_out("content of another type"),
        }
    }
}

/// Adds a content to a turn. Adds its calls only if `with_calls` is true: other fields of the message may have the same calls.
pub(super) fn add_content(
    content: Option<&RawValue>,
    with_calls: bool,
    turn: &mut TurnWriter,
    transcription: &mut Transcription,
) {
    let is_call = |raw: &&RawValue| {
        let kind = Fields::of(raw).and_then(|block| block.text("type"));
        kind.is_some_and(|kind| CALL_BLOCKS.contains(&kind.as_str()))
    };
    let blocks = content.and_then(json::list).filter(|_| !with_calls);
    match blocks {
        Some(blocks) => {
            for raw in blocks.into_iter().filter(|raw| !is_call(raw)) {
                add(Some(raw), turn, transcription);
            }
        }
        None => add(content, turn, transcription),
    }
}

fn add_block(raw: &RawValue, block: &Fields<'_>, turn: &mut TurnWriter, transcription: &mut Transcription) {
    let kind = block.text("type").unwrap_or_default();
    match kind.as_str() {
        "text" | "input_text" | "output_text" => turn.say(&block.text("text").unwrap_or_default()),
        "thinking" | "reasoning" => {
            let names = ["thinking", "reasoning", "text", "content"];
            let thought = names.iter().find_map(|name| block.text(name));
            let thought = thought.or_else(|| block.raw("summary").map(texts)).unwrap_or_default();
            // A provider may keep a thought to itself.
            if thought.is_empty() {
                transcription.leave_out("reasoning without text");
            } else {
                turn.think(&thought);
            }
        }
        "tool_use" | "tool_call" | "toolCall" => turn.call(&ForeignCall {
            id: block.text("id"),
            name: block.text("name"),
            arguments: block.raw("input").or_else(|| block.raw("arguments")).or_else(|| block.raw("args")),
        }),
        "tool_result" => turn.result(&ForeignResult {
            id: block.text("tool_use_id"),
            name: block.text("name"),
            content: block.raw("content").map(|raw| raw.get().to_owned()),
            is_error: block.flag("is_error").unwrap_or(false),
        }),
        known if KNOWN_BLOCKS.contains(&known) => turn.add_block(raw.get().to_owned()),
        "" => transcription.leave_out("content of another type"),
        other => transcription.leave_out(other),
    }
}
