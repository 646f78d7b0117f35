//! Reads who sends a request: a token in a header, or the cookie of a browser's session.

use axum::http::{
    HeaderMap, Uri,
    header::{AUTHORIZATION, COOKIE, HOST},
    uri::Authority,
};

use crate::access::session::SessionKey;

const SCHEME: &str = "bearer ";
/// The cookie's name begins with this; the port follows. Browsers send a host's cookies to all of its ports, so without
/// the port two daemons on one machine would overwrite each other's cookies.
const NAME: &str = "recapd_session_";
/// Over TLS the name begins with this prefix. Browsers then accept the cookie only from this host itself, over TLS and
/// for all paths (RFC 6265bis, section 4.1.3.2), so that no neighbouring host can replace it.
const TLS_PREFIX: &str = "__Host-";

/// Returns the token in the `authorization` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim())
}

/// Returns the cookie's name for the requested host.
pub(crate) fn cookie_name(uri: &Uri, headers: &HeaderMap, over_tls: bool) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(Authority::as_str));
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .map(|(_, port)| port)
        .filter(|port| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()));
    let (prefix, port_by_default) = if over_tls { (TLS_PREFIX, "443") } else { ("", "80") };
    format!("{prefix}{NAME}{}", port.unwrap_or(port_by_default))
}

/// The cookie with the id of a session.
pub(crate) struct SessionCookie<'r> {
    name: String,
    pub(crate) id: &'r str,
}

impl SessionCookie<'_> {
    pub(crate) fn key(&self) -> SessionKey {
        SessionKey::of_cookie(&self.name, self.id)
    }
}

/// Returns the cookie of the session. Prefers the cookie for TLS.
pub(crate) fn session_cookie<'r>(uri: &Uri, headers: &'r HeaderMap) -> Option<SessionCookie<'r>> {
    let names = [true, false].map(|over_tls| cookie_name(uri, headers, over_tls));
    names.into_iter().find_map(|name| {
        let id = value_of(&name, headers)?;
        Some(SessionCookie { name, id })
    })
}

fn value_of<'r>(expected_name: &str, headers: &'r HeaderMap) -> Option<&'r str> {
    let lines = headers.get_all(COOKIE).into_iter();
    let cookies = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';'));
    cookies
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find_map(|(name, value)| (name == expected_name).then_some(value))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_cookies_name_depends_on_port_and_tls() {
        let uri = Uri::from_static("/ui/");
        let id = |host: &str, cookies: &str| {
            let headers = [(HOST, host), (COOKIE, cookies)];
            let headers = headers.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()));
            session_cookie(&uri, &HeaderMap::from_iter(headers)).map(|cookie| cookie.id.to_owned())
        };
        let found = |host, cookies| id(host, cookies).unwrap_or_default();
        assert_eq!(found("localhost:7411", "a=b; recapd_session_7411=1; c=d"), "1");
        assert_eq!(found("[::1]:7411", "recapd_session_7412=2; recapd_session_7411=1"), "1");
        assert_eq!(found("[::1]", "recapd_session_80=1"), "1");
        assert_eq!(found("a.example", "recapd_session_80=1; __Host-recapd_session_443=2"), "2");
        for other in ["xrecapd_session_7411=1", "recapd_session=1", "recapd_session_80=1", ""] {
            assert_eq!(id("localhost:7411", other), None, "{other}");
        }
    }
}
