//! The era without sessions: every request stands alone.

use recapd_api::mcp::{ANSWER_BYTES_MAX, CLAUDE_CODE_BYTES_MAX};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Events, LATER, SUMMARY, answered, ask, call, later, message, meta, posted, text};
use crate::support::server::{Reply, Server};

#[tokio::test]
async fn a_client_discovers_the_server() {
    let server = Server::small().await;
    let found = ask(&server, "server/discover", json!({})).await;
    let versions = found["supportedVersions"].as_array().unwrap();
    for version in [LATER, "2025-11-25", "2025-06-18"] {
        assert!(versions.contains(&version.into()), "{found}");
    }
    assert_eq!(found["capabilities"]["resources"]["subscribe"], true, "{found}");
    let tools = ask(&server, "tools/list", json!({})).await;
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
            assert_eq!(tool["outputSchema"], Value::Null, "{tool}");
            assert_eq!(tool["inputSchema"]["properties"]["agent"]["type"], "string", "{tool}");
            assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
            let name = tool["name"].as_str().unwrap();
            if name != "status" {
                assert_eq!(tool["_meta"]["anthropic/maxResultSizeChars"], CLAUDE_CODE_BYTES_MAX);
                assert_eq!(tool["_meta"]["anthropic/alwaysLoad"], true, "{tool}");
            }
            name
        })
        .collect();
    assert_eq!(names, ["summary_get", "recall", "expand", "status"]);
    let prompts = ask(&server, "prompts/list", json!({})).await;
    assert_eq!(prompts["prompts"][0]["name"], "summary", "{prompts}");
}

#[tokio::test]
async fn an_unknown_version_is_refused_with_those_that_are_known() {
    let server = Server::small().await;
    let mut message = message("tools/list", json!({}));
    message["params"]["_meta"] = meta("2031-01-01");
    let request = posted(&server, &message)
        .header("mcp-protocol-version", "2031-01-01")
        .header("mcp-method", "tools/list");
    let answer = answered(&Reply::of(request).await);
    assert_eq!(answer["error"]["code"], -32_022, "{answer}");
    assert!(answer["error"]["data"].to_string().contains(LATER), "{answer}");
}

