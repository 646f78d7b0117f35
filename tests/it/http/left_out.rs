//! `GET /v1/agents/{id}/context?budget=` with less than the window.

use serde_json::json;

use crate::support::server::Server;

const PATH: &str = "/v1/agents/coder/context";

/// The window has a hundred exchanges; a small budget has room for ten.
#[tokio::test]
async fn each_exchange_without_room_has_a_line() {
    let server = Server::start(|config| config.context.output_reserve_tokens = 0).await;
    for number in 1..=100 {
        let messages = json!([
            {"role": "user", "content": format!("Question {number} about module_{number}.rs")},
            {"role": "assistant", "content": format!("It has {number} lines. {}", "And more of it. ".repeat(60))},
        ]);
        let reply = server.post("/v1/agents/coder/messages", messages.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    let tight = server.get(&format!("{PATH}?format=openai&budget=12000")).await.json();
    let left_out = tight["left_out"].as_array().unwrap().len();
    assert!((60..95).contains(&left_out), "{left_out}");
    assert_eq!(tight["over_budget"], false);
    let body = tight["body"].to_string();
    assert!(body.contains("## Left Out of This Request ("), "{body}");
    let lines = body.matches("- Question ").count();
    assert!(lines > 40, "{lines} of {left_out}: {body}");
    assert!(
        body.contains(&format!(
            "- Question {left_out} about module_{left_out}.rs → It has {left_out} lines."
        )),
        "{body}"
    );
    // One line covers all exchanges without a line of their own.
    assert!(lines == left_out || body.contains("tokens, not shown"), "{body}");
}
