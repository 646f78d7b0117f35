//! `GET /v1/agents/{id}/history`, and the parts it shares with `/window`.

use recapd_config::RedactPatterns;
use recapd_core::domain::window::Budget;
use recapd_store::Store as _;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    conversation::{agent, append, minute, said, turns},
    server::Server,
};

const PATH: &str = "/v1/agents/coder/history";

async fn with_archive() -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    server.converse("coder", 1..=14).await;
    server
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "most of them are a golden text")]
async fn it_shows_the_exchanges_on_both_sides_of_the_boundary() {
    let server = with_archive().await;
    let reply = server.get(&format!("{PATH}?archived=1")).await;
    assert_eq!(reply.header("content-type"), "application/json");
    insta::assert_snapshot!(reply.pretty(), @r#"
    {
      "agent_id": "coder",
      "archived_total": 12,
      "boundary": {
        "after_exchange": 12,
        "first_exchange": 13,
        "tokens_visible": 116
      },
      "budget_tokens": 200,
      "exchanges": [
        {
          "ended_at": "2026-11-20T08:40:00Z",
          "evicted_at": "2026-11-20T08:40:00Z",
          "messages": [],
          "n": 12,
          "over_budget": false,
          "started_at": "2026-11-20T08:40:00Z",
          "state": "archived",
          "summary_version": null,
          "title": "Fix bug 12 in parser.rs",
          "tokens": 58,
          "waiting": true
        },
        {
          "ended_at": "2026-11-20T08:40:00Z",
          "evicted_at": null,
          "messages": [
            {
              "text": "Fix bug 13 in parser.rs",
              "voice": "user"
            },
            {
              "text": "Fixed bug 13: the loop ended too early.",
              "voice": "assistant"
            }
          ],
          "n": 13,
          "over_budget": false,
          "started_at": "2026-11-20T08:40:00Z",
          "state": "window",
          "summary_version": null,
          "title": "Fix bug 13 in parser.rs",
          "tokens": 58,
          "waiting": false
        },
        {
          "ended_at": "2026-11-20T08:40:00Z",
          "evicted_at": null,
          "messages": [
            {
              "text": "Fix bug 14 in parser.rs",
              "voice": "user"
            },
            {
              "text": "Fixed bug 14: the loop ended too early.",
              "voice": "assistant"
            }
          ],
          "n": 14,
          "over_budget": false,
          "started_at": "2026-11-20T08:40:00Z",
          "state": "window",
          "summary_version": null,
          "title": "Fix bug 14 in parser.rs",
          "tokens": 58,
          "waiting": false
        }
      ],
      "summary": null,
      "window": {
        "fill_ratio": 0.58,
        "tokens": 116
      },
      "window_total": 2
    }
    "#);
    let reply = server.get_as(&format!("{PATH}?archived=2"), "text/plain").await;
    assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
    insta::assert_snapshot!(reply.body, @r"
    recapd history coder                                 budget 200 · no summary yet

      ARCHIVE · not sent to the model                           2 of 12 shown, --all
      #11  Fix bug 11 in parser.rs      now     58   waiting for the next summary
      #12  Fix bug 12 in parser.rs      now     58   waiting for the next summary

    ──────── the model sees from here · 116 of 200 tokens · 58% ────────────────────

      WINDOW
      #13  Fix bug 13 in parser.rs      now     58
           ├─ user       Fix bug 13 in parser.rs
           └─ assistant  Fixed bug 13: the loop ended too early.
      #14  Fix bug 14 in parser.rs      now     58
           ├─ user       Fix bug 14 in parser.rs
           └─ assistant  Fixed bug 14: the loop ended too early.
    ");
}

#[tokio::test]
async fn the_requested_part_of_the_archive_is_shown() {
    let server = with_archive().await;
    let archived = |reply: Value| {
        let exchanges = reply["exchanges"].as_array().unwrap().clone();
        exchanges.iter().filter(|exchange| exchange["state"] == "archived").count()
    };
    for (query, expected) in
        [("", 10), ("?archived=0", 0), ("?archived=3", 3), ("?all=1", 12), ("?all", 12), ("?all=0", 10)]
    {
        let reply = server.get(&format!("{PATH}{query}")).await;
        assert_eq!(reply.json()["archived_total"], 12);
        assert_eq!(archived(reply.json()), expected, "{query}");
    }
    for query in ["archived=-1", "archived=many", "archived=10001", "all=maybe"] {
        server.get(&format!("{PATH}?{query}")).await.problem(400, "invalid_parameter");
    }
    server.get("/v1/agents/nobody/history").await.problem(404, "unknown_agent");
}

#[tokio::test]
async fn speakers_that_sound_alike_are_reported() {
    let server = Server::start(|_| {}).await;
    let say = async |one: &str, other: &str| {
        let messages = serde_json::json!([
            {"role": "user", "name": "ada", "content": one},
            {"role": "assistant", "name": "bob", "content": other},
        ]);
        server.post("/v1/agents/coder/messages", messages.to_string()).await.json()
    };
    let reply = say("What is a river, after all?", "Water that found a way.").await;
    assert_eq!(reply["convergence"]["state"], "ok");
    let reply = say("Just so!", "Just so!").await;
    assert_eq!(reply["convergence"]["state"], "stop");
    assert_eq!(reply["convergence"]["speakers"], serde_json::json!(["ada", "bob"]));
    let reply = say("Just so!", "Just so!").await;
    assert_eq!(reply["convergence"]["score"], 1.0);
    assert_eq!(reply["accepted"], 2, "nobody is refused");

    let shown = server.get(PATH).await.json();
    assert_eq!(shown["convergence"], reply["convergence"]);
    let text = server.get_as(PATH, "text/plain").await.body;
    assert!(text.contains("\n  ada and bob are 1.00 alike · "), "{text}");
    let metrics = server.get("/metrics").await.body;
    for line in [
        "recapd_convergence_score_count 3",
        "recapd_convergence_crossings_total{state=\"stop\"} 1",
        "recapd_convergence_crossings_total{state=\"warn\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    // With one speaker, there is nothing to compare.
    server.converse("alone", 1..=2).await;
    let alone = server.get("/v1/agents/alone/history").await.json();
    assert_eq!(alone.get("convergence"), None);
}

/// Titles and lines redact what the summary redacts, and nothing else.
#[tokio::test]
async fn secrets_are_redacted_as_configured() {
    let (shipped, own) = ("hunter2", "Fix bug");
    let cases: [(bool, &[&str], &[&str]); 3] =
        [(true, &[], &[shipped]), (true, &[own], &[shipped, own]), (false, &[own], &[])];
    for (redact, patterns, kept_back) in cases {
        let server = Server::start(|config| {
            config.window.budget_tokens = 200;
            config.summary.redact = redact;
            let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            config.summary.redact_patterns = RedactPatterns::try_from(patterns).unwrap();
        })
        .await;
        let said = json!([
            { "role": "user", "content": "Fix bug 1: password=\"hunter2\" isn't taken" },
            { "role": "assistant", "content": "Fixed." },
        ]);
        let reply = server.post("/v1/agents/coder/messages", said.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        // First in the window, with lines; then before it, with the title alone.
        for is_archived in [false, true] {
            let history = server.get(&format!("{PATH}?archived=10")).await;
            assert_eq!(history.json()["archived_total"] != 0, is_archived);
            for secret in [shipped, own] {
                let is_kept_back = kept_back.contains(&secret);
                assert_eq!(!history.body.contains(secret), is_kept_back, "{secret}: {}", history.body);
            }
            server.converse("coder", 2..=7).await;
        }
        server.end().await;
    }
}

/// Returns the content of a path, however long it is.
async fn long(server: &Server, path: &str) -> Value {
    let reply = server.request(Method::GET, path).send().await.unwrap();
    assert_eq!(reply.status(), 200, "{path}");
    serde_json::from_str(&reply.text().await.unwrap()).unwrap()
}

/// An agent that works long without a message of the user makes an exchange of any size.
#[tokio::test]
async fn an_exchange_too_big_for_a_page_is_shown_in_parts() {
    let server = Server::start(|_| {}).await;
    let result = "x".repeat(3_000_000);
    let mut messages = turns(1..=1);
    messages.push(said("user", "Read them all", 10, minute(2)));
    messages.extend((0..4).map(|_| said("tool_result", &result, 10, minute(2))));
    let mut request = append(&agent("coder"), messages);
    request.rules.budget = Budget::unlimited();
    server.store.append(request).await.unwrap();

    let window = "/v1/agents/coder/window";
    let page = long(&server, window).await;
    let [shown] = &page["exchanges"].as_array().unwrap()[..] else {
        panic!("more than one exchange");
    };
    let seqs = |exchange: &Value| -> Vec<i64> {
        let messages = exchange["messages"].as_array().unwrap().iter();
        messages.map(|message| message["seq"].as_i64().unwrap()).collect()
    };
    assert_eq!((&shown["exchange"], seqs(shown)), (&json!(2), vec![3, 4, 5, 6]));
    assert_eq!(shown["next_after"], 6);
    let rest = long(&server, "/v1/agents/coder/exchanges/2?after=6").await;
    assert_eq!((seqs(&rest), &rest["next_after"]), (vec![7], &Value::Null));
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = long(&server, &format!("{window}?cursor={cursor}")).await;
    let shown = &page["exchanges"][0];
    assert_eq!((&shown["exchange"], seqs(shown)), (&json!(1), vec![1, 2]));
    assert_eq!((&shown["next_after"], &page["next_cursor"]), (&Value::Null, &Value::Null));

    let history = long(&server, PATH).await;
    let lines = |at: usize| -> Vec<String> {
        let lines = history["exchanges"][at]["messages"].as_array().unwrap().iter();
        lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(lines(0), ["Question 1", "Answer 1"]);
    let more = "… more: GET /v1/agents/coder/exchanges/2?after=6";
    assert_eq!(lines(1), ["Read them all", more]);
}
