//! Message lists of frameworks.

use super::*;

/// Shape: vercel/ai, packages/ai/src/ui/ui-messages.ts at 0103ba52. By hand: the answer's two steps make calls, their results,
/// and an answer; the call of the second tool failed.
#[test]
fn ai_sdk_ui_messages() {
    check(
        r#"[{"id":"u1","role":"user","metadata":{"createdAt":1772445600000},"parts":[{"type":"text","text":"Dry?"},{"type":"file","mediaType":"image/png","url":"https://x.test/a.png"}]},
          {"id":"a1","role":"assistant","parts":[{"type":"step-start"},{"type":"reasoning","text":"Look."},
           {"type":"tool-gauge","toolCallId":"c1","state":"output-available","input":{"bed":3},"output":{"dry":true}},
           {"type":"dynamic-tool","toolName":"rain","toolCallId":"c2","state":"output-error","input":{},"errorText":"offline"},
           {"type":"step-start"},{"type":"text","text":"Bed three."},{"type":"data-chart","data":{}}]}]"#,
        &[
            "ai-sdk-ui",
            r#"log | user: "Dry?" attachment(image/*) id=u1 at=2026-03-02T10:00:00Z"#,
            r#"log | tool_call: thinking(Look.) call(c1 gauge {"bed":3}) call(c2 rain {}) id=a1"#,
            r#"log | tool_result: result(c1 gauge "{\"dry\":true}") id=a1/1"#,
            r#"log | tool_result: result(c2 rain failed "offline") id=a1/2"#,
            r#"log | assistant: "Bed three." id=a1/3"#,
            "not read: 1 × data-chart, 2 × step-start",
        ],
    );
}

/// Shape: version 4 of vercel/ai: a call with its result in `toolInvocation`.
#[test]
fn ai_sdk_ui_messages_of_version_4() {
    check(
        r#"{"messages":[{"id":"a1","role":"assistant","content":"Bed three.","createdAt":"2026-03-02T10:00:00Z","parts":[
           {"type":"tool-invocation","toolInvocation":{"state":"result","toolCallId":"c1","toolName":"gauge","args":{"bed":3},"result":"dry"}},
           {"type":"text","text":"Bed three."}]},{"id":"u2","role":"user","content":"Thanks!"}]}"#,
        &[
            "ai-sdk-ui",
            r#"log | tool_call: call(c1 gauge {"bed":3}) id=a1 at=2026-03-02T10:00:00Z"#,
            r#"log | tool_result: result(c1 gauge "dry") id=a1/1 at=2026-03-02T10:00:00Z"#,
            r#"log | assistant: "Bed three." id=a1/2 at=2026-03-02T10:00:00Z"#,
            r#"log | user: "Thanks!" id=u2"#,
            "not read: ",
        ],
    );
}

/// Shape: vercel/ai, packages/provider-utils/src/types/content-part.ts at 06d915d2. By hand: one conversation a line.
#[test]
fn ai_sdk_model_messages() {
    let lines = [
        r#"{"id":"x","system":"Be brief.","messages":[{"role":"user","content":"Dry?"},{"role":"assistant","content":[{"type":"reasoning","text":"Look."},{"type":"tool-call","toolCallId":"c1","toolName":"gauge","input":{"bed":3}}]},{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","toolName":"gauge","output":{"type":"error-text","value":"no gauge"}},{"type":"tool-approval-response","approvalId":"p","approved":true}]}]}"#,
        r#"{"messages":[{"role":"user","content":"Hi"}]}"#,
    ];
    check(
        &lines.join("\n"),
        &[
            "ai-sdk",
            r#"log-x | system: "Be brief.""#,
            r#"log-x | user: "Dry?""#,
            r#"log-x | tool_call: thinking(Look.) call(c1 gauge {"bed":3})"#,
            r#"log-x | tool_result: result(c1 gauge failed "no gauge")"#,
            r#"log-2 | user: "Hi""#,
            "not read: 1 × tool-approval-response",
        ],
    );
}

/// Shape: langchain-ai/langchain, `libs/core/langchain_core/messages/base.py` (`messages_to_dict`), `ai.py` and `tool.py`. By hand: the
/// block `tool_use` repeats the call in `tool_calls`.
#[test]
fn langchain_messages_to_dict() {
    check(
        r#"[{"type":"system","data":{"content":"Be brief.","type":"system","id":null}},
          {"type":"human","data":{"content":"Dry?","type":"human","id":"h1"}},
          {"type":"ai","data":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"gauge","input":{}}],"type":"ai","id":"run-1",
           "tool_calls":[{"name":"gauge","args":{"bed":3},"id":"c1","type":"tool_call"}],"invalid_tool_calls":[],"additional_kwargs":{}}},
          {"type":"tool","data":{"content":"no gauge","type":"tool","name":"gauge","id":"t1","tool_call_id":"c1","status":"error"}},
          {"type":"remove","data":{"content":"","type":"remove","id":"h0"}}]"#,
        &[
            "langchain",
            r#"log | system: "Be brief.""#,
            r#"log | user: "Dry?" id=h1"#,
            r#"log | tool_call: "I look." call(c1 gauge {"bed":3}) id=run-1"#,
            r#"log | tool_result: result(c1 gauge failed "no gauge") id=t1"#,
            "not read: 1 × remove message",
        ],
    );
}

