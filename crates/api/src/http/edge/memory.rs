//! Limits the memory for answers made of messages: each takes several times their bytes, and a hundred may be requested
//! at once.

use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::http::SharedApp;
use recapd_core::domain::number::usize_or_max;
use recapd_store::page::PAGE_BYTES_MAX;

/// How many copies of a page are in memory until it is sent: as payload, as parts, as shown payload, and as text.
const MEMORY_PER_BYTE: usize = 4;
/// Routes whose answers hold up to a page of payloads. A context can hold more, so its route takes the room itself.
const OF_A_PAGE: [(Method, &str); 8] = [
    (Method::GET, "/v1/agents/{id}/window"),
    (Method::GET, "/v1/agents/{id}/history"),
    (Method::GET, "/v1/agents/{id}/recall"),
    (Method::GET, "/v1/agents/{id}/exchanges/{n}"),
    (Method::GET, "/ui/agents/{id}/exchanges/{n}"),
    (Method::GET, "/ui/agents/{id}/exchanges/{n}/raw"),
    (Method::GET, "/ui/agents/{id}/search"),
    (Method::POST, "/mcp"),
];

/// Waits until there is room for the answer, then answers the request.
pub(crate) async fn guard(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let handler_method = match request.method() {
        &Method::HEAD => &Method::GET,
        method => method,
    };
    let path = request.extensions().get::<MatchedPath>();
    let is_of_a_page = path.is_some_and(|path| {
        let mut routes = OF_A_PAGE.iter();
        routes.any(|(method, route)| *route == path.as_str() && method == handler_method)
    });
    if !is_of_a_page {
        return next.run(request).await;
    }
    let bytes = MEMORY_PER_BYTE * usize_or_max(PAGE_BYTES_MAX);
    match app.answers_room.for_answer(bytes).await {
        Ok(share) => share.until_sent(next.run(request).await).await,
        Err(problem) => problem.into_response(),
    }
}
