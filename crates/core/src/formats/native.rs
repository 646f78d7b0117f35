//! Reads recapd's own format: a message is an object with a `kind`. Details of tool calls and results are in `data` (as in the rows of
//! ikigai, a predecessor of recapd) or in fields beside `content`.

use serde_json::value::RawValue;

use super::{
    FormatError, NAME_CHARS_MAX,
    content::{parts, tool_call, tool_result},
    json::Fields,
    message,
};
use crate::domain::{
    message::{Format, Kind, Message, Part},
    text::cut,
};

/// Reads a native message, whether a client sent it or it was made from a transcript.
pub(super) fn read(format: Format, fields: &Fields<'_>) -> Result<Message, FormatError> {
    let kind = fields.text("kind").ok_or_else(|| {
        FormatError::new(
            "message has no `kind`",
            "give its kind (user, assistant, tool_call, tool_result or system), or specify the format of the messages",
        )
    })?;
    let kind = Kind::from_name(&cut(&kind, NAME_CHARS_MAX));
    let details = Details::of(fields);
    // A tombstone has only its kind.
    let is_forgotten = fields.flag("forgotten") == Some(true) && fields.raw("content").is_none();
    let parts = match kind {
        _ if is_forgotten => Vec::new(),
        Kind::ToolCall => details.call()?,
        Kind::ToolResult => details.result(),
        _ => parts(fields.raw("content")),
    };
    Ok(Message {
        interrupts: fields.flag("interrupted").unwrap_or(false),
        ..message(format, fields, kind, parts)
    })
}

/// The fields of a message, and those in its `data`, which take precedence.
struct Details<'f, 'a> {
    fields: &'f Fields<'a>,
    data: Option<Fields<'a>>,
}

impl<'f, 'a> Details<'f, 'a> {
    fn of(fields: &'f Fields<'a>) -> Self {
        let data = fields.object("data");
        Self { fields, data }
    }

    fn find<T>(&self, names: &[&str], get: impl Fn(&Fields<'a>, &str) -> Option<T>) -> Option<T> {
        let objects = self.data.iter().chain(std::iter::once(self.fields));
        objects
            .flat_map(|object| names.iter().map(move |name| (object, *name)))
            .find_map(|(object, name)| get(object, name))
    }

    fn text(&self, name: &str) -> Option<String> {
        self.find(&[name], Fields::text)
    }

    fn raw(&self, names: &[&str]) -> Option<&'a RawValue> {
        self.find(names, Fields::raw)
    }

    fn call(&self) -> Result<Vec<Part>, FormatError> {
        let name = self.text("name").ok_or_else(|| {
            FormatError::new(
                "tool_call has no `name`",
                "give the tool's name in `data.name` or `name`, and its arguments in `data.arguments` or `arguments`",
            )
        })?;
        let arguments = self.raw(&["arguments", "args", "input"]);
        let mut parts = parts(self.fields.raw("content"));
        parts.push(tool_call(self.text("tool_call_id"), Some(name), arguments));
        Ok(parts)
    }

    /// Reads a result: its `output`, or else its `content`. If there is an `output`, `content` is only a summary for people and is ignored.
    fn result(&self) -> Vec<Part> {
        let output = self.raw(&["output"]).or_else(|| self.fields.raw("content"));
        let success = self.find(&["success"], Fields::flag);
        let is_error = success.map(|success| !success).or_else(|| self.find(&["is_error"], Fields::flag));
        tool_result(self.text("tool_call_id"), self.text("name"), output, is_error.unwrap_or(false))
    }
}
