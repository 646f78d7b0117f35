//! `GET /v1/agents/{id}/context`

use recapd_core::domain::time::HOUR_MS;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::server::{Reply, Server};

const PATH: &str = "/v1/agents/coder/context";

/// Starts a server with a window of two exchanges and an archive before it.
async fn with_archive() -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    server.converse("coder", 1..=14).await;
    server
}

async fn change(server: &Server, patch: &str) {
    let request = server
        .request(Method::PATCH, "/v1/agents/coder")
        .header("content-type", "application/merge-patch+json");
    let reply = Reply::of(request.body(patch.to_owned())).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[tokio::test]
async fn it_is_anchor_summary_and_window() {
    let server = with_archive().await;
    for summarised in [false, true] {
        if summarised {
            server.summarise().await;
        }
        let path = format!("{PATH}?format=anthropic");
        let is_there = |reply: &Reply| !summarised || reply.json()["summary_version"] != 0;
        let reply = server.get_until(&path, is_there).await.json();
        assert_eq!(reply["over_budget"], false);
        assert_eq!(reply["first_exchange"], 13);
        let messages = reply["body"]["messages"].as_array().unwrap();
        let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
        let head: Vec<&str> = messages[0]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["text"].as_str().unwrap())
            .collect();
        assert!(head[0].starts_with("Fix bug 1 in parser.rs"), "the anchor");
        assert!(head[1].starts_with("<summary agent=\"coder\" version="), "{}", head[1]);
        assert!(head[1].contains("bug 12") && head[1].ends_with("</summary>"), "{}", head[1]);
        assert!(head[2].starts_with("Fix bug 13 in parser.rs"), "the window");
        assert_eq!(messages[3]["content"][0]["text"], "Fixed bug 14: the loop ended too early.");
    }
}

#[tokio::test]
async fn each_provider_gets_its_own_fields_and_the_same_bytes_each_time() {
    let server = with_archive().await;
    for (format, fields) in [
        ("anthropic", vec!["messages"]),
        ("openai", vec!["messages"]),
        ("openai-responses", vec!["input"]),
        ("gemini", vec!["contents"]),
    ] {
        let path = format!("{PATH}?format={format}");
        let first = server.get(&path).await;
        let body: Value = first.json()["body"].clone();
        let found: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(found, fields);
        assert_eq!(server.get(&path).await.body, first.body);
    }
}

/// As a prompt cache needs it: within a step of eviction each request begins with the one before it. There is one
/// exception, when the summary covers the step.
#[tokio::test]
async fn the_same_history_gives_byte_identical_output_until_something_changes() {
    let server = Server::start(|config| {
        config.window.budget_tokens = 600;
        config.window.low_water = 0.5;
        config.session.idle_gap_minutes = 0;
    })
    .await;
    server.converse("coder", 1..=12).await;
    server.summarise().await;
    let path = format!("{PATH}?format=anthropic");
    let messages = async || {
        let reply = server.get(&path).await.json();
        (reply["first_exchange"].clone(), reply["body"]["messages"].as_array().unwrap().clone())
    };
    let (mut boundary, mut before) = messages().await;
    let (mut steps, mut changes) = (0, 0);
    for number in 13..=60 {
        server.converse("coder", number..=number).await;
        if number % 3 == 0 {
            server.summarise().await;
        }
        if number % 5 == 0 {
            // Items age, and the document changes with them.
            server.clock.advance_ms(26 * HOUR_MS);
            server.parts.schedule.age().await.unwrap();
            server.summarise().await;
        }
        let (first_exchange, now) = messages().await;
        assert_eq!(messages().await.1, now, "asked twice");
        if first_exchange != boundary {
            steps += 1;
        } else if !now.starts_with(&before) {
            changes += 1;
        }
        (boundary, before) = (first_exchange, now);
    }
    let summary = server.get("/v1/agents/coder/summary").await;
    let versions: i64 = summary.header("recapd-version").parse().unwrap();
    assert!(
        steps >= 5 && changes <= steps && versions > steps + 3,
        "{changes} changes in {steps} steps, of {versions} versions"
    );
}

#[tokio::test]
async fn budget_and_alternation_can_be_requested() {
    let server = with_archive().await;
    let reply = server.get(&format!("{PATH}?format=openai&alternation=ack")).await.json();
    assert_eq!(reply["body"]["messages"][1], json!({"role": "assistant", "content": "Understood."}));
    let tight = server.get(&format!("{PATH}?format=openai&budget=1000")).await.json();
    assert_eq!(tight["over_budget"], json!(false));
    let small = server.get(&format!("{PATH}?format=openai&budget=1")).await.json();
    assert_eq!((&small["over_budget"], &small["left_out"]), (&json!(true), &json!([13])));
    let text = small["body"].to_string();
    assert!(text.contains("exchange #13 is left out") && text.contains("Fix bug 14"), "{text}");
}

