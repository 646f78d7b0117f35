//! Reads trajectories in the Agent Trajectory Interchange Format, which Harbor and Terminal-Bench write.

use serde_json::value::RawValue;

use super::{
    super::json::{self, Fields},
    ForeignFormat, Transcription, content, objects,
    turn::{ForeignCall, ForeignResult, TurnWriter},
};

pub(super) const TRAJECTORY: ForeignFormat = ForeignFormat { name: "atif", is_entry, read };

fn is_entry(entry: &Fields<'_>) -> bool {
    let is_atif = |version: String| version.starts_with("ATIF");
    entry.text("schema_version").is_some_and(is_atif) && entry.list("steps").is_some()
}

fn read(entries: &[&RawValue], transcription: &mut Transcription) {
    for trajectory in entries.iter().filter_map(|raw| Fields::of(raw)) {
        let session = trajectory.text("session_id");
        if entries.len() > 1 {
            transcription.begin(session.clone());
        }
        for step in objects(&trajectory, "steps") {
            read_step(&step, session.as_deref(), transcription);
        }
    }
}

/// Returns a text, or a list of texts and images, as JSON. Leaves out files that lie beside the trajectory.
fn content_json(content: &RawValue, transcription: &mut Transcription) -> String {
    let Some(blocks) = json::list(content) else {
        return content.get().to_owned();
    };
    let lies_beside = |raw: &&RawValue| {
        let source = Fields::of(raw).and_then(|block| block.object("source"));
        source.is_some_and(|source| source.has("path"))
    };
    let (files, blocks): (Vec<&RawValue>, Vec<&RawValue>) = blocks.into_iter().partition(lies_beside);
    for _ in files {
        transcription.leave_out("file beside the trajectory");
    }
    let blocks: Vec<&str> = blocks.into_iter().map(RawValue::get).collect();
    format!("[{}]", blocks.join(","))
}

fn read_step(step: &Fields<'_>, session: Option<&str>, transcription: &mut Transcription) {
    let role = match step.text("source").as_deref() {
        Some("user") => "user",
        Some("system") => "system",
        _ => "assistant",
    };
    let id = session.and_then(|session| Some(format!("{session}/{}", step.label("step_id")?)));
    let mut turn = TurnWriter::new(role).id(id).at(step.raw("timestamp"));
    turn.think(&step.text("reasoning_content").unwrap_or_default());
    let message = step.raw("message").map(|message| content_json(message, transcription));
    let message = message.and_then(|message| serde_json::from_str::<Box<RawValue>>(&message).ok());
    content::add(message.as_deref(), &mut turn, transcription);
    for call in objects(step, "tool_calls") {
        turn.call(&ForeignCall {
            id: call.text("tool_call_id"),
            name: call.text("function_name"),
            arguments: call.raw("arguments"),
        });
    }
    let observation = step.object("observation");
    for result in observation.map(|observation| objects(&observation, "results")).unwrap_or_default() {
        if result.has("subagent_trajectory_ref") {
            transcription.leave_out("sub-agent's trajectory");
        }
        turn.result(&ForeignResult {
            id: result.text("source_call_id"),
            content: result.raw("content").map(|content| content_json(content, transcription)),
            ..ForeignResult::default()
        });
    }
    transcription.push(turn);
}
