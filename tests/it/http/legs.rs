//! A long exchange over HTTP: its legs have numbers, and are shown as one exchange.

use serde_json::{Value, json};

use crate::support::server::Server;

const AGENT: &str = "/v1/agents/coder";

async fn get(server: &Server, path: &str) -> Value {
    server.get(&format!("{AGENT}{path}")).await.json()
}

async fn text(server: &Server, path: &str) -> String {
    server.get_as(&format!("{AGENT}{path}"), "text/plain").await.body
}

#[tokio::test]
async fn each_leg_says_what_it_continues() {
    let server = Server::in_legs().await;
    let history = get(&server, "/history").await;
    let told = |exchanges: &Value, number: &str| -> Vec<(Value, Value)> {
        let exchanges = exchanges.as_array().unwrap().iter();
        exchanges
            .map(|one| (one[number].clone(), one.get("continues").cloned().unwrap_or_default()))
            .collect()
    };
    let number = |n: i64| Value::from(n);
    let all = [(1, None), (2, None), (3, Some(2)), (4, Some(2)), (5, Some(2))];
    let all = all.map(|(n, continues)| (number(n), continues.map_or(Value::Null, number)));
    assert_eq!(told(&history["exchanges"], "n"), all);
    let window = get(&server, "/window").await;
    let in_window = told(&window["exchanges"], "exchange");
    assert_eq!(in_window, all[all.len() - in_window.len()..]);
    assert_eq!(get(&server, "").await["newest"], json!({ "exchange": 5, "continues": 2, "state": "open" }));
    let found = get(&server, "/recall?q=%22file+5%22&limit=1").await;
    assert_eq!(
        (&found["found"][0]["exchange"], &found["found"][0]["continues"]),
        (&4.into(), &2.into()),
        "{found}"
    );
    assert!(text(&server, "/recall?q=%22file+5%22").await.contains("  continues #2 ("));
}