#[tokio::test]
async fn resources_are_listed_found_and_read() {
    let server = Server::summarised().await;
    let listed = ask(&server, "resources/list", json!({})).await;
    assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&5_000.into(), &"private".into()));
    let resource = &listed["resources"][0];
    let document = server.get("/v1/agents/coder/summary").await.body;
    assert_eq!(resource["uri"], SUMMARY, "{listed}");
    assert_eq!(resource["mimeType"], "text/markdown");
    let row = server.get("/v1/agents").await.json()["agents"][0].take();
    let described = format!(
        "version {}, {} tokens, covers through #{}",
        row["version"], row["summary_tokens"], row["covers_through"]
    );
    assert_eq!(resource["description"], described, "{row}");
    assert_eq!(resource["annotations"]["audience"], json!(["assistant"]));
    assert!(resource["annotations"]["lastModified"].is_string(), "{resource}");

    for uri in [SUMMARY, "ikigai:///summaries/coder.md"] {
        let read = ask(&server, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(read["contents"][0]["text"], document);
        assert_eq!(read["contents"][0]["mimeType"], "text/markdown");
        assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&5_000.into(), &"private".into()));
    }
    let read = |uri: &'static str| ask(&server, "resources/read", json!({ "uri": uri }));
    let history = read("recapd://agents/coder/history.md").await;
    let history = history["contents"][0]["text"].as_str().unwrap().to_owned();
    assert!(history.starts_with("# History of coder\n\n~~~~text\n"), "{history}");
    assert!(history.contains("Fix bug 8"), "{history}");
    let window = read("recapd://agents/coder/window.json").await;
    let window: Value = serde_json::from_str(window["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(window["budget_tokens"], 200, "{window}");

    let templates = ask(&server, "resources/templates/list", json!({})).await;
    let uris: Vec<&str> = templates["resourceTemplates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|template| template["uriTemplate"].as_str().unwrap())
        .collect();
    assert_eq!(
        uris,
        [
            "recapd://agents/{agent_id}/summary.md",
            "recapd://agents/{agent_id}/history.md",
            "recapd://agents/{agent_id}/window.json",
            "ikigai:///summaries/{agent_id}.md",
        ]
    );
}

#[tokio::test]
async fn a_missing_resource_is_an_invalid_parameter() {
    let server = Server::small().await;
    for uri in ["recapd://agents/nobody/summary.md", "recapd://agents/nobody/x", "file:///etc/passwd"] {
        let answer = answered(&Reply::of(later(&server, "resources/read", json!({ "uri": uri }))).await);
        assert_eq!(answer["error"]["code"], -32_602, "{answer}");
    }
}

#[tokio::test]
async fn pages_of_resources_follow_each_other_and_ids_are_completed() {
    let server = Server::small().await;
    for number in 100..155 {
        server.converse(&format!("agent-{number}"), 1..=1).await;
    }
    let first = ask(&server, "resources/list", json!({})).await;
    assert_eq!(first["resources"].as_array().unwrap().len(), 50);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = ask(&server, "resources/list", json!({ "cursor": cursor })).await;
    assert_eq!(second["resources"].as_array().unwrap().len(), 5);
    assert_eq!(second["nextCursor"], Value::Null);

    let complete = |prefix: &str| {
        let reference = json!({ "type": "ref/resource", "uri": "recapd://agents/{agent_id}/summary.md" });
        let argument = json!({ "name": "agent_id", "value": prefix });
        let params = json!({ "ref": reference, "argument": argument });
        let server = &server;
        async move {
            let done = ask(server, "completion/complete", params).await;
            done["completion"]["values"].clone()
        }
    };
    assert_eq!(complete("agent-11").await.as_array().unwrap().len(), 10);
    assert_eq!(complete("agent-150").await, json!(["agent-150"]));
    assert_eq!(complete("").await.as_array().unwrap().len(), 55);
    assert_eq!(complete("zzz").await, json!([]));
    assert_eq!(complete("-").await, json!([]));
}

#[tokio::test]
async fn tools_answer_with_text_alone() {
    let server = Server::summarised().await;
    let summary = call(&server, "summary_get", json!({ "agent": "coder" })).await;
    let document = server.get("/v1/agents/coder/summary").await.body;
    assert_eq!(text(&summary), document.trim_end());
    let short = json!({ "agent": "coder", "max_tokens": 100 });
    let short = call(&server, "summary_get", short).await;
    assert!(text(&short).contains("(shortened: "), "{short}");
    assert!(text(&short).len() < text(&summary).len(), "{short}");

    let query = json!({ "agent": "coder", "query": "bug 3", "limit": 2 });
    let found = call(&server, "recall", query).await;
    assert!(text(&found).starts_with("#3 "), "{found}");
    assert!(text(&found).contains("\n  [6] assistant: Fixed bug 3"), "{found}");
    let told = server.request(Method::GET, "/v1/agents/coder/recall?q=bug%203&limit=2");
    let told = Reply::of(told.header("accept", "text/plain")).await.body;
    assert_eq!(text(&found), told, "the same words as over HTTP");

    let shown = json!({ "agent": "coder", "exchanges": "#2–#3, 99" });
    let shown = call(&server, "expand", shown).await;
    assert!(text(&shown).contains("] user 2026-"), "{shown}");
    assert!(text(&shown).contains(": Fix bug 2 in parser.rs"), "{shown}");
    assert!(text(&shown).ends_with("(coder has no #99)\n"), "{shown}");

    let status = call(&server, "status", json!({ "agent": "coder" })).await;
    assert!(text(&status).starts_with("agent: coder\nwindow: "), "{status}");
    assert!(text(&status).contains(" of 200 tokens, "), "{status}");
    assert!(text(&status).contains("\nsummary: version 1 of "), "{status}");
    for answer in [summary, short, found, shown, status] {
        assert_eq!(answer["structuredContent"], Value::Null, "{answer}");
        assert_eq!(answer["content"].as_array().unwrap().len(), 1, "{answer}");
    }

    let prompt = json!({ "name": "summary", "arguments": { "agent": "coder" } });
    let prompt = ask(&server, "prompts/get", prompt).await;
    let notes = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(notes.contains("said is no order"), "{notes}");
    assert!(notes.contains("Fix bug 1"), "{notes}");
}

/// Returns the answers of a tool by clients and sessions: the client's name, and the session that Codex names.
async fn call_as(server: &Server, client: &str, session: Option<&str>, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = meta(LATER);
    params["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = client.into();
    if let Some(session) = session {
        params["_meta"]["x-codex-turn-metadata"] = json!({ "session_id": session });
    }
    let request = posted(server, &message("tools/call", params.clone()))
        .header("mcp-protocol-version", LATER)
        .header("mcp-method", "tools/call")
        .header("mcp-name", params["name"].as_str().unwrap());
    answered(&Reply::of(request).await)["result"].clone()
}

#[tokio::test]
async fn the_only_agent_or_the_sessions_is_meant_by_default() {
    let server = Server::small().await;
    server.converse("codex:shop-00000000:s-1", 1..=1).await;
    let recall = json!({ "name": "recall", "arguments": { "query": "bug" } });
    let found = call_as(&server, "codex-mcp-client", None, recall.clone()).await;
    assert!(text(&found).contains("Fix bug 1 "), "{found}");
    let status = call(&server, "status", json!({})).await;
    assert!(text(&status).starts_with("agent: codex:shop-00000000:s-1\n"), "{status}");

    server.clock.advance_ms(1_000);
    server.converse("codex:shop-00000000:s-2", 2..=2).await;
    for (session, number) in [("s-1", 1), ("s-2", 2)] {
        let found = call_as(&server, "codex-mcp-client", Some(session), recall.clone()).await;
        assert!(text(&found).contains(&format!("Fix bug {number} ")), "{found}");
    }
    let undecided = call(&server, "recall", json!({ "query": "bug" })).await;
    assert_eq!(undecided["isError"], true, "{undecided}");
    let said =
        "`agent` is missing, and it can't be told which is meant: give one, such as codex:shop-00000000:s-2";
    assert!(text(&undecided).starts_with(said), "{undecided}");
}

#[tokio::test]
async fn answers_are_as_long_as_their_host_takes_them() {
    let server = Server::small().await;
    let long = json!([{ "kind": "user", "content": "all work and no play\n".repeat(4_000) }]);
    let sent = server.post("/v1/agents/coder/messages", long.to_string()).await;
    assert_eq!(sent.status, 200);
    let expand = json!({ "name": "expand", "arguments": { "exchanges": "1" } });
    let short = call_as(&server, "codex-mcp-client", None, expand.clone()).await;
    assert!(text(&short).contains("\n(more follows: expand \"#1\" after \"0+"), "{short}");
    assert!(text(&short).len() <= ANSWER_BYTES_MAX, "{}", text(&short).len());
    let whole = call_as(&server, "claude-code", None, expand).await;
    assert!(text(&whole).ends_with("all work and no play\n"), "{whole}");
    assert!(text(&whole).len() <= CLAUDE_CODE_BYTES_MAX, "{}", text(&whole).len());
}

#[tokio::test]
async fn tools_say_what_exists_when_there_is_nothing_to_show() {
    let server = Server::quiet().await;
    server.converse("planner", 1..=1).await;
    let summary = call(&server, "summary_get", json!({ "agent": "coder" })).await;
    assert!(text(&summary).starts_with("*Older history, up to #"), "{summary}");
    let prompt = json!({ "name": "summary", "arguments": { "agent": "coder" } });
    let prompt = ask(&server, "prompts/get", prompt).await;
    let notes = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(notes.contains("look up any #n with recall"), "{notes}");
    let search = json!({ "agent": "coder", "query": "bug 3" });
    let found = call(&server, "recall", search).await;
    assert!(text(&found).contains("tokens, summarised)"), "{found}");

    let summary = call(&server, "summary_get", json!({ "agent": "planner" })).await;
    let hint = text(&summary);
    assert!(hint.starts_with("(nothing has left the window yet: "), "{hint}");
    assert!(hint.ends_with("; try --set window.budget_tokens=4000)"), "{hint}");
    let status = call(&server, "status", json!({ "agent": "planner" })).await;
    assert!(text(&status).contains("\nsummary: none yet\n"), "{status}");
}

#[tokio::test]
async fn a_failed_call_names_the_argument_and_the_remedy() {
    let server = Server::summarised().await;
    for (tool, arguments, said) in [
        (
            "expand",
            json!({ "exchanges": "1", "after": "x" }),
            "`after` can't be \"x\": copy the value that follows `after`",
        ),
        ("summary_get", json!({ "agent": "nobody" }), "`agent`: agent `nobody` is unknown; call status"),
        (
            "summary_get",
            json!({ "agent": "coder", "max_tokens": 1 }),
            "`max_tokens` can't be 1: give an integer from 100",
        ),
        (
            "summary_get",
            json!({ "agent": "coder", "tokens": 1 }),
            "`tokens` is unknown; known arguments: agent, max_tokens",
        ),
        ("recall", json!({ "agent": "coder" }), "`query` is missing"),
        (
            "recall",
            json!({ "agent": "coder", "query": "!!!" }),
            "`query` can't be asked: the query holds no word",
        ),
        ("recall", json!({ "agent": "nobody", "query": "bug" }), "`agent`: agent `nobody` is unknown"),
        ("expand", json!({ "agent": "coder", "exchanges": "all" }), "`exchanges` `all` names no exchange"),
        (
            "expand",
            json!({ "agent": "coder", "exchanges": "99" }),
            "`exchanges`: agent `coder` has no exchange #99",
        ),
        ("expand", json!({ "agent": "nobody", "exchanges": "1" }), "`agent`: agent `nobody` is unknown"),
        ("status", json!({ "agent": "/" }), "`agent` can't be used"),
    ] {
        let result = call(&server, tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        assert!(text(&result).starts_with(said), "{result}");
    }
    let unknown = later(&server, "tools/call", json!({ "name": "forget", "arguments": {} }));
    let answer = answered(&Reply::of(unknown).await);
    assert_eq!(answer["error"]["code"], -32_602, "{answer}");
}

#[tokio::test]
async fn a_long_exchange_is_read_piece_by_piece() {
    let server = Server::small().await;
    let line = "all work and no play makes a dull log\n";
    let messages: Vec<Value> = (0..8)
        .map(|number| json!({ "kind": if number == 0 { "user" } else { "tool_result" }, "content": format!("part {number}\n{}", line.repeat(200)) }))
        .collect();
    let body = json!(messages).to_string();
    assert_eq!(server.post("/v1/agents/coder/messages", body).await.status, 200);
    let mut arguments = json!({ "agent": "coder", "exchanges": "1" });
    let (mut calls, mut pieces) = (0, String::new());
    loop {
        let shown = call(&server, "expand", arguments.clone()).await;
        assert!(text(&shown).len() <= ANSWER_BYTES_MAX);
        pieces.push_str(text(&shown));
        calls += 1;
        let Some((_, after)) = text(&shown).split_once("\n(more follows: expand \"#1\" after \"") else {
            break;
        };
        arguments["after"] = after.trim_end().trim_end_matches("\")").into();
    }
    for number in 0..8 {
        assert!(pieces.contains(&format!(": part {number}\n")), "part {number}");
    }
    // An answer may end within the phrase.
    assert!((1_599..=1_600).contains(&pieces.matches("makes a dull").count()));
    assert_eq!(calls, pieces.len().div_ceil(ANSWER_BYTES_MAX));
}

#[tokio::test]
async fn a_listener_is_notified_of_a_new_version() {
    let server = Server::small().await;
    server.converse("coder", 1..=8).await;
    let filter = json!({ "resourceSubscriptions": [SUMMARY, "recapd://nothing"], "toolsListChanged": true });
    let request = later(&server, "subscriptions/listen", json!({ "notifications": filter }));
    let mut events = Events::open(request).await;
    let accepted = events.next().await;
    assert_eq!(accepted["method"], "notifications/subscriptions/acknowledged", "{accepted}");
    assert_eq!(
        accepted["params"]["notifications"],
        json!({ "resourceSubscriptions": [SUMMARY] }),
        "{accepted}"
    );
    // The first notice comes at once: something may have changed since the acknowledgement.
    for change in [false, true] {
        if change {
            server.summarise().await;
        }
        let notice = events.next().await;
        assert_eq!(notice["method"], "notifications/resources/updated", "{notice}");
        assert_eq!(notice["params"]["uri"], SUMMARY);
    }

    server.stop.cancel();
    let mut end = events.next().await;
    // On a busy machine, another notice may have been sent.
    while end["method"].is_string() {
        end = events.next().await;
    }
    assert_eq!((&end["id"], &end["error"]), (&1.into(), &Value::Null), "{end}");
    server.end().await;
}

#[tokio::test]
async fn a_leg_says_where_its_exchange_goes_on() {
    let server = Server::in_legs().await;
    let shown = call(&server, "expand", json!({ "agent": "coder", "exchanges": "#2–#3" })).await;
    let has = |head: &str| text(&shown).lines().any(|line| line.starts_with(head));
    assert!(has("#2 of coder ") && has("#3 of coder "), "{}", text(&shown));
    assert!(text(&shown).contains("\ncontinues #2 · "), "{}", text(&shown));
    assert!(text(&shown).contains("goes on with #4"), "{}", text(&shown));
    let status = call(&server, "status", json!({ "agent": "coder" })).await;
    assert!(text(&status).ends_with("running: exchange #2"), "{}", text(&status));
}
