//! Reads `conversations.json` of a ChatGPT export: conversations as trees of messages, each with the leaf that was shown last.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::{
    super::json::{self, Fields},
    ForeignFormat, Transcription, quoted,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const EXPORT: ForeignFormat = ForeignFormat { name: "chatgpt-export", is_entry, read };
/// The recipient of messages that the user sees.
const EVERYONE: &str = "all";

fn is_entry(entry: &Fields<'_>) -> bool {
    entry.object("mapping").is_some() && entry.contains("current_node")
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    for conversation in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let Some(mapping) = conversation.raw("mapping") else {
            transcription.leave_out("conversation without messages");
            continue;
        };
        let name = conversation.text("conversation_id").or_else(|| conversation.text("id"));
        transcription.begin(name.or_else(|| conversation.text("title")));
        let nodes: HashMap<String, &RawValue> = serde_json::from_str(mapping.get()).unwrap_or_default();
        let path = path(&nodes, conversation.text("current_node"));
        let messages = |raw: &&&RawValue| Fields::of(raw).is_some_and(|node| node.has("message"));
        let skipped = nodes.values().filter(messages).count() - path.len();
        (0..skipped).for_each(|_| transcription.leave_out("message of another branch"));
        let mut call = None;
        for message in path {
            read_message(&message, &mut call, transcription);
        }
    }
}

/// Returns the messages from the root to the leaf. Stops at a node that it has visited already, so a circle of parents ends.
fn path<'a>(nodes: &HashMap<String, &'a RawValue>, leaf: Option<String>) -> Vec<Fields<'a>> {
    let (mut path, mut visited, mut next) = (Vec::new(), HashSet::new(), leaf);
    while let Some(id) = next.take().filter(|id| !visited.contains(id)) {
        let Some(node) = nodes.get(&id).and_then(|raw| Fields::of(raw)) else {
            break;
        };
        path.extend(node.object("message"));
        next = node.text("parent");
        visited.insert(id);
    }
    path.reverse();
    path
}

/// Reads a message. A message of the model that is addressed to a tool is a call. `call` is the id of the last call, which the next
/// message of a tool answers.
fn read_message(message: &Fields<'_>, call: &mut Option<String>, transcription: &mut Transcription) {
    let author = message.object("author");
    let role = author.as_ref().and_then(|author| author.text("role")).unwrap_or_default();
    let metadata = message.object("metadata");
    if metadata.as_ref().is_some_and(is_hidden) {
        transcription.leave_out("hidden message");
        return;
    }
    for _ in metadata.as_ref().and_then(|metadata| metadata.list("attachments")).unwrap_or_default() {
        transcription.leave_out("attachment");
    }
    let id = message.text("id");
    let mut turn = TurnWriter::new(&role).id(id.clone()).at(message.raw("create_time"));
    let recipient = message.text("recipient").filter(|name| name != EVERYONE && role == "assistant");
    let Some(content) = message.object("content") else {
        transcription.leave_out("message without content");
        return;
    };
    let kind = content.text("content_type").unwrap_or_default();
    if kind == "thoughts" || kind == "reasoning_recap" {
        add_thoughts(&content, &mut turn);
    } else if metadata.as_ref().is_some_and(is_of_thinking) {
        turn = turn.with_role("assistant");
        turn.think(&content_texts(&content, transcription).join("\n"));
    } else if let Some(tool) = recipient {
        let text = content_texts(&content, transcription).join("\n");
        let arguments = quoted(&text);
        let arguments = serde_json::from_str(&arguments).ok();
        turn.call(&ForeignCall { id: id.clone(), name: Some(tool), arguments });
        *call = id;
    } else if role == "tool" {
        let text = content_texts(&content, transcription).join("\n");
        let name = author.and_then(|author| author.text("name"));
        let is_called = call.is_some();
        if is_called || !text.is_empty() {
            // ChatGPT itself asks some tools. Their results follow no call of the model.
            let id = call.take().or(id);
            turn = turn.with_role("assistant");
            if !is_called {
                turn.call(&ForeignCall { id: id.clone(), name: name.clone(), arguments: None });
            }
            turn.result(&ForeignResult {
                id,
                name,
                content: Some(quoted(&text)),
                is_error: kind == "system_error",
            });
        }
    } else {
        for text in content_texts(&content, transcription) {
            turn.say(&text);
        }
    }
    transcription.push(turn);
}

fn is_hidden(metadata: &Fields<'_>) -> bool {
    metadata.flag("is_visually_hidden_from_conversation") == Some(true)
}

/// Returns true if a tool's message is what some models thought: ChatGPT shows such texts while the model thinks, and afterwards.
fn is_of_thinking(metadata: &Fields<'_>) -> bool {
    metadata.contains("initial_text") && metadata.contains("finished_text")
}

fn add_thoughts(content: &Fields<'_>, turn: &mut TurnWriter) {
    for thought in super::objects(content, "thoughts") {
        let text = [thought.text("summary"), thought.text("content")];
        turn.think(&text.into_iter().flatten().collect::<Vec<_>>().join("\n"));
    }
    turn.think(&content.text("content").unwrap_or_default());
}

/// Returns the texts of a content. Images and sounds are separate files in the export.
fn content_texts(content: &Fields<'_>, transcription: &mut Transcription) -> Vec<String> {
    let names = ["text", "result", "user_profile", "user_instructions"];
    let mut texts: Vec<String> = names.iter().filter_map(|name| content.text(name)).collect();
    for part in content.list("parts").unwrap_or_default() {
        let inner = Fields::of(part);
        let text = json::string(part).or_else(|| inner.as_ref()?.text("text"));
        match (text, inner) {
            (Some(text), _) if text.is_empty() => {}
            (Some(text), _) => texts.push(text),
            (None, inner) => {
                let kind = inner.and_then(|inner| inner.text("content_type"));
                transcription.leave_out(&kind.unwrap_or_else(|| "content of another type".to_owned()));
            }
        }
    }
    texts
}
