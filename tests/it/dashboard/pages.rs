//! The contents of pages.

use std::collections::BTreeSet;

use recapd_core::domain::time::HOUR_MS;
use recapd_store::{ExchangeQuery, Store as _};
use serde_json::json;

use super::{assert_page, links, page};
use crate::support::{server::Server, troubled_store::Trouble};

#[tokio::test]
async fn every_page_that_is_linked_answers() {
    let server = Server::summarised().await;
    server.converse("coder", 9..=12).await;
    server.summarise().await;
    server.converse("coder", 13..=14).await;
    let (mut seen, mut open) = (BTreeSet::new(), vec!["/ui/".to_owned()]);
    while let Some(path) = open.pop() {
        let reply = server.get(&path).await;
        let is_page = reply.header("content-type").starts_with("text/html");
        // The oldest and the newest exchange link to neighbours that may not exist.
        if reply.status == 404 && path.contains("/exchanges/") {
            continue;
        }
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        if is_page {
            assert_page(&reply);
            open.extend(links(&reply.body).into_iter().filter(|link| seen.insert(link.clone())));
        }
    }
    for part in [
        "/versions/1",
        "/diff?from=1&to=2",
        "/exchanges/9",
        "/raw?after=",
        "/ui/runs/1",
        "/search",
        "/ui/queue",
        "/ui/system",
        "/ui/runs?q=agent:coder",
    ] {
        assert!(seen.iter().any(|path| path.contains(part)), "{part} in {seen:#?}");
    }
}

/// Returns the summary, what waits and the window of an agent's page.
fn columns(body: &str) -> [&str; 3] {
    let part = |id: &str, next: &str| {
        let rest = body.split(&format!("id=\"{id}\" class=\"column\"")).nth(1).unwrap();
        rest.split(next).next().unwrap()
    };
    [part("summary", "id=\"pending\""), part("pending", "id=\"window\""), part("window", "</main>")]
}

#[tokio::test]
async fn an_agents_page_shows_each_exchange_where_it_stands() {
    let server = Server::summarised().await;
    server.converse("coder", 9..=12).await;
    let row = server.store.agent(&"coder".parse().unwrap()).await.unwrap().unwrap();
    let (boundary, through) = (row.ledger.first_exchange, row.ledger.summarized_through);
    assert!(1 < through && through + 1 < boundary && boundary < 12);
    let body = page(&server, "/ui/agents/coder").await;
    let [summary, pending, window] = columns(&body);
    for number in 1..=12 {
        let entry = format!(" id=\"x{number}\"");
        assert_eq!(window.contains(&entry), number >= boundary, "#{number}");
        assert_eq!(pending.contains(&entry), through < number && number < boundary, "#{number}");
    }
    assert!(summary.contains("<h3 id=\"part-0\">Previously in This Session ("));
    assert!(summary.contains("data-x=\"1-6\""), "{summary}");
    assert!(summary.contains("<a href=\"/ui/agents/coder/exchanges/1\">#1</a>"));
    let ranges = [
        (summary, format!("#1–#{through}")),
        (pending, format!("#{}–#{}", through + 1, boundary - 1)),
        (window, format!("#{boundary}–#12")),
    ];
    for (column, range) in ranges {
        let range = format!("<span class=\"range\">{range}</span>");
        assert!(column.contains(&range), "{range} in {column}");
    }
}

