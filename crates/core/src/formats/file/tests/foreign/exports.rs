//! Exports of chat programs, and trajectories.

use super::*;

/// Shape: `conversations.json` of a ChatGPT export of 2025, as readers in public repositories describe it. By hand: of five
/// messages one is of another branch and one hidden; the code that is addressed to `python` is a call, and the tool's message
/// after it its result.
#[test]
fn chatgpt_export() {
    check(
        r#"[{"title":"Beds","conversation_id":"conv-1","create_time":1772445600.0,"current_node":"n5","mapping":{
          "root":{"id":"root","message":null,"parent":null,"children":["n0"]},
          "n0":{"id":"n0","parent":"root","children":["n1"],"message":{"id":"n0","author":{"role":"system"},"create_time":null,"content":{"content_type":"text","parts":[""]},"metadata":{"is_visually_hidden_from_conversation":true},"recipient":"all"}},
          "n1":{"id":"n1","parent":"n0","children":["n2","n3"],"message":{"id":"n1","author":{"role":"user"},"create_time":1772445600.0,"content":{"content_type":"multimodal_text","parts":[{"content_type":"image_asset_pointer","asset_pointer":"file-service://f"},"Dry?"]},"metadata":{},"recipient":"all"}},
          "n2":{"id":"n2","parent":"n1","children":[],"message":{"id":"n2","author":{"role":"assistant"},"create_time":1772445601.0,"content":{"content_type":"text","parts":["No."]},"metadata":{},"recipient":"all"}},
          "n3":{"id":"n3","parent":"n1","children":["n4"],"message":{"id":"n3","author":{"role":"assistant"},"create_time":1772445602.0,"content":{"content_type":"code","language":"python","text":"gauge(3)"},"metadata":{},"recipient":"python"}},
          "n4":{"id":"n4","parent":"n3","children":["n5"],"message":{"id":"n4","author":{"role":"tool","name":"python"},"create_time":1772445603.0,"content":{"content_type":"execution_output","text":"dry"},"metadata":{},"recipient":"all"}},
          "n5":{"id":"n5","parent":"n4","children":[],"message":{"id":"n5","author":{"role":"assistant"},"create_time":1772445604.0,"content":{"content_type":"text","parts":["Bed three."]},"metadata":{},"recipient":"all"}}}}]"#,
        &[
            "chatgpt-export",
            r#"log-conv-1 | user: "Dry?" id=n1 at=2026-03-02T10:00:00Z"#,
            "log-conv-1 | tool_call: call(n3 python gauge(3)) id=n3 at=2026-03-02T10:00:02Z",
            r#"log-conv-1 | tool_result: result(n3 python "dry") id=n4 at=2026-03-02T10:00:03Z"#,
            r#"log-conv-1 | assistant: "Bed three." id=n5 at=2026-03-02T10:00:04Z"#,
            "not read: 1 × hidden message, 1 × image_asset_pointer, 1 × message of another branch",
        ],
    );
}

