//! Reads the arguments of a call.

use serde_json::{Map, Value};

/// Fields with the command of a shell.
const COMMANDS: [&str; 4] = ["command", "cmd", "script", "commands"];

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

    /// Returns the arguments if they aren't a JSON object with fields.
    pub(super) fn plain(&self) -> Option<&str> {
        self.fields.is_empty().then_some(self.text)
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

    /// Returns the command of a shell, given as a text or as a list of arguments (`["bash", "-lc", "make"]`).
    pub(super) fn command(&self) -> Option<String> {
        match self.field(&COMMANDS)? {
            Value::String(command) => Some(command.clone()),
            Value::Array(arguments) => {
                let arguments: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
                match arguments.as_slice() {
                    [_, flag, command] if flag.starts_with('-') => Some((*command).to_owned()),
                    arguments => Some(arguments.join(" ")),
                }
            }
            _ => None,
        }
    }
}
