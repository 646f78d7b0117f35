//! Refuses requests of foreign web pages. A browser runs such pages on a machine that can reach loopback, and sends
//! their requests.
//!
//! Browsers name the page's origin in `Origin`. A request is refused if its origin isn't the host that it is sent to. A
//! page that points its own name at this machine's address (DNS rebinding) passes this check, but its requests name a
//! foreign host and are refused for that. Such a page doesn't know a token, so requests with a token skip this check.
//!
//! A page can also make a browser send a request without an `Origin`: for an image, a frame or a script. Browsers then
//! say in `Sec-Fetch-Site` how the page relates to the requested host (Fetch Metadata,
//! <https://www.w3.org/TR/fetch-metadata/>). Only recapd's own pages and people get an answer. Links to the dashboard
//! work from everywhere: the person sees the page, and the site with the link learns nothing about it.

use std::net::Ipv6Addr;

use axum::http::{HeaderMap, HeaderName, Method, Uri, header};

use super::is_page;
use crate::http::response::problem::{FOREIGN_HOST, FOREIGN_ORIGIN, Problem};

/// The names by which this machine reaches itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// The request comes from one of recapd's own pages, or from a person who typed the address or used a bookmark.
const OWN_SITES: [&str; 2] = ["same-origin", "none"];

/// Refuses requests that a page of another site makes a browser send. Allows links to the dashboard.
pub(super) fn check_site(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let mut sites = headers.get_all(FETCH_SITE).into_iter();
    if sites.all(|site| OWN_SITES.iter().any(|own_site| site == own_site)) {
        return Ok(());
    }
    let is = |name: HeaderName, value: &str| headers.get(name).is_some_and(|is| is == value);
    let is_followed_link = is(FETCH_MODE, "navigate") && is(FETCH_DEST, "document");
    let is_dashboard = uri.path() == "/" || is_page(uri);
    if method == Method::GET && is_dashboard && is_followed_link {
        return Ok(());
    }
    Err(Problem::new(
        FOREIGN_ORIGIN,
        "the header `sec-fetch-site` says that the request comes from a web page of another site",
    )
    .hint(
        "send the request from a program, or open the dashboard at /ui/; pages of other sites have no access",
    ))
}

/// Returns the host that the request is sent to: a name or address, perhaps with a port. A request of HTTP/1.0, which
/// browsers don't use, may name no host.
fn requested_host<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> Option<&'r [u8]> {
    match headers.get(header::HOST) {
        Some(host) => Some(host.as_bytes()),
        None => uri.authority().map(|authority| authority.as_str().as_bytes()),
    }
}

/// Refuses a request whose `Origin` isn't the host that it is sent to.
pub(super) fn check_origin(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let origin = origin.as_bytes();
    let authority =
        [b"http://".as_slice(), b"https://"].into_iter().find_map(|scheme| origin.strip_prefix(scheme));
    if authority.is_some() && authority == requested_host(uri, headers) {
        return Ok(());
    }
    Err(Problem::new(
        FOREIGN_ORIGIN,
        "the header `origin` says that the request comes from a web page of another site",
    )
    .hint("send the request from a program; pages of other sites have no access"))
}

/// Refuses a request to a host name that is neither this machine's nor in `allowed`.
pub(super) fn check_host(uri: &Uri, headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let Some(requested) = requested_host(uri, headers) else {
        return Ok(());
    };
    let name = str::from_utf8(requested).map_or("", name_of);
    let is_ours = |ours: &str| ours.eq_ignore_ascii_case(name);
    if LOOPBACK.into_iter().any(is_ours) || allowed.iter().any(|ours| is_ours(ours)) {
        return Ok(());
    }
    Err(Problem::new(FOREIGN_HOST, "the request names a host that this daemon doesn't know")
        .hint("use 127.0.0.1 or localhost, add the host to http.allowed_hosts, or send a token"))
}

