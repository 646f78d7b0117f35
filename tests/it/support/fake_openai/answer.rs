//! The answers, in OpenAI's shape.

use std::{future::pending, io};

use axum::{
    Json,
    body::{Body, Bytes},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, stream};
use recapd::llm::http::RESPONSE_BYTES_MAX;
use serde_json::{Value, json};

use super::{Planned, Recorded};

/// Answers as planned.
pub(super) async fn to(request: &Recorded, planned: Planned) -> Response {
    match planned {
        Planned::Good => good(request),
        Planned::Content(text) => completion(request, &text, "stop"),
        Planned::Garbage => completion(request, "Sure! The user and I talked about a few things.", "stop"),
        Planned::Empty => completion(request, "", "stop"),
        Planned::WrongExchanges => {
            let beyond = request.exchanges().into_iter().max().unwrap_or_default() + 1_000;
            completion(request, &items(&[beyond], "wrong"), "stop")
        }
        Planned::MissingExchanges => {
            let exchanges = request.exchanges();
            let but_last = exchanges.split_last().map_or(&[][..], |(_, rest)| rest);
            completion(request, &items(but_last, "partly"), "stop")
        }
        Planned::Oversize => {
            let long = "very long words ".repeat(200);
            completion(request, &items(&request.exchanges(), &long), "stop")
        }
        Planned::Refusal => with_message(
            request,
            &json!({"content": null, "refusal": "I can't help with that."}),
            "stop",
        ),
        Planned::ContentFilter => completion(request, "", "content_filter"),
        Planned::Length => completion(request, "{\"items\": [{\"exch", "length"),
        Planned::Status(status, body, headers) => with_status(status, body, headers),
        Planned::BrokenBody => "<html>It works!</html>".into_response(),
        Planned::Flood => vec![b' '; RESPONSE_BYTES_MAX + 1].into_response(),
        Planned::Late(wait) => {
            tokio::time::sleep(wait).await;
            good(request)
        }
        Planned::Hang => pending().await,
        Planned::Stall => half_a_body(stream::pending().boxed()),
        Planned::CutConnection => half_a_body(stream::once(async { Err(io::Error::other("cut")) }).boxed()),
    }
}

/// What a malformed request gets.
pub(super) fn malformed(faults: &[String]) -> Planned {
    let error = json!({"error": {"message": faults.join("; "), "type": "invalid_request_error", "param": null, "code": null}});
    Planned::status(400, error.to_string())
}

fn good(request: &Recorded) -> Response {
    completion(request, &items(&request.exchanges(), "served"), "stop")
}

fn items(exchanges: &[i64], word: &str) -> String {
    let item = |exchange: &i64| {
        json!({
            "exchanges": {"first": exchange, "last": exchange},
            "importance": "feature",
            "text": format!("Exchange {exchange} was {word}, in detail."),
            "brief": format!("Exchange {exchange} was {word}."),
            "gist": format!("{exchange} {word}"),
        })
    };
    let items: Vec<Value> = exchanges.iter().map(item).collect();
    json!({"items": items}).to_string()
}

fn completion(request: &Recorded, content: &str, finish_reason: &str) -> Response {
    let message = json!({"content": content, "refusal": null});
    with_message(request, &message, finish_reason)
}

fn with_message(request: &Recorded, message: &Value, finish_reason: &str) -> Response {
    let prompt_tokens = request.body["messages"].to_string().len() / 4;
    let completion_tokens = message.to_string().len() / 4;
    let body = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_795_000_000,
        "model": request.body["model"],
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": message["content"], "refusal": message["refusal"]},
            "logprobs": null,
            "finish_reason": finish_reason,
        }],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    });
    ([("x-request-id", "req_fake")], Json(body)).into_response()
}

fn with_status(status: u16, body: String, headers: Vec<(&'static str, String)>) -> Response {
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

fn half_a_body(rest: stream::BoxStream<'static, io::Result<Bytes>>) -> Response {
    let half = stream::once(async { Ok(Bytes::from_static(b"{\"choices\": [")) });
    Body::from_stream(half.chain(rest)).into_response()
}
