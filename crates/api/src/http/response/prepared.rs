//! The responses of a summary, prepared once per version: header values, the compressed document, and the JSON. A
//! request selects one of them and adds little.

use std::{
    io::{self, Write as _},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY},
    },
    response::Response,
};
use flate2::{Compression, write::GzEncoder};

use super::{
    document::{Form, MARKDOWN_UTF8, add_stale_header, read_result},
    negotiate::{GZIP_MARK, is_known, knows_gzip, takes_gzip},
};
use recapd_core::domain::time::Timestamp;
use recapd_engine::snapshot::{Lookup, Snapshot, Snapshots};
use recapd_telemetry::metrics::labels::ReadResult;

/// Smaller documents aren't compressed, because they fit into one packet.
const GZIP_BYTES_MIN: usize = 1_400;
/// The capacity for headers, including headers that are added later.
const HEADERS_CAPACITY: usize = 12;
const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");
const VARIES: HeaderValue = HeaderValue::from_static("accept, accept-encoding");

/// The prepared responses of a snapshot. The snapshot keeps them.
pub(crate) struct PreparedResponses {
    /// The document's own headers. They are sent with every format and with status 304.
    document_headers: HeaderMap,
    etag: Option<HeaderValue>,
    gzip_etag: Option<HeaderValue>,
    json_etag: Option<HeaderValue>,
    gzip: OnceLock<Bytes>,
    is_gzip_begun: AtomicBool,
    json: OnceLock<Bytes>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Representation {
    Markdown,
    Gzip,
    Json,
}

/// The bytes of a snapshot's document, shared with the snapshot.
struct Markdown(Arc<Snapshot>);

impl AsRef<[u8]> for Markdown {
    fn as_ref(&self) -> &[u8] {
        self.0.markdown.as_bytes()
    }
}

/// Returns the Markdown of `snapshot` without copying it.
pub(super) fn markdown(snapshot: &Arc<Snapshot>) -> Bytes {
    Bytes::from_owner(Markdown(Arc::clone(snapshot)))
}

impl PreparedResponses {
    /// Returns the responses of `snapshot`, which keeps them. The first call prepares them, with the `document_headers`.
    /// `None` if the snapshot keeps a value of another type.
    pub(crate) fn of_snapshot(
        snapshot: &Snapshot,
        document_headers: impl FnOnce() -> HeaderMap,
    ) -> Option<&Self> {
        snapshot.derived.get_or_make(|| Self::new(&snapshot.etag, document_headers()))
    }

    /// Prepares the responses of a snapshot with this tag, with the `document_headers`.
    pub(crate) fn new(etag: &str, document_headers: HeaderMap) -> Self {
        let value = |text: String| HeaderValue::try_from(text).ok();
        let digest = etag.trim_matches('"');
        Self {
            document_headers,
            etag: value(etag.to_owned()),
            gzip_etag: value(format!("\"{digest}{GZIP_MARK}\"")),
            json_etag: value(format!("W/{etag}")),
            gzip: OnceLock::new(),
            is_gzip_begun: AtomicBool::new(false),
            json: OnceLock::new(),
        }
    }

    /// Returns the document as JSON. The first call makes it with `make`.
    pub(crate) fn json(
        &self,
        snapshots: &Snapshots,
        snapshot: &Snapshot,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        if let Some(json) = self.json.get() {
            return json.clone();
        }
        let json = Bytes::from(make());
        if self.json.set(json.clone()).is_ok() {
            snapshots.grew(snapshot, json.len());
        }
        json
    }

    /// Returns the compressed document if there is one. Otherwise starts to compress it for later requests, because no
    /// reader should wait for the compression.
    fn gzip(&self, snapshots: &Arc<Snapshots>, snapshot: &Arc<Snapshot>) -> Option<Bytes> {
        let compressed = self.gzip.get();
        let is_worth_it = snapshot.markdown.len() >= GZIP_BYTES_MIN;
        if compressed.is_none() && is_worth_it && !self.is_gzip_begun.swap(true, Ordering::Relaxed) {
            let (snapshots, snapshot) = (Arc::clone(snapshots), Arc::clone(snapshot));
            tokio::task::spawn_blocking(move || compress(&snapshots, &snapshot));
        }
        compressed.cloned()
    }

