//! Builds the response for a document: Markdown or JSON, new to the client or not modified, current or stale.

use axum::{
    Json,
    body::{Body, Bytes},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER, VARY},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{
    negotiate::{is_known, preferred},
    problem::{Problem, RETRY_AFTER_SECONDS},
};
use recapd_core::domain::time::{SECOND_MS, Timestamp};
use recapd_store::StoreError;
use recapd_telemetry::metrics::labels::ReadResult;

const MARKDOWN: &str = "text/markdown";
const JSON: &str = "application/json";
pub(super) const MARKDOWN_UTF8: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");
/// What readers get if neither the database nor a copy is available.
const PLACEHOLDER: &str = "[Summary temporarily unavailable]";
const STALE: HeaderName = HeaderName::from_static("recapd-stale");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Markdown,
    Json,
}

impl Form {
    /// Returns the format that the request's headers prefer.
    pub(crate) fn preferred_by(headers: &HeaderMap) -> Self {
        match preferred(headers, &[MARKDOWN, JSON]) {
            JSON => Self::Json,
            _ => Self::Markdown,
        }
    }
}

pub(crate) struct Document<J> {
    /// The document's tag. It changes whenever the Markdown changes.
    pub(crate) etag: String,
    pub(crate) bytes: Bytes,
    pub(crate) json: J,
    /// Set while the database is unavailable: the copy was known to be current until then.
    pub(crate) stale_since: Option<Timestamp>,
    pub(crate) headers: HeaderMap,
}

impl<J: Serialize> Document<J> {
    /// Returns the response to a request with `request_headers`, and the metrics' label for the read.
    pub(crate) fn answer(
        self,
        form: Form,
        request_headers: &HeaderMap,
        now: Timestamp,
    ) -> (ReadResult, Response) {
        // The JSON holds the document's age, which changes even if the document doesn't. So its tag is weak.
        let weak = if form == Form::Json { "W/" } else { "" };
        let etag = format!("{weak}{}", self.etag);
        let is_known = is_known(request_headers, &etag);
        let result = read_result(self.stale_since, is_known, self.bytes.is_empty());
        let headers = common_headers(self.headers, etag, self.stale_since, now);
        let response = match form {
            _ if is_known => (StatusCode::NOT_MODIFIED, headers).into_response(),
            Form::Json => (headers, Json(self.json)).into_response(),
            Form::Markdown => {
                (headers, [(CONTENT_TYPE, MARKDOWN_UTF8)], Body::from(self.bytes)).into_response()
            }
        };
        (result, response)
    }
}

pub(super) fn read_result(stale_since: Option<Timestamp>, is_known: bool, is_empty: bool) -> ReadResult {
    match stale_since {
        Some(_) => ReadResult::Stale,
        None if is_known => ReadResult::NotModified,
        None if is_empty => ReadResult::Empty,
        None => ReadResult::Hit,
    }
}

/// Returns the headers of a response with the document, and of a response 304 to a client that already has it.
fn common_headers(
    mut headers: HeaderMap,
    etag: String,
    stale_since: Option<Timestamp>,
    now: Timestamp,
) -> HeaderMap {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    insert(&mut headers, ETAG, etag);
    add_stale_header(&mut headers, stale_since, now);
    headers
}

/// Adds the header that shows for how long the copy may have been outdated.
pub(super) fn add_stale_header(headers: &mut HeaderMap, stale_since: Option<Timestamp>, now: Timestamp) {
    if let Some(since) = stale_since {
        let age = format!("{}s", now.since_ms(since).max(0) / SECOND_MS);
        insert(headers, STALE, age);
    }
}

/// Adds a header if its value is valid.
pub(crate) fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

/// Returns the response if there is neither a database nor a copy: a text that is safe to show to a model, or a
/// problem.
pub(crate) fn unavailable(error: StoreError, form: Form) -> (ReadResult, Response) {
    let problem = Problem::from(error);
    let response = if form == Form::Json || !problem.is_temporary() {
        problem.into_response()
    } else {
        let headers = [(CONTENT_TYPE, MARKDOWN_UTF8), (RETRY_AFTER, RETRY_AFTER_SECONDS.into())];
        (StatusCode::SERVICE_UNAVAILABLE, headers, PLACEHOLDER).into_response()
    };
    (ReadResult::Unavailable, response)
}
