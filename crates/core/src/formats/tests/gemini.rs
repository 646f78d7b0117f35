use super::*;

#[test]
fn contents_of_each_role() {
    check(
        Format::Gemini,
        &[
            (r#"{"role":"user","parts":[{"text":"Hi"},{"text":"there"}]}"#, r#"user: "Hi" "there""#),
            (r#"{"parts":[{"text":"Hi"}]}"#, r#"user: "Hi""#),
            (r#"{"role":"model","parts":[{"text":"Hello"}]}"#, r#"assistant: "Hello""#),
            (r#"{"role":"system","parts":[{"text":"Be brief."}]}"#, r#"system: "Be brief.""#),
            (r#"{"role":"clear","parts":[{"text":"x"}]}"#, r#"other_clear: "x""#),
            (r#"{"role":"model","parts":[]}"#, "assistant:"),
            (r#"{"role":"user","parts":[7,{"videoMetadata":{}}]}"#, "user:"),
            (
                r#"{"role":"user","content":"Hi"}"#,
                "refused: content has no `parts`; give its parts as an array of objects, or specify the format of the messages",
            ),
        ],
    );
}

#[test]
fn calls_and_responses_often_have_no_ids() {
    check(
        Format::Gemini,
        &[
            (
                r#"{"role":"model","parts":[{"text":"Let me see.","thought":true},{"functionCall":{"name":"look","args":{"n": 12345678901234567890}},"thoughtSignature":"c2ln"}]}"#,
                r#"tool_call: thinking(Let me see.) call(- look {"n":12345678901234567890})"#,
            ),
            (
                r#"{"role":"model","parts":[{"text":"Let me see.","thought":true,"thoughtSignature":"c2ln"}]}"#,
                r#"assistant: thinking("Let me see." Other 4)"#,
            ),
            (
                r#"{"role":"model","parts":[{"function_call":{"id":"c1","name":"look","args":null,"x":1}}]}"#,
                "tool_call: call(c1 look )",
            ),
            (
                r#"{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"look","response":{"output":"a\nb"}}},{"text":"Go on."}]}"#,
                r#"tool_result: result(c1 look "a\nb") "Go on.""#,
            ),
            (
                r#"{"role":"function","parts":[{"functionResponse":{"name":"look","response":{"error":"gone"}}}]}"#,
                r#"tool_result: result(- look failed "gone")"#,
            ),
            (
                r#"{"role":"function","parts":[{"functionResponse":{"name":"look","response":{"error":"gone","code":5}}}]}"#,
                r#"tool_result: result(- look failed "{\"error\":\"gone\",\"code\":5}")"#,
            ),
            (
                r#"{"role":"function","parts":[{"functionResponse":{"name":"look","response":{"error":null}}}]}"#,
                r#"tool_result: result(- look "null")"#,
            ),
            (
                r#"{"role":"function","parts":[{"functionResponse":{"name":"look","response":{"error":null,"rows":5}}}]}"#,
                r#"tool_result: result(- look "{\"error\":null,\"rows\":5}")"#,
            ),
            (
                r#"{"role":"function","parts":[{"function_response":{"name":"look","response":{"output":"a","more":1}}}]}"#,
                r#"tool_result: result(- look "{\"output\":\"a\",\"more\":1}")"#,
            ),
            (r#"{"role":"user","parts":[{"functionResponse":{}}]}"#, r#"tool_result: result(- - "")"#),
            (
                r#"{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"1/0"}},{"codeExecutionResult":{"outcome":"OUTCOME_FAILED","output":"no"}}]}"#,
                r#"tool_call: call(- code_execution 1/0) result(- code_execution failed "no")"#,
            ),
            (
                r#"{"role":"model","parts":[{"toolCall":{"id":"t","toolType":"SEARCH","args":{"q":1}}},{"toolResponse":{"id":"t","toolType":"SEARCH","response":{"result":[1]}}}]}"#,
                r#"tool_call: call(t SEARCH {"q":1}) result(t SEARCH "[1]")"#,
            ),
        ],
    );
}

#[test]
fn data_of_images_and_files_are_attachments() {
    check(
        Format::Gemini,
        &[
            (
                r#"{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"aGk="}},{"file_data":{"mime_type":"audio/mp3","file_uri":"f"}},{"fileData":{"fileUri":"f"}}]}"#,
                "user: attachment(image/png) attachment(audio/mp3) attachment(application/octet-stream)",
            ),
            (
                r#"{"role":"user","parts":[{"functionResponse":{"name":"shot","response":{},"parts":[{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}}]}"#,
                r#"tool_result: result(- shot "{}") attachment(image/png)"#,
            ),
        ],
    );
}

#[test]
fn parts_without_a_type_mean_gemini() {
    for (json, expected) in [
        (r#"{"role":"user","parts":[{"text":"Hi"}]}"#, Some(Format::Gemini)),
        (r#"{"role":"model","parts":[]}"#, Some(Format::Gemini)),
        (r#"{"role":"user","parts":[{"type":"text","text":"Hi"}]}"#, None),
        (r#"{"role":"assistant","parts":[{"text":"Hi"}]}"#, None),
        (r#"{"role":"user","parts":"Hi"}"#, None),
        (r#"{"parts":[{"text":"Hi"}]}"#, Some(Format::Gemini)),
        (r#"{"parts":[{"number":7}]}"#, None),
        (r#"{"parts":[]}"#, None),
        (r#"{"role":"user","parts":[{"text":"Hi"}],"content":"Hi"}"#, None),
    ] {
        assert_eq!(detect(json), expected, "{json}");
    }
}
