//! The last state of the plan or todo list that an agent keeps.

use serde_json::Value;

use super::{Effects, arguments::Arguments, pairs::FinishedCall};
use crate::domain::text::{cut, one_line};

const ENTRIES_MAX: usize = 50;
const ENTRY_CHARS_MAX: usize = 200;

/// How far an entry is.
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
    /// The number by which later calls change it; `None` in a list that is always written as a whole.
    pub number: Option<u32>,
    /// The task, on one line.
    pub text: String,
    /// How far it is; `Open` if the call names no known status.
    pub status: PlanStatus,
}

impl PlanStatus {
    /// Returns true if the task is still to do.
    pub fn is_left(self) -> bool {
        matches!(self, Self::Open | Self::Begun)
    }
}

impl PlanEntry {
    /// Returns true if the task is still to do.
    pub fn is_left(&self) -> bool {
        self.status.is_left()
    }
}

/// A change of a task that an earlier exchange created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskChange {
    /// The task's number in the session.
    pub number: u32,
    /// Its new status.
    pub status: PlanStatus,
}

/// Fields with the whole list (Claude Code's `TodoWrite`, Gemini CLI's `write_todos`, Codex' `update_plan`).
const LISTS: [&str; 2] = ["todos", "plan"];
const TEXTS: [&str; 5] = ["content", "step", "description", "title", "subject"];

/// A field with the whole list as Markdown (`- [x] Dig`). Calls of Cline may have it.
const CHECKLIST: &str = "task_progress";

/// Applies a call that changes the plan.
pub(super) fn apply(effects: &mut Effects, call: &FinishedCall<'_>, arguments: &Arguments<'_>) {
    if let Some(list) = arguments.text_of(&[CHECKLIST]) {
        effects.plan = list.lines().filter_map(checklist_entry).take(ENTRIES_MAX).collect();
    }
    let name = call.name.to_lowercase();
    if name.contains("todo") || name.contains("plan") {
        if let Some(Value::Array(entries)) = arguments.field(&LISTS) {
            effects.plan = entries.iter().filter_map(entry).take(ENTRIES_MAX).collect();
        }
        return;
    }
    match name.as_str() {
        "taskcreate" => create_task(&mut effects.plan, call, arguments),
        "taskupdate" => change_task(effects, arguments),
        _ => {}
    }
}

/// Adds a task. Claude Code creates tasks one by one. A call's result has the task's number: `Task #3 created successfully: …`.
fn create_task(plan: &mut Vec<PlanEntry>, call: &FinishedCall<'_>, arguments: &Arguments<'_>) {
    let Some(subject) = arguments.text_of(&["subject"]).filter(|_| plan.len() < ENTRIES_MAX) else {
        return;
    };
    let number = call.result.split_once('#').and_then(|(_, rest)| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    let next = || plan.last().and_then(|last| last.number).unwrap_or(0).saturating_add(1);
    plan.push(PlanEntry {
        number: Some(number.unwrap_or_else(next)),
        text: cut(&one_line(subject), ENTRY_CHARS_MAX),
        status: PlanStatus::Open,
    });
}

/// Changes a task. Claude Code changes tasks by number, also in later exchanges.
fn change_task(effects: &mut Effects, arguments: &Arguments<'_>) {
    let number = arguments.text_of(&["taskId"]).and_then(|id| id.parse().ok());
    let (Some(number), Some(status)) = (number, arguments.text_of(&["status"])) else {
        return;
    };
    let status = plan_status(status);
    match effects.plan.iter_mut().find(|entry| entry.number == Some(number)) {
        Some(entry) => entry.status = status,
        None if effects.task_changes.len() < ENTRIES_MAX => {
            effects.task_changes.push(TaskChange { number, status });
        }
        None => {}
    }
}

fn entry(value: &Value) -> Option<PlanEntry> {
    let text = TEXTS.iter().find_map(|name| value.get(*name)?.as_str())?;
    let status = value.get("status").and_then(Value::as_str).unwrap_or_default();
    Some(PlanEntry { number: None, text: cut(&one_line(text), ENTRY_CHARS_MAX), status: plan_status(status) })
        .filter(|entry| !entry.text.is_empty())
}

fn checklist_entry(line: &str) -> Option<PlanEntry> {
    let (mark, text) = line.trim().strip_prefix("- [")?.split_once(']')?;
    let is_done = mark.eq_ignore_ascii_case("x");
    Some(PlanEntry {
        number: None,
        text: cut(&one_line(text), ENTRY_CHARS_MAX),
        status: if is_done { PlanStatus::Done } else { PlanStatus::Open },
    })
    .filter(|entry| !entry.text.is_empty())
}

fn plan_status(name: &str) -> PlanStatus {
    match name {
        "completed" | "done" => PlanStatus::Done,
        "in_progress" => PlanStatus::Begun,
        "cancelled" | "canceled" | "deleted" => PlanStatus::Cancelled,
        _ => PlanStatus::Open,
    }
}