#[tokio::test]
async fn each_leg_leads_to_the_next() {
    let server = Server::in_legs().await;
    let mut read = Vec::new();
    let mut next = Some(2);
    while let Some(number) = next {
        let shown = get(&server, &format!("/exchanges/{number}")).await;
        assert_eq!(shown["state"], "open", "{shown}");
        let legs = &shown["legs"];
        assert_eq!((&legs["first"], &legs["last"], &legs["count"]), (&2.into(), &5.into(), &4.into()));
        assert_eq!(legs["previous"].as_i64(), read.last().copied(), "{legs}");
        assert_eq!(shown.get("continues").is_some(), number > 2);
        read.push(number);
        next = legs["next"].as_i64();
    }
    assert_eq!(read, [2, 3, 4, 5]);
    let alone = get(&server, "/exchanges/1").await;
    assert!(alone.get("legs").is_none() && alone.get("continues").is_none(), "{alone}");
    let shown = text(&server, "/exchanges/4").await;
    insta::assert_snapshot!(shown.lines().take(2).collect::<Vec<_>>().join("\n"), @r"
    #4 of coder  2026-11-20 08:40 to 2026-11-20 08:40  90 tokens, in the window
    continues #2 · #2–#5, one exchange in four legs · goes on with #5
    ");
}

#[tokio::test]
async fn people_see_one_exchange() {
    let server = Server::in_legs().await;
    insta::assert_snapshot!(text(&server, "/history").await, @r"
    recapd history coder                                 budget 300 · no summary yet

      ARCHIVE · not sent to the model
      #1    Fix bug 1 in parser.rs         now     58   waiting for the next summary
      #2–#3  two legs of exchange #2
        #2  Fix all linting errors         now    103   waiting for the next summary
        #3  lint ×2 → I look at file…      now     90   waiting for the next summary

    ──────── the model sees from here · 180 of 300 tokens · 60% ────────────────────

      WINDOW
      #4–#5  two legs of exchange #2
        #4  lint ×2 → I look at file…      now     90   open
            ├─ assistant  I look at file 5.
            ├─ tool       lint {}
            ├─ assistant  I look at file 6.
            └─ tool       lint {}
        #5  lint ×2 → I look at file…      now     90   open
            ├─ assistant  I look at file 7.
            ├─ tool       lint {}
            ├─ assistant  I look at file 8.
            └─ tool       lint {}
    ");
    server.say("coder", vec![json!({ "role": "assistant", "content": "Fixed them all." })]).await;
    // All legs are as open as the last one.
    let history = get(&server, "/history").await;
    let exchanges = history["exchanges"].as_array().unwrap();
    assert!(exchanges.iter().all(|one| one["state"] != "open"), "{history}");
    assert_eq!(get(&server, "/exchanges/4").await["state"], "closed");
    assert_eq!(get(&server, "/window").await["exchanges"][0]["state"], "closed");
    insta::assert_snapshot!(text(&server, "/history?exchange=4").await, @r"
    recapd history coder                                 budget 300 · no summary yet

      ARCHIVE · not sent to the model                            0 of 3 shown, --all

    ──────── the model sees from here · 188 of 300 tokens · 63% ────────────────────

      WINDOW                                                     1 of 3 shown, --all
      #4  continues #2: lint ×2 → I look at file 6.      now     90
          ├─ assistant  I look at file 5.
          ├─ tool       lint {}
          ├─ assistant  I look at file 6.
          └─ tool       lint {}
    ");
}

#[tokio::test]
async fn a_brief_names_the_running_exchange() {
    let server = Server::in_legs().await;
    server.summarise().await;
    let brief = text(&server, "/summary?view=brief").await;
    assert_eq!(
        brief.lines().next().unwrap(),
        "Running: exchange #2 since 08:40, in its fourth leg: \"Fix all linting errors\""
    );
    let whole = text(&server, "/summary").await;
    assert!(!whole.contains("Running:"), "{whole}");
    for limit in ["max_chars=200", "max_tokens=40", "max_tokens=1"] {
        let path = format!("{AGENT}/summary?view=brief&{limit}");
        let short = server.get_as(&path, "application/json").await.json();
        let content = short["content"].as_str().unwrap();
        assert!(content.chars().count() <= 200 || !limit.contains("chars"), "{content}");
        assert!(short["tokens"].as_i64().unwrap() <= 40 || !limit.contains("tokens"), "{short}");
    }
    server.say("coder", vec![json!({ "role": "assistant", "content": "Fixed them all." })]).await;
    let closed = text(&server, "/summary?view=brief").await;
    assert!(!closed.contains("Running:") && !closed.is_empty(), "{closed}");
}

#[tokio::test]
async fn forgetting_a_leg_names_the_others() {
    let server = Server::in_legs().await;
    let forget = |numbers: Value| {
        let body = json!({ "exchanges": numbers }).to_string();
        async { server.post(&format!("{AGENT}/forget"), body).await.json() }
    };
    let some = forget(json!([2, 4])).await;
    assert_eq!(some["legs_left"], json!([{ "exchange": 2, "legs": [3, 5] }]), "{some}");
    let rest = forget(json!([3, 5])).await;
    assert!(rest.get("legs_left").is_none(), "{rest}");
    let alone = forget(json!([1])).await;
    assert!(alone.get("legs_left").is_none(), "{alone}");
}

#[tokio::test]
async fn items_say_which_legs_they_cover() {
    let server = Server::in_legs().await;
    server.summarise().await;
    server.work("coder", 9..=16).await;
    server.summarise().await;
    let items = get(&server, "/items").await;
    let of = |item: &Value| (item["exchanges"].as_str().unwrap().to_owned(), item["legs_of"].as_i64());
    let told: Vec<_> = items["items"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(told, [("#1–#3".to_owned(), None), ("#4–#7".to_owned(), Some(2))]);
}