/// Shape: `langchain_core.load.dumpd` of messages, in a checkpoint of LangGraph (`channel_values.messages`).
#[test]
fn langgraph_checkpoint_of_serialised_messages() {
    check(
        r#"{"v":4,"id":"k1","channel_values":{"messages":[
          {"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"Dry?","type":"human","id":"h1"}},
          {"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"],"kwargs":{"content":"","type":"ai","id":"a1","additional_kwargs":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"gauge","arguments":"{\"bed\":3}"}}]}}},
          {"lc":1,"type":"constructor","id":["langchain","schema","messages","ToolMessage"],"kwargs":{"content":"dry","type":"tool","id":"t1","tool_call_id":"c1"}}]}}"#,
        &[
            "langchain",
            r#"log | user: "Dry?" id=h1"#,
            r#"log | tool_call: call(c1 gauge {"bed":3}) id=a1"#,
            r#"log | tool_result: result(c1 - "dry") id=t1"#,
            "not read: ",
        ],
    );
}

/// Shape: `model_dump` of LangChain's messages, as LangGraph's API returns them in `values`.
#[test]
fn langgraph_state_of_plain_messages() {
    check(
        r#"{"values":{"messages":[{"content":"Dry?","type":"human","id":"h1"},{"content":"Bed three.","type":"ai","id":"a1","tool_calls":[]},
          {"content":"Hi","type":"generic","id":"g1"}]}}"#,
        &[
            "langchain",
            r#"log | user: "Dry?" id=h1"#,
            r#"log | assistant: "Bed three." id=a1"#,
            "not read: 1 × generic message",
        ],
    );
}

/// Shape: the Converse API of Amazon Bedrock (`Message`, `ContentBlock`, `ToolResultBlock`). By hand: the results answer the
/// calls before the user goes on.
#[test]
fn bedrock_converse_messages() {
    check(
        r#"{"modelId":"m","system":[{"text":"Be brief."}],"messages":[{"role":"user","content":[{"text":"Dry?"},{"image":{"format":"png","source":{"bytes":"AAAA"}}}]},
          {"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Look.","signature":"s"}}},{"text":"I look."},{"toolUse":{"toolUseId":"c1","name":"gauge","input":{"bed":3}}}]},
          {"role":"user","content":[{"text":"And bed four?"},{"toolResult":{"toolUseId":"c1","content":[{"text":"no"},{"json":{"gauge":0}}],"status":"error"}},{"cachePoint":{"type":"default"}}]}]}"#,
        &[
            "bedrock-converse",
            r#"log | system: "Be brief.""#,
            r#"log | user: "Dry?" attachment(image/png)"#,
            r#"log | tool_call: thinking(Look.) "I look." call(c1 gauge {"bed":3})"#,
            r#"log | tool_result: result(c1 - failed "no\n{\"gauge\":0}")"#,
            r#"log | user: "And bed four?""#,
            "not read: 1 × cachePoint",
        ],
    );
}

/// Shape: pydantic/pydantic-ai, `pydantic_ai_slim/pydantic_ai/messages.py` at 002cbd42. By hand: the instructions of both requests
/// are the same, and make one message.
#[test]
fn pydantic_ai_messages() {
    check(
        r#"[{"kind":"request","instructions":"Be brief.","parts":[{"part_kind":"system-prompt","content":"You garden.","timestamp":"2026-03-02T10:00:00Z"},
           {"part_kind":"user-prompt","content":["Dry?",{"kind":"image-url","url":"https://x.test/a.png"},{"kind":"cache-point","ttl":"5m"}],"timestamp":"2026-03-02T10:00:00Z"}]},
          {"kind":"response","timestamp":"2026-03-02T10:00:01Z","parts":[{"part_kind":"thinking","content":"Look."},{"part_kind":"tool-call","tool_name":"gauge","args":"{\"bed\":3}","tool_call_id":"c1"},{"part_kind":"tool-call","tool_name":"rain","args":{},"tool_call_id":"c2"}]},
          {"kind":"request","instructions":"Be brief.","parts":[{"part_kind":"tool-return","tool_name":"gauge","content":{"dry":true},"tool_call_id":"c1","timestamp":"2026-03-02T10:00:02Z"},{"part_kind":"retry-prompt","tool_name":"rain","content":"no day","tool_call_id":"c2"}]},
          {"kind":"response","timestamp":"2026-03-02T10:00:03Z","parts":[{"part_kind":"text","content":"Bed three."},{"part_kind":"compaction","content":"x"}]}]"#,
        &[
            "pydantic-ai",
            r#"log | system: "Be brief." at=2026-03-02T10:00:00Z"#,
            r#"log | system: "You garden." at=2026-03-02T10:00:00Z"#,
            r#"log | user: "Dry?" attachment(image/*) at=2026-03-02T10:00:00Z"#,
            r#"log | tool_call: thinking(Look.) call(c1 gauge {"bed":3}) call(c2 rain {}) at=2026-03-02T10:00:01Z"#,
            r#"log | tool_result: result(c1 gauge "{\"dry\":true}") at=2026-03-02T10:00:02Z"#,
            r#"log | tool_result: result(c2 rain failed "no day") at=2026-03-02T10:00:02Z"#,
            r#"log | assistant: "Bed three." at=2026-03-02T10:00:03Z"#,
            "not read: 1 × cache-point of a prompt, 1 × compaction",
        ],
    );
}

