//! The plan or todo list that an agent keeps, in its last state.

use serde_json::Value;

use super::{arguments::Arguments, pairs::FinishedCall};
use crate::domain::text::{cut, one_line};

const ENTRIES_MAX: usize = 50;
const ENTRY_CHARS_MAX: usize = 200;

/// The progress of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanStatus {
    /// Not started.
    Open,
    /// In progress.
    Begun,
    /// Completed.
    Done,
    /// Cancelled or deleted.
    Cancelled,
}

/// An entry of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanEntry {
    /// The task, in one line.
    pub text: String,
    /// `Open` if the call names no known status.
    pub progress: PlanStatus,
}

impl PlanEntry {
    /// Returns true if it is still to do.
    pub fn is_left(&self) -> bool {
        matches!(self.progress, PlanStatus::Open | PlanStatus::Begun)
    }
}

/// Fields with the whole list (Claude Code's `TodoWrite`, Gemini CLI's `write_todos`, Codex' `update_plan`).
const LISTS: [&str; 2] = ["todos", "plan"];
const TEXTS: [&str; 5] = ["content", "step", "description", "title", "subject"];

/// Applies a call that changes the plan.
pub(super) fn note(plan: &mut Vec<PlanEntry>, call: &FinishedCall<'_>, arguments: &Arguments<'_>) {
    let name = call.name.to_lowercase();
    if name.contains("todo") || name.contains("plan") {
        if let Some(Value::Array(entries)) = arguments.field(&LISTS) {
            *plan = entries.iter().filter_map(entry).take(ENTRIES_MAX).collect();
        }
        return;
    }
    // Claude Code creates and changes its tasks one by one, by number.
    let subject = arguments.text_of(&["subject"]);
    match (name.as_str(), subject) {
        ("taskcreate", Some(subject)) if plan.len() < ENTRIES_MAX => plan.push(PlanEntry {
            text: cut(&one_line(subject), ENTRY_CHARS_MAX),
            progress: PlanStatus::Open,
        }),
        ("taskupdate", _) => {
            let number = arguments
                .text_of(&["taskId"])
                .and_then(|id| id.parse::<usize>().ok());
            let entry = number.and_then(|number| plan.get_mut(number.checked_sub(1)?));
            if let (Some(entry), Some(status)) = (entry, arguments.text_of(&["status"])) {
                entry.progress = progress(status);
            }
        }
        _ => {}
    }
}

fn entry(value: &Value) -> Option<PlanEntry> {
    let text = TEXTS.iter().find_map(|name| value.get(*name)?.as_str())?;
    let status = value.get("status").and_then(Value::as_str).unwrap_or_default();
    Some(PlanEntry {
        text: cut(&one_line(text), ENTRY_CHARS_MAX),
        progress: progress(status),
    })
    .filter(|entry| !entry.text.is_empty())
}

fn progress(status: &str) -> PlanStatus {
    match status {
        "completed" | "done" => PlanStatus::Done,
        "in_progress" => PlanStatus::Begun,
        "cancelled" | "canceled" | "deleted" => PlanStatus::Cancelled,
        _ => PlanStatus::Open,
    }
}
