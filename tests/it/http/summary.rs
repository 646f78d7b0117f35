//! `GET /v1/agents/{id}/summary`.

use std::time::Duration;

use recapd_core::domain::summary::shared::SHARED_ARCHIVED;
use recapd_store::Store as _;
use reqwest::Method;
use serde_json::json;

use crate::support::{
    server::{Reply, Server},
    troubled_store::Trouble,
};

const PATH: &str = "/v1/agents/coder/summary";

#[tokio::test]
async fn an_agent_without_a_summary_has_an_empty_one() {
    let server = Server::small().await;
    server.get(PATH).await.problem(404, "unknown_agent");
    server.converse("coder", 1..=1).await;
    let reply = server.get(PATH).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, ""));
    assert_eq!(reply.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(reply.header("recapd-version"), "0");
    assert_eq!(reply.header("recapd-pending-exchanges"), "0");
    assert_eq!(reply.header("last-modified"), "");
    let hint = reply.header("recapd-hint").to_owned();
    assert!(hint.starts_with("nothing has left the window yet: "), "{hint}");
    assert!(hint.ends_with(" tokens; try --set window.budget_tokens=4000"), "{hint}");
    let reply = server.get_as(PATH, "application/json").await;
    insta::assert_snapshot!(reply.pretty().replace(&hint, "HINT"), @r#"
    {
      "agent_id": "coder",
      "content": "",
      "covers_through": 0,
      "first_exchange": 1,
      "hint": "HINT",
      "pending_exchanges": 0,
      "pending_since": null,
      "sections": [],
      "stale_since": null,
      "tokens": 0,
      "truncated": false,
      "updated_at": null,
      "version": 0
    }
    "#);
}

#[tokio::test]
async fn evicted_exchanges_show_at_once_and_the_summary_when_written() {
    let server = Server::small().await;
    server.converse("coder", 1..=1).await;
    let empty = server.get(PATH).await;
    assert_eq!(empty.body, "");

    server.converse("coder", 2..=8).await;
    let pending = server.get_until(PATH, |reply| reply.header("recapd-pending-exchanges") == "6").await;
    assert_eq!(pending.header("recapd-version"), "0");
    assert!(pending.body.contains("Just Left the Window"), "{}", pending.body);
    assert!(pending.body.contains("Fix bug 6 in parser.rs"), "{}", pending.body);

    server.summarise().await;
    let reply = server.get_until(PATH, |reply| reply.header("recapd-version") == "1").await;
    assert_eq!(reply.header("recapd-pending-exchanges"), "0");
    assert_eq!(reply.header("cache-control"), "private, no-cache");
    assert_eq!(reply.header("vary"), "accept, accept-encoding");
    assert_eq!(reply.header("last-modified"), "Fri, 20 Nov 2026 08:50:00 GMT");
    assert!(!reply.body.contains("Just Left the Window"), "{}", reply.body);
    // The rest is a hash of the text.
    let tags = [&empty, &pending, &reply].map(|reply| reply.header("etag").rsplit_once('.').unwrap().0);
    insta::assert_snapshot!(tags.join(" "), @r#""0.1.1a1f81ccf00 "0.7.1a1f81ccf00 "1.7.1a1f825f6c0"#);
}

#[tokio::test]
async fn as_json_it_has_its_figures() {
    let server = Server::summarised().await;
    let reply = server.get_as(PATH, "application/json").await;
    assert_eq!(reply.header("content-type"), "application/json");
    let mut json = reply.json();
    let content = json["content"].take();
    assert_eq!(content, server.get(PATH).await.body.as_str());
    let sections = json["sections"].take();
    let [session] = &sections.as_array().unwrap()[..] else {
        panic!("{sections}");
    };
    assert_eq!(session["title"], "Previously in This Session");
    let lines = session["content"].as_str().unwrap();
    assert!(content.as_str().unwrap().contains(lines), "{content}");
    assert!(!lines.is_empty() && !lines.contains('*'), "{lines}");
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
    {
      "agent_id": "coder",
      "content": null,
      "covers_through": 6,
      "first_exchange": 7,
      "pending_exchanges": 0,
      "pending_since": null,
      "sections": null,
      "stale_since": null,
      "tokens": 104,
      "truncated": false,
      "updated_at": "2026-11-20T08:50:00Z",
      "version": 1
    }
    "#);
}

/// Nothing else would tell a model that there is an archive.
#[tokio::test]
async fn an_aged_out_summary_points_to_the_archive() {
    let server = Server::quiet().await;
    let row = server.store.summary(&"coder".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((row.content.as_str(), row.pending.len()), ("", 0));
    assert!(row.version > 0 && row.summarized_through > 0);
    let line = format!(
        "*Older history, up to #{}, is archived: look up any #n with recall.*\n",
        row.summarized_through
    );
    for query in ["", "?view=brief", "?max_chars=100"] {
        assert_eq!(server.get(&format!("{PATH}{query}")).await.body, line, "{query}");
    }
    let json = server.get_as(PATH, "application/json").await.json();
    assert_eq!((&json["truncated"], &json["sections"]), (&json!(false), &json!([])));
    assert!((10..40).contains(&json["tokens"].as_i64().unwrap()), "{json}");

    let context = server.get("/v1/agents/coder/context?format=openai").await.json();
    let told = context["body"].to_string();
    assert!(told.contains("<summary agent="), "{told}");
    assert!(told.contains(line.trim_end()), "{told}");

    let put = server.request(Method::PUT, "/v1/projects/ikigai/agents/coder");
    assert_eq!(Reply::of(put).await.status, 200);
    let shared = server.get("/v1/projects/ikigai/summary").await.body;
    assert_eq!(shared, format!("{SHARED_ARCHIVED}\n"));
}

#[tokio::test]
async fn a_current_copy_is_not_sent_again() {
    let server = Server::summarised().await;
    for accept in ["text/markdown", "application/json"] {
        let first = server.get_as(PATH, accept).await;
        let etag = first.header("etag");
        let ask = |known: &str| {
            let request = server.request(Method::GET, PATH).header("accept", accept);
            Reply::of(request.header("if-none-match", known))
        };
        let again = ask(etag).await;
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{accept}");
        for name in ["etag", "cache-control", "vary", "recapd-version", "recapd-pending-exchanges"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
        assert_eq!(ask("\"0.1\", \"other\"").await.status, 200);
        assert_eq!(ask(&format!("\"0.1\", {etag}")).await.status, 304);
    }
    let tag = server.get(PATH).await.header("etag").to_owned();
    server.converse("coder", 9..=12).await;
    server.get_until(PATH, |reply| reply.header("etag") != tag).await;
    let request = server.request(Method::GET, PATH).header("if-none-match", &tag);
    assert_eq!(Reply::of(request).await.status, 200);
}

#[tokio::test]
async fn a_client_that_accepts_gzip_gets_it_once_it_exists() {
    let server = Server::small().await;
    server.converse("coder", 1..=40).await;
    let ask = |accepted: &str, known: &str| {
        let request = server.request(Method::GET, PATH).header("accept-encoding", accepted);
        Reply::of(request.header("if-none-match", known))
    };
    let row = server.store.summary(&"coder".parse().unwrap()).await.unwrap().unwrap();
    let latest = format!("\"0.{}.", row.first_exchange);
    server.get_until(PATH, |reply| reply.header("etag").starts_with(&latest)).await;
    let plain = ask("identity", "").await;
    let tag = plain.header("etag");
    // The client accepts gzip by default, and unpacks it.
    let packed = server.get_until(PATH, |reply| reply.header("etag").ends_with(".gz\"")).await;
    assert_eq!(packed.body, plain.body);
    assert_eq!(packed.header("content-type"), plain.header("content-type"));
    assert_eq!(packed.header("etag").replace(".gz", ""), ask("gzip;q=0", "").await.header("etag"));
    assert_eq!(ask("br", "").await.header("etag"), tag);
    assert!(
        server.get_as(PATH, "application/json").await.header("etag").ends_with(tag.trim_start_matches('"'))
    );
    for accepted in ["gzip", "identity"] {
        for known in [tag, packed.header("etag")] {
            let again = ask(accepted, known).await;
            assert_eq!((again.status, again.header("etag")), (304, known), "{accepted}");
        }
    }
}

#[tokio::test]
async fn a_short_document_stays_as_it_is() {
    let server = Server::summarised().await;
    for _ in 0..3 {
        assert!(!server.get(PATH).await.header("etag").contains(".gz"));
    }
}

#[tokio::test]
async fn head_returns_the_same_without_the_text() {
    let server = Server::summarised().await;
    let (get, head) = (server.get(PATH).await, Reply::of(server.request(Method::HEAD, PATH)).await);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for name in ["etag", "content-length", "content-type", "recapd-version"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
}

#[tokio::test]
async fn without_the_database_the_last_copy_says_its_age() {
    let server = Server::summarised().await;
    let before = server.get(PATH).await;
    server.store.trouble("summary", Trouble::Unavailable);
    server.converse("coder", 9..=12).await;
    server.clock.advance_ms(41_500);
    let stale = server.get_until(PATH, |reply| !reply.header("recapd-stale").is_empty()).await;
    assert_eq!((stale.status, &stale.body), (200, &before.body));
    assert_eq!(stale.header("recapd-stale"), "41s");
    let json = server.get_as(PATH, "application/json").await.json();
    assert_eq!(json["stale_since"], "2026-11-20T08:50:00Z");

    server.store.recover();
    let fresh = server.get(PATH).await;
    assert_eq!(fresh.header("recapd-stale"), "");
    assert_ne!(fresh.body, before.body);
}

#[tokio::test]
async fn without_a_copy_there_is_a_placeholder() {
    let server = Server::small().await;
    server.converse("coder", 1..=1).await;
    server.store.trouble("summary", Trouble::Unavailable);
    let reply = server.get(PATH).await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.body, "[Summary temporarily unavailable]");
    assert_eq!(reply.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(reply.header("retry-after"), "5");
    let reply = server.get_as(PATH, "application/json").await;
    reply.problem(503, "database_unavailable");
    assert_eq!(reply.header("retry-after"), "5");

    // A placeholder is only for errors that may pass. The stored text stays hidden.
    server.store.trouble("summary", Trouble::Inconsistent);
    let reply = server.get(PATH).await;
    reply.problem(500, "internal");
    assert!(!reply.body.contains("secret"), "{}", reply.body);
}

#[tokio::test]
async fn a_reader_with_a_current_copy_waits_for_a_change() {
    let server = Server::summarised().await;
    let etag = server.get(PATH).await.header("etag").to_owned();
    let ask = |wait: &str| {
        let request = server.request(Method::GET, &format!("{PATH}?wait={wait}"));
        Reply::of(request.header("if-none-match", etag.clone()))
    };
    assert_eq!(ask("0").await.status, 304, "nothing has changed, and nobody waits");
    let waiting = ask("20s");
    let (changed, _) = tokio::join!(waiting, server.converse("coder", 9..=16));
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), etag);
    // A client without the current copy needn't wait.
    assert_eq!(server.get(&format!("{PATH}?wait=20s")).await.status, 200);
    server.get(&format!("{PATH}?wait=1h")).await.problem(400, "invalid_parameter");
    server.get("/v1/agents/nobody/summary?wait=20s").await.problem(404, "unknown_agent");
}

#[tokio::test]
async fn shutdown_ends_waits() {
    let server = Server::summarised().await;
    let etag = server.get(PATH).await.header("etag").to_owned();
    let request = server.request(Method::GET, &format!("{PATH}?wait=20s")).header("if-none-match", etag);
    let asking = tokio::time::timeout(Duration::from_secs(10), Reply::of(request));
    let (reply, ()) = tokio::join!(asking, async {
        // The request above has arrived once this one is answered.
        server.get("/livez").await;
        server.stop.cancel();
    });
    assert_eq!(reply.expect("it is not kept waiting").status, 304);
}
