//! Sessions of coding agents.

use super::*;

/// Shape: google-gemini/gemini-cli, packages/core/src/services/chatRecordingTypes.ts at 04741d1d, and a session of January
/// 2026. By hand: 4 messages in the file; the answer with two calls makes a message of calls and one of results; the notice
/// isn't the conversation's.
#[test]
fn gemini_cli_session() {
    check(
        r#"{"sessionId":"s1","projectHash":"p1","startTime":"2026-03-02T10:00:00.000Z","lastUpdated":"2026-03-02T10:01:00.000Z","messages":[
          {"id":"m1","timestamp":"2026-03-02T10:00:00.000Z","type":"user","content":[{"text":"Which beds are dry?"}]},
          {"id":"m2","timestamp":"2026-03-02T10:00:01.000Z","type":"info","content":"Update available"},
          {"id":"m3","timestamp":"2026-03-02T10:00:02.000Z","type":"gemini","content":"","model":"gemini-3",
           "thoughts":[{"subject":"Gauge","description":"Read it.","timestamp":"2026-03-02T10:00:01.500Z"}],
           "toolCalls":[
            {"id":"c1","name":"read_file","args":{"path":"gauge"},"status":"success","timestamp":"2026-03-02T10:00:03.000Z",
             "result":[{"functionResponse":{"id":"c1","name":"read_file","response":{"output":"bed 3: dry"}}}]},
            {"id":"c2","name":"shell","args":{},"status":"cancelled","timestamp":"2026-03-02T10:00:04.000Z","resultDisplay":"the user said no"}]},
          {"id":"m4","timestamp":"2026-03-02T10:00:05.000Z","type":"gemini","content":"Bed three.","thoughts":[]}]}"#,
        &[
            "gemini-cli",
            r#"log | user: "Which beds are dry?" id=m1 at=2026-03-02T10:00:00Z"#,
            "log | tool_call: thinking(Gauge",
            r#"Read it.) call(c1 read_file {"path":"gauge"}) call(c2 shell {}) id=m3 at=2026-03-02T10:00:02Z"#,
            r#"log | tool_result: result(c1 read_file "bed 3: dry") result(c2 shell failed "the user said no") id=m3/results at=2026-03-02T10:00:04Z"#,
            r#"log | assistant: "Bed three." id=m4 at=2026-03-02T10:00:05Z"#,
            "not read: 1 × info message",
        ],
    );
}

/// Shape: google-gemini/gemini-cli, packages/core/src/services/chatRecordingService.ts (`loadConversationRecord`). By hand: m2
/// is written twice and counts once, m3 is taken back, `$set` holds no message.
#[test]
fn gemini_cli_lines_with_a_rewind() {
    let lines = [
        r#"{"sessionId":"s1","projectHash":"p1","startTime":"2026-03-02T10:00:00.000Z","kind":"main"}"#,
        r#"{"id":"m1","timestamp":"2026-03-02T10:00:00Z","type":"user","content":"Sow."}"#,
        r#"{"id":"m2","timestamp":"2026-03-02T10:00:01Z","type":"gemini","content":"So"}"#,
        r#"{"id":"m2","timestamp":"2026-03-02T10:00:01Z","type":"gemini","content":"Sown."}"#,
        r#"{"id":"m3","timestamp":"2026-03-02T10:00:02Z","type":"user","content":"Undo."}"#,
        r#"{"$rewindTo":"m3"}"#,
        r#"{"$set":{"summary":"Sowing"}}"#,
        r#"{"id":"m4","timestamp":"2026-03-02T10:00:03Z","type":"user","content":"Water."}"#,
    ];
    check(
        &lines.join("\n"),
        &[
            "gemini-cli",
            r#"log | user: "Sow." id=m1 at=2026-03-02T10:00:00Z"#,
            r#"log | assistant: "Sown." id=m2 at=2026-03-02T10:00:01Z"#,
            r#"log | user: "Water." id=m4 at=2026-03-02T10:00:03Z"#,
            "not read: ",
        ],
    );
}

