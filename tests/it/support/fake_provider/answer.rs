use std::{future::pending, io};

use axum::{
    Json,
    body::{Body, Bytes},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, stream};
use recapd_llm::http::RESPONSE_BYTES_MAX;
use serde_json::{Value, json};

use super::{Planned, Recorded, shape::Ending};

pub(super) async fn to(request: &Recorded, planned: Planned) -> Response {
    match planned {
        Planned::Good => good(request),
        Planned::Content(text) => said(request, &text, Ending::Done),
        Planned::Garbage => said(request, "Sure! The user and I talked about a few things.", Ending::Done),
        Planned::Empty => said(request, "", Ending::Done),
        Planned::WrongExchanges => {
            let beyond = request.exchanges().into_iter().max().unwrap_or_default() + 1_000;
            said(request, &items(&[beyond], "wrong"), Ending::Done)
        }
        Planned::MissingExchanges => {
            let exchanges = request.exchanges();
            let but_last = exchanges.split_last().map_or(&[][..], |(_, rest)| rest);
            said(request, &items(but_last, "partly"), Ending::Done)
        }
        Planned::Oversize => {
            let long = "very long words ".repeat(200);
            said(request, &items(&request.exchanges(), &long), Ending::Done)
        }
        Planned::Refusal => said(request, "", Ending::Refusal),
        Planned::ContentFilter => said(request, "", Ending::Filter),
        Planned::Length => said(request, "{\"items\": [{\"exch", Ending::Length),
        Planned::Trouble(trouble, wait) => with_status(trouble.refusal(request.shape, wait)),
        Planned::Status(status, body, headers) => with_status((status, body, headers)),
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

fn good(request: &Recorded) -> Response {
    said(request, &items(&request.exchanges(), "served"), Ending::Done)
}

pub(super) fn items(exchanges: &[i64], word: &str) -> String {
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

fn said(request: &Recorded, text: &str, ending: Ending) -> Response {
    let body = request.shape.answer(&request.body, text, ending);
    let mut response = Json(body).into_response();
    if let Some(name) = request.shape.request_id_header() {
        response.headers_mut().insert(name, "req_fake".parse().unwrap());
    }
    response
}

fn with_status((status, body, headers): (u16, String, Vec<(&'static str, String)>)) -> Response {
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
