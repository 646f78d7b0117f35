//! Writes responses: the provider's, with the headers that are forwarded, and the proxy's own.

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde_json::json;

use crate::{
    answer::CompactionAnswer,
    dialect::Dialect,
    headers,
    relay::{self, ProxyBody},
};

/// The header of an answer that shows what the proxy did.
pub(crate) const OWN_HEADER: &str = "x-recapd";

/// Returns a provider's answer with the headers that are forwarded. `wrap` makes the new body.
pub(crate) fn forwarded(
    answer: Response<reqwest::Body>,
    wrap: impl FnOnce(reqwest::Body) -> ProxyBody,
) -> Response<ProxyBody> {
    let (head, body) = answer.into_parts();
    let mut forwarded = Response::new(wrap(body));
    *forwarded.status_mut() = head.status;
    *forwarded.headers_mut() = headers::downstream(&head.headers);
    forwarded
}

pub(crate) fn proxy_response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<ProxyBody> {
    let mut answer = Response::new(relay::own_body(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// Returns the answer to a compaction.
pub(crate) fn compaction_response(answer: CompactionAnswer) -> Response<ProxyBody> {
    let mut response = proxy_response(StatusCode::OK, answer.content_type, answer.body);
    if let Ok(value) = HeaderValue::from_str(&format!("answered; version={}", answer.version)) {
        response.headers_mut().insert(OWN_HEADER, value);
    }
    response
}

/// Returns an error in the form that clients of the dialect read.
pub(crate) fn answer_error(
    dialect: Option<Dialect>,
    status: StatusCode,
    detail: &str,
) -> Response<ProxyBody> {
    let body = match dialect {
        Some(Dialect::Anthropic) => {
            json!({"type": "error", "error": {"type": "api_error", "message": detail}})
        }
        Some(Dialect::Gemini) => {
            json!({"error": {"code": status.as_u16(), "message": detail, "status": "UNAVAILABLE"}})
        }
        _ => {
            json!({"error": {"message": detail, "type": "server_error", "param": null, "code": "recapd_proxy"}})
        }
    };
    let mut response = proxy_response(status, "application/json", body.to_string());
    response.headers_mut().insert(OWN_HEADER, HeaderValue::from_static("refused"));
    response
}
