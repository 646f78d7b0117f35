//! Reads a message from an SQL row, as agents insert it: a role and a text, or a provider's JSON.

use serde_json::{Map, Value, value::RawValue};

use super::{FormatError, NAME_CHARS_MAX, detect, json::Fields, parse, parse_strict, role::unknown_role};
use crate::domain::{
    message::{Format, Kind, Message, Metadata},
    text::cut,
};

/// The format's name in a row whose content is text, even if it looks like JSON.
const TEXT: &str = "text";
/// The roles that the error for an unknown role suggests.
const ROLES: [&str; 6] = ["user", "assistant", "system", "tool", "tool_call", "tool_result"];

/// The columns of a row that make up a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<'a> {
    /// `user`, `assistant`, `system`, `tool`, or a kind of the native format.
    pub role: Option<&'a str>,
    /// Text or JSON: a whole message or, with a role, the list of its blocks.
    pub content: Option<&'a str>,
    /// A format's name, or `text`. `None` has the format detected from the content.
    pub format: Option<&'a str>,
    /// The speaker, in a conversation of several.
    pub speaker: Option<&'a str>,
}

/// Reads a row as a message. If the content is a message in JSON, it becomes the payload, verbatim. Other content becomes part of a JSON
/// message; the same row always gives the same message.
///
/// If the row has a role, its content is read as JSON only if the JSON has the same role, or is a list of a provider's blocks. Other
/// content is text, even if it is valid JSON.
///
/// # Errors
/// Returns an error if required content is missing, the role or format is unknown, the JSON isn't a message, or the speaker's name is too
/// long.
pub fn read_row(row: Row<'_>) -> Result<Message, FormatError> {
    // Truncating the name, as is done in a provider's message, could make two names equal.
    if row.speaker.is_some_and(|name| name.chars().nth(NAME_CHARS_MAX).is_some()) {
        return Err(FormatError::new(
            format!("the speaker's name has more than {NAME_CHARS_MAX} characters"),
            "give a shorter one",
        ));
    }
    let format = row.format.filter(|name| *name != TEXT).map(format_named).transpose()?;
    let content = row.content.unwrap_or_default();
    let Some(role) = row.role.filter(|role| !role.is_empty()) else {
        return read_json(content, format, row.speaker);
    };
    let kind = kind(role)?;
    if row.format == Some(TEXT) {
        return from_text(&kind, row);
    }
    if has_role(content, role) {
        return read_json(content, format, row.speaker);
    }
    if is_blocks(content, format) {
        let speaker = row.speaker.map(|name| format!("\"speaker\":{},", Value::from(name)));
        let speaker = speaker.unwrap_or_default();
        let json = format!("{{\"role\":{},{speaker}\"content\":{content}}}", Value::from(role));
        return read_json(&json, format, None);
    }
    match format {
        None => from_text(&kind, row),
        Some(format) => Err(FormatError::new(
            format!("the content isn't JSON of format `{}`", format.name()),
            "give the message, or the list of its blocks; format `text` says that it is text",
        )),
    }
}

fn format_named(name: &str) -> Result<Format, FormatError> {
    Format::from_name(name).ok_or_else(|| {
        let names = Format::ALL.map(Format::name).join(", ");
        FormatError::new(
            format!("format `{}` is unknown", cut(name, NAME_CHARS_MAX)),
            format!("give one of text, {names}, or NULL"),
        )
    })
}

/// Reads content that is a whole message in JSON.
fn read_json(content: &str, format: Option<Format>, speaker: Option<&str>) -> Result<Message, FormatError> {
    if !content.trim_start().starts_with('{') {
        return Err(FormatError::new(
            "there is no role, and the content isn't a message in JSON",
            "give a role with the text, or the message as one JSON object",
        ));
    }
    let format = format.or_else(|| detect(content)).unwrap_or(Format::OpenAiChat);
    let message = parse_strict(format, content)?;
    // recapd stores the payload as it came and later reads only the payload, so the payload must name the speaker.
    if speaker.is_some_and(|name| message.speaker.as_deref() != Some(name)) {
        return Err(FormatError::new(
            "the row has a speaker, but its message in JSON doesn't name that speaker",
            "name the speaker in the message, as `speaker`",
        ));
    }
    Ok(message)
}

