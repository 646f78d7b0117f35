//! `POST /v1/agents/{id}/messages`.

use recapd_core::domain::message::Format;
use recapd_store::{ExchangeQuery, Store as _, StoredMessage};
use serde_json::{Value, json};

use crate::support::server::Server;

const PATH: &str = "/v1/agents/coder/messages";

/// Returns all messages of `coder`, as stored.
async fn stored(server: &Server) -> Vec<StoredMessage> {
    let query = ExchangeQuery { from: 0, through: i64::MAX, limit: i64::MAX, bytes_max: i64::MAX };
    let agent = "coder".parse().unwrap();
    let exchanges = server.store.exchanges(&agent, query).await.unwrap();
    exchanges.into_iter().flat_map(|exchange| exchange.messages).collect()
}

async fn payloads(server: &Server) -> Vec<String> {
    let messages = stored(server).await;
    messages.into_iter().map(|stored| stored.message.payload).collect()
}

#[tokio::test]
async fn an_append_returns_what_it_did_to_the_window() {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    let first = server.converse("coder", 1..=1).await;
    insta::assert_snapshot!(first.pretty(), @r#"
    {
      "accepted": 2,
      "duplicates": 0,
      "evicted": [],
      "exchange": 1,
      "summary": {
        "covers_through": 0,
        "pending_exchanges": 0,
        "version": 0
      },
      "window": {
        "budget_tokens": 200,
        "fill_ratio": 0.29,
        "tokens": 58,
        "tokens_until_eviction": 142
      }
    }
    "#);
    let fourth = server.converse("coder", 2..=4).await;
    insta::assert_snapshot!(fourth.pretty(), @r#"
    {
      "accepted": 2,
      "duplicates": 0,
      "evicted": [
        {
          "from_exchange": 1,
          "through_exchange": 3,
          "tokens": 174
        }
      ],
      "exchange": 4,
      "summary": {
        "covers_through": 0,
        "pending_exchanges": 3,
        "version": 0
      },
      "window": {
        "budget_tokens": 200,
        "fill_ratio": 0.29,
        "tokens": 58,
        "tokens_until_eviction": 142
      }
    }
    "#);
}

#[tokio::test]
async fn an_append_returns_the_version_of_the_summary() {
    let server = Server::summarised().await;
    let before = server.converse("coder", 9..=9).await.json();
    assert_eq!(before["summary"]["version"], 1, "{before}");
    server.converse("coder", 10..=12).await;
    server.summarise().await;
    let after = server.converse("coder", 13..=13).await.json();
    assert_eq!(after["summary"]["version"], 2, "{after}");
    let other = server.converse("planner", 1..=1).await.json();
    assert_eq!(other["summary"]["version"], 0, "{other}");
}

#[tokio::test]
async fn without_a_budget_nothing_is_ever_evicted() {
    let server = Server::start(|config| config.window.budget_tokens = 0).await;
    let reply = server.converse("coder", 1..=1).await.json();
    assert_eq!(reply["window"]["budget_tokens"], 0);
    assert!(reply["window"]["fill_ratio"].is_null());
    assert!(reply["window"]["tokens_until_eviction"].is_null());
}

#[tokio::test]
async fn every_way_to_send_messages_keeps_them_byte_for_byte_and_in_order() {
    // Odd spacing, big integers, escapes, repeated and unordered keys: re-serialising would keep none of it.
    let one = "{ \"role\":\"user\",\t\"content\":\"caf\\u00e9 \\ud83d\\ude00\", \"z\":1, \"a\":12345678901234567890123 }";
    let two = r#"{"role":"assistant","content":"Done  .","x":1.10,"x":1e2}"#;
    let array = format!("\n [ {one} ,\n{two}] \n");
    let batch = format!("{{\"messages\" : [{one},{two} ]}}");
    let lines = format!("{one}\r\n\n  {two}  \n");
    let cases = [
        ("application/json", array),
        ("application/json; charset=utf-8", batch),
        ("application/x-ndjson", lines),
        ("application/jsonl", format!("\u{feff}{one}\n{two}")),
    ];
    for (content_type, body) in cases {
        let server = Server::start(|_| {}).await;
        let reply = server.post_as(PATH, content_type, body.as_str()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.json()["accepted"], 2);
        assert_eq!(payloads(&server).await, [one, two], "{body}");
    }
    let server = Server::start(|_| {}).await;
    let pretty = "{\n  \"role\": \"user\",\n  \"content\": \"One alone\"\n}";
    assert_eq!(server.post(PATH, format!("{pretty}\n")).await.json()["accepted"], 1);
    assert_eq!(payloads(&server).await, [pretty]);
}

#[tokio::test]
async fn formats_are_detected_or_named() {
    let openai = r#"{"role":"tool","tool_call_id":"c1","content":"ok"}"#;
    let anthropic = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"ls","input":{}}]}"#;
    let native = r#"{"kind":"user","content":"Hi"}"#;
    let claude_code = r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"Hi"}}"#;
    let plain = r#"{"role":"user","content":"Hi"}"#;
    let cases = [
        ("", format!("[{openai}]"), vec![Format::OpenAiChat]),
        ("", format!("[{native}]"), vec![Format::Native]),
        ("", format!("[{claude_code}]"), vec![Format::ClaudeCode]),
        ("", format!("[{plain}]"), vec![Format::OpenAiChat]),
        // A message that fits several formats has the format of a neighbour with a certain one.
        ("", format!("[{plain},{anthropic}]"), vec![Format::Anthropic; 2]),
        ("?format=anthropic", format!("[{plain}]"), vec![Format::Anthropic]),
        ("?format=openai", format!("[{plain}]"), vec![Format::OpenAiChat]),
    ];
    for (query, body, expected) in cases {
        let server = Server::start(|_| {}).await;
        let reply = server.post(&format!("{PATH}{query}"), body.as_str()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let messages = stored(&server).await.into_iter();
        let formats: Vec<Format> = messages.map(|stored| stored.message.format).collect();
        assert_eq!(formats, expected, "{query} {body}");
    }
}