/// Shape: sessions of Gemini CLI 0.61, in which a result stands with its call and in the next line. By hand: a provider gave both calls the same
/// id, and each has its own result.
#[test]
fn gemini_cli_results_are_read_once() {
    let turn = |number: usize, result: &str| {
        let result = format!(
            r#"{{"functionResponse":{{"id":"c","name":"gauge","response":{{"output":"{result}"}}}}}}"#
        );
        [
            format!(
                r#"{{"id":"a{number}","timestamp":"2026-03-02T10:00:01Z","type":"gemini","content":"","toolCalls":[{{"id":"c","name":"gauge","args":{{}},"result":[{result}],"status":"success"}}]}}"#
            ),
            format!(
                r#"{{"id":"r{number}","timestamp":"2026-03-02T10:00:02Z","type":"user","content":[{result}]}}"#
            ),
        ]
    };
    let lines = [turn(1, "dry"), turn(2, "wet")].concat();
    check(
        &lines.join("\n"),
        &[
            "gemini-cli",
            "log | tool_call: call(c gauge {}) id=a1 at=2026-03-02T10:00:01Z",
            r#"log | tool_result: result(c gauge "dry") id=a1/results at=2026-03-02T10:00:01Z"#,
            "log | tool_call: call(c gauge {}) id=a2 at=2026-03-02T10:00:01Z",
            r#"log | tool_result: result(c gauge "wet") id=a2/results at=2026-03-02T10:00:01Z"#,
            "not read: 2 × repeated result",
        ],
    );
}

/// Shape: `gemini --output-format stream-json`, as in a published transcript of 2026. By hand: two pieces make one answer.
#[test]
fn gemini_cli_stream() {
    let lines = [
        r#"{"type":"init","timestamp":"2026-03-02T10:00:00Z","session_id":"s1","model":"gemini-3"}"#,
        r#"{"type":"message","timestamp":"2026-03-02T10:00:00Z","role":"user","content":"Dry?"}"#,
        r#"{"type":"tool_use","timestamp":"2026-03-02T10:00:01Z","tool_name":"ls","tool_id":"c1","parameters":{"p":"."}}"#,
        r#"{"type":"tool_result","timestamp":"2026-03-02T10:00:02Z","tool_id":"c1","status":"error","error":{"type":"x","message":"no bed"}}"#,
        r#"{"type":"message","timestamp":"2026-03-02T10:00:03Z","role":"assistant","content":"I can't ","delta":true}"#,
        r#"{"type":"message","timestamp":"2026-03-02T10:00:04Z","role":"assistant","content":"tell.","delta":true}"#,
        r#"{"type":"result","timestamp":"2026-03-02T10:00:05Z","status":"success"}"#,
    ];
    check(
        &lines.join("\n"),
        &[
            "gemini-cli-stream",
            r#"log | user: "Dry?" at=2026-03-02T10:00:00Z"#,
            r#"log | tool_call: call(c1 ls {"p":"."}) at=2026-03-02T10:00:01Z"#,
            r#"log | tool_result: result(c1 - failed "no bed") at=2026-03-02T10:00:02Z"#,
            r#"log | assistant: "I can't tell." at=2026-03-02T10:00:03Z"#,
            "not read: 1 × init event, 1 × result event",
        ],
    );
}

/// Shape: sst/opencode, packages/opencode/src/session/message-v2.ts, and an export of version 1.15.6. By hand: the answer's two
/// steps make a call, a result, and an answer; the running tool of the last message has no result.
#[test]
fn opencode_export() {
    check(
        r#"{"info":{"id":"ses_1","title":"Beds","time":{"created":1772445600000}},"messages":[
          {"info":{"id":"msg_1","role":"user","time":{"created":1772445600000}},"parts":[
            {"type":"text","text":"Which beds are dry?"},{"type":"file","mime":"image/png","url":"data:image/png;base64,AAAA"},
            {"type":"text","text":"shown only","ignored":true}]},
          {"info":{"id":"msg_2","role":"assistant","time":{"created":1772445601000}},"parts":[
            {"type":"step-start"},{"type":"reasoning","text":"Read the gauge."},
            {"type":"tool","tool":"read","callID":"c1","state":{"status":"completed","input":{"p":1},"output":"bed 3","title":"x"}},
            {"type":"step-finish","reason":"tool-calls"},{"type":"step-start"},{"type":"text","text":"Bed three."},
            {"type":"step-finish","reason":"stop"}]},
          {"info":{"id":"msg_3","role":"assistant","time":{"created":1772445602000},"error":{"name":"Aborted"}},"parts":[
            {"type":"tool","tool":"bash","callID":"c2","state":{"status":"running","input":{"c":"ls"}}}]},
          {"info":{"id":"msg_4","role":"assistant","summary":true,"time":{"created":1772445603000}},"parts":[
            {"type":"text","text":"Bed three is dry."}]}]}"#,
        &[
            "opencode",
            r#"log | user: "Which beds are dry?" attachment(image/png) id=msg_1 at=2026-03-02T10:00:00Z"#,
            r#"log | tool_call: thinking(Read the gauge.) call(c1 read {"p":1}) id=msg_2 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_result: result(c1 read "bed 3") id=msg_2/1 at=2026-03-02T10:00:01Z"#,
            r#"log | assistant: "Bed three." id=msg_2/2 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_call: call(c2 bash {"c":"ls"}) id=msg_3 at=2026-03-02T10:00:02Z"#,
            r#"log | compact_summary: "Bed three is dry." id=msg_4 at=2026-03-02T10:00:03Z"#,
            "not read: 1 × error of a message, 1 × ignored text, 2 × step-finish, 2 × step-start",
        ],
    );
}

