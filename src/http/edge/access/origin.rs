//! Refusing requests of foreign web pages: a browser runs these on a machine that can reach loopback, and sends what
//! they ask.
//!
//! A browser names the page in `Origin`, so a request whose origin isn't the host it is sent to is refused. A page that
//! points its own name at this machine's address (DNS rebinding) has the same origin, but asks for a name that isn't
//! ours. A request with a token isn't from such a page.

use std::net::Ipv6Addr;

use axum::http::{HeaderMap, Uri, header};

use crate::http::response::problem::{FOREIGN_HOST, FOREIGN_ORIGIN, Problem};

/// Names of the machine itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The host that the request is sent to: name or address, and perhaps a port. HTTP/1.0, which browsers don't use, has
/// none.
fn asked<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> Option<&'r [u8]> {
    match headers.get(header::HOST) {
        Some(host) => Some(host.as_bytes()),
        None => uri.authority().map(|authority| authority.as_str().as_bytes()),
    }
}

/// Refuses requests of pages with another origin.
pub(super) fn check_origin(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let origin = origin.as_bytes();
    let authority = [b"http://".as_slice(), b"https://"]
        .into_iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    if authority.is_some() && authority == asked(uri, headers) {
        return Ok(());
    }
    Err(Problem::new(
        FOREIGN_ORIGIN,
        "the request comes from a web page, by its header `origin`",
    )
    .hint("ask from a program; pages of others have no access"))
}

/// Refuses a request to a name that is neither this machine's nor one of `allowed`.
pub(super) fn check_host(uri: &Uri, headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let Some(asked) = asked(uri, headers) else {
        return Ok(());
    };
    let name = str::from_utf8(asked).map_or("", name_of);
    let is_ours = |ours: &str| ours.eq_ignore_ascii_case(name);
    if LOOPBACK.into_iter().any(is_ours) || allowed.iter().any(|ours| is_ours(ours)) {
        return Ok(());
    }
    Err(Problem::new(
        FOREIGN_HOST,
        "the request asks for a host by a name that isn't known here",
    )
    .hint("ask 127.0.0.1 or localhost, name the host in http.allowed_hosts, or send a token"))
}

/// The name or the address of `authority`, without its port.
fn name_of(authority: &str) -> &str {
    if authority.parse::<Ipv6Addr>().is_ok() {
        return authority;
    }
    if let Some(rest) = authority.strip_prefix('[') {
        // Only an address may be in brackets, and only a port may follow them.
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
        host.chain(origin)
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect()
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
            assert_eq!(
                check_host(&uri, &headers(host, None), &allowed).is_ok(),
                is_fine,
                "{host}"
            );
        }
        assert!(check_host(&uri, &HeaderMap::new(), &allowed).is_ok());
    }

    #[test]
    fn a_page_of_the_same_origin_only() {
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

    proptest! {
        #[test]
        fn no_host_is_taken_for_this_machine_by_a_trick(
            host in "(localhost|LOCALHOST|127\\.0\\.0\\.1|::1|\\[|\\]|:|\\.|@|/|evil|[0-9]{1,6}|[\\x20-\\x7e\\u{80}-\\u{ff}]){0,6}",
            origin in "(http|https|file)(://|:)(localhost|evil|:|@|/|[0-9]{1,5}){0,5}",
        ) {
            let (Ok(host_value), Ok(origin_value)) = (host.parse(), origin.parse()) else { return Ok(()) };
            let headers = HeaderMap::from_iter([(header::HOST, host_value), (header::ORIGIN, origin_value)]);
            let uri = Uri::from_static("/v1/agents");
            if check_host(&uri, &headers, &[]).is_ok() {
                // Nothing but the name and a port.
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
