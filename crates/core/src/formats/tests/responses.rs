use super::*;

#[test]
fn messages_and_reasoning() {
    check(
        Format::OpenAiResponses,
        &[
            (r#"{"type":"message","role":"user","content":"Hi"}"#, r#"user: "Hi""#),
            (r#"{"role":"user","content":[{"type":"input_text","text":"Hi"}]}"#, r#"user: "Hi""#),
            (r#"{"role":"developer","content":"Be brief."}"#, r#"system: "Be brief.""#),
            (
                r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"},{"type":"refusal","refusal":"No."}]}"#,
                r#"assistant: "Hello" "No.""#,
            ),
            (
                r#"{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,aGk="},{"type":"input_file","file_data":"data:application/pdf;base64,aGk="},{"type":"input_file","file_id":"f"}]}"#,
                "user: attachment(image/png) attachment(application/pdf) attachment(application/octet-stream)",
            ),
            (
                r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}],"content":[{"type":"reasoning_text","text":"b"}],"encrypted_content":""}"#,
                "assistant: thinking(a) thinking(b)",
            ),
            (
                r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"content":null,"encrypted_content":"cc"}"#,
                r#"assistant: thinking("a\nb" OpenAi 2)"#,
            ),
            (
                r#"{"type":"reasoning","summary":[],"encrypted_content":"c"}"#,
                r#"assistant: thinking("" OpenAi 1)"#,
            ),
            (
                r#"{"type":"function_call_output","call_id":"f","output":[{"type":"input_text","text":"done"},{"type":"encrypted_content","encrypted_content":"c"}]}"#,
                r#"tool_result: result(f - "done") opaque(encrypted_content {"type":"encrypted_content","encrypted_content":"c"})"#,
            ),
            (r#"{"type":"item_reference","id":"msg_1"}"#, "item_reference:"),
            (r#"{"type":"compaction","encrypted_content":"c"}"#, "compaction:"),
            (r#"{"type":"clear"}"#, "other_clear:"),
            (
                r#"{"type":"message","content":"Hi"}"#,
                "refused: message item has no `role`; give its role: user, assistant, system or developer",
            ),
            (
                r#"{"content":"Hi"}"#,
                "refused: item has no `type` and no `role`; give its type (message, function_call, function_call_output, …), or specify the format of the messages",
            ),
        ],
    );
}

#[test]
fn calls_and_outputs_of_every_kind() {
    check(
        Format::OpenAiResponses,
        &[
            (
                r#"{"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"{\"a\": 1}"}"#,
                r#"tool_call: call(c1 look {"a": 1})"#,
            ),
            (
                r#"{"type":"custom_tool_call","call_id":"c1","name":"patch","input":"*** Begin"}"#,
                "tool_call: call(c1 patch *** Begin)",
            ),
            (
                r#"{"type":"local_shell_call","call_id":"c1","action":{"type":"exec","command":["ls"]}}"#,
                r#"tool_call: call(c1 local_shell {"type":"exec","command":["ls"]})"#,
            ),
            (
                r#"{"type":"apply_patch_call","call_id":"c1","operation":{"type":"delete_file","path":"a"}}"#,
                r#"tool_call: call(c1 apply_patch {"type":"delete_file","path":"a"})"#,
            ),
            (r#"{"type":"program","id":"p1","code":"f()"}"#, "tool_call: call(p1 program f())"),
            (r#"{"type":"tea_call","call_id":"c1"}"#, "tool_call: call(c1 tea )"),
            (
                r#"{"type":"function_call_output","call_id":"c1","output":"fine"}"#,
                r#"tool_result: result(c1 - "fine")"#,
            ),
            (
                r#"{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}"#,
                r#"tool_result: result(c1 - "a") attachment(image/png)"#,
            ),
            (
                r#"{"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,aGk="}}"#,
                r#"tool_result: result(c1 - "") attachment(image/png)"#,
            ),
            (
                r#"{"type":"tea_output","call_id":"c1","output":{"cups":2}}"#,
                r#"tool_result: result(c1 - "{\"cups\":2}")"#,
            ),
        ],
    );
}

#[test]
fn outputs_of_failed_calls() {
    check(
        Format::OpenAiResponses,
        &[
            (
                r#"{"type":"function_call_output","call_id":"c1","output":{"content":"gone","success":false}}"#,
                r#"tool_result: result(c1 - failed "gone")"#,
            ),
            (
                r#"{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"gone\",\"metadata\":{\"exit_code\":1}}"}"#,
                r#"tool_result: result(c1 - failed "{\"output\":\"gone\",\"metadata\":{\"exit_code\":1}}")"#,
            ),
            (
                r#"{"type":"shell_call_output","call_id":"c1","output":[{"stdout":"a","outcome":{"type":"exit","exit_code":0}}]}"#,
                r#"tool_result: result(c1 - "[{\"stdout\":\"a\",\"outcome\":{\"type\":\"exit\",\"exit_code\":0}}]")"#,
            ),
            (
                r#"{"type":"shell_call_output","call_id":"c1","output":[{"stdout":"a","outcome":{"type":"exit","exit_code":2}}]}"#,
                r#"tool_result: result(c1 - failed "[{\"stdout\":\"a\",\"outcome\":{\"type\":\"exit\",\"exit_code\":2}}]")"#,
            ),
            (
                r#"{"type":"shell_call_output","call_id":"c1","output":[{"outcome":{"type":"timeout"}}]}"#,
                r#"tool_result: result(c1 - failed "[{\"outcome\":{\"type\":\"timeout\"}}]")"#,
            ),
            (
                r#"{"type":"function_call_output","call_id":"c1","output":"Exit code: 1\nOutput:\ngone"}"#,
                r#"tool_result: result(c1 - failed "Exit code: 1\nOutput:\ngone")"#,
            ),
            (
                r#"{"type":"function_call_output","call_id":"c1","output":"{\"success\":false}"}"#,
                r#"tool_result: result(c1 - failed "{\"success\":false}")"#,
            ),
            (
                r#"{"type":"apply_patch_call_output","call_id":"c1","status":"failed","output":"gone"}"#,
                r#"tool_result: result(c1 - failed "gone")"#,
            ),
        ],
    );
}

#[test]
fn a_call_that_openai_runs_itself_contains_its_result() {
    check(
        Format::OpenAiResponses,
        &[
            (
                r#"{"type":"web_search_call","id":"w1","status":"completed","action":{"query":"q"}}"#,
                r#"tool_call: call(w1 web_search {"query":"q"}) result(w1 web_search "")"#,
            ),
            (
                r#"{"type":"mcp_call","id":"m1","name":"roll","arguments":"{}","output":"6"}"#,
                r#"tool_call: call(m1 roll {}) result(m1 roll "6")"#,
            ),
            (
                r#"{"type":"mcp_call","id":"m1","name":"roll","arguments":"{}","error":"lost"}"#,
                r#"tool_call: call(m1 roll {}) result(m1 roll failed "lost")"#,
            ),
            (
                r#"{"type":"image_generation_call","id":"i1","revised_prompt":"a cat","result":"aGk=","output_format":"webp"}"#,
                r#"tool_call: call(i1 image_generation a cat) result(i1 image_generation "") attachment(image/webp)"#,
            ),
        ],
    );
}

#[test]
fn items_are_detected_apart_from_messages_of_chat_and_anthropic() {
    for (json, expected) in [
        (r#"{"role":"user","content":"Hi"}"#, None),
        (r#"{"type":"message","role":"user","content":"Hi"}"#, Some(Format::OpenAiResponses)),
        (
            r#"{"role":"developer","content":[{"type":"input_text","text":"Hi"}]}"#,
            Some(Format::OpenAiResponses),
        ),
        (
            r#"{"type":"message","role":"assistant","status":"completed","content":[{"type":"refusal","refusal":"No."}]}"#,
            Some(Format::OpenAiResponses),
        ),
        (
            r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Hi"}]}"#,
            Some(Format::Anthropic),
        ),
        (
            r#"{"type":"message","role":"assistant","content":"Hi","stop_reason":"end_turn"}"#,
            Some(Format::Anthropic),
        ),
        (r#"{"role":"developer","content":"Hi"}"#, Some(Format::OpenAiChat)),
        (r#"{"role":"assistant","content":"Hi","tool_calls":[]}"#, Some(Format::OpenAiChat)),
        (r#"{"type":"tea_call","call_id":"c1"}"#, Some(Format::OpenAiResponses)),
        (r#"{"type":"reasoning","id":"r"}"#, Some(Format::OpenAiResponses)),
        (r#"{"type":"reasoning"}"#, None),
        (r#"{"type":"text","id":"x"}"#, None),
    ] {
        assert_eq!(detect(json), expected, "{json}");
    }
}
