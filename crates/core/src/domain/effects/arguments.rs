//! Reads the arguments of a call.

use std::path::Path;

use serde_json::{Map, Value};

use super::{
    files::{is_absolute, with_slashes},
    pairs::FinishedCall,
};

/// Fields with the command of a shell.
const COMMANDS: [&str; 4] = ["command", "cmd", "script", "commands"];
/// Fields with the directory in which a command runs.
const DIRECTORIES: [&str; 3] = ["workdir", "cwd", "working_directory"];

pub(super) struct Arguments<'a> {
    /// The whole arguments, unparsed.
    pub(super) text: &'a str,
    fields: Map<String, Value>,
}

impl<'a> Arguments<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let fields = serde_json::from_str(text).unwrap_or_default();
        Self { text, fields }
    }

    /// Returns the first field of `names` that is present.
    pub(super) fn field(&self, names: &[&str]) -> Option<&Value> {
        names.iter().find_map(|name| self.fields.get(*name))
    }

    /// Like [`Self::field`], if the field is a text.
    pub(super) fn text_of(&self, names: &[&str]) -> Option<&str> {
        self.field(names).and_then(Value::as_str)
    }

    /// Returns all texts of the fields, or all of `text` if it isn't a JSON object.
    pub(super) fn texts(&self) -> Vec<&str> {
        if self.fields.is_empty() {
            return vec![self.text];
        }
        let mut texts = Vec::new();
        for value in self.fields.values() {
            match value {
                Value::String(text) => texts.push(text.as_str()),
                Value::Array(values) => texts.extend(values.iter().filter_map(Value::as_str)),
                _ => {}
            }
        }
        texts
    }

    /// Returns the command of a shell, given as a text or as words (`["bash", "-lc", "make"]`).
    pub(super) fn command(&self) -> Option<String> {
        match self.field(&COMMANDS)? {
            Value::String(command) => Some(command.clone()),
            Value::Array(words) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                match words.as_slice() {
                    [_, flag, command] if flag.starts_with('-') => Some((*command).to_owned()),
                    words => Some(words.join(" ")),
                }
            }
            _ => None,
        }
    }
}

/// Returns the directory in which the commands run. If there are several, the last one that contains those before it.
pub(super) fn working_directory(ran: &[FinishedCall<'_>]) -> Option<String> {
    let mut found: Option<String> = None;
    for call in ran {
        let arguments = Arguments::read(call.arguments);
        let Some(directory) = arguments
            .text_of(&DIRECTORIES)
            .filter(|path| is_absolute(path))
            .map(with_slashes)
        else {
            continue;
        };
        let is_above = |found: &String| Path::new(found).starts_with(&*directory);
        if found.as_ref().is_none_or(is_above) {
            found = Some(directory.into_owned());
        }
    }
    found
}