/// Shape: badlogic/pi-mono, packages/coding-agent/docs/session.md at 25754f05, and a session of version 3 of July 2026. By hand:
/// e3 follows from e1, so that e2 is of another branch.
#[test]
fn pi_session() {
    let lines = [
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-03-02T10:00:00Z","cwd":"/garden"}"#,
        r#"{"type":"message","id":"e1","parentId":null,"timestamp":"2026-03-02T10:00:01Z","message":{"role":"user","content":[{"type":"text","text":"Dry?"}]}}"#,
        r#"{"type":"message","id":"e2","parentId":"e1","timestamp":"2026-03-02T10:00:02Z","message":{"role":"assistant","content":[{"type":"text","text":"No."}]}}"#,
        r#"{"type":"message","id":"e3","parentId":"e1","timestamp":"2026-03-02T10:00:03Z","message":{"role":"assistant","content":[{"type":"thinking","thinking":"Look."},{"type":"toolCall","id":"c1","name":"read","arguments":{"p":1}}]}}"#,
        r#"{"type":"message","id":"e4","parentId":"e3","timestamp":"2026-03-02T10:00:04Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"bed 3"}],"isError":false}}"#,
        r#"{"type":"model_change","id":"e5","parentId":"e4","timestamp":"2026-03-02T10:00:05Z","modelId":"m"}"#,
        r#"{"type":"message","id":"e6","parentId":"e5","timestamp":"2026-03-02T10:00:06Z","message":{"role":"assistant","content":[{"type":"text","text":"Bed three."}]}}"#,
    ];
    check(
        &lines.join("\n"),
        &[
            "pi",
            r#"log | user: "Dry?" id=e1 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_call: thinking(Look.) call(c1 read {"p":1}) id=e3 at=2026-03-02T10:00:03Z"#,
            r#"log | tool_result: result(c1 read "bed 3") id=e4 at=2026-03-02T10:00:04Z"#,
            r#"log | assistant: "Bed three." id=e6 at=2026-03-02T10:00:06Z"#,
            "not read: 1 × entry of another branch, 1 × model_change, 1 × session",
        ],
    );
}

