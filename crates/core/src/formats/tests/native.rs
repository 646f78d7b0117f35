use super::*;

#[test]
fn native_messages() {
    check(
        Format::Native,
        &[
            (r#"{"kind":"user","content":"Hi"}"#, r#"user: "Hi""#),
            (r#"{"kind":"user","name":"Lin","content":"Hi","id":7}"#, r#"user of Lin: "Hi" id=7"#),
            (r#"{"kind":"user","content":null}"#, "user:"),
            (r#"{"kind":"user"}"#, "user:"),
            (r#"{"kind":"user","content":""}"#, "user:"),
            (r#"{"kind":"user","content":[{"type":"text","text":"a"},"b"]}"#, r#"user: "a" "b""#),
            (r#"{"kind":"user","content":{"form": [1, 2]}}"#, r#"user: "{\"form\":[1,2]}""#),
            (
                r#"{"kind":"assistant","content":"Half","interrupted":true}"#,
                r#"assistant: "Half" interrupts"#,
            ),
            (r#"{"kind":"system","content":"Be brief."}"#, r#"system: "Be brief.""#),
            (r#"{"kind":"rewind","content":"to mark 3"}"#, r#"rewind: "to mark 3""#),
            (r#"{"kind":"skill_load","content":"x","data":{"skill":1}}"#, r#"skill_load: "x""#),
            (
                r#"{"content":"x"}"#,
                "refused: message has no `kind`; give its kind (user, assistant, tool_call, tool_result or system), or specify the format of the messages",
            ),
        ],
    );
}

#[test]
fn native_tool_calls_and_results() {
    check(
        Format::Native,
        &[
            (
                r#"{"kind":"tool_call","content":"Looking.","data":{"tool_call_id":"c1","name":"grep","arguments":{"pattern": "a b"}}}"#,
                r#"tool_call: "Looking." call(c1 grep {"pattern":"a b"})"#,
            ),
            (
                r#"{"kind":"tool_call","tool_call_id":"c1","name":"grep","args":"{\"n\": 1}"}"#,
                r#"tool_call: call(c1 grep {"n": 1})"#,
            ),
            (
                r#"{"kind":"tool_call","name":"outer","input":[1],"data":{"name":"inner"}}"#,
                "tool_call: call(- inner [1])",
            ),
            (
                r#"{"kind":"tool_call","content":"x","data":{"name":""}}"#,
                "refused: tool_call has no `name`; give the tool's name in `data.name` or `name`, and its arguments in `data.arguments` or `arguments`",
            ),
            (
                r#"{"kind":"tool_result","content":"one line","data":{"tool_call_id":"c1","name":"grep","output":"a\nb","success":true}}"#,
                r#"tool_result: result(c1 grep "a\nb")"#,
            ),
            (
                r#"{"kind":"tool_result","tool_call_id":"c1","content":"no such file","success":false}"#,
                r#"tool_result: result(c1 - failed "no such file")"#,
            ),
            (
                r#"{"kind":"tool_result","data":{"output":{"rows": 2, "big": 123456789012345678901234567890}}}"#,
                r#"tool_result: result(- - "{\"rows\":2,\"big\":123456789012345678901234567890}")"#,
            ),
            (r#"{"kind":"tool","content":"legacy"}"#, r#"tool_result: result(- - "legacy")"#),
            (r#"{"kind":"tool_result"}"#, r#"tool_result: result(- - "")"#),
        ],
    );
}

#[test]
fn half_a_surrogate_pair_is_replaced_in_the_text_and_kept_in_the_payload() {
    let json = r#"{"kind":"user","content":"a \ud83d b \u0000","data":"\udead"}"#;
    let message = parse(Format::Native, json).unwrap();
    assert_eq!(message.payload, json);
    let text = message.text();
    assert!(text.starts_with("a \u{fffd}") && text.ends_with(" b \0"), "{text:?}");
}

#[test]
fn nesting_has_no_limit() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let json = format!(r#"{{"kind":"tool_call","name":"dig","arguments":{deep},"content":{deep}}}"#);
    let message = parse(Format::Native, &json).unwrap();
    assert_eq!(message.tool_names().collect::<Vec<_>>(), ["dig"]);
}

/// Every format accepts the flag in addition to its own fields; a value that isn't a boolean is ignored.
#[test]
fn a_line_may_have_the_flag_important() {
    for (format, payload, important) in [
        (Format::Native, r#"{"kind":"user","content":"x","important":true}"#, true),
        (Format::Native, r#"{"kind":"user","content":"x","important":"yes"}"#, false),
        (Format::Native, r#"{"kind":"user","content":"x"}"#, false),
        (Format::OpenAiChat, r#"{"role":"user","content":"x","important":true}"#, true),
        (Format::Anthropic, r#"{"role":"user","content":"x","important":true}"#, true),
        (Format::Gemini, r#"{"role":"user","parts":[{"text":"x"}],"important":true}"#, true),
        (Format::OpenAiResponses, r#"{"type":"message","role":"user","content":"x","important":true}"#, true),
    ] {
        assert_eq!(parse(format, payload).unwrap().important, important, "{payload}");
    }
}
