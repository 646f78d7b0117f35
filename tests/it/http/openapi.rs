//! The OpenAPI document: it is valid, and it is true.

use std::collections::BTreeSet;

use recapd_api::http::openapi_document;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::server::{Reply, Server};

/// Returns every operation of the document: method, path, description.
fn operations(document: &Value) -> Vec<(Method, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, methods)| {
        let methods: &serde_json::Map<String, Value> = Value::as_object(methods).unwrap();
        methods.iter().map(move |(method, operation)| {
            let method = method.to_uppercase().parse().unwrap();
            (method, String::as_str(path), operation)
        })
    };
    paths.iter().flat_map(of).collect()
}

/// Collects every `$ref` in `value`.
fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
        _ => {}
    }
}

/// Resolves a reference (`#/components/…`) in `document`.
fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// Fails unless `document` allows `reply` for `method path`.
pub(crate) fn assert_described(document: &Value, method: &Method, path: &str, reply: &Reply) {
    let operation = &document["paths"][path][method.as_str().to_lowercase()];
    let answer = resolve(document, &operation["responses"][reply.status.to_string()]);
    assert!(answer.is_object(), "{method} {path}: {} isn't described", reply.status);
    let kind = reply.header("content-type").split(';').next().unwrap_or_default();
    if reply.body.is_empty() {
        return;
    }
    let content = &answer["content"][kind];
    assert!(content.is_object(), "{method} {path}: `{kind}` isn't described: {answer}");
    if !kind.ends_with("json") {
        return;
    }
    let schema = json!({ "allOf": [content["schema"]], "components": document["components"] });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let body = reply.json();
    let errors: Vec<String> =
        validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{method} {path}: {errors:#?}\n{body:#}");
}

#[test]
fn it_is_a_document_of_openapi_3_1() {
    let document = openapi_document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["title"], "recapd");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for reference in found {
        let target = document.pointer(reference.trim_start_matches('#'));
        assert!(target.is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn every_operation_says_what_it_is() {
    let document = openapi_document();
    let tags: BTreeSet<&str> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{id} is there twice");
        assert_ne!(operation["summary"].as_str().unwrap_or_default(), "", "{method} {path}");
        assert!(
            tags.contains(operation["tags"][0].as_str().unwrap()) && operation["tags"][1].is_null(),
            "{method} {path}: {}",
            operation["tags"]
        );
        let in_path = path.matches('{').count();
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        let described = parameters.iter().filter(|parameter| parameter["in"] == "path");
        assert_eq!(described.count(), in_path, "{method} {path}");
        for parameter in parameters {
            assert!(parameter["description"].is_string(), "{method} {path}: {parameter}");
            assert!(!parameter["schema"]["type"].is_array(), "{method} {path}: {parameter}");
        }
        let answers = operation["responses"].as_object().unwrap();
        for status in ["400", "500", "503"] {
            assert!(answers.contains_key(status), "{method} {path}: {status}");
        }
    }
}

#[test]
fn each_component_has_one_meaning() {
    // Two types of one name would hide one another.
    let document = openapi_document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in [
        "Problem",
        "Summary",
        "Agent",
        "AgentPage",
        "VersionPage",
        "ItemPage",
        "ProjectPage",
        "History",
        "Context",
    ] {
        assert!(schemas.contains_key(name), "{name}");
    }
    for name in ["Page", "Shown", "Wire", "Figures", "Done", "Place", "Found", "Nothing", "Target", "Wish"] {
        assert!(!schemas.contains_key(name), "{name} says nothing");
    }
}

/// Routes are registered in no other way, so each has a description.
#[test]
fn routes_are_registered_with_their_descriptions() {
    for text in [
        include_str!("../../../crates/api/src/http.rs"),
        include_str!("../../../crates/api/src/http/routes.rs"),
    ] {
        for way in [".route(", ".route_service(", ".nest(", ".nest_service(", ".merge("] {
            assert!(!text.contains(way), "{way}");
        }
    }
}

#[tokio::test]
async fn every_path_of_the_document_is_a_route() {
    let server = Server::start(|_| {}).await;
    let document = openapi_document();
    assert_eq!(server.get("/v1/openapi.json").await.json(), document);
    for (method, path, _) in operations(&document) {
        let concrete = path
            .replace("{id}", "nobody")
            .replace("{agent}", "nobody")
            .replace("{version}", "1")
            .replace("{item}", "1")
            .replace("{fact}", "1")
            .replace("{n}", "1");
        let request = server.request(method.clone(), &format!("{concrete}?surely-unknown=1"));
        let reply = Reply::of(request.header("content-type", "application/json").body("{}")).await;
        reply.problem(400, "unknown_parameter");
        assert_described(&document, &method, path, &reply);
    }
}

const POSTS: [(&str, &str, &str); 14] = [
    ("/v1/agents/{id}/messages", "/v1/agents/coder/messages", r#"[{"role":"user","content":"And now?"}]"#),
    ("/v1/agents/{id}/messages", "/v1/agents/coder/messages", r#"[{"colour":"red"}]"#),
    ("/v1/agents/{id}/mark", "/v1/agents/coder/mark", r#"{"label":"here"}"#),
    ("/v1/agents/{id}/rewind", "/v1/agents/coder/rewind", r#"{"to":"here"}"#),
    ("/v1/agents/{id}/rewind", "/v1/agents/coder/rewind", r#"{"to":"nowhere"}"#),
    ("/v1/agents/{id}/fork", "/v1/agents/coder/fork", r#"{"child":"branch"}"#),
    ("/v1/agents/{id}/fork", "/v1/agents/coder/fork", r#"{"child":"branch"}"#),
    ("/v1/agents/{id}/pin", "/v1/agents/coder/pin", r#"{"seq":60}"#),
    ("/v1/agents/{id}/notes", "/v1/agents/coder/notes", r#"{"changes":[{"name":"plan","text":"One"}]}"#),
    ("/v1/agents/{id}/sessions/end", "/v1/agents/branch/sessions/end", "{}"),
    ("/v1/agents/{id}/rebuild", "/v1/agents/branch/rebuild", "{}"),
    ("/v1/agents/{id}/rollback", "/v1/agents/coder/rollback", r#"{"version":1}"#),
    ("/v1/agents/{id}/clear", "/v1/agents/branch/clear", "{}"),
    ("/v1/agents/{id}/forget", "/v1/agents/coder/forget", r#"{"exchanges":[2]}"#),
];

const CHANGES: [(&str, &str, &str, &str); 5] = [
    ("PUT", "/v1/agents/{id}/notes/{name}", "/v1/agents/coder/notes/a%2Fb", r#"{"text":"One"}"#),
    ("PATCH", "/v1/agents/{id}", "/v1/agents/coder", r#"{"budget_tokens":900,"model":"gpt-5"}"#),
    ("PATCH", "/v1/agents/{id}", "/v1/agents/coder", r#"{"budget_tokens":"much"}"#),
    ("PATCH", "/v1/agents/{id}/items/{item}", "/v1/agents/coder/items/1", r#"{"pinned":true}"#),
    ("PUT", "/v1/projects/{id}/agents/{agent}", "/v1/projects/web/agents/coder", "{}"),
];

const GETS: [(&str, &str); 22] = [
    ("/v1/agents/{id}/notes", "/v1/agents/coder/notes?texts=1"),
    ("/v1/agents/{id}/notes/{name}", "/v1/agents/coder/notes/plan"),
    ("/v1/agents", "/v1/agents?limit=1"),
    ("/v1/agents/{id}", "/v1/agents/coder"),
    ("/v1/agents/{id}", "/v1/agents/nobody"),
    ("/v1/agents/{id}/summary", "/v1/agents/coder/summary"),
    ("/v1/agents/{id}/summary/versions", "/v1/agents/coder/summary/versions"),
    ("/v1/agents/{id}/summary/versions/{version}", "/v1/agents/coder/summary/versions/1"),
    ("/v1/agents/{id}/items", "/v1/agents/coder/items?all"),
    ("/v1/agents/{id}/context", "/v1/agents/coder/context?format=openai"),
    ("/v1/agents/{id}/history", "/v1/agents/coder/history?all=1"),
    ("/v1/agents/{id}/recall", "/v1/agents/coder/recall?q=parser"),
    ("/v1/agents/{id}/exchanges/{n}", "/v1/agents/coder/exchanges/30?format=anthropic"),
    ("/v1/agents/{id}/pins", "/v1/agents/coder/pins"),
    ("/v1/agents/{id}/events", "/v1/agents/coder/events?for=0"),
    ("/v1/events", "/v1/events?for=0"),
    ("/v1/projects", "/v1/projects"),
    ("/v1/projects/{id}/summary", "/v1/projects/web/summary"),
    ("/v1/status", "/v1/status"),
    ("/livez", "/livez"),
    ("/readyz", "/readyz"),
    ("/metrics", "/metrics"),
];

/// A scenario that uses most routes; each answer matches its schema.
#[tokio::test]
async fn live_answers_are_as_described() {
    let server = Server::start(|config| config.window.budget_tokens = 1_000).await;
    let document = openapi_document();
    server.converse("coder", 1..=30).await;
    server.summarise().await;
    let is_written = |reply: &Reply| reply.header("recapd-version") != "0";
    server.get_until("/v1/agents/coder/summary", is_written).await;
    for (path, concrete, body) in POSTS {
        assert_described(&document, &Method::POST, path, &server.post(concrete, body).await);
    }
    for (method, path, concrete, body) in CHANGES {
        let method: Method = method.parse().unwrap();
        let request = server.request(method.clone(), concrete).header("content-type", "application/json");
        let reply = Reply::of(request.body(body)).await;
        assert_described(&document, &method, path, &reply);
    }
    for (path, concrete) in GETS {
        for accept in ["application/json", "*/*"] {
            let reply = server.get_as(concrete, accept).await;
            assert_described(&document, &Method::GET, path, &reply);
        }
    }
    let reply = server.request(Method::DELETE, "/v1/agents/branch?confirm=branch");
    assert_described(&document, &Method::DELETE, "/v1/agents/{id}", &Reply::of(reply).await);
}
