//! Reads the calls of tools in a script. Codex (code mode, seen in 0.144) lets models call tools from JavaScript: a call of its tool
//! `exec` has the script `const r = await tools.exec_command({"cmd": "cargo test"}); text(r.output);` instead of arguments.
//!
//! Nothing runs the script. A call is read as it is written: its first argument as far as it consists of literals, of names of earlier
//! literals, and of sums of them. Everything else in it is left out.

mod scanner;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde_json::Value;

use self::scanner::Scanner;
use super::message::Part;

/// The tool that runs scripts (Codex). Texts of other tools, such as a patch, may look like a script.
const RUNNER: &str = "exec";
/// A longer script isn't read.
const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// Limits the calls read from a script.
const CALLS_MAX: usize = 64;
/// The object whose methods are the tools.
const TOOLS: &str = "tools.";
/// The first lines of the results of scripts that have ended.
const ENDED: [&str; 2] = ["Script completed\n", "Script failed\n"];
/// The end of such a result's header.
const HEADER_END: &str = "\nOutput:\n";
const DECLARATIONS: [&str; 3] = ["const", "let", "var"];

/// Returns the calls in a call with a script, with the id of that call; empty for any other part.
pub(super) fn calls(part: &Part) -> Vec<Part> {
    let Part::ToolCall { id, name, arguments: script } = part else {
        return Vec::new();
    };
    let is_script = name == RUNNER && !script.trim_start().starts_with('{') && script.contains(TOOLS);
    if !is_script || script.len() > SCRIPT_BYTES_MAX {
        return Vec::new();
    }
    let calls = written_calls(script).into_iter();
    calls.map(|(name, arguments)| Part::ToolCall { id: id.clone(), name, arguments }).collect()
}

/// Returns the output in the result of a script that has ended, without its header. Returns any other result unchanged.
pub(super) fn output(result: &str) -> &str {
    let has_header = ENDED.iter().any(|line| result.starts_with(line));
    let (_, output) = result.split_once(HEADER_END).filter(|_| has_header).unwrap_or(("", result));
    output
}

/// Returns the names of the called tools and their arguments: JSON, or plain text.
fn written_calls(script: &str) -> Vec<(String, String)> {
    let mut scanner = Scanner::new(script);
    let mut values: HashMap<&str, Value> = HashMap::new();
    let mut calls = Vec::new();
    while calls.len() < CALLS_MAX && !scanner.is_at_end() {
        if scanner.skip_text() {
            continue;
        }
        match scanner.word() {
            Some(word) if DECLARATIONS.contains(&word) => {
                if let Some((name, value)) = scanner.declaration(&values) {
                    values.insert(name, value);
                }
            }
            Some("tools") => {
                if let Some((name, argument)) = scanner.method_call(&values) {
                    calls.push((name.to_owned(), argument.map_or_else(String::new, written)));
                }
            }
            Some(_) => {}
            None => scanner.skip_character(),
        }
    }
    calls
}

fn written(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}
