use serde_json::json;

use super::*;

fn units(format: Format, body: &Value) -> Vec<ContentUnit> {
    let sent = conversation(format, None, &body.to_string()).unwrap();
    sent.iter().flat_map(SentMessage::units).collect()
}

#[test]
fn spellings_of_one_conversation_have_the_same_units() {
    let short = json!({"messages": [
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}, {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]},
    ]});
    let long = json!({"messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>\nToday is Sunday.\n</system-reminder>"},
            {"type": "text", "text": "Fix it\n", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "text", "text": "Yes."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "[cleared]"}]}]},
    ]});
    let (short, long) = (units(Format::Anthropic, &short), units(Format::Anthropic, &long));
    assert_eq!(short, long);
    assert_eq!(short.len(), 4);
    assert_eq!(short[0].kind, UnitKind::Request);
    assert_eq!(
        short[1..].iter().map(|unit| unit.kind).collect::<Vec<_>>(),
        [UnitKind::Answer, UnitKind::Answer, UnitKind::Other]
    );
}

#[test]
fn a_transcript_line_has_the_units_of_the_request() {
    let line = json!({"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "Fix it"}});
    let line = units_of(&parse(Format::ClaudeCode, &line.to_string()).unwrap());
    let sent = units(Format::Anthropic, &json!({"messages": [{"role": "user", "content": "Fix it"}]}));
    assert_eq!(line, sent);
}

#[test]
fn files_that_aider_shows_are_left_out() {
    let system = json!({"role": "system", "content": "Act as an expert software developer."});
    let files = |text: &str| {
        [json!({"role": "user", "content": text}), json!({"role": "assistant", "content": "Ok."})]
    };
    let said = [
        json!({"role": "user", "content": "Say one"}),
        json!({"role": "assistant", "content": "One."}),
        json!({"role": "user", "content": "Say two"}),
    ];
    let shown = [
        &[system][..],
        &files("Here are some READ ONLY files, provided for your reference.\nDo not edit these files!"),
        &said[..2],
        &files("I am not sharing any files that you can edit yet."),
        &said[2..],
    ];
    assert_eq!(
        units(Format::OpenAiChat, &json!({"messages": shown.concat()})),
        units(Format::OpenAiChat, &json!({"messages": said}))
    );
    let quoted = json!({"messages": [{"role": "user", "content": "Why \"I am not sharing any files that you can edit yet.\"?"}]});
    assert_eq!(units(Format::OpenAiChat, &quoted).len(), 1);
}

#[test]
fn each_format_is_read() {
    let chat = json!({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]});
    let responses = json!({"input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "reasoning", "encrypted_content": "xyz", "summary": []}]});
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]});
    let anthropic = json!({"system": "Be kind.", "messages": [{"role": "user", "content": "Hello"}]});
    let expected = units(Format::Anthropic, &anthropic);
    assert_eq!(expected.len(), 1);
    assert_eq!(units(Format::OpenAiChat, &chat), expected);
    assert_eq!(units(Format::OpenAiResponses, &responses), expected);
    assert_eq!(units(Format::OpenAiResponses, &json!({"input": "Hello"})), expected);
    assert_eq!(units(Format::Gemini, &gemini), expected);
}

#[test]
fn messages_before_a_summary_are_left_out() {
    let claude = json!({"messages": [{"role": "user", "content": [
        {"type": "text", "text": "This session is being continued from a previous conversation that ran out of context. Summary: much."},
        {"type": "text", "text": "Go on"}]}]});
    let kinds = |units: Vec<ContentUnit>| units.into_iter().map(|unit| unit.kind).collect::<Vec<_>>();
    assert_eq!(kinds(units(Format::Anthropic, &claude)), [UnitKind::Summary, UnitKind::Request]);
    let codex = json!({"input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "compaction", "encrypted_content": "RECAPD"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on"}]}]});
    assert_eq!(kinds(units(Format::OpenAiResponses, &codex)), [UnitKind::Summary, UnitKind::Request]);
    // The stored summary has the same unit.
    for (format, body) in [(Format::Anthropic, claude), (Format::OpenAiResponses, codex)] {
        let sent = conversation(format, None, &body.to_string()).unwrap();
        let stored = sent[0].part(|position| position == 0, &[]).unwrap().unwrap();
        assert!(!stored.kind.is_conversation());
        let read = parse(Format::Native, &stored.payload).unwrap();
        assert_eq!(units_of(&read), [sent[0].units().next().unwrap()]);
    }
}

#[test]
fn texts_that_a_host_adds_are_left_out() {
    let body = json!({"messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "<local-command-caveat>Caveat: local commands.</local-command-caveat>\n"},
            {"type": "text", "text": "<command-name>/compact</command-name>\n<command-message>compact</command-message>\n<command-args></command-args>"},
            {"type": "text", "text": "Go on"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Yes."}]}]});
    let sent = conversation(Format::Anthropic, Some(Format::ClaudeCode), &body.to_string()).unwrap();
    let part = sent[0].part(|_| true, &[]).unwrap().unwrap();
    assert_eq!((part.format, &part.kind, part.parts.len()), (Format::ClaudeCode, &Kind::User, 1));
    assert!(part.payload.contains("Go on") && !part.payload.contains("caveat"), "{}", part.payload);
    assert_eq!(units_of(&part), sent[0].units().collect::<Vec<_>>());
    let answer = sent[1].part(|_| true, &[]).unwrap().unwrap();
    assert!(answer.payload.contains("thinking"), "{}", answer.payload);

    let body = json!({"input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>\n  <cwd>/tmp</cwd>\n</environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on"}]}]});
    let sent = conversation(Format::OpenAiResponses, Some(Format::Codex), &body.to_string()).unwrap();
    let requests = sent.iter().flat_map(SentMessage::units).filter(|unit| unit.kind == UnitKind::Request);
    assert_eq!(requests.count(), 1);
}

#[test]
fn part_returns_a_message_of_the_new_blocks() {
    let body = json!({"messages": [{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
        {"type": "text", "text": "<system-reminder>Careful.</system-reminder>"},
        {"type": "text", "text": "<session-start-hook>Notes.</session-start-hook>"},
        {"type": "text", "text": "And now?", "cache_control": {"type": "ephemeral"}}]}]});
    let sent = conversation(Format::Anthropic, None, &body.to_string()).unwrap();
    let part = sent[0].part(|position| position == 1, &[]).unwrap().unwrap();
    assert_eq!(part.payload, r#"{"role":"user","content":[{"text":"And now?","type":"text"}]}"#);
    assert_eq!(part.kind, Kind::User);
    assert_eq!(sent[0].part(|_| false, &[]).unwrap(), None);
}

#[test]
fn the_error_for_an_invalid_request_says_what_is_missing() {
    for (format, body, words) in [
        (Format::Anthropic, r#"{"model":"m"}"#, "no `messages`"),
        (Format::OpenAiResponses, "{}", "no `input`"),
        (Format::Gemini, "{}", "no `contents`"),
        (Format::Anthropic, "[", "can't be read"),
    ] {
        let error = conversation(format, None, body).unwrap_err();
        assert!(error.reason.contains(words), "{error}");
    }
}