/// Shape: events of GitHub Copilot CLI 1.0, of which github/copilot-sdk (nodejs/src/generated/session-events.ts) has the types.
/// By hand: the start of c1 repeats the call of the message before it; c2 has no such message.
#[test]
fn copilot_events() {
    let lines = [
        r#"{"type":"session.start","id":"e0","timestamp":"2026-03-02T10:00:00Z","data":{"sessionId":"s1"}}"#,
        r#"{"type":"user.message","id":"e1","timestamp":"2026-03-02T10:00:01Z","data":{"content":"Dry?","attachments":[]}}"#,
        r#"{"type":"assistant.message","id":"e2","timestamp":"2026-03-02T10:00:02Z","data":{"content":"","toolRequests":[{"toolCallId":"c1","name":"view","arguments":{"p":1}}]}}"#,
        r#"{"type":"tool.execution_start","id":"e3","timestamp":"2026-03-02T10:00:03Z","data":{"toolCallId":"c1","toolName":"view","arguments":{"p":1}}}"#,
        r#"{"type":"tool.execution_complete","id":"e4","timestamp":"2026-03-02T10:00:04Z","data":{"toolCallId":"c1","success":true,"result":{"content":"bed 3"}}}"#,
        r#"{"type":"tool.execution_start","id":"e5","timestamp":"2026-03-02T10:00:05Z","data":{"toolCallId":"c2","toolName":"bash","arguments":{}}}"#,
        r#"{"type":"tool.execution_complete","id":"e6","timestamp":"2026-03-02T10:00:06Z","data":{"toolCallId":"c2","success":false,"error":{"message":"denied"}}}"#,
        r#"{"type":"assistant.message","id":"e7","timestamp":"2026-03-02T10:00:07Z","data":{"content":"Bed three.","toolRequests":[]}}"#,
    ];
    check(
        &lines.join("\n"),
        &[
            "copilot-cli",
            r#"log | user: "Dry?" id=e1 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_call: call(c1 view {"p":1}) id=e2 at=2026-03-02T10:00:02Z"#,
            r#"log | tool_result: result(c1 - "bed 3") id=e4 at=2026-03-02T10:00:04Z"#,
            "log | tool_call: call(c2 bash {}) id=e5 at=2026-03-02T10:00:05Z",
            r#"log | tool_result: result(c2 - failed "denied") id=e6 at=2026-03-02T10:00:06Z"#,
            r#"log | assistant: "Bed three." id=e7 at=2026-03-02T10:00:07Z"#,
            "not read: 1 × session.start",
        ],
    );
}

/// Shape: QwenLM/qwen-code, packages/core/src/services/chatRecordingService.ts at 015346f1 (`ChatRecord`).
#[test]
fn qwen_code_lines() {
    let lines = [
        r#"{"uuid":"u0","parentUuid":null,"sessionId":"s","timestamp":"2026-03-02T10:00:00Z","type":"system","subtype":"ui_telemetry","cwd":"/","version":"1"}"#,
        r#"{"uuid":"u1","parentUuid":"u0","sessionId":"s","timestamp":"2026-03-02T10:00:01Z","type":"user","message":{"role":"user","parts":[{"text":"Dry?"}]}}"#,
        r#"{"uuid":"u2","parentUuid":"u1","sessionId":"s","timestamp":"2026-03-02T10:00:02Z","type":"assistant","message":{"role":"model","parts":[{"text":"Look.","thought":true},{"functionCall":{"id":"c1","name":"read","args":{"p":1}}}]}}"#,
        r#"{"uuid":"u3","parentUuid":"u2","sessionId":"s","timestamp":"2026-03-02T10:00:03Z","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"read","response":{"output":"bed 3"}}}]}}"#,
    ];
    check(
        &lines.join("\n"),
        &[
            "qwen-code",
            r#"log | user: "Dry?" id=u1 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_call: thinking(Look.) call(c1 read {"p":1}) id=u2 at=2026-03-02T10:00:02Z"#,
            r#"log | tool_result: result(c1 read "bed 3") id=u3 at=2026-03-02T10:00:03Z"#,
            "not read: 1 × ui_telemetry line",
        ],
    );
}

/// Shape: transcripts of Cursor's agent of 2026 (`agent-transcripts/<id>/<id>.jsonl`), as readers in public repositories
/// describe them: no ids, no times.
#[test]
fn cursor_transcript() {
    let lines = [
        r#"{"role":"user","message":{"content":[{"type":"text","text":"<timestamp>now</timestamp>\n<user_query>\nDry?\n</user_query>"},{"type":"text","text":"Open: beds.txt"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}]}}"#,
        r#"{"role":"assistant","message":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","name":"Read","input":{"p":1}}]}}"#,
        r#"{"type":"turn_ended","status":"success"}"#,
    ];
    check(
        &lines.join("\n"),
        &[
            "cursor",
            r#"log | user: "Dry?" attachment(image/png)"#,
            r#"log | tool_call: "I look." call(- Read {"p":1})"#,
            "not read: 1 × text around the user's words, 1 × timestamp, 1 × turn_ended",
        ],
    );
}