/// Otherwise nobody would notice that exchanges are neither sent nor summarised.
#[tokio::test]
async fn a_window_too_big_for_a_request_has_a_note() {
    let server = Server::start(|config| {
        config.context.max_tokens = 1_000;
        config.context.output_reserve_tokens = 0;
    })
    .await;
    server.converse("coder", 1..=40).await;
    let path = format!("{PATH}?format=openai");
    let told = server.get(&path).await.json();
    assert_eq!(told["first_exchange"], 1);
    let note = told["notes"][0].as_str().unwrap();
    assert!(note.starts_with("exchanges #1 to #") && note.contains("lower window.budget_tokens"), "{told}");
    // Callers who ask for so few tokens know it.
    let asked = server.get(&format!("{path}&budget=1000")).await.json();
    assert_eq!((&asked["left_out"], &asked["notes"]), (&told["left_out"], &json!([])));
}

/// Old results are shortened, and a note says so.
#[tokio::test]
async fn results_too_big_for_a_request_are_shortened_with_a_note() {
    let server = Server::start(|config| config.context.output_reserve_tokens = 0).await;
    let mut messages = vec![json!({"role": "user", "content": "Read them all."})];
    for file in 0..20 {
        let id = format!("c{file}");
        let call = json!({"id": id, "type": "function", "function": {"name": "cat", "arguments": "{}"}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "one more line, ".repeat(400)}));
    }
    let body = json!(messages).to_string();
    let reply = server.post("/v1/agents/coder/messages", body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let path = format!("{PATH}?format=openai&budget=");
    let whole = server.get(&format!("{path}0")).await.json();
    assert_eq!((&whole["elided"], &whole["notes"]), (&json!([]), &json!([])));
    let budget = whole["tokens"].as_i64().unwrap() * 3 / 4;
    let tight = server.get(&format!("{path}{budget}")).await.json();
    let elided = tight["elided"].as_array().unwrap().len();
    assert_eq!((&tight["over_budget"], &tight["left_out"]), (&json!(false), &json!([])));
    assert!((3..=17).contains(&elided), "{tight}");
    let note = tight["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with(&format!("{elided} tool results of exchange #1 are shortened: "))
            && note.ends_with("GET /v1/agents/coder/exchanges/1 returns it whole"),
        "{note}"
    );
}

#[tokio::test]
async fn less_of_the_summary_can_be_requested() {
    let server = with_archive().await;
    server.summarise().await;
    let path = format!("{PATH}?format=openai");
    let is_written = |reply: &Reply| reply.json()["summary_version"] != 0;
    let whole = server.get_until(&path, is_written).await.json();
    assert_eq!(whole["notes"], json!([]));
    let some = server.get(&format!("{path}&summary_max_tokens=60")).await.json();
    let note = "the summary is shortened: whole, it has more tokens than the request allows";
    assert_eq!(some["notes"], json!([note]));
    let tokens = |reply: &Value| reply["tokens"].as_i64().unwrap();
    assert!(tokens(&some) < tokens(&whole), "{some}");
    // A limit above the summary's size changes nothing.
    let more = server.get(&format!("{path}&summary_max_tokens=9000")).await.json();
    assert_eq!(more, whole);
}

