//! Selects the headers that are forwarded, in both directions.
//!
//! Removes hop-by-hop headers (RFC 9110, 7.6.1) and recapd's own. Forwards everything else without a list of known
//! names, because providers add headers without notice.

use hyper::{
    HeaderMap,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
    },
};
use memchr::memmem;

const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    // Not hop-by-hop, but fulfilled here: hyper asks the client for the body.
    EXPECT,
];
const OLD_HOP_BY_HOP: [&str; 2] = ["keep-alive", "proxy-connection"];
/// The names of recapd's own headers begin with this.
const OWN: &str = "x-recapd-";

/// Returns the headers of a request that go to the provider.
pub(crate) fn upstream(headers: &HeaderMap) -> HeaderMap {
    let mut forwarded = forwardable(headers);
    forwarded.remove(HOST);
    // The proxy may rewrite the body; the HTTP client sets the length again.
    forwarded.remove(CONTENT_LENGTH);
    forwarded
}

/// Returns the headers of an answer that go to the client.
pub(crate) fn downstream(headers: &HeaderMap) -> HeaderMap {
    forwardable(headers)
}

/// True if the request is billed to a Claude subscription, not to an API key: such clients send an `oauth-…` beta.
pub(crate) fn is_subscription(headers: &HeaderMap) -> bool {
    let mut betas = headers.get_all("anthropic-beta").iter();
    betas.any(|beta| memmem::find(beta.as_bytes(), b"oauth-").is_some())
}

/// True if a signature covers the body (Amazon's signature version 4). Such a body must not change.
pub(crate) fn is_signed(headers: &HeaderMap) -> bool {
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    authorization.is_some_and(|value| value.starts_with(b"AWS4-"))
}

fn forwardable(headers: &HeaderMap) -> HeaderMap {
    let listed_in_connection: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let is_removed = |name: &HeaderName| {
        HOP_BY_HOP.contains(name)
            || OLD_HOP_BY_HOP.contains(&name.as_str())
            || name.as_str().starts_with(OWN)
            || listed_in_connection.iter().any(|listed| listed == name.as_str())
    };
    let mut forwarded = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if !is_removed(name) {
            forwarded.append(name.clone(), value.clone());
        }
    }
    forwarded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_headers_and_recapds_own_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "127.0.0.1:7412"),
            ("connection", "keep-alive, X-Trace"),
            ("x-trace", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("x-recapd-agent", "coder"),
            ("authorization", "Bearer secret"),
            ("anthropic-beta", "a"),
            ("anthropic-beta", "b"),
            ("accept-encoding", "gzip, br"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let sent = upstream(&headers);
        let mut names: Vec<&str> = sent.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-encoding", "anthropic-beta", "authorization"]);
        assert_eq!(sent.get_all("anthropic-beta").iter().count(), 2);
    }
}