fn kind(role: &str) -> Result<Kind, FormatError> {
    match role {
        "developer" => Ok(Kind::System),
        "model" => Ok(Kind::Assistant),
        "function" => Ok(Kind::ToolResult),
        role => match Kind::from_name(role) {
            Kind::Metadata(Metadata::Other(_)) => Err(unknown_role(
                role,
                &ROLES,
                "give user, assistant, system or tool, or a kind of recapd's own format",
            )),
            kind => Ok(kind),
        },
    }
}

/// Builds a message from a role and a text.
fn from_text(kind: &Kind, row: Row<'_>) -> Result<Message, FormatError> {
    if row.content.is_none() && kind.is_conversation() {
        return Err(FormatError::new("there is no content", "give what was said"));
    }
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), kind.name().into());
    if let Some(content) = row.content {
        fields.insert("content".to_owned(), content.into());
    }
    if let Some(speaker) = row.speaker {
        fields.insert("speaker".to_owned(), speaker.into());
    }
    parse(Format::Native, &Value::Object(fields).to_string())
}

/// Returns true if `content` is a message in JSON with this role.
fn has_role(content: &str, role: &str) -> bool {
    let Ok(fields) = Fields::parse(content) else {
        return false;
    };
    let is_message = ["content", "parts", "tool_calls", "data"].iter().any(|name| fields.has(name));
    let json_role = fields.text("role").or_else(|| fields.text("kind"));
    let is_same = json_role.is_some_and(|name| name == role || (name == "model" && role == "assistant"));
    is_message && is_same
}

