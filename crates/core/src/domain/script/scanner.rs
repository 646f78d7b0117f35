//! Reads literals, declarations and calls of JavaScript.

use std::{collections::HashMap, str::Chars};

use serde_json::{Map, Value};

/// Deeper values are left out.
const DEPTH_MAX: usize = 32;
/// Limits what names of values add, in bytes. A script may name a long value again and again.
const NAMED_BYTES_MAX: usize = 4 << 20;
/// A value takes this many bytes besides its texts.
const VALUE_BYTES: usize = 16;
/// Begins a template literal without escapes.
const RAW: &str = "String.raw";

/// A position in a script.
pub(super) struct Scanner<'s> {
    rest: &'s str,
    depth: usize,
    named_bytes_left: usize,
}

impl<'s> Scanner<'s> {
    pub(super) fn new(script: &'s str) -> Self {
        Self { rest: script, depth: 0, named_bytes_left: NAMED_BYTES_MAX }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn skip_character(&mut self) {
        self.rest = self.rest.get(self.peek().map_or(0, char::len_utf8)..).unwrap_or_default();
    }

    /// Skips a comment or a text; returns false if there is none.
    pub(super) fn skip_text(&mut self) -> bool {
        self.skip_comment() || self.text().is_some()
    }

    /// Reads a name or a number, with its digits.
    pub(super) fn word(&mut self) -> Option<&'s str> {
        let is_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let length = self.rest.find(|c| !is_of_word(c)).unwrap_or(self.rest.len());
        (length > 0).then(|| self.take(length))
    }

    /// Reads `name = value`. Reads nothing if the value isn't known.
    pub(super) fn declaration(&mut self, values: &HashMap<&str, Value>) -> Option<(&'s str, Value)> {
        self.skip_blanks();
        let name = self.word()?;
        if !self.skip("=") {
            return None;
        }
        let after_sign = self.rest;
        let value = self.value(values);
        if value.is_none() {
            // The value may be a call of a tool.
            self.rest = after_sign;
        }
        Some((name, value?))
    }

    /// Reads `.name(argument` after `tools`. The argument is `None` if it isn't known.
    pub(super) fn method_call(&mut self, values: &HashMap<&str, Value>) -> Option<(&'s str, Option<Value>)> {
        if !self.skip(".") {
            return None;
        }
        self.skip_blanks();
        let name = self.word()?;
        self.skip("(").then(|| (name, self.value(values)))
    }

    /// Reads a value and what is added to it; `None` if it isn't known.
    fn value(&mut self, values: &HashMap<&str, Value>) -> Option<Value> {
        let mut value = self.operand(values)?;
        while self.skip("+") {
            let Some(more) = self.operand(values) else { break };
            let (Value::String(text), Value::String(more)) = (&mut value, more) else { break };
            text.push_str(&more);
        }
        Some(value)
    }

    fn operand(&mut self, values: &HashMap<&str, Value>) -> Option<Value> {
        self.skip_blanks();
        if let Some(text) = self.text() {
            return Some(Value::String(text));
        }
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let value = match self.peek()? {
            '{' => Some(self.object(values)),
            '[' => Some(self.list(values)),
            _ => self.named_value(values),
        };
        self.depth -= 1;
        value
    }

    fn named_value(&mut self, values: &HashMap<&str, Value>) -> Option<Value> {
        let sign = if self.skip("-") { "-" } else { "" };
        let word = self.word()?;
        match word {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            "null" | "undefined" => Some(Value::Null),
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let digits = word.replace('_', "");
                digits.parse::<i64>().ok().map(|number| if sign.is_empty() { number } else { -number }.into())
            }
            _ => self.value_of(word, values),
        }
    }

    fn value_of(&mut self, name: &str, values: &HashMap<&str, Value>) -> Option<Value> {
        let value = values.get(name)?;
        self.named_bytes_left = self.named_bytes_left.checked_sub(bytes(value))?;
        Some(value.clone())
    }

    fn object(&mut self, values: &HashMap<&str, Value>) -> Value {
        let mut fields = Map::new();
        self.skip("{");
        while !self.skip("}") && !self.is_at_end() {
            if self.skip("...") {
                if let Some(Value::Object(more)) = self.value(values) {
                    fields.extend(more);
                }
            } else if let Some(key) = self.key() {
                let value = if self.skip(":") { self.value(values) } else { self.value_of(&key, values) };
                fields.extend(value.map(|value| (key, value)));
            }
            self.skip_to_next('}');
        }
        Value::Object(fields)
    }

    fn key(&mut self) -> Option<String> {
        self.skip_blanks();
        self.text().or_else(|| self.word().map(str::to_owned))
    }

    fn list(&mut self, values: &HashMap<&str, Value>) -> Value {
        let mut items = Vec::new();
        self.skip("[");
        while !self.skip("]") && !self.is_at_end() {
            items.extend(self.value(values));
            self.skip_to_next(']');
        }
        Value::Array(items)
    }

    /// Skips the rest of an expression, and the comma after it. Stops before `close`, which ends the list or the object.
    fn skip_to_next(&mut self, close: char) {
        let mut open = 0_usize;
        while let Some(next) = self.peek() {
            match next {
                ',' if open == 0 => return self.skip_character(),
                _ if open == 0 && next == close => return,
                ')' | ']' | '}' => open = open.saturating_sub(1),
                '(' | '[' | '{' => open += 1,
                _ if self.skip_text() => continue,
                _ => {}
            }
            self.skip_character();
        }
    }

    /// Reads a text in quotation marks; `None`, and nothing is read, if there is none. An expression in a template stays as it is.
    fn text(&mut self) -> Option<String> {
        let is_raw = self.rest.strip_prefix(RAW).is_some_and(|rest| rest.starts_with('`'));
        let begin = if is_raw { RAW.len() } else { 0 };
        let quote = self.rest.get(begin..)?.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
        let mut text = String::new();
        let mut characters = self.rest.get(begin + 1..)?.chars();
        while let Some(c) = characters.next() {
            if c == quote {
                break;
            }
            match c {
                '\\' if !is_raw => {
                    text.extend(characters.next().and_then(|c| unescaped(c, &mut characters)));
                }
                c => text.push(c),
            }
        }
        self.rest = characters.as_str();
        Some(text)
    }

    fn skip_comment(&mut self) -> bool {
        let end = if self.rest.starts_with("//") {
            "\n"
        } else if self.rest.starts_with("/*") {
            "*/"
        } else {
            return false;
        };
        self.rest = self.rest.split_once(end).map_or("", |(_, rest)| rest);
        true
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
        while self.skip_comment() {
            self.rest = self.rest.trim_start();
        }
    }

    /// Skips blanks and then `sign`; returns false if something else follows.
    fn skip(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, length: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }
}

/// Returns the character that an escape stands for; `None` if it stands for none.
fn unescaped(escape: char, characters: &mut Chars<'_>) -> Option<char> {
    let mut code = |digits: usize| {
        let text: String = characters.by_ref().take(digits).collect();
        u32::from_str_radix(&text, 16).ok().and_then(char::from_u32)
    };
    match escape {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'x' => code(2),
        'u' => code(4),
        '\n' => None,
        other => Some(other),
    }
}

/// Returns about how many bytes a value takes.
fn bytes(value: &Value) -> usize {
    let parts: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    VALUE_BYTES + parts
}