    /// Returns the response to a request with `request_headers`, and the metrics' label for the read. `json` returns
    /// the JSON body.
    pub(crate) fn answer(
        &self,
        reading: &Lookup,
        snapshots: &Arc<Snapshots>,
        (form, request_headers): (Form, &HeaderMap),
        now: Timestamp,
        json: impl FnOnce() -> Bytes,
    ) -> (ReadResult, Response) {
        let snapshot = &reading.snapshot;
        let is_known = is_known(request_headers, &snapshot.etag);
        let (representation, body) = match form {
            Form::Json if is_known => (Representation::Json, Bytes::new()),
            Form::Json => (Representation::Json, json()),
            Form::Markdown if is_known && knows_gzip(request_headers, &snapshot.etag) => {
                (Representation::Gzip, Bytes::new())
            }
            Form::Markdown if is_known => (Representation::Markdown, Bytes::new()),
            Form::Markdown => match takes_gzip(request_headers).then(|| self.gzip(snapshots, snapshot)) {
                Some(Some(gzip)) => (Representation::Gzip, gzip),
                _ => (Representation::Markdown, markdown(snapshot)),
            },
        };
        let result = read_result(reading.stale_since, is_known, snapshot.markdown.is_empty());
        let mut response = Response::new(Body::from(body));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        *response.headers_mut() = self.headers(representation, is_known);
        add_stale_header(response.headers_mut(), reading.stale_since, now);
        (result, response)
    }

    fn headers(&self, representation: Representation, is_known: bool) -> HeaderMap {
        let (etag, content_type) = match representation {
            Representation::Markdown => (&self.etag, MARKDOWN_UTF8),
            Representation::Gzip => (&self.gzip_etag, MARKDOWN_UTF8),
            Representation::Json => (&self.json_etag, JSON_TYPE),
        };
        let mut headers = HeaderMap::with_capacity(HEADERS_CAPACITY);
        headers.extend(self.document_headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        headers.insert(CACHE_CONTROL, PRIVATE);
        headers.insert(VARY, VARIES);
        if let Some(etag) = etag {
            headers.insert(ETAG, etag.clone());
        }
        if !is_known {
            headers.insert(CONTENT_TYPE, content_type);
        }
        if representation == Representation::Gzip && !is_known {
            headers.insert(CONTENT_ENCODING, GZIP);
        }
        headers
    }
}

/// Compresses the document of `snapshot`. Keeps the result if it is shorter.
fn compress(snapshots: &Snapshots, snapshot: &Snapshot) {
    let text = snapshot.markdown.as_bytes();
    let compressed = gzip(text).ok().filter(|compressed| compressed.len() < text.len());
    if let (Some(prepared), Some(compressed)) = (snapshot.derived.get::<PreparedResponses>(), compressed) {
        let bytes = compressed.len();
        if prepared.gzip.set(compressed.into()).is_ok() {
            snapshots.grew(snapshot, bytes);
        }
    }
}

fn gzip(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_prepared_once_unless_the_snapshot_keeps_another_value() {
        let snapshot = Snapshot::default();
        let first = PreparedResponses::of_snapshot(&snapshot, HeaderMap::new).unwrap();
        let again = PreparedResponses::of_snapshot(&snapshot, HeaderMap::new).unwrap();
        assert!(std::ptr::eq(first, again));
        let taken = Snapshot::default();
        assert_eq!(taken.derived.get_or_make(|| 7), Some(&7));
        assert!(PreparedResponses::of_snapshot(&taken, HeaderMap::new).is_none());
    }
}