#[tokio::test]
async fn a_bad_message_keeps_all_from_being_stored() {
    let good = r#"{"role":"user","content":"Hi"}"#;
    let cases = [
        ("application/x-ndjson", format!("{good}\n\n{{\"role\":\"us\n{good}\n"), r#"{"line":3}"#),
        ("application/x-ndjson", format!("{good}\n[{good}]"), r#"{"line":2}"#),
        ("application/json", format!("[{good},{good},7]"), r#"{"pointer":"/2"}"#),
        ("application/json", format!("{{\"messages\":[{{}},{good}]}}"), r#"{"pointer":"/messages/0"}"#),
        ("application/json", r#"{"content":"Hi"}"#.to_owned(), r#"{"pointer":""}"#),
    ];
    for (content_type, body, place) in cases {
        let server = Server::start(|_| {}).await;
        let reply = server.post_as(PATH, content_type, body.as_str()).await;
        let problem = reply.problem(400, "invalid_message");
        let mut finding = problem["errors"][0].clone();
        let detail = finding.as_object_mut().unwrap().remove("detail").unwrap();
        assert_eq!(finding.to_string(), place, "{body}");
        assert!(detail.as_str().unwrap().contains("; "), "a reason and a cure: {detail}");
        server.get("/v1/agents/coder/summary").await.problem(404, "unknown_agent");
    }
}

#[tokio::test]
async fn bad_messages_are_named_one_by_one() {
    let server = Server::start(|_| {}).await;
    let reply = server
        .post_as(
            PATH,
            "application/x-ndjson",
            "{\"role\":\"user\",\"content\":\"Hi\"}\n{\"role\":\nnull\n{\"content\":\"Hi\"}",
        )
        .await;
    insta::assert_snapshot!(reply.body, @r#"
    {
      "type": "urn:recapd:problem:invalid_message",
      "title": "Unreadable message",
      "status": 400,
      "detail": "3 of 4 messages can't be read, so none was stored",
      "instance": "urn:recapd:request:test",
      "code": "invalid_message",
      "hint": "correct what `errors` names and send all messages again; ?format= names the messages' format",
      "errors": [
        {
          "line": 2,
          "detail": "broken JSON at column 8: EOF while parsing a value; give each message as one complete JSON object"
        },
        {
          "line": 3,
          "detail": "message is a JSON null, not an object; give one JSON object per message"
        },
        {
          "line": 4,
          "detail": "message has no `role`; give its role (user, assistant, system or tool), or specify the format of the messages"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn an_unknown_role_is_refused() {
    let server = Server::start(|_| {}).await;
    for (query, body, detail) in [
        (
            "",
            r#"[{"role":"user","content":"Hi"},{"role":"assitant","content":"Hello"}]"#,
            "role `assitant` is unknown; did you mean `assistant`?",
        ),
        (
            "?format=anthropic",
            r#"[{"role":"user","content":"Hi"},{"role":"wizard","content":"Hello"}]"#,
            "role `wizard` is unknown; give one of user, assistant, ",
        ),
        (
            "",
            r#"[{"kind":"user","content":"Hi"},{"kind":"asistant","content":"Hello"}]"#,
            "kind `asistant` is unknown; did you mean `assistant`?",
        ),
        (
            "",
            r#"[{"role":"user","content":"Hi"},{"role":"user","content":[{"toolResult":{"toolUseId":"1"}}]}]"#,
            "block `toolResult` is unknown, and no model would see it; give its content in a block of",
        ),
        (
            "",
            r#"[{"role":"user","content":"Hi"},{"kind":"request","parts":[{"part_kind":"user-prompt","content":"Ho"}]}]"#,
            "`parts`: this message is Pydantic-AI's, and its parts are of several roles; give each part as",
        ),
        (
            "",
            r#"[{"role":"user","content":"Hi"},{"kind":"event","name":"started"}]"#,
            "kind `event` is unknown, and the message has no `content`",
        ),
    ] {
        let reply = server.post(&format!("{PATH}{query}"), body).await;
        let problem = reply.problem(400, "invalid_message");
        assert_eq!(problem["errors"][0]["pointer"], "/1", "{problem}");
        let found = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(found.starts_with(detail), "{found}");
    }
    let lines = "{\"role\":\"user\",\"content\":\"Hi\"}\n{\"role\":\"assitant\",\"content\":\"Hello\"}";
    let reply = server.post_as(PATH, "application/x-ndjson", lines).await;
    assert_eq!(reply.problem(400, "invalid_message")["errors"][0]["line"], 2);
    server.get("/v1/agents/coder/summary").await.problem(404, "unknown_agent");
}

#[tokio::test]
async fn a_conversation_of_unknown_kinds_only_is_refused() {
    let server = Server::start(|_| {}).await;
    let said = |count: usize| json!(vec![json!({ "kind": "human", "content": "Hi" }); count]).to_string();
    let problem = server.post(PATH, said(4)).await.problem(400, "invalid_message");
    assert_eq!(problem["errors"][3]["detail"], "kind `human` is unknown", "{problem}");
    assert_eq!(server.post(PATH, said(3)).await.status, 200, "an agent's own kinds");
}

#[tokio::test]
async fn messages_as_other_programs_spell_them_reach_the_model() {
    let server = Server::start(|_| {}).await;
    let said = json!([
        { "role": "user", "additional_kwargs": {}, "blocks": [{ "block_type": "text", "text": "Which files?" }] },
        { "role": "assistant", "content": "", "toolCalls": [{ "id": "c1", "function": { "name": "ls", "arguments": "{}" } }] },
        { "role": "tool", "name": "ls", "content": "a.rs", "toolCallId": "c1" },
        { "role": "assistant", "content": [{ "type": "text", "text": { "value": "One file.", "annotations": [] } }] },
    ]);
    let reply = server.post(PATH, said.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let context = server.get("/v1/agents/coder/context?format=openai").await.json();
    let messages = context["body"]["messages"].as_array().unwrap();
    let last: Vec<&Value> = messages.iter().rev().take(4).rev().collect();
    assert_eq!(last[0]["content"], "Which files?", "{context}");
    assert_eq!(last[1]["tool_calls"][0]["function"]["name"], "ls", "{context}");
    assert_eq!(last[2]["content"], "a.rs", "{context}");
    assert_eq!(last[3]["content"], "One file.", "{context}");
}

#[tokio::test]
async fn other_unknown_members_are_stored_verbatim() {
    let server = Server::start(|_| {}).await;
    server.converse("coder", 1..=1).await;
    for (format, message, kind) in [
        (
            "codex",
            r#"{"type":"response_item","payload":{"type":"message","role":"wizard","content":[]}}"#,
            "wizard",
        ),
        ("claude-code", r#"{"type":"novel","uuid":"u1"}"#, "novel"),
        ("openai-responses", r#"{"type":"novel","id":"n1"}"#, "novel"),
        ("openai", r#"{"role":"exit","content":"diff"}"#, "exit"),
        ("native", r#"{"kind":"skill_load","content":"x","idd":"1"}"#, "skill_load"),
    ] {
        let reply = server.post(&format!("{PATH}?format={format}"), message).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let kept = stored(&server).await.pop().unwrap().message;
        assert_eq!((kept.kind.name(), kept.payload.as_str()), (kind, message));
    }
}

#[tokio::test]
async fn many_bad_messages_are_counted() {
    let server = Server::start(|_| {}).await;
    let body = format!("[{}]", vec!["0"; 100].join(","));
    let problem = server.post(PATH, body).await.problem(400, "invalid_message");
    assert_eq!(problem["detail"], "100 of 100 messages can't be read, so none was stored");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 20);
}

#[tokio::test]
async fn bodies_without_messages_are_refused_with_a_remedy() {
    let cases = [
        ("application/json", "", "EOF"),
        ("application/json", "[]", "holds no messages"),
        ("application/json", "{\"messages\":[]}", "holds no messages"),
        ("application/x-ndjson", "\n \n", "holds no messages"),
        ("application/json", "[{}", "broken JSON"),
        ("application/json", "{\"messages\":{}}", "isn't an array"),
        (
            "application/json",
            "{\"messages\":[{\"role\":\"user\"}],\"sys/tem\":1}",
            "`/sys~1tem` isn't allowed",
        ),
        ("application/json", "{\"kind\":\"user\"}\n{\"kind\":\"user\"}", "trailing characters"),
    ];
    for (content_type, body, expected) in cases {
        let server = Server::start(|_| {}).await;
        let reply = server.post_as(PATH, content_type, body).await;
        let problem = reply.problem(400, "invalid_body");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(expected), "{detail}");
        assert!(problem["hint"].is_string(), "{problem}");
    }
}

#[tokio::test]
async fn the_format_of_a_body_must_be_declared() {
    let server = Server::start(|_| {}).await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "?"] {
        let reply = server.post_as(PATH, content_type, "{}").await;
        reply.problem(415, "unsupported_media_type");
    }
    let request = server.request(reqwest::Method::POST, PATH).body("{}");
    let problem = crate::support::server::Reply::of(request).await;
    assert_eq!(problem.problem(415, "unsupported_media_type")["detail"], "the body has no content type");
    let request = server
        .request(reqwest::Method::POST, PATH)
        .header("content-type", "application/json")
        .header("content-encoding", "gzip");
    let reply = crate::support::server::Reply::of(request.body("{}")).await;
    reply.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn text_that_is_no_utf8_is_refused_with_its_place() {
    let server = Server::start(|_| {}).await;
    let request = server
        .request(reqwest::Method::POST, PATH)
        .header("content-type", "application/json")
        .body(b"{\"a\":\"\xff\"}".to_vec());
    let reply = crate::support::server::Reply::of(request).await;
    let problem = reply.problem(400, "invalid_body");
    assert_eq!(problem["detail"], "byte 7 of the body isn't UTF-8");
}

#[tokio::test]
async fn client_ids_make_sending_again_safe() {
    let server = Server::start(|_| {}).await;
    let body = r#"[{"role":"user","content":"Hi","client_id":"m1"},
                   {"role":"assistant","content":"Hello","client_id":"m2"},
                   {"role":"assistant","content":"Hello","client_id":"m2"}]"#;
    let counts = |reply: &Value| (reply["accepted"].as_i64(), reply["duplicates"].as_i64());
    let first = server.post(PATH, body).await.json();
    assert_eq!(counts(&first), (Some(2), Some(1)));
    let again = server.post(PATH, body).await.json();
    assert_eq!(counts(&again), (Some(0), Some(3)));
    assert_eq!(first["window"], again["window"]);
    assert_eq!(stored(&server).await.len(), 2);
}

#[tokio::test]
async fn the_end_of_a_session_makes_pending_exchanges_urgent() {
    let server = Server::start(|config| config.window.budget_tokens = 100).await;
    let path = "/v1/agents/coder/sessions/end";
    server.post(path, "").await.problem(404, "unknown_agent");
    server.converse("coder", 1..=1).await;
    assert_eq!(server.post(path, "").await.body, r#"{"session":1,"queued":false}"#);
    server.converse("coder", 2..=3).await;
    assert_eq!(server.post(path, "").await.body, r#"{"session":2,"queued":true}"#);
    // At once, although the clock stands still.
    assert_eq!(server.parts.worker.drain().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_usage_report_is_accepted_with_the_messages() {
    let server = Server::start(|config| {
        config.window.provider = "anthropic".to_owned();
        config.window.model = "claude-opus-5".to_owned();
        config.window.budget_tokens = 0;
    })
    .await;
    let long = "word ".repeat(1_000);
    for prompt_tokens in [9_000, 12_000, 15_000, 18_000] {
        let body = json!({
            "messages": [{"role": "user", "content": long}, {"role": "assistant", "content": "Yes."}],
            "usage": {"input_tokens": prompt_tokens, "output_tokens": 3},
        });
        let reply = server.post(PATH, body.to_string()).await;
        assert_eq!((reply.status, &reply.json()["accepted"]), (200, &2.into()), "{}", reply.body);
    }
    let agent = "coder".parse().unwrap();
    let counter = server.parts.ingestor.counter_of(&agent).await.unwrap();
    assert!(counter.method().starts_with("o200k*claude-4.7×"), "{}", counter.method());
    let body = r#"{"messages": [{"role": "user", "content": "Hi"}], "usage": {"tokens": 5}}"#;
    let problem = server.post(PATH, body).await.problem(400, "invalid_body");
    assert!(problem["detail"].as_str().unwrap().contains("/usage"), "{problem}");
}
