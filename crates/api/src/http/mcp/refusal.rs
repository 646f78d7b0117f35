//! Turns the MCP library's own refusals into problems. It refuses before a message reaches the protocol's server.

use axum::{
    body::to_bytes,
    http::{StatusCode, header::CONTENT_TYPE},
    response::Response,
};

use super::super::response::problem::Problem;

/// The longest text of a refusal, in bytes. A longer text is discarded.
const REFUSAL_TEXT_BYTES_MAX: usize = 4_096;
const SESSION_HINT: &str = "begin a session: POST /mcp with the method `initialize`; send the mcp-session-id header of its \
                       response with every later request. From version 2026-07-28 on there are no sessions";

/// Turns `response` into a problem if the library refused with a text without a content type, which clients don't display.
pub(super) async fn bare_refusal_as_problem(mut response: Response) -> Response {
    let status = response.status();
    let is_bare = !response.headers().contains_key(CONTENT_TYPE);
    // The router's hint for a wrong method contains more than the library's text.
    if is_bare && status.is_client_error() && status != StatusCode::METHOD_NOT_ALLOWED {
        let body = std::mem::take(response.body_mut());
        let text = to_bytes(body, REFUSAL_TEXT_BYTES_MAX).await.unwrap_or_default();
        let problem = problem(status, &String::from_utf8_lossy(&text));
        response.extensions_mut().insert(problem);
    }
    response
}

fn problem(status: StatusCode, text: &str) -> Problem {
    let problem = Problem::from_library_error(status, Some(text).filter(|text| !text.is_empty()));
    match status {
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => problem.hint(SESSION_HINT),
        _ => problem,
    }
}