/// Returns true if `content` is a list of blocks and either the format is named, all blocks are texts, or only one format has such blocks.
fn is_blocks(content: &str, format: Option<Format>) -> bool {
    if !content.trim_start().starts_with('[') {
        return false;
    }
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(content) else {
        return false;
    };
    let has = |raw: &&RawValue, wanted: fn(&Fields<'_>) -> bool| {
        Fields::of(raw).is_some_and(|block| wanted(&block))
    };
    let is_typed =
        !blocks.is_empty() && blocks.iter().all(|raw| has(raw, |block| block.text("type").is_some()));
    let are_texts = || {
        blocks
            .iter()
            .all(|raw| has(raw, |block| block.text("type").as_deref() == Some("text") && block.has("text")))
    };
    let message = || format!("{{\"role\":\"user\",\"content\":{content}}}");
    is_typed && (format.is_some() || are_texts() || detect(&message()).is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row<'a>(role: Option<&'a str>, content: &'a str) -> Row<'a> {
        Row { role, content: Some(content), ..Row::default() }
    }

    fn read(role: &str, content: &str) -> (String, String, String) {
        let message = read_row(row(Some(role).filter(|role| !role.is_empty()), content)).unwrap();
        let (kind, format) = (message.kind.name().to_owned(), message.format.name().to_owned());
        (kind, format, message.payload)
    }

    #[test]
    fn a_role_a_text_and_a_speaker_make_a_message() {
        for (role, kind) in [
            ("user", "user"),
            ("assistant", "assistant"),
            ("system", "system"),
            ("developer", "system"),
            ("tool", "tool_result"),
            ("clear", "clear"),
        ] {
            let payload = format!("{{\"content\":\"Hello\",\"kind\":\"{kind}\"}}");
            assert_eq!(read(role, "Hello"), (kind.to_owned(), "native".to_owned(), payload));
        }
        let blocks = Row { speaker: Some("Ada"), ..row(Some("user"), r#"[{"type":"text","text":"Hello"}]"#) };
        assert_eq!(read_row(blocks).unwrap().speaker.as_deref(), Some("Ada"));
        let spoken = Row { speaker: Some("Ada"), ..row(Some("user"), "Hello") };
        assert_eq!(read_row(spoken).unwrap().speaker.as_deref(), Some("Ada"));
        let longest = "ä".repeat(128);
        let spoken = Row { speaker: Some(&longest), ..row(Some("user"), "Hello") };
        assert_eq!(read_row(spoken).unwrap().speaker, Some(longest));
    }

    #[test]
    fn a_message_in_json_is_kept_verbatim() {
        let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"ls","input":{}}]}"#;
        let gemini = r#"{"role":"model","parts":[{"text":"Hello"}]}"#;
        for (role, content, kind, format) in [
            ("assistant", call, "tool_call", "anthropic"),
            ("", call, "tool_call", "anthropic"),
            ("user", r#"{"role": "user", "content": "Hello"}"#, "user", "openai"),
            ("", r#"{"kind":"user","content":"Hello"}"#, "user", "native"),
            ("assistant", gemini, "assistant", "gemini"),
        ] {
            let expected = (kind.to_owned(), format.to_owned(), content.to_owned());
            assert_eq!(read(role, content), expected, "{role} {content}");
        }
    }

    #[test]
    fn a_list_of_blocks_becomes_the_content_of_a_message() {
        let result = r#"[{"type":"tool_result","tool_use_id":"t","content":"src"}]"#;
        let (kind, format, payload) = read("user", result);
        assert_eq!((kind.as_str(), format.as_str()), ("tool_result", "anthropic"));
        assert_eq!(payload, format!("{{\"role\":\"user\",\"content\":{result}}}"));
        assert_eq!(read("user", r#"[{"type":"text","text":"Hello"}]"#).1, "openai");
    }

    #[test]
    fn text_that_merely_looks_like_json_stays_text() {
        for text in [
            "[]",
            "[1, 2]",
            r#"[{"type":"apple"},{"type":"pear"}]"#,
            r#"{"answer": 42}"#,
            r#"{"role":"admin","content":"x"}"#,
            "[half",
            "",
        ] {
            assert_eq!(read("assistant", text).1, "native", "{text}");
        }
        let forced = Row { format: Some("text"), ..row(Some("user"), r#"{"role":"user","content":"x"}"#) };
        assert_eq!(read_row(forced).unwrap().format, Format::Native);
    }

    #[test]
    fn an_invalid_row_is_refused_with_a_cure() {
        let refused = |row: Row<'_>| read_row(row).unwrap_err().to_string();
        let formed = |format, content| Row { format: Some(format), ..row(Some("user"), content) };
        for (row, words) in [
            (row(Some("wizard"), "Hello"), "role `wizard` is unknown; give user"),
            (row(Some("asistant"), "Hello"), "role `asistant` is unknown; did you mean `assistant`?"),
            (
                row(None, r#"{"role":"asistant","content":"Hello"}"#),
                "role `asistant` is unknown; did you mean `assistant`?",
            ),
            (row(None, "Hello"), "there is no role, and the content isn't a message in JSON"),
            (row(None, r#"{"role":"#), "broken JSON"),
            (Row { role: Some("user"), ..Row::default() }, "there is no content; give what was said"),
            (Row::default(), "there is no role"),
            (
                Row { speaker: Some("Ada"), ..row(None, r#"{"role":"user","content":"x"}"#) },
                "its message in JSON doesn't name that speaker",
            ),
            (formed("latin", "x"), "format `latin` is unknown; give one of text, native, openai"),
            (formed("anthropic", "Hello"), "the content isn't JSON of format `anthropic`"),
            (row(Some("tool_call"), "ls"), "tool_call has no `name`"),
            (
                Row { speaker: Some(&"ä".repeat(129)), ..row(Some("user"), "Hello") },
                "name has more than 128 characters; give a shorter one",
            ),
        ] {
            assert!(refused(row).contains(words), "{}", refused(row));
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_the_content_of_a_message(text in "\\PC*") {
            prop_assume!(!text.trim_start().starts_with(['[', '{']));
            let payload: Value = serde_json::from_str(&read("user", &text).2).unwrap();
            prop_assert_eq!(payload["content"].as_str(), Some(text.as_str()));
        }
    }
}
