//! `/v1/agents/{id}/summary/versions`, `rollback`, `rebuild` and `items`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::server::{Reply, Server};

/// Starts a server with an agent whose document has two versions.
async fn with_versions() -> Server {
    let server = Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
    })
    .await;
    for exchanges in [1..=6, 7..=12] {
        server.converse("coder", exchanges).await;
        server.summarise().await;
    }
    server
}

async fn change(server: &Server, item: &str, body: &str) -> Reply {
    let request = server
        .request(Method::PATCH, &format!("/v1/agents/coder/items/{item}"))
        .header("content-type", "application/merge-patch+json");
    Reply::of(request.body(body.to_owned())).await
}

async fn document(server: &Server) -> Value {
    server.get_as("/v1/agents/coder/summary", "application/json").await.json()
}

#[tokio::test]
async fn versions_are_listed_read_and_restored() {
    let server = with_versions().await;
    let path = "/v1/agents/coder/summary/versions";
    let page = server.get(path).await.json();
    let [newest, first] = page["versions"].as_array().unwrap().as_slice() else {
        panic!("{page}");
    };
    assert_eq!((&newest["version"], &first["version"]), (&json!(2), &json!(1)));
    assert_eq!((&first["kind"], &first["covers_after"]), (&json!("update"), &json!(0)));
    assert_eq!(page["next_cursor"], json!(null));
    let page = server.get(&format!("{path}?limit=1")).await.json();
    let next = page["next_cursor"].as_str().unwrap();
    let page = server.get(&format!("{path}?limit=1&cursor={next}")).await.json();
    assert_eq!((&page["versions"][0]["version"], &page["next_cursor"]), (&json!(1), &json!(null)));
    let old = server.get(&format!("{path}/1")).await.json();
    assert_eq!(old["covers_through"], first["covers_through"]);
    let text = server.get_as(&format!("{path}/1"), "text/markdown").await;
    assert_eq!(text.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(old["content"], text.body.as_str());

    let reply = server.post("/v1/agents/coder/rollback", r#"{"version": 1}"#).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let reply = reply.json();
    assert_eq!((&reply["version"], &reply["covers_through"]), (&json!(3), &old["covers_through"]));
    let uncovered = newest["covers_through"].as_i64().unwrap() - old["covers_through"].as_i64().unwrap();
    assert_eq!(reply["uncovered_exchanges"], uncovered);
    let now =
        server.get_until("/v1/agents/coder/summary", |reply| reply.header("recapd-version") == "3").await;
    assert_eq!(now.header("recapd-pending-exchanges"), uncovered.to_string());
    server.summarise().await;
    assert_eq!(server.get(&format!("{path}/4")).await.json()["covers_through"], newest["covers_through"]);
}

#[tokio::test]
async fn a_rebuild_serves_the_old_document_until_the_new_one_is_there() {
    let server = with_versions().await;
    let old = document(&server).await;
    let reply = server.post("/v1/agents/coder/rebuild", "").await.json();
    assert_eq!((&reply["version"], &reply["covers_through"]), (&json!(3), &json!(0)));
    assert_eq!(reply["uncovered_exchanges"], old["covers_through"]);
    let meanwhile = document(&server).await;
    assert_eq!((&meanwhile["content"], &meanwhile["version"]), (&old["content"], &json!(2)));
    assert_eq!(meanwhile["pending_exchanges"], 0);
    let said = server.post("/v1/agents/coder/messages", r#"{"role": "user", "content": "Go on"}"#).await;
    assert_eq!(said.json()["summary"]["version"], 2, "what readers get");
    server.summarise().await;
    let new =
        server.get_until("/v1/agents/coder/summary", |reply| reply.header("recapd-version") != "2").await;
    let covered = format!("#1–#{}", old["covers_through"]);
    assert!(new.body.contains(&covered), "{}", new.body);
}

#[tokio::test]
async fn items_are_listed_and_corrected() {
    let server = with_versions().await;
    let path = "/v1/agents/coder/items";
    let items = server.get(path).await.json()["items"].as_array().unwrap().clone();
    let first = &items[0];
    assert_eq!(
        (&first["item"], &first["origin"], &first["shown"]),
        (&json!(1), &json!("offline"), &json!(true))
    );
    let page = server.get(&format!("{path}?limit=1")).await.json();
    let next = page["next_cursor"].as_str().unwrap();
    let page = server.get(&format!("{path}?limit=1&cursor={next}&all=1")).await.json();
    assert_eq!(page["items"][0], items[1]);
    let reply = change(&server, "1", r#"{"pinned": true}"#).await.json();
    assert_eq!((&reply["item"], &reply["pinned"], &reply["version"]), (&json!(1), &json!(true), &json!(3)));
    let reply = change(&server, "1", r#"{"text": "Chose RS256 for the tokens", "importance": "decision"}"#)
        .await
        .json();
    assert_eq!(
        (&reply["origin"], &reply["pinned"], &reply["shown"]),
        (&json!("edited"), &json!(true), &json!(true))
    );
    assert_eq!(reply["exchanges"], first["exchanges"]);
    let now =
        server.get_until("/v1/agents/coder/summary", |reply| reply.header("recapd-version") == "4").await;
    assert!(now.body.contains("Chose RS256 for the tokens ("), "{}", now.body);
    let problem = change(&server, "1", r#"{"pinned": false}"#).await.problem(404, "unknown_item");
    assert!(problem["detail"].as_str().unwrap().contains("covers its exchanges now"), "{problem}");
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_valid_choices() {
    let server = with_versions().await;
    let versions = "/v1/agents/coder/summary/versions";
    let problem = server.get(&format!("{versions}/9")).await.problem(404, "unknown_version");
    assert!(problem["detail"].as_str().unwrap().contains("1 to 2 are kept"), "{problem}");
    server.get(&format!("{versions}/last")).await.problem(400, "invalid_parameter");
    server.get(&format!("{versions}?limit=0")).await.problem(400, "invalid_parameter");
    server.get("/v1/agents/nobody/summary/versions").await.problem(404, "unknown_agent");
    server.get("/v1/agents/nobody/summary/versions/1").await.problem(404, "unknown_agent");
    server.get("/v1/agents/nobody/items").await.problem(404, "unknown_agent");
    server.get("/v1/agents/coder/items?al=1").await.problem(400, "unknown_parameter");
    for (path, body, status, code) in [
        ("/v1/agents/coder/rollback", r#"{"version": 9}"#, 404, "unknown_version"),
        ("/v1/agents/coder/rollback", "{}", 400, "invalid_body"),
        ("/v1/agents/nobody/rollback", r#"{"version": 1}"#, 404, "unknown_agent"),
        ("/v1/agents/nobody/rebuild", "{}", 404, "unknown_agent"),
        ("/v1/agents/coder/rebuild", r#"{"from": 1}"#, 400, "invalid_body"),
    ] {
        server.post(path, body).await.problem(status, code);
    }
    for (body, pointer) in [
        (r#"{"txt": "x"}"#, Some("/txt")),
        (r#"{"gist": ""}"#, Some("/gist")),
        (r#"{"importance": "high"}"#, Some("/importance")),
        ("{}", None),
    ] {
        let problem = change(&server, "1", body).await.problem(400, "invalid_edit");
        assert_eq!(problem["errors"][0]["pointer"].as_str(), pointer, "{problem}");
    }
    change(&server, "1", "no").await.problem(400, "invalid_body");
    change(&server, "first", "{}").await.problem(400, "invalid_parameter");
    change(&server, "99", r#"{"pinned": true}"#).await.problem(404, "unknown_item");
}

#[tokio::test]
async fn facts_are_listed_and_changed() {
    let server = with_versions().await;
    let path = "/v1/agents/coder/facts";
    let added = server.post(path, r#"{"kind": "demand", "text": "use pnpm, not npm"}"#).await;
    assert_eq!(added.status, 201);
    let added = added.json();
    let number = added["fact"].as_i64().unwrap();
    assert_eq!((added["version"].as_i64(), added["exchange"].as_i64()), (Some(3), Some(0)));
    let markdown = document(&server).await.to_string();
    assert!(markdown.contains("Demand (by hand): “use pnpm, not npm”"), "{markdown}");
    let edit = async |fact: i64, body: &str| {
        let request = server
            .request(Method::PATCH, &format!("{path}/{fact}"))
            .header("content-type", "application/merge-patch+json");
        Reply::of(request.body(body.to_owned())).await
    };
    let changed = edit(number, r#"{"text": "use bun", "pinned": true}"#).await.json();
    assert_eq!((changed["fact"].as_i64(), &changed["pinned"]), (Some(number + 1), &json!(true)));
    let texts = async |query: &str| {
        let page = server.get(&format!("{path}?{query}")).await.json();
        let facts = page["facts"].as_array().unwrap().iter();
        let of_hand = facts.filter(|fact| fact["exchange"] == 0);
        of_hand.map(|fact| fact["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(texts("limit=200").await, ["use bun"]);
    assert_eq!(texts("limit=200&all=1").await, ["use pnpm, not npm", "use bun"]);
    let page = server.get(&format!("{path}?limit=1&all=1")).await.json();
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    let next = server.get(&format!("{path}?limit=1&all=1&cursor={cursor}")).await.json();
    assert!(next["facts"][0]["fact"].as_i64() > page["facts"][0]["fact"].as_i64());
    edit(number + 1, r#"{"closed": true}"#).await.json();
    assert_eq!(texts("limit=200").await, Vec::<String>::new());
    for (body, status, code) in [
        ("{}", 400, "invalid_fact"),
        (r#"{"kind": "mood", "text": "fine"}"#, 400, "invalid_fact"),
        ("no", 400, "invalid_body"),
    ] {
        server.post(path, body).await.problem(status, code);
    }
    edit(1, r#"{"txt": "x"}"#).await.problem(400, "invalid_fact");
    edit(number, r#"{"pinned": true}"#).await.problem(404, "unknown_fact");
    server.get("/v1/agents/nobody/facts").await.problem(404, "unknown_agent");
    let again = r#"{"kind": "goal", "text": "ship it"}"#;
    assert_eq!(server.post(path, again).await.status, 201);
    server.post(path, again).await.problem(409, "fact_conflict");
}