#[tokio::test]
async fn an_agents_own_settings_are_in_force_until_the_request_says_otherwise() {
    let server = with_archive().await;
    let limit = async |query: &str| {
        let reply = server.get(&format!("{PATH}?format=openai{query}")).await.json();
        reply["limit_tokens"].as_i64().unwrap()
    };
    assert_eq!(limit("").await, 152_000);
    for (patch, tokens) in [
        (r#"{"output_reserve_tokens": 20000}"#, 140_000),
        (r#"{"system_reserve_tokens": 30000}"#, 110_000),
        (r#"{"context_max_tokens": 100000}"#, 50_000),
        (r#"{"preset": "long-memory", "context_max_tokens": null}"#, 104_000),
    ] {
        change(&server, patch).await;
        assert_eq!(limit("").await, tokens, "{patch}");
    }
    assert_eq!(limit("&budget=80000").await, 30_000);
    change(&server, r#"{"preset": "chat", "max_messages": 4}"#).await;
    server.converse("coder", 15..=15).await;
    let path = format!("{PATH}?format=openai");
    let has_moved = |reply: &Reply| reply.json()["first_exchange"] == 14;
    let reply = server.get_until(&path, has_moved).await.json();
    let messages = reply["body"]["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user", "assistant"]);
    assert_eq!(messages[1]["content"], "Understood.");
}

#[tokio::test]
async fn a_session_has_an_anchor_of_its_own() {
    let server = with_archive().await;
    server.post("/v1/agents/coder/sessions/end", "").await;
    server.converse("coder", 15..=20).await;
    let reply = server.get(&format!("{PATH}?format=openai")).await.json();
    let head = reply["body"]["messages"][0]["content"].as_str().unwrap();
    assert!(head.starts_with("Fix bug 15 in parser.rs"), "{head}");
}

#[tokio::test]
async fn a_hosts_first_message_is_no_anchor() {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    let say = async |role: &str, text: &str| {
        let content = json!({"role": role, "parts": [{"text": text}]}).to_string();
        let reply = server.post("/v1/agents/coder/messages?format=gemini", content).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    };
    say("user", "<session_context>\nThis is the Gemini CLI.\n</session_context>").await;
    say("user", "Count the rows of a.csv.").await;
    say("model", &"There are nine. ".repeat(20)).await;
    say("user", "And the columns?").await;
    say("model", &"There are four. ".repeat(40)).await;
    let reply = server.get(&format!("{PATH}?format=gemini")).await.json();
    let head = &reply["body"]["contents"][0]["parts"][0]["text"];
    assert!(reply["first_exchange"].as_i64() > Some(2), "{reply}");
    assert_eq!(head, "Count the rows of a.csv.", "{reply}");
    let told = server.get("/v1/agents/coder/exchanges/1").await.json();
    let whole = told.to_string();
    assert!(whole.contains("<session_context>"), "{whole}");
}

#[tokio::test]
async fn after_a_clear_the_new_instructions_are_in_force() {
    let server = Server::start(|_| {}).await;
    let instruct = async |text: &str| {
        let system = json!({"kind": "system", "content": text}).to_string();
        server.post("/v1/agents/coder/messages", system).await
    };
    instruct("Be brief.").await;
    server.converse("coder", 1..=1).await;
    assert_eq!(server.post("/v1/agents/coder/clear", "{}").await.status, 200);
    instruct("Be loud.").await;
    server.converse("coder", 2..=2).await;
    let context = server.get(&format!("{PATH}?format=openai")).await.json();
    let system = json!({"role": "system", "content": "Be loud."});
    assert_eq!(context["body"]["messages"][0], system);
    assert!(!context["body"].to_string().contains("Be brief."), "{context}");
    let window = server.get("/v1/agents/coder/window").await.json();
    assert_eq!(window["preamble"][0]["payload"]["content"], "Be loud.");
}

#[tokio::test]
async fn invalid_queries_are_refused() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    for query in [
        "",
        "?format=cohere",
        "?format=gemini&budget=-1",
        "?format=gemini&alternation=no",
        "?format=gemini&summary_max_tokens=0",
        "?format=gemini&thinking=all",
    ] {
        server.get(&format!("{PATH}{query}")).await.problem(400, "invalid_parameter");
    }
    let unknown = server.get("/v1/agents/nobody/context?format=gemini").await;
    unknown.problem(404, "unknown_agent");
}

/// Some providers want the thinking of an open tool round back, whatever has left the window before it.
#[tokio::test]
async fn thinking_of_an_open_exchange_can_be_requested() {
    let server = with_archive().await;
    let messages = json!([
        {"role": "user", "content": "Which files?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I look.", "signature": "c2lnbmVk"},
            {"type": "tool_use", "id": "t", "name": "ls", "input": {}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a.rs"}]},
    ]);
    let reply = server.post("/v1/agents/coder/messages", messages.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    for (query, is_sent) in [("", false), ("&thinking=open", true)] {
        let context = server.get(&format!("{PATH}?format=anthropic{query}")).await.json();
        assert_eq!(context["body"].to_string().contains("c2lnbmVk"), is_sent, "{context}");
    }
}

/// A fork has no rows of exchanges that were covered when it was made.
#[tokio::test]
async fn a_fork_keeps_the_anchor_of_its_session() {
    let server = with_archive().await;
    server.summarise().await;
    let forked = server.post("/v1/agents/coder/fork", r#"{"child":"kid"}"#.to_owned()).await;
    assert!(forked.status < 300, "{}", forked.body);
    for more in [None, Some(15..=26)] {
        if let Some(numbers) = more {
            server.converse("kid", numbers).await;
        }
        let context = server.get("/v1/agents/kid/context?format=anthropic").await.json();
        let anchor = context["body"]["messages"][0]["content"][0]["text"].as_str();
        assert!(anchor.unwrap().starts_with("Fix bug 1 in parser.rs"), "{context}");
    }
}

/// The model thought it without seeing the other exchanges, so providers that bind it to them would refuse it.
#[tokio::test]
async fn thinking_from_before_a_raised_budget_is_not_sent() {
    for (budget_tokens, is_sent) in [(100, false), (10_000, true)] {
        let server = Server::start(|config| config.window.budget_tokens = budget_tokens).await;
        let say = async |number: i64| {
            let messages = json!([
                {"role": "user", "content": format!("Question {number}: {}", "please ".repeat(20))},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "I look.", "signature": "c2lnbmVk"},
                    {"type": "text", "text": "Done."},
                ]},
            ]);
            let reply = server.post("/v1/agents/coder/messages", messages.to_string()).await;
            assert_eq!(reply.status, 200, "{}", reply.body);
        };
        for number in 1..=6 {
            say(number).await;
        }
        change(&server, r#"{"budget_tokens":100000}"#).await;
        say(7).await;
        let context = server.get(&format!("{PATH}?format=anthropic")).await.json();
        assert_eq!(context["first_exchange"], 1);
        assert_eq!(context["body"].to_string().contains("c2lnbmVk"), is_sent, "{context}");
    }
}

/// Starts a conversation of two agents, both models, after a human's message.
async fn with_talk() -> Server {
    let server = Server::start(|config| config.window.budget_tokens = 0).await;
    let messages = json!([
        {"kind": "system", "content": "You are Agent A"},
        {"kind": "user", "content": "Talk about rivers"},
        {"kind": "assistant", "speaker": "agent_a", "content": "Rivers carry."},
        {"kind": "assistant", "speaker": "agent_b", "content": "And rivers cut."},
        {"kind": "tool_call", "speaker": "agent_a", "name": "map", "arguments": {}},
        {"kind": "tool_result", "name": "map", "content": "a gorge"},
        {"kind": "assistant", "speaker": "agent_a", "content": "Look at gorges."},
    ]);
    let reply = server.post("/v1/agents/coder/messages", messages.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    server
}

#[tokio::test]
async fn a_speaker_sees_the_conversation_as_its_own() {
    let server = with_talk().await;
    let see = async |speaker: &str| {
        let path = format!("{PATH}?format=openai&as={speaker}");
        let reply = server.get(&path).await.json();
        assert_eq!(reply["as"], speaker);
        reply["body"]["messages"].clone()
    };
    assert_eq!(
        see("agent_b").await,
        json!([
            {"role": "system", "content": "You are Agent B"},
            {"role": "user", "content": "[HUMAN]: Talk about rivers\n\nRivers carry."},
            {"role": "assistant", "content": "And rivers cut."},
            {"role": "user", "content": "Look at gorges."},
        ])
    );
    let own = see("agent_a").await;
    let roles: Vec<&str> =
        own.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "tool", "assistant"]);
    server.get(&format!("{PATH}?format=openai&as=agent_c")).await.problem(404, "unknown_speaker");
    let unknown = server.get(&format!("{PATH}?format=openai&as=agent_c")).await.json();
    assert!(unknown["detail"].as_str().unwrap().contains("known speakers: agent_a, agent_b"), "{unknown}");
}

#[tokio::test]
async fn an_agents_settings_choose_the_style_of_a_conversation() {
    let server = with_talk().await;
    let settings = json!({"participants": "agent_b, agent_a", "human_tag": "Guest"});
    let request = server
        .request(Method::PATCH, "/v1/agents/coder")
        .header("content-type", "application/merge-patch+json");
    let reply = Reply::of(request.body(settings.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let reply = server.get(&format!("{PATH}?format=gemini&as=agent_a")).await.json();
    let body = reply["body"].to_string();
    assert!(body.contains("You are Agent B") && body.contains("Guest: Talk about rivers"), "{body}");
}

/// The summary is fenced for its reader, and the first thing said to the speaker stays in view.
#[tokio::test]
async fn anchor_and_summary_are_for_the_speaker() {
    let server = Server::start(|config| {
        config.window.budget_tokens = 100;
        config.window.low_water = 0.5;
    })
    .await;
    for number in 1..=8 {
        let messages = json!([
            {"kind": "assistant", "speaker": "ada", "content": format!("Ada's thought {number}, {}", "so ".repeat(20))},
            {"kind": "assistant", "speaker": "bob", "content": format!("Bob's answer {number}, {}", "no ".repeat(20))},
        ]);
        server.post("/v1/agents/coder/messages", messages.to_string()).await;
    }
    for (speaker, first) in [("ada", "Bob's answer 1"), ("bob", "Ada's thought 1")] {
        let reply = server.get(&format!("{PATH}?format=anthropic&as={speaker}")).await.json();
        let first_turn = &reply["body"]["messages"][0];
        assert_eq!(first_turn["role"], "user");
        let texts: Vec<&str> = first_turn["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["text"].as_str().unwrap())
            .collect();
        assert!(texts[0].starts_with(first), "{texts:?}");
        assert!(texts[1].contains(&format!(" you=\"{speaker}\" ")), "{texts:?}");
    }
}