/// Shape: All-Hands-AI/OpenHands, openhands/events/serialization/event.py at 04e28400. By hand: the call has the arguments that
/// the model wrote, not the action's.
#[test]
fn openhands_events() {
    check(
        r#"[{"id":0,"timestamp":"2026-03-02T10:00:00","source":"agent","action":"system","args":{"content":"You garden."}},
          {"id":1,"timestamp":"2026-03-02T10:00:01","source":"user","message":"Dry?","action":"message","args":{"content":"Dry?","image_urls":[]}},
          {"id":2,"timestamp":"2026-03-02T10:00:02","source":"environment","observation":"agent_state_changed","content":"","extras":{"agent_state":"running"}},
          {"id":3,"timestamp":"2026-03-02T10:00:03","source":"agent","action":"run","args":{"command":"gauge","thought":"I look.","hidden":false},
           "tool_call_metadata":{"function_name":"execute_bash","tool_call_id":"c1","model_response":{"choices":[{"message":{"tool_calls":[{"id":"c1","function":{"name":"execute_bash","arguments":"{\"command\":\"gauge\"}"}}]}}]}}},
          {"id":4,"timestamp":"2026-03-02T10:00:04","source":"agent","cause":3,"observation":"run","content":"no gauge","extras":{"metadata":{"exit_code":127}},"tool_call_metadata":{"function_name":"execute_bash","tool_call_id":"c1"}},
          {"id":5,"timestamp":"2026-03-02T10:00:05","source":"agent","action":"finish","args":{"final_thought":"I can't tell."}}]"#,
        &[
            "openhands",
            r#"log | system: "You garden." id=event-0 at=2026-03-02T10:00:00Z"#,
            r#"log | user: "Dry?" id=event-1 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_call: "I look." call(c1 execute_bash {"command":"gauge"}) id=event-3 at=2026-03-02T10:00:03Z"#,
            r#"log | tool_result: result(c1 execute_bash failed "no gauge") id=event-4 at=2026-03-02T10:00:04Z"#,
            r#"log | assistant: "I can't tell." id=event-5 at=2026-03-02T10:00:05Z"#,
            "not read: 1 × agent_state_changed",
        ],
    );
}

/// Shape: OpenHands' software-agent-sdk 1, openhands-sdk/openhands/sdk/event, as the tests of its command line use it.
#[test]
fn openhands_1_events() {
    let lines = [
        r#"{"kind":"MessageEvent","id":"e1","timestamp":"2026-03-02T10:00:01","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"Dry?"}]}}"#,
        r#"{"kind":"ActionEvent","id":"e2","timestamp":"2026-03-02T10:00:02","source":"agent","thought":[{"type":"text","text":"I look."}],"action":{"kind":"ExecuteBashAction"},"tool_name":"bash","tool_call_id":"c1","tool_call":{"id":"c1","name":"bash","arguments":"{\"c\":1}"}}"#,
        r#"{"kind":"ObservationEvent","id":"e3","timestamp":"2026-03-02T10:00:03","source":"environment","tool_name":"bash","tool_call_id":"c1","observation":{"content":[{"type":"text","text":"bed 3"}],"is_error":false}}"#,
        r#"{"kind":"ConversationStateUpdateEvent","id":"e4","timestamp":"2026-03-02T10:00:04","source":"environment"}"#,
    ];
    check(
        &lines.join("\n"),
        &[
            "openhands-1",
            r#"log | user: "Dry?" id=e1 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_call: "I look." call(c1 bash {"c":1}) id=e2 at=2026-03-02T10:00:02Z"#,
            r#"log | tool_result: result(c1 bash "bed 3") id=e3 at=2026-03-02T10:00:03Z"#,
            "not read: 1 × ConversationStateUpdateEvent",
        ],
    );
}

