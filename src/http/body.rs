//! Bodies: how they are written, and reading them within their limits.

use std::time::Duration;

use super::{
    HttpSettings,
    problem::{BODY_TOO_LARGE, BODY_TOO_SLOW, INVALID_BODY, Problem, UNSUPPORTED_BODY},
};
use axum::{
    body::Bytes,
    extract::{FromRequest as _, Request},
    http::{
        HeaderMap, StatusCode,
        header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE},
    },
};

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// One JSON document.
    Document,
    /// One JSON document on each line.
    Lines,
}

/// Reads the body of `request` within the limits.
pub(super) async fn read(settings: &HttpSettings, request: Request) -> Result<(Writing, Bytes), Problem> {
    let bytes_max = settings.body_bytes_max;
    let writing = writing(request.headers())?;
    let announced = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|bytes: usize| bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let time = settings.request_timeout() / 2;
    match tokio::time::timeout(time, Bytes::from_request(request, &())).await {
        Ok(Ok(bytes)) => Ok((writing, bytes)),
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            Err(too_large(bytes_max))
        }
        Ok(Err(_)) => Err(Problem::new(INVALID_BODY, "the body broke off").hint("send it again")),
        Err(_) => Err(too_slow(time)),
    }
}

/// A body must say how it is written: a page in a browser can send anything else to a stranger unasked.
fn writing(headers: &HeaderMap) -> Result<Writing, Problem> {
    let value = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let encoding = value(CONTENT_ENCODING).unwrap_or("identity");
    if !encoding.eq_ignore_ascii_case("identity") {
        let detail = format!("the body is encoded as `{encoding}`");
        return Err(Problem::new(UNSUPPORTED_BODY, detail).hint("send it as it is"));
    }
    let given = value(CONTENT_TYPE).unwrap_or_default();
    let kind = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match kind.as_str() {
        "application/json" | "application/merge-patch+json" => Ok(Writing::Document),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(Writing::Lines),
        _ => {
            let detail = if given.is_empty() {
                "the body has no content type".to_owned()
            } else {
                format!("the body is `{given}`")
            };
            let hint = "send header `content-type: application/json`, or application/x-ndjson for lines";
            Err(Problem::new(UNSUPPORTED_BODY, detail).hint(hint))
        }
    }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(
        BODY_TOO_LARGE,
        format!("the body is longer than {bytes_max} bytes"),
    )
    .hint("send the messages in several requests, in order, or raise http.body_bytes_max")
}

fn too_slow(time: Duration) -> Problem {
    let detail = format!("the body didn't arrive within {} ms", time.as_millis());
    Problem::new(BODY_TOO_SLOW, detail)
        .hint("send fewer messages at once, or raise http.request_timeout_ms (a body has half of it)")
}
