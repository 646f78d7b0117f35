//! A context shortens long answers of recapd's own tools once the window has moved past them.

use recapd_core::domain::{own_output::EXPANDED_NOTE, time::MINUTE_MS};
use serde_json::{Value, json};

use crate::support::server::Server;

const PATH: &str = "/v1/agents/coder/context?format=anthropic";
const AGAIN: &str = "the same call answers again";

/// Says an exchange in which `expand` is called and gives a long answer.
async fn say(server: &Server, number: usize) {
    let id = format!("toolu_{number}");
    let answer = format!("#1 of coder\n{EXPANDED_NOTE}\n\n[1] user\n{}", "  it was said\n".repeat(150));
    let called = json!([{ "type": "tool_use", "id": id, "name": "mcp__recapd__expand", "input": { "exchanges": "#1" } }]);
    let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": answer }]);
    let said = json!([
        { "role": "user", "content": format!("Question {number}") },
        { "role": "assistant", "content": called },
        { "role": "user", "content": result },
        { "role": "assistant", "content": format!("Answer {number}") },
    ]);
    let path = "/v1/agents/coder/messages?format=anthropic";
    let reply = server.post(path, said.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// The numbers of exchanges with an answer that is whole, and of those with a shortened one.
fn answers(messages: &[Value]) -> [Vec<usize>; 2] {
    let (mut found, mut number) = ([Vec::new(), Vec::new()], 0);
    for message in messages {
        let text = message.to_string();
        if let Some((_, asked)) = text.rsplit_once("Question ") {
            let digits: String = asked.chars().take_while(char::is_ascii_digit).collect();
            number = digits.parse().unwrap();
        }
        if text.contains("tool_result") {
            found[usize::from(text.contains(AGAIN))].push(number);
        }
    }
    found
}

#[tokio::test]
async fn own_answers_are_shortened_only_where_the_window_moves() {
    let server = Server::start(|config| {
        config.window.budget_tokens = 6_000;
        config.window.low_water = 0.5;
        config.session.idle_gap_minutes = 0;
    })
    .await;
    let (mut boundary, mut before, mut steps) = (json!(1), Vec::new(), 0);
    for number in 1..=40 {
        server.clock.advance_ms(MINUTE_MS);
        say(&server, number).await;
        let reply = server.get(PATH).await.json();
        let messages = reply["body"]["messages"].as_array().unwrap().clone();
        let [whole, shortened] = answers(&messages);
        if reply["first_exchange"] == boundary {
            assert!(messages.starts_with(&before), "{number}: {reply}");
        } else {
            steps += 1;
        }
        // The newest exchange and the one before it at the last step, and all later ones, are whole.
        assert_eq!(!shortened.is_empty(), steps > 0, "{number}: {reply}");
        assert!(shortened.iter().max() < whole.iter().min(), "{reply}");
        assert!(whole.len() >= 2.min(number) && whole.last() == Some(&number), "{reply}");
        assert_eq!(reply["elided"].as_array().unwrap().len(), shortened.len(), "{reply}");
        (boundary, before) = (reply["first_exchange"].clone(), messages);
    }
    assert!(steps > 3, "{steps}");
    let expanded = server.get("/v1/agents/coder/exchanges/40").await.body;
    assert!(!expanded.contains(AGAIN), "what is stored stays");
}
