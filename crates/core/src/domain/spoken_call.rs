//! Reads what a model says to the user in a call: some hosts have tools for the answer, the plan, or a question. It is an answer like any
//! other, and no tool's work.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::message::Part;

/// The tools, each with the argument that the user reads. Sources: Cline (`src/core/prompts/system-prompt/tools`), OpenHands
/// (`openhands/agenthub/codeact_agent/tools/finish.py`), Claude Code (its transcripts).
const SPEAKING: [(&str, &str); 6] = [
    ("attempt_completion", "result"),
    ("plan_mode_respond", "response"),
    ("ask_followup_question", "question"),
    ("finish", "message"),
    ("ExitPlanMode", "plan"),
    ("exit_plan_mode", "plan"),
];

/// Returns the text that a call shows to the user; `None` for any other part, and for a call without the text.
pub(super) fn text(part: &Part) -> Option<String> {
    let Part::ToolCall { name, arguments, .. } = part else {
        return None;
    };
    let (_, field) = SPEAKING.iter().find(|(tool, _)| tool == name)?;
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(arguments).ok()?;
    let text: String = serde_json::from_str(fields.get(*field)?.get()).ok()?;
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tools_that_speak_have_a_text() {
        for (name, arguments, expected) in [
            ("attempt_completion", r#"{"result":"Oiled.","command":"open gate"}"#, Some("Oiled.")),
            ("ExitPlanMode", r##"{"plan":"# Oil it"}"##, Some("# Oil it")),
            ("finish", r#"{"message":" "}"#, None),
            ("finish", "done", None),
            ("Write", r#"{"result":"x"}"#, None),
        ] {
            let call = Part::ToolCall { id: None, name: name.to_owned(), arguments: arguments.to_owned() };
            assert_eq!(text(&call).as_deref(), expected, "{name}");
        }
    }
}
