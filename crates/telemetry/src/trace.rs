//! Optional OpenTelemetry traces: the parts of a request or an update, with their durations.
//!
//! ```text
//! span of `tracing` with [`TARGET`] ─► layer: ids, parent, attributes ─► queue (bounded) ─► OTLP over HTTP, as JSON
//! ```
//!
//! Logs don't show these spans, and without a collector they cost next to nothing. Their names and attributes follow
//! OpenTelemetry's conventions where these exist. The conventions for generative AI are still in development, so the names that
//! follow them may change.
//!
//! Invariants: no span contains text of a conversation. Nothing waits for the collector: spans that it can't accept are lost and
//! counted.

mod export;
mod layer;
mod otlp;
mod parent;

use std::sync::{Arc, atomic::AtomicU64};

use secrecy::SecretString;
use tokio::sync::mpsc;

pub use export::Exporter;
pub use layer::Spans;
pub use parent::TraceParent;

use recapd_platform::http_client::{Endpoint, HttpClientError, HttpSettings};

/// The target of the spans that are recorded.
pub const TARGET: &str = "recapd::trace";
/// The field with a span's name, if the name isn't static.
pub const NAME: &str = "otel.name";
/// The field with the kind of span: `server` or `client`.
pub const KIND: &str = "otel.kind";
/// The field with the client's `traceparent`.
pub const PARENT: &str = "otel.parent";
/// The field with the class of the error that made the span fail.
pub const ERROR: &str = "error.type";

/// The path below the collector's URL to which spans are posted.
const PATH: &str = "/v1/traces";
/// Limits the spans that wait to be sent; further ones are lost. This is OpenTelemetry's default.
const WAITING_MAX: usize = 2_048;
/// Limits the time of a call to the collector, for which nothing waits. This is OpenTelemetry's default.
const TIMEOUT_MS: u64 = 10_000;

#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// The collector's URL, such as `http://127.0.0.1:4318`.
    pub url: String,
    /// Headers of every call, which may hold a key.
    pub headers: Vec<(String, SecretString)>,
    /// Which share of the traces that begin in this process is sent.
    pub sample: f64,
    pub service: String,
    /// Other attributes of this process, by OpenTelemetry's names.
    pub resource: Vec<(String, String)>,
    /// How long a span waits for others that are sent with it.
    pub gather_ms: u64,
    pub seed: u64,
}

/// Creates the layer that records spans, and the exporter that sends them.
///
/// # Errors
/// If the URL or a header is invalid.
pub fn traces(settings: &TraceSettings) -> Result<(Spans, Exporter), HttpClientError> {
    let http = HttpSettings { timeout_ms: TIMEOUT_MS, connect_timeout_ms: TIMEOUT_MS, proxy_url: None };
    let endpoint = Endpoint::new(&http, &address(&settings.url), &settings.headers)?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let lost_count = Arc::new(AtomicU64::new(0));
    let spans = Spans::new(sender, Arc::clone(&lost_count), settings.sample, settings.seed);
    let exporter = Exporter::new(endpoint, receiver, lost_count, settings);
    Ok((spans, exporter))
}

/// Returns the URL to which spans are posted. Appends the path unless `url` already ends with it.
fn address(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with(PATH) { url.to_owned() } else { format!("{url}{PATH}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_may_have_the_path_or_not() {
        for url in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"] {
            assert_eq!(address(url), "http://c:4318/v1/traces");
        }
        assert_eq!(address("https://c/otlp"), "https://c/otlp/v1/traces");
    }
}
