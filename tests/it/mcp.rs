//! The Model Context Protocol from outside, in both of its eras: over HTTP against the real server, over standard
//! input and output against the real binary.

mod access;
mod earlier;
mod http;
mod later;
mod notes;
mod stdio;
mod way;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::server::{Reply, Server};

const PATIENCE: Duration = Duration::from_secs(20);
const EARLIER: &str = "2025-06-18";
const LATER: &str = "2026-07-28";
const SUMMARY: &str = "recapd://agents/coder/summary.md";

fn message(method: &str, params: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    if !params.is_null() {
        message["params"] = params;
    }
    message
}

fn posted(server: &Server, message: &Value) -> RequestBuilder {
    posted_by(server, None, message)
}

fn posted_by(server: &Server, token: Option<&str>, message: &Value) -> RequestBuilder {
    server
        .request_by(token, Method::POST, "/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(message.to_string())
}

/// Makes a request of the later era, which stands alone.
fn later(server: &Server, method: &str, params: Value) -> RequestBuilder {
    later_by(server, None, method, params)
}

fn later_by(server: &Server, token: Option<&str>, method: &str, mut params: Value) -> RequestBuilder {
    params["_meta"] = meta(LATER);
    let name = ["name", "uri"].into_iter().find_map(|key| params[key].as_str().map(str::to_owned));
    let request = posted_by(server, token, &message(method, params))
        .header("mcp-protocol-version", LATER)
        .header("mcp-method", method);
    match name {
        Some(name) => request.header("mcp-name", name),
        None => request,
    }
}

/// Returns what each request of the later era says about its client.
fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

async fn ask(server: &Server, method: &str, params: Value) -> Value {
    let answer = answered(&Reply::of(later(server, method, params)).await);
    assert_eq!(answer["error"], Value::Null, "{answer}");
    answer["result"].clone()
}

async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    ask(server, "tools/call", json!({ "name": tool, "arguments": arguments })).await
}

/// Returns the text of a tool's answer.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// Returns the message in an answer, which is JSON or a stream of events.
fn answered(reply: &Reply) -> Value {
    if reply.header("content-type").starts_with("text/event-stream") {
        let events = reply.body.lines().filter_map(|line| line.strip_prefix("data:"));
        let mut messages = events.filter_map(|data| serde_json::from_str(data.trim()).ok());
        return messages.next_back().unwrap();
    }
    reply.json()
}

struct Events {
    response: Response,
    read: String,
}

impl Events {
    async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, read: String::new() }
    }

    async fn next(&mut self) -> Value {
        let reading = async {
            loop {
                if let Some((event, rest)) = self.read.split_once("\n\n") {
                    let data = event.lines().find_map(|line| line.strip_prefix("data:"));
                    let message = data.and_then(|data| serde_json::from_str(data.trim()).ok());
                    let rest = rest.to_owned();
                    self.read = rest;
                    if let Some(message) = message {
                        return message;
                    }
                    continue;
                }
                let chunk = self.response.chunk().await.unwrap().expect("the stream stays open");
                self.read.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("it comes soon")
    }
}