/// Returns the name or address in `authority`, without the port.
fn name_of(authority: &str) -> &str {
    if authority.parse::<Ipv6Addr>().is_ok() {
        return authority;
    }
    if let Some(rest) = authority.strip_prefix('[') {
        // Brackets may hold only an address, and only a port may follow them.
        let parts = rest.split_once(']');
        let address = parts.filter(|(address, port)| {
            address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.starts_with(':'))
        });
        return address.map_or("", |(address, _)| address);
    }
    authority.split_once(':').map_or(authority, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let host = [(header::HOST, host)].into_iter();
        let origin = origin.map(|origin| (header::ORIGIN, origin));
        host.chain(origin).map(|(name, value)| (name, value.parse().unwrap())).collect()
    }

    #[test]
    fn only_known_names_are_answered() {
        let allowed = ["recapd.example.com".to_owned()];
        let uri = Uri::from_static("/v1/agents");
        for (host, is_fine) in [
            ("127.0.0.1:7411", true),
            ("LocalHost", true),
            ("[::1]:7411", true),
            ("[::1]", true),
            ("recapd.example.com:443", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example:7411", false),
            ("localhost.evil.example", false),
            ("[::1", false),
            ("[::1]evil.example", false),
            ("[localhost]", false),
            ("", false),
        ] {
            assert_eq!(check_host(&uri, &headers(host, None), &allowed).is_ok(), is_fine, "{host}");
        }
        assert!(check_host(&uri, &HeaderMap::new(), &allowed).is_ok());
    }

    #[test]
    fn only_pages_of_the_same_origin_are_answered() {
        let uri = Uri::from_static("/v1/agents");
        for (origin, is_fine) in [
            (None, true),
            (Some("http://127.0.0.1:7411"), true),
            (Some("http://127.0.0.1:8080"), false),
            (Some("http://evil.example"), false),
            (Some("file://127.0.0.1:7411"), false),
            (Some("null"), false),
        ] {
            let headers = headers("127.0.0.1:7411", origin);
            assert_eq!(check_origin(&uri, &headers).is_ok(), is_fine, "{origin:?}");
        }
    }

    #[test]
    fn foreign_pages_may_only_link_to_the_dashboard() {
        let fetch = |site: &str, mode: &str, dest: &str| {
            let all = [(FETCH_SITE, site), (FETCH_MODE, mode), (FETCH_DEST, dest)];
            HeaderMap::from_iter(all.map(|(name, value)| (name, value.parse().unwrap())))
        };
        let is_fine = |method: &Method, path: &'static str, headers: &HeaderMap| {
            check_site(method, &Uri::from_static(path), headers).is_ok()
        };
        assert!(is_fine(&Method::POST, "/v1/agents", &HeaderMap::new()), "no browser");
        for own in OWN_SITES {
            assert!(is_fine(&Method::POST, "/ui/queue/pause", &fetch(own, "cors", "empty")));
        }
        for site in ["cross-site", "same-site", "Same-Origin", "", "new-value"] {
            let link = fetch(site, "navigate", "document");
            for path in ["/", "/ui", "/ui/", "/ui/agents/coder?a=b"] {
                assert!(is_fine(&Method::GET, path, &link), "{site} {path}");
            }
            for path in ["/v1/agents", "/livez", "/uix", "/mcp"] {
                assert!(!is_fine(&Method::GET, path, &link), "{site} {path}");
            }
            assert!(!is_fine(&Method::POST, "/ui/queue/pause", &link), "{site}");
            for (mode, dest) in [("navigate", "iframe"), ("no-cors", "image"), ("cors", "empty")] {
                assert!(!is_fine(&Method::GET, "/ui/", &fetch(site, mode, dest)), "{site} {mode}");
            }
        }
        let mut two = fetch("none", "cors", "empty");
        two.append(FETCH_SITE, "cross-site".parse().unwrap());
        assert!(!is_fine(&Method::GET, "/v1/agents", &two));
    }

    proptest! {
        #[test]
        fn no_trick_makes_a_foreign_host_look_like_this_machine(
            host in "(localhost|LOCALHOST|127\\.0\\.0\\.1|::1|\\[|\\]|:|\\.|@|/|evil|[0-9]{1,6}|[\\x20-\\x7e\\u{80}-\\u{ff}]){0,6}",
            origin in "(http|https|file)(://|:)(localhost|evil|:|@|/|[0-9]{1,5}){0,5}",
        ) {
            let (Ok(host_value), Ok(origin_value)) = (host.parse(), origin.parse()) else { return Ok(()) };
            let headers = HeaderMap::from_iter([(header::HOST, host_value), (header::ORIGIN, origin_value)]);
            let uri = Uri::from_static("/v1/agents");
            if check_host(&uri, &headers, &[]).is_ok() {
                // A name of this machine, and at most a port.
                let name = host.to_ascii_lowercase();
                let is_ours = ["localhost", "127.0.0.1", "::1", "[::1]"].iter().any(|ours| {
                    let rest = name.strip_prefix(ours);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
                });
                prop_assert!(is_ours, "{host}");
            }
            if check_origin(&uri, &headers).is_ok() {
                prop_assert!(origin.ends_with(&format!("://{host}")), "{origin} {host}");
            }
        }
    }
}
