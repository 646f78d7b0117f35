use super::*;
use crate::formats::{chat, gemini};

#[test]
fn parse_strict_refuses_an_unknown_role_and_parse_keeps_it() {
    for (format, json, expected) in [
        (
            Format::OpenAiChat,
            r#"{"role":"assitant","content":"x"}"#,
            "role `assitant` is unknown; did you mean `assistant`?",
        ),
        (
            Format::OpenAiChat,
            r#"{"role":"User","content":"x"}"#,
            "role `User` is unknown; did you mean `user`?",
        ),
        (
            Format::OpenAiChat,
            r#"{"role":"us\u001ber","content":"x"}"#,
            r"role `us\u{1b}er` is unknown; did you mean `user`?",
        ),
        (
            Format::Anthropic,
            r#"{"role":"wizard","content":"x"}"#,
            "role `wizard` is unknown; give one of user, assistant, system, developer, tool, function; give a message that no model should see a `kind` of recapd's own format in place of the role",
        ),
        (
            Format::OpenAiResponses,
            r#"{"type":"message","role":"asistant","content":"x"}"#,
            "role `asistant` is unknown; did you mean `assistant`?",
        ),
        (
            Format::Gemini,
            r#"{"role":"modle","parts":[{"text":"x"}]}"#,
            "role `modle` is unknown; did you mean `model`?",
        ),
        (
            Format::Gemini,
            r#"{"role":"assistant","parts":[{"text":"x"}]}"#,
            "role `assistant` is unknown; give one of user, model, system, function, tool; give a message that no model should see a `kind` of recapd's own format in place of the role",
        ),
        (
            Format::Native,
            r#"{"kind":"asistant","content":"x"}"#,
            "kind `asistant` is unknown; did you mean `assistant`?",
        ),
        (
            Format::Native,
            r#"{"kind":"Tool-call","content":"x"}"#,
            "kind `Tool-call` is unknown; did you mean `tool_call`?",
        ),
    ] {
        assert_eq!(parse_strict(format, json).unwrap_err().to_string(), expected, "{json}");
        let message = parse(format, json).unwrap();
        assert!(
            matches!(message.kind, Kind::Metadata(Metadata::Other(_))) && message.payload == json,
            "{message:?}"
        );
    }
}

#[test]
fn parse_strict_accepts_other_unknown_content() {
    for (format, json) in [
        (Format::OpenAiChat, r#"{"role":"exit","content":"diff"}"#),
        (Format::Anthropic, r#"{"role":"assistant","content":"x","is_error":true,"novel":1}"#),
        (Format::OpenAiResponses, r#"{"type":"novel","role":"wizard","id":"n"}"#),
        (Format::ClaudeCode, r#"{"type":"novel","role":"novel","uuid":"u"}"#),
        (
            Format::Codex,
            r#"{"type":"response_item","payload":{"type":"message","role":"wizard","content":[]}}"#,
        ),
        (Format::Native, r#"{"kind":"skill_load","content":"x","idd":"1"}"#),
        (Format::Native, r#"{"kind":"user_note","content":"x"}"#),
        (Format::Aider, r#"{"kind":"usr","content":"x"}"#),
    ] {
        let message = parse(format, json);
        assert!(message.is_ok(), "{message:?}");
        assert_eq!(parse_strict(format, json), message, "{json}");
    }
}

#[test]
fn known_roles_are_not_read_as_metadata() {
    for role in chat::ROLES {
        let json = format!(r#"{{"role":"{role}","content":"x"}}"#);
        assert!(parse_strict(Format::OpenAiChat, &json).unwrap().kind.is_conversation(), "{role}");
    }
    for role in gemini::ROLES {
        let json = format!(r#"{{"role":"{role}","parts":[{{"text":"x"}}]}}"#);
        assert!(parse_strict(Format::Gemini, &json).unwrap().kind.is_conversation(), "{role}");
    }
}
