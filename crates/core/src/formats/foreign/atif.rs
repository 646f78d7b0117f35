//! Reads trajectories in the Agent Trajectory Interchange Format, which Harbor and Terminal-Bench write.

use serde_json::value::RawValue;

use super::{
    super::json::Fields,
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

fn read_step(step: &Fields<'_>, session: Option<&str>, transcription: &mut Transcription) {
    let role = match step.text("source").as_deref() {
        Some("user") => "user",
        Some("system") => "system",
        _ => "assistant",
    };
    let id = session.and_then(|session| Some(format!("{session}/{}", step.label("step_id")?)));
    let mut turn = TurnWriter::new(role).id(id).at(step.raw("timestamp"));
    turn.think(&step.text("reasoning_content").unwrap_or_default());
    content::add(step.raw("message"), &mut turn, transcription);
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
            content: result.raw("content").map(|raw| raw.get().to_owned()),
            ..ForeignResult::default()
        });
    }
    transcription.push(turn);
}