/// Returns the segments of the history map: class, first exchange, begin and width.
fn segments(body: &str) -> Vec<(String, i64, i64, i64)> {
    let attribute = |text: &str, name: &str| {
        let rest = text.split(&format!("{name}=\"")).nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let rects = body.split("<rect class=\"m-").skip(1).filter(|rect| rect.contains("data-n="));
    let segment = |rect: &str| {
        let number = |name| attribute(rect, name).parse().unwrap();
        let class = rect.split('"').next().unwrap().to_owned();
        (class, number("data-n"), number(" x"), number("width"))
    };
    rects.map(|rect| segment(rect.split('>').next().unwrap())).collect()
}

#[tokio::test]
async fn the_history_map_is_in_true_proportion() {
    let server = Server::summarised().await;
    server.converse("coder", 9..=12).await;
    let agent = "coder".parse().unwrap();
    let row = server.store.agent(&agent).await.unwrap().unwrap();
    let body = page(&server, "/ui/agents/coder").await;
    let found = segments(&body);
    let query = ExchangeQuery { from: 1, through: i64::MAX, limit: 100, bytes_max: 0 };
    let exchanges = server.store.exchanges(&agent, query).await.unwrap();
    let whole = row.ledger.tokens_through();
    assert_eq!(found.len(), exchanges.len());
    for ((class, number, begins, width), stored) in found.iter().zip(&exchanges) {
        let exchange = &stored.exchange;
        assert_eq!(*number, exchange.exchange);
        let share = |tokens: i64| tokens * 10_000 / whole;
        assert_eq!(*begins, share(exchange.tokens_before), "#{number}");
        assert!((width - share(exchange.tokens)).abs() <= 1, "#{number}");
        let place = match *number {
            number if number <= row.ledger.summarized_through => "covered",
            number if number < row.ledger.first_exchange => "pending",
            _ => "window",
        };
        assert_eq!(class, place, "#{number}");
        assert!(links(&body).contains(&format!("/ui/agents/coder/exchanges/{number}")));
    }
}

#[tokio::test]
async fn a_summary_that_is_still_to_begin_says_what_waits_for_it() {
    let server = Server::small().await;
    server.converse("coder", 1..=8).await;
    let row = server.store.agent(&"coder".parse().unwrap()).await.unwrap().unwrap();
    assert!(row.pending_exchanges > 1);
    let body = page(&server, "/ui/agents/coder").await;
    let words = format!("None yet: the first update will summarise {} exchanges", row.pending_exchanges);
    assert!(body.contains(&words), "{body}");
    assert!(!body.contains("the first update comes when exchanges leave the window"));
    server.converse("new", 1..=1).await;
    let body = page(&server, "/ui/agents/new").await;
    assert!(body.contains("None yet: the first update comes when exchanges leave the window"));
}

#[tokio::test]
async fn the_request_is_shown_as_it_is_sent_with_its_parts() {
    let server = Server::summarised().await;
    for format in ["anthropic", "openai", "openai-responses", "gemini"] {
        let sent = server.get(&format!("/v1/agents/coder/context?format={format}")).await.json();
        let body = page(&server, &format!("/ui/agents/coder/context?format={format}")).await;
        let of = |name: &str| -> i64 {
            let rest = body.split(&format!("<th scope=\"row\">{name}</th>")).nth(1);
            let cell = rest.and_then(|rest| rest.split("data-name=\"Tokens\">").nth(1));
            cell.map_or(0, |cell| cell.split('<').next().unwrap().replace(',', "").parse().unwrap())
        };
        let parts = ["Preamble", "Anchor", "Summary", "Window", "Repairs", "Framing"].map(of);
        assert_eq!(parts.iter().sum::<i64>(), sent["tokens"].as_i64().unwrap(), "{format}: {body}");
        assert!(of("Summary") > 0 && of("Window") > 0, "{format}: {body}");
        assert!(body.contains("aria-current=\"page\">Request</a>"));
    }
    assert_eq!(server.get("/ui/agents/coder/context?format=latin").await.status, 400);
}

#[tokio::test]
async fn messages_of_agents_are_shown_as_text() {
    let server = Server::small().await;
    let script = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><style>";
    let hidden = "\u{1b}[31mred\u{1b}[0m abc\u{202e}fed\u{2066} \u{200b}zero";
    let long = "x".repeat(1_000_000);
    let said = json!([
        { "role": "user", "content": format!("{script} {hidden}"), "name": script },
        { "role": "assistant", "content": long, "tool_calls": [
            { "id": "1", "type": "function", "function": { "name": script, "arguments": format!("{{\"a\":\"{hidden}\"}}") } },
        ] },
        { "role": "tool", "tool_call_id": "1", "content": format!("{script}{hidden}") },
        { "role": "assistant", "content": "سلام עולם </main></body>" },
    ]);
    let reply = server.post("/v1/agents/evil/messages", said.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    server.converse("evil", 1..=6).await;
    server.summarise().await;
    for path in ["", "/exchanges", "/exchanges/1", "/versions/1", "/search?q=red"] {
        let body = page(&server, &format!("/ui/agents/evil{path}")).await;
        for raw in
            ["<script>", "<img", "<style", "\u{1b}", "\u{202e}", "\u{2066}", "\u{200b}", "</main></body> "]
        {
            assert!(!body.contains(raw), "{raw:?} in {path}");
        }
        assert!(body.len() < 100_000, "{path}: {} bytes", body.len());
    }
    // The call is so long that it fills a leg, so the answer is in the next one.
    let body = page(&server, "/ui/agents/evil/exchanges/1").await
        + &page(&server, "/ui/agents/evil/exchanges/2").await;
    for shown in
        ["&lt;script&gt;alert(1)", "␛[31mred␛[0m abc⟨U+202E⟩fed", "سلام עולם", "Shortened: read all 1M bytes"]
    {
        assert!(body.contains(shown), "{shown}");
    }
    let raw = links(&body).into_iter().find(|link| link.contains("/raw?after=1")).unwrap();
    let whole = server.get(&raw).await;
    assert_eq!((whole.status, whole.header("content-type")), (200, "text/plain; charset=utf-8"));
    assert_eq!(whole.header("x-content-type-options"), "nosniff");
    assert!(whole.body.len() > 1_000_000);
    let words = page(&server, "/ui/agents/evil/search?q=%3Cscript%3E%22").await;
    assert!(!words.contains("<script>\""), "{words}");
}

#[tokio::test]
async fn the_overview_shows_health_and_figures() {
    let server = Server::summarised().await;
    let body = page(&server, "/ui/").await;
    for (name, value) in [("Completed", "1"), ("Failed", "0"), ("Agents", "1")] {
        let figure = format!("<dt>{name}</dt><dd><strong>{value}</strong>");
        assert!(body.contains(&figure), "{figure} in {body}");
    }
    assert!(!body.contains("class=\"banner "), "{body}");
    assert_eq!(body.matches("<svg viewBox=\"0 0 380").count(), 5);
    for line in ["30 s", "10k", "9.5k", "50"] {
        let line = format!("text-anchor=\"end\">{line}</text>");
        assert!(body.contains(&line), "{line} in {body}");
    }
    server.converse("late", 1..=6).await;
    server.clock.advance_ms(3 * HOUR_MS);
    let body = page(&server, "/ui/").await;
    for why in ["no worker has taken the oldest update for", "exchanges have waited for a summary for 3h"] {
        assert!(body.contains(why), "{why} in {body}");
    }
    assert!(body.contains("<a href=\"/ui/agents/late\">late</a>"));
    server.store.trouble("sample", Trouble::Unavailable);
    let body = page(&server, "/ui/").await;
    assert!(body.contains("unknown: the database doesn't answer"), "{body}");
}

/// Returns the right side of an alert's condition.
fn limit_of(alerts: &str, name: &str) -> f64 {
    let alert = alerts.split("alert: ").find(|alert| alert.starts_with(name)).unwrap();
    let condition = alert.lines().find(|line| line.contains("expr:")).unwrap();
    let first = condition.split("> ").find_map(|rest| rest.split_whitespace().next()?.parse().ok());
    first.unwrap()
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "limits are small numbers")]
fn statuses_and_lines_have_the_limits_of_the_alerts() {
    use recapd_api::dashboard::{
        DEPTH_MAX, DOCUMENT_TOKENS_MAX, DURATION_MS_MAX, FAILURES_MIN, FAILURES_PERCENT_MAX, PENDING_MS_MAX,
    };
    let alerts = include_str!("../../../monitoring/alerts.yml");
    for (name, limit) in [
        ("RecapdQueueBacklog", DEPTH_MAX as f64),
        ("RecapdUpdateDurationHigh", DURATION_MS_MAX as f64 / 1_000.0),
        ("RecapdSummarySizeHigh", DOCUMENT_TOKENS_MAX as f64),
        ("RecapdUpdateFailureRateHigh", FAILURES_PERCENT_MAX as f64 / 100.0),
    ] {
        assert!((limit_of(alerts, name) - limit).abs() < 1e-9, "{name}");
    }
    assert!(alerts.contains(&format!(">= {FAILURES_MIN}")));
    assert!(alerts.contains(&format!("> {}", PENDING_MS_MAX / 1_000)));
}

#[tokio::test]
async fn the_system_page_says_what_runs() {
    let server = Server::summarised().await;
    let body = page(&server, "/ui/system").await;
    for part in [env!("CARGO_PKG_VERSION"), "Updates in progress", "The built-in summariser"] {
        assert!(body.contains(part), "{part} in {body}");
    }
}

#[tokio::test]
async fn a_missing_thing_has_a_page_that_says_so() {
    let server = Server::summarised().await;
    for (path, status) in [
        ("/ui/agents/nobody", 404),
        ("/ui/agents/coder/exchanges/99", 404),
        ("/ui/agents/coder/exchanges/two", 400),
        ("/ui/agents/coder/versions/99", 404),
        ("/ui/agents/coder/diff", 400),
        ("/ui/agents/coder?page=2", 400),
        ("/ui/runs/99", 404),
        ("/ui/nowhere", 404),
        ("/ui/agents/%3Cb%3E", 400),
    ] {
        let reply = server.get(path).await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (status, "text/html; charset=utf-8"),
            "{path}"
        );
        assert_eq!(reply.body.matches("<h1").count(), 1, "{path}");
        assert!(reply.body.contains("<nav aria-label=\"Main\">"), "{path}");
        assert!(!reply.body.contains("<b>"));
    }
    let search = page(&server, "/ui/agents/coder/search?q=%22%22").await;
    assert!(search.contains("role=\"alert\""), "{search}");
}

