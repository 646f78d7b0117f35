//! `GET /v1/agents` and `GET /v1/status`.

use crate::support::server::Server;

#[tokio::test]
async fn agents_are_listed_with_their_figures() {
    let server = Server::start(|config| config.window.budget_tokens = 200).await;
    assert_eq!(server.get("/v1/agents").await.body, r#"{"agents":[],"next_cursor":null}"#);
    server.converse("coder", 1..=8).await;
    server.summarise().await;
    server.converse("coder", 9..=12).await;
    insta::assert_snapshot!(server.get("/v1/agents").await.pretty(), @r#"
    {
      "agents": [
        {
          "agent_id": "coder",
          "budget_tokens": 200,
          "covers_through": 5,
          "exchanges": 12,
          "first_exchange": 10,
          "messages": 24,
          "newest": {
            "exchange": 12,
            "state": "closed"
          },
          "pending_exchanges": 4,
          "pending_since": "2026-11-20T08:50:00Z",
          "project_id": null,
          "summary_tokens": 95,
          "updated_at": "2026-11-20T08:50:00Z",
          "version": 1,
          "window_tokens": 174
        }
      ],
      "next_cursor": null
    }
    "#);
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_overlap() {
    let server = Server::start(|_| {}).await;
    for agent in ["c", "a", "e", "b", "d"] {
        server.converse(agent, 1..=1).await;
    }
    let (mut seen, mut query) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/agents?limit=2{query}")).await.json();
        let agents = page["agents"].as_array().unwrap();
        assert!(agents.len() <= 2);
        seen.extend(agents.iter().map(|agent| agent["agent_id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        query = format!("&cursor={cursor}");
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    let whole = server.get("/v1/agents?limit=5").await.json();
    assert!(whole["next_cursor"].is_null(), "{whole}");
    for query in ["limit=0", "limit=201", "limit=x", "cursor=%20", "limit=1&limit=2"] {
        server.get(&format!("/v1/agents?{query}")).await.problem(400, "invalid_parameter");
    }
}

#[tokio::test]
async fn the_status_shows_the_last_day() {
    let server = Server::start(|config| config.window.budget_tokens = 200).await;
    server.converse("coder", 1..=8).await;
    server.summarise().await;
    server.converse("coder", 9..=12).await;
    let mut status = server.get("/v1/status").await.json();
    assert_eq!(status["version"].take(), env!("CARGO_PKG_VERSION"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&status).unwrap(), @r#"
    {
      "agents": 1,
      "batches": {
        "intents": 0,
        "oldest_at": null,
        "out": 0,
        "submitted": 0,
        "waiting": 0
      },
      "calibrations": [],
      "circuits": [],
      "completed": 1,
      "documents": 1,
      "documents_tokens": 95,
      "failed": 0,
      "input_tokens": 0,
      "last_run": null,
      "mean_document_tokens": 95,
      "mean_duration_ms": 0,
      "model_calls": 0,
      "oldest_pending_at": "2026-11-20T08:50:00Z",
      "oldest_ready_at": null,
      "output_tokens": 0,
      "parked": 0,
      "paused": 0,
      "paused_until": null,
      "ready": 0,
      "running": 0,
      "scheduled": 1,
      "spend_limits": {
        "calls": 0,
        "cost_microusd": 0,
        "tokens": 0
      },
      "started_at": "2026-11-20T08:40:00Z",
      "stock_is_estimated": false,
      "today": {
        "calls": 0,
        "cost_microusd": 0,
        "tokens": 0,
        "unpriced_calls": 0
      },
      "truncated": 0,
      "uptime_ms": 600000,
      "version": null,
      "window_hours": 24
    }
    "#);
}

#[tokio::test]
async fn a_cursor_is_for_its_list_alone() {
    let server = Server::small().await;
    for agent in ["coder", "planner"] {
        server.converse(agent, 1..=8).await;
    }
    let next = async |path: &str| {
        let page = server.get(&format!("{path}?limit=1")).await.json();
        page["next_cursor"].as_str().unwrap().to_owned()
    };
    let lists = ["/v1/agents", "/v1/queue", "/v1/agents/coder/window", "/v1/agents/planner/window"];
    for path in lists {
        let own = next(path).await;
        assert!(own.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{own}");
        for list in lists.into_iter().chain(["/v1/runs", "/v1/agents/coder/items"]) {
            let reply = server.get(&format!("{list}?limit=1&cursor={own}")).await;
            if list == path {
                assert_eq!(reply.status, 200, "{}", reply.body);
            } else {
                let problem = reply.problem(400, "invalid_parameter");
                assert_eq!(problem["errors"][0]["parameter"], "cursor", "{problem}");
                assert!(problem["detail"].as_str().unwrap().contains("another list"), "{problem}");
            }
        }
        for made_up in ["coder", "3", "", "1a00000000", &format!("{own}0")] {
            let reply = server.get(&format!("{path}?cursor={made_up}")).await;
            let problem = reply.problem(400, "invalid_parameter");
            assert!(problem["hint"].as_str().unwrap().contains("next_cursor"), "{problem}");
        }
    }
}
