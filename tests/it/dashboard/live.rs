//! Live updates: what changed, and what that costs.

use reqwest::{Method, Response};
use tokio::time::Instant;

use super::page;
use crate::support::{
    PATIENCE,
    server::{Reply, Server},
};

/// The most that a tab may cost a second, in bytes, while an agent has a hundred events a second.
const BYTES_A_SECOND_MAX: usize = 60 * 1_024;
const EVENTS: i64 = 200;
/// The time between two updates while events keep coming: the longest pause of the page's script.
const UPDATE_SECONDS: usize = 2;

/// Returns the prints of a page's live parts, as its script sends them.
fn known(body: &str) -> String {
    let prints = body.split(" data-live=\"").skip(1);
    let prints: Vec<&str> = prints.map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(!prints.is_empty(), "{body}");
    prints.join(" ")
}

async fn update(server: &Server, path: &str, known: &str) -> String {
    let request = server.request(Method::GET, path).header("recapd-known", known);
    let reply = Reply::of(request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

#[tokio::test]
async fn an_update_holds_only_the_parts_that_changed() {
    let server = Server::summarised().await;
    let path = "/ui/agents/coder";
    let whole = page(&server, path).await;
    let same = update(&server, path, &known(&whole)).await;
    assert_eq!(same.matches(" data-same").count(), 5, "{same}");
    assert_eq!(known(&same), known(&whole));
    server.converse("coder", 9..=9).await;
    let changed = update(&server, path, &known(&whole)).await;
    assert!(changed.contains("<li id=\"x9\""), "{changed}");
    assert!(!changed.contains("Previously in This Session"), "{changed}");
    assert!(changed.len() < whole.len(), "{} of {}", changed.len(), whole.len());
}

/// Reads what a page hears until `end`, and returns its length in bytes.
async fn heard_until(events: &mut Response, end: impl Fn(&str) -> bool + Send + Sync) -> usize {
    let mut text = String::new();
    let reading = async {
        while !end(&text) {
            let chunk = events.chunk().await.unwrap().unwrap();
            text.push_str(str::from_utf8(&chunk).unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    text.len()
}

#[tokio::test]
async fn a_busy_agent_costs_a_tab_little() {
    let server = Server::start(|config| config.window.budget_tokens = 20_000).await;
    server.converse("busy", 1..=400).await;
    server.summarise().await;
    server.converse("busy", 401..=600).await;
    let path = "/ui/agents/busy";
    let whole = page(&server, path).await;
    let events = server.request(Method::GET, "/ui/agents/busy/events").send();
    let mut events = events.await.unwrap();
    heard_until(&mut events, |text| text.contains("event: changed")).await;
    let began = Instant::now();
    server.converse("busy", 601..=600 + EVENTS).await;
    let pushed_in = began.elapsed();
    let changed = update(&server, path, &known(&whole)).await;
    assert!(changed.contains(&format!("<li id=\"x{}\"", 600 + EVENTS)), "{changed}");
    let heard = heard_until(&mut events, |text| text.contains("event: beat")).await;
    // Events of 200 ms are gathered into one; the beat came up to two seconds after the last.
    let looks = usize::try_from(pushed_in.as_millis() / 200).unwrap() + 15;
    assert!(heard < looks * 80, "{heard} bytes in {pushed_in:?}");
    let a_second = changed.len() / UPDATE_SECONDS + 5 * 80;
    assert!(a_second <= BYTES_A_SECOND_MAX, "{a_second} bytes a second");
}