#[tokio::test]
async fn the_proxys_page_is_there_if_it_did_something() {
    let server = Server::summarised().await;
    server.converse("other", 1..=1).await;
    let tab = "href=\"/ui/agents/coder/proxy\"";
    assert!(!page(&server, "/ui/agents/coder").await.contains(tab));
    let body = page(&server, "/ui/agents/coder/proxy").await;
    assert!(body.contains("None of this agent's requests"), "{body}");
    let traffic = json!({"requests": 1_234, "compactions_answered": 2, "answering_ms": 80, "saved_input_tokens": 4_200});
    let report = json!({"report": "a-1", "traffic": traffic}).to_string();
    assert_eq!(server.post("/v1/agents/coder/proxy", report).await.status, 200);
    for path in ["", "/context", "/exchanges", "/exchanges/3", "/versions", "/search?q=bug"] {
        let body = page(&server, &format!("/ui/agents/coder{path}")).await;
        assert!(body.contains(tab), "{path}");
    }
    let body = page(&server, "/ui/agents/coder/proxy").await;
    for shown in ["1,234", "in 40ms each", "4.2k", "Reported first "] {
        assert!(body.contains(shown), "{shown} in {body}");
    }
    assert!(!page(&server, "/ui/agents/other").await.contains("/proxy\""));
}