/// Shape: sessions of GitHub Copilot CLI 1.0.64 to 1.0.74 in public repositories, and the comments of github/copilot-sdk. By hand: the user
/// says one thing; a sub-agent, a reminder and the autopilot say the rest. Of three prompts the last one counts, where it stands.
#[test]
fn copilots_own_messages_are_not_the_users() {
    let message = |id: &str, more: &str| {
        format!(r#"{{"type":"user.message","id":"{id}","timestamp":"2026-03-02T10:00:0{id}Z",{more}}}"#)
    };
    let prompt = |id: &str, more: &str| {
        format!(
            r#"{{"type":"system.message","id":"{id}",{more}"data":{{"role":"system","content":"Prompt {id}"}}}}"#
        )
    };
    let lines = [
        prompt("1", ""),
        prompt("2", ""),
        message("3", r#""data":{"content":"Dry?"}"#),
        prompt("4", r#""agentId":"c1","#),
        message("5", r#""agentId":"c1","data":{"content":"You are a gauge.","source":"agent-1"}"#),
        message("6", r#""data":{"content":"<system_reminder>Go on</system_reminder>","source":"system"}"#),
        message("7", r#""data":{"content":"How to read a gauge","source":"skill-gauge"}"#),
        message("8", r#""data":{"content":"Keep going","isAutopilotContinuation":true}"#),
    ];
    check(
        &lines.join("\n"),
        &[
            "copilot-cli",
            r#"log | system: "Prompt 2" id=2"#,
            r#"log | user: "Dry?" id=3 at=2026-03-02T10:00:03Z"#,
            "not read: 1 × earlier system.message, 2 × sub-agent's event, 3 × user.message that Copilot wrote",
        ],
    );
}

/// Shape: QwenLM/qwen-code, packages/core/src/utils/conversation-chain.ts: a rewind's parent is the line at which the session goes on. By hand: u2
/// is taken back; of u4 the hook's part isn't the user's.
#[test]
fn qwen_code_lines_with_a_rewind() {
    let line = |id: &str, parent: &str, more: &str| {
        format!(
            r#"{{"uuid":"u{id}","parentUuid":{parent},"sessionId":"s","timestamp":"2026-03-02T10:00:0{id}Z",{more}}}"#
        )
    };
    let user = |texts: &str| format!(r#""type":"user","message":{{"role":"user","parts":[{texts}]}}"#);
    let lines = [
        line("1", "null", &user(r#"{"text":"Dry?"}"#)),
        line("2", r#""u1""#, r#""type":"assistant","message":{"role":"model","parts":[{"text":"No."}]}"#),
        line("3", r#""u1""#, r#""type":"system","subtype":"rewind""#),
        line(
            "4",
            r#""u3""#,
            &user(r#"{"text":"<qwen:user-prompt-submit-context>Monday"},{"text":"And bed 3?"}"#),
        ),
        line("5", r#""u4""#, &format!(r#""subtype":"notification",{}"#, user(r#"{"text":"A task ended"}"#))),
    ];
    check(
        &lines.join("\n"),
        &[
            "qwen-code",
            r#"log | user: "Dry?" id=u1 at=2026-03-02T10:00:01Z"#,
            r#"log | user: "And bed 3?" id=u4 at=2026-03-02T10:00:04Z"#,
            "not read: 1 × hook's context, 1 × line of another branch, 1 × notification line, 1 × rewind line",
        ],
    );
}

/// Shape: sst/opencode, packages/opencode/src/session/prompt.ts, and exports in public repositories. By hand: the first message has a text of the
/// user, what opencode wrote for the file that the user names, and that file's address; the second has only a text of opencode.
#[test]
fn opencodes_own_texts_are_not_the_users() {
    check(
        r#"{"info":{"id":"ses_1"},"messages":[
          {"info":{"id":"msg_1","role":"user","time":{"created":1772445600000}},"parts":[
            {"type":"text","text":"Dry?"},
            {"type":"text","synthetic":true,"text":"Called the Read tool with the following input: {}"},
            {"type":"file","mime":"text/plain","filename":"gauge.txt","url":"file:///beds/gauge.txt"},
            {"type":"file","mime":"image/png","url":"data:image/png;base64,iVBO"}]},
          {"info":{"id":"msg_2","role":"user","time":{"created":1772445601000}},"parts":[
            {"type":"text","synthetic":true,"text":"Summarize the task tool output above and continue with your task."}]}]}"#,
        &[
            "opencode",
            r#"log | user: "Dry?" attachment(image/png) id=msg_1 at=2026-03-02T10:00:00Z"#,
            "not read: 1 × local file, 1 × message without content, 2 × synthetic text",
        ],
    );
}

/// A session of pi may be compacted any number of times.
#[test]
fn every_summary_of_a_program_is_metadata() {
    let summary = |number: u32| {
        format!(
            r#"{{"type":"compaction","id":"e{number}","parentId":null,"timestamp":"2026-03-02T10:00:00Z","summary":"Bed {number}"}}"#
        )
    };
    let mut lines = vec![r#"{"type":"session","version":1,"id":"s","cwd":"/"}"#.to_owned()];
    lines.extend((1..=5).map(|number| summary(number).replace(r#","parentId":null"#, "")));
    let read = read(&lines.join("\n"));
    assert_eq!(read.matches("compact_summary").count(), 5, "{read}");
    assert!(!read.contains("skipped"), "{read}");
}

/// Shape: a conversation of Cline of 2026 in a public repository. By hand: two calls, of which the next message answers the first one and has a
/// question's answer by the user; the call after that has no result, because the task was resumed.
#[test]
fn cline_history_with_results_as_texts() {
    check(
        r#"[{"role":"user","content":[{"type":"text","text":"<task>\nDry?\n</task>"}]},
          {"role":"assistant","content":[{"type":"text","text":"I look.","call_id":"c1"},{"type":"tool_use","id":"c1","name":"read_file","input":{"p":1},"call_id":"c1"},{"type":"tool_use","id":"c2","name":"ask_followup_question","input":{"question":"Which\nbed?"},"call_id":"c2"}]},
          {"role":"user","content":[{"type":"text","text":"[read_file for 'beds.txt'] Result:\nbed 3"},{"type":"text","text":"[ask_followup_question for 'Which\nbed?'] Result:\n<answer>\nThree\n</answer>"}]},
          {"role":"assistant","content":[{"type":"tool_use","id":"c3","name":"plan_mode_respond","input":{},"call_id":"c3"}]},
          {"role":"user","content":[{"type":"text","text":"[TASK RESUMPTION] This task was interrupted"}]}]"#,
        &[
            "cline",
            r#"log | user: "<task>\nDry?\n</task>""#,
            r#"log | tool_call: "I look." call(c1 read_file {"p":1}) call(c2 ask_followup_question {"question":"Which\nbed?"})"#,
            r#"log | tool_result: result(c1 - "bed 3")"#,
            r#"log | tool_result: result(c2 - "<answer>\nThree\n</answer>")"#,
            r#"log | user: "<answer>\nThree\n</answer>""#,
            "log | tool_call: call(c3 plan_mode_respond {})",
            r#"log | user: "[TASK RESUMPTION] This task was interrupted""#,
            "not read: ",
        ],
    );
}

/// Shape: OpenHands' software-agent-sdk 1: a conversation is a folder with a file for each event.
#[test]
fn an_openhands_folder_is_one_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("bed-three/events");
    std::fs::create_dir_all(&events).unwrap();
    let message = |role: &str, text: &str| {
        format!(
            "{{\n  \"kind\": \"MessageEvent\", \"source\": \"user\",\n  \"llm_message\": {{\"role\": \"{role}\", \"content\": [{{\"type\": \"text\", \"text\": \"{text}\"}}]}},\n  \"extended_content\": [{{\"type\": \"text\", \"text\": \"Monday\"}}]\n}}"
        )
    };
    let prompt = r#"{"kind":"SystemPromptEvent","source":"agent","system_prompt":{"type":"text","text":"You garden."},"dynamic_context":{"type":"text","text":"It is March."}}"#;
    for (name, text) in [
        ("event-00010-c.json", message("assistant", "Bed three.")),
        ("event-00000-a.json", prompt.to_owned()),
        ("event-00009-b.json", message("user", "Dry?")),
        (".lock", String::new()),
    ] {
        std::fs::write(events.join(name), text).unwrap();
    }
    assert!(folder::is_conversation(&events) && !folder::is_conversation(folder.path()));
    let reader = FileReader::open_conversation(&events, None, None).unwrap();
    assert_eq!(reader.left_out().iter().collect::<Vec<_>>(), [(&"extended content".to_owned(), &2)]);
    assert_eq!(
        listing(reader),
        [
            r#"bed-three | system: "You garden." "It is March.""#,
            r#"bed-three | user: "Dry?""#,
            r#"bed-three | assistant: "Bed three.""#,
        ]
        .join("\n")
    );
    std::fs::write(events.join("notes.txt"), "").unwrap();
    assert!(!folder::is_conversation(&events));
}

/// Shape: cline/cline, `api_conversation_history.json`: Anthropic's messages, which need no reader of their own.
#[test]
fn cline_history() {
    check(
        r#"[{"role":"user","content":[{"type":"text","text":"<task>\nDry?\n</task>"}],"ts":1772445600000},
          {"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"read_file","input":{"p":1}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"bed 3"}]}]"#,
        &[
            "none",
            r#"log | user: "<task>\nDry?\n</task>""#,
            r#"log | tool_call: "I look." call(c1 read_file {"p":1})"#,
            r#"log | tool_result: result(c1 - "bed 3")"#,
            "not read: ",
        ],
    );
}