/// Shape: google/adk-python, src/google/adk/events/event.py at 1f1b6f07, in a session's `events`.
#[test]
fn adk_session() {
    check(
        r#"{"id":"s1","appName":"garden","userId":"u","state":{},"events":[
          {"id":"e1","invocationId":"i1","author":"user","timestamp":1772445600.5,"content":{"role":"user","parts":[{"text":"Dry?"}]},"actions":{}},
          {"id":"e2","invocationId":"i1","author":"gardener","partial":true,"timestamp":1772445601,"content":{"role":"model","parts":[{"text":"Be"}]}},
          {"id":"e3","invocationId":"i1","author":"gardener","timestamp":1772445602,"content":{"role":"model","parts":[{"functionCall":{"id":"c1","name":"gauge","args":{"bed":3}}}]}},
          {"id":"e4","invocationId":"i1","author":"gardener","timestamp":1772445603,"content":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"gauge","response":{"result":"dry"}}}]}},
          {"id":"e5","invocationId":"i1","author":"gardener","timestamp":1772445604,"actions":{"stateDelta":{}}}]}"#,
        &[
            "adk",
            r#"log | user: "Dry?" id=e1 at=2026-03-02T10:00:00.500Z"#,
            r#"log | tool_call: call(c1 gauge {"bed":3}) id=e3 at=2026-03-02T10:00:02Z"#,
            r#"log | tool_result: result(c1 gauge "dry") id=e4 at=2026-03-02T10:00:03Z"#,
            "not read: 1 × event without content, 1 × partial event",
        ],
    );
}

/// Shape: microsoft/autogen, `autogen_agentchat/messages.py` and `autogen_core/models/_types.py` at 0966f9d1.
#[test]
fn autogen_team_messages() {
    check(
        r#"{"messages":[{"id":"m1","source":"user","created_at":"2026-03-02T10:00:00Z","content":"Dry?","type":"TextMessage"},
          {"id":"m2","source":"gardener","created_at":"2026-03-02T10:00:01Z","content":[{"id":"c1","name":"gauge","arguments":"{\"bed\":3}"}],"type":"ToolCallRequestEvent"},
          {"id":"m3","source":"gardener","created_at":"2026-03-02T10:00:02Z","content":[{"content":"no gauge","name":"gauge","call_id":"c1","is_error":true}],"type":"ToolCallExecutionEvent"},
          {"id":"m4","source":"gardener","created_at":"2026-03-02T10:00:03Z","content":"I can't tell.","type":"TextMessage"},
          {"id":"m5","source":"gardener","content":[],"type":"MemoryQueryEvent"}],"stop_reason":null}"#,
        &[
            "autogen",
            r#"log | user: "Dry?" id=m1 at=2026-03-02T10:00:00Z"#,
            r#"log | tool_call: call(c1 gauge {"bed":3}) id=m2 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_result: result(c1 gauge failed "no gauge") id=m3 at=2026-03-02T10:00:02Z"#,
            r#"log | assistant: "I can't tell." id=m4 at=2026-03-02T10:00:03Z"#,
            "not read: 1 × MemoryQueryEvent",
        ],
    );
}

/// Shape: `save_state()` of a team of AutoGen 0.7, as in public repositories. By hand: the manager has the team's two messages; the context
/// of the gardener's model repeats the first one.
#[test]
fn autogen_team_state() {
    check(
        r#"{"type":"TeamState","version":"1.0.0","agent_states":{
          "gardener/t1":{"type":"ChatAgentContainerState","agent_state":{"type":"AssistantAgentState","llm_context":{"messages":[{"content":"Dry?","source":"user","type":"UserMessage"}]}},"message_buffer":[]},
          "RoundRobinGroupChatManager/t1":{"type":"RoundRobinManagerState","message_thread":[
            {"id":"m1","source":"user","created_at":"2026-03-02T10:00:00Z","content":"Dry?","type":"TextMessage"},
            {"id":"m2","source":"gardener","created_at":"2026-03-02T10:00:01Z","content":"Bed three.","type":"TextMessage"}],"current_turn":0}}}"#,
        &[
            "autogen",
            r#"log | user: "Dry?" id=m1 at=2026-03-02T10:00:00Z"#,
            r#"log | assistant: "Bed three." id=m2 at=2026-03-02T10:00:01Z"#,
            "not read: ",
        ],
    );
}