/// Shape: an export of ChatGPT of 2025 with o3-mini in a public repository. By hand: the first message of a tool is a thought, the second one is
/// empty, and the third one answers what ChatGPT asked itself. The user uploaded a file.
#[test]
fn chatgpts_own_tools_are_not_the_users() {
    let node = |id: usize, message: &str| {
        let parent = id.checked_sub(1).map_or_else(|| "null".to_owned(), |parent| format!("\"n{parent}\""));
        format!(r#""n{id}":{{"parent":{parent},"message":{{"id":"n{id}",{message},"recipient":"all"}}}}"#)
    };
    let text = |text: &str| format!(r#""content":{{"content_type":"text","parts":["{text}"]}}"#);
    let files = |content: &str| {
        format!(r#""author":{{"role":"tool","name":"myfiles_browser"}},"metadata":{{}},{}"#, text(content))
    };
    let nodes = [
        format!(
            r#""author":{{"role":"user"}},"metadata":{{"attachments":[{{"name":"beds.txt"}}]}},{}"#,
            text("Dry?")
        ),
        format!(
            r#""author":{{"role":"tool","name":"a8km123"}},"metadata":{{"initial_text":"Reasoning","finished_text":"Reasoned"}},{}"#,
            text("Look at the gauge")
        ),
        files(""),
        files("bed 3"),
        format!(r#""author":{{"role":"assistant"}},"metadata":{{}},{}"#, text("Bed three.")),
    ];
    let nodes: Vec<String> = nodes.iter().enumerate().map(|(id, message)| node(id, message)).collect();
    check(
        &format!(r#"[{{"id":"c","current_node":"n4","mapping":{{{}}}}}]"#, nodes.join(",")),
        &[
            "chatgpt-export",
            r#"log-c | user: "Dry?" id=n0"#,
            "log-c | assistant: thinking(Look at the gauge) id=n1",
            "log-c | tool_call: call(n3 myfiles_browser ) id=n3",
            r#"log-c | tool_result: result(n3 myfiles_browser "bed 3") id=n3/1"#,
            r#"log-c | assistant: "Bed three." id=n4"#,
            "not read: 1 × attachment, 1 × message without content",
        ],
    );
}

#[test]
fn a_chatgpt_tree_in_circles_ends() {
    let node = |id: &str, parent: &str| {
        format!(
            r#""{id}":{{"parent":"{parent}","message":{{"id":"{id}","author":{{"role":"user"}},"content":{{"content_type":"text","parts":["{id}"]}}}}}}"#
        )
    };
    let tree =
        format!(r#"[{{"id":"c","current_node":"b","mapping":{{{},{}}}}}]"#, node("a", "b"), node("b", "a"));
    check(&tree, &["chatgpt-export", r#"log-c | user: "a" id=a"#, r#"log-c | user: "b" id=b"#, "not read: "]);
}

/// Shape: `conversations.json` of a Claude export of 2026, as readers in public repositories describe it.
#[test]
fn claude_export() {
    check(
        r#"[{"uuid":"k1","name":"Beds","created_at":"2026-03-02T10:00:00Z","chat_messages":[
          {"uuid":"m1","sender":"human","text":"Dry?","created_at":"2026-03-02T10:00:00Z","content":[{"type":"text","text":"Dry?"}],"attachments":[{"file_name":"gauge.txt","extracted_content":"bed 3: dry"}],"files":[{"file_name":"a.png"}]},
          {"uuid":"m2","sender":"assistant","text":"","created_at":"2026-03-02T10:00:01Z","attachments":[],"files":[],"content":[{"type":"thinking","thinking":"Look."},{"type":"tool_use","id":"c1","name":"repl","input":{"code":"1"}},{"type":"tool_result","tool_use_id":"c1","name":"repl","content":[{"type":"text","text":"1"}],"is_error":false},{"type":"text","text":"Bed three."},{"type":"token_budget"}]}]},
         {"uuid":"k2","name":"","chat_messages":[{"uuid":"m3","sender":"human","text":"Hi","created_at":"2026-03-02T11:00:00Z"}]}]"#,
        &[
            "claude-export",
            r#"log-k1 | user: "Dry?" "bed 3: dry" id=m1 at=2026-03-02T10:00:00Z"#,
            r#"log-k1 | tool_call: thinking(Look.) call(c1 repl {"code":"1"}) id=m2 at=2026-03-02T10:00:01Z"#,
            r#"log-k1 | tool_result: result(c1 repl "1") id=m2/1 at=2026-03-02T10:00:01Z"#,
            r#"log-k1 | assistant: "Bed three." id=m2/2 at=2026-03-02T10:00:01Z"#,
            r#"log-k2 | user: "Hi" id=m3 at=2026-03-02T11:00:00Z"#,
            "not read: 1 × file, 1 × token_budget",
        ],
    );
}

/// Shape: the Agent Trajectory Interchange Format 1.7 of Harbor, as its tests and programs that write it have it.
#[test]
fn atif_trajectory() {
    check(
        r#"{"schema_version":"ATIF-v1.7","session_id":"s1","agent":{"name":"a","version":"1"},"steps":[
          {"step_id":1,"timestamp":"2026-03-02T10:00:00Z","source":"system","message":"You garden."},
          {"step_id":2,"timestamp":"2026-03-02T10:00:01Z","source":"user","message":[{"type":"text","text":"Dry?"}]},
          {"step_id":3,"timestamp":"2026-03-02T10:00:02Z","source":"agent","message":"I look.","reasoning_content":"Gauge.","tool_calls":[{"tool_call_id":"c1","function_name":"gauge","arguments":{"bed":3}}],"observation":{"results":[{"source_call_id":"c1","content":"dry"}]},"metrics":{}},
          {"step_id":4,"timestamp":"2026-03-02T10:00:03Z","source":"agent","message":"Bed three."}]}"#,
        &[
            "atif",
            r#"log | system: "You garden." id=s1/1 at=2026-03-02T10:00:00Z"#,
            r#"log | user: "Dry?" id=s1/2 at=2026-03-02T10:00:01Z"#,
            r#"log | tool_call: thinking(Gauge.) "I look." call(c1 gauge {"bed":3}) id=s1/3 at=2026-03-02T10:00:02Z"#,
            r#"log | tool_result: result(c1 - "dry") id=s1/3/1 at=2026-03-02T10:00:02Z"#,
            r#"log | assistant: "Bed three." id=s1/4 at=2026-03-02T10:00:03Z"#,
            "not read: ",
        ],
    );
}

/// Two messages with one id are two messages.
#[test]
fn a_repeated_id_is_left_out() {
    check(
        r#"[{"type":"human","data":{"content":"Dry?","type":"human","id":"h1"}},{"type":"ai","data":{"content":"No.","type":"ai","id":"h1"}}]"#,
        &["langchain", r#"log | user: "Dry?" id=h1"#, r#"log | assistant: "No.""#, "not read: "],
    );
}
