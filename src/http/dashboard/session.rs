//! Sessions of browsers: a token in a cookie that no script can read and no other site can send, and a key in each form.

use std::collections::BTreeMap;

use axum::{
    Form,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode, Uri,
        header::{COOKIE, LOCATION, ORIGIN, SET_COOKIE},
    },
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

use super::{
    super::{
        App, SharedApp,
        edge::access::bearer,
        request::extract::Parameters,
        response::problem::{FOREIGN_ORIGIN, INVALID_BODY, Problem},
    },
    shown,
};
use crate::{
    access::{SECRET_BYTES, digest_of, token_text},
    dashboard::sign_in_page,
    randomness,
};

/// The cookie that holds the token.
const NAME: &str = "recapd_session";
/// The cookie's attributes.
const PLACE: &str = "Path=/ui; HttpOnly; SameSite=Strict";
/// The longest body of a form.
const FORM_BYTES_MAX: usize = 8_192;
/// Digits of a form's key.
const KEY_DIGITS: usize = 32;

/// The secret that signs forms where there are no tokens; it is another one after each start.
pub(in super::super) fn made_secret() -> String {
    let secret = randomness::bytes::<SECRET_BYTES>().unwrap_or_else(|_| {
        tracing::warn!("dashboard.no_randomness: forms are guarded by their origin alone");
        [0; SECRET_BYTES]
    });
    token_text(&secret)
}

/// The token of a session.
pub(in super::super) fn token(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).into_iter();
    let cookies = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    cookies
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find_map(|(name, value)| (name == NAME).then_some(value))
}

/// The key that the forms of a page must send: it can be had only with the token, or from a page of this run.
pub(super) fn form_key(app: &App, headers: &HeaderMap) -> String {
    let secret = bearer(headers).or_else(|| token(headers));
    let digest = digest_of(&format!("form {}", secret.unwrap_or(&app.form_secret)));
    digest.chars().take(KEY_DIGITS).collect()
}

/// The fields of a form that triggers an action, by name.
pub(super) type Fields = BTreeMap<String, String>;

/// Reads a form, and refuses one that isn't from recapd's pages. (Its origin was checked before: `access::origin`.)
pub(super) async fn check(app: &App, request: Request) -> Result<Fields, Problem> {
    let key = form_key(app, request.headers());
    let form: Fields = read(request).await?;
    let Some(given) = form.get("key") else {
        return Err(refused("the form has no field `key`"));
    };
    if bool::from(given.as_bytes().ct_eq(key.as_bytes())) {
        return Ok(form);
    }
    let detail = "the form is from another session; nothing was changed";
    Err(Problem::new(FOREIGN_ORIGIN, detail).hint("open the page again, and try once more"))
}

/// The problem of a form that can't be read.
pub(super) fn refused(detail: impl Into<String>) -> Problem {
    Problem::new(INVALID_BODY, detail).hint("open the page again, and try once more")
}

async fn read<T: for<'d> Deserialize<'d>>(request: Request) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, FORM_BYTES_MAX)
        .await
        .map_err(|_| refused("the form broke off, or is too long"))?;
    let request = Request::from_parts(parts, bytes.into());
    let form = <Form<T> as axum::extract::FromRequest<()>>::from_request(request, &()).await;
    form.map(|Form(form)| form)
        .map_err(|rejection| refused(rejection.body_text()))
}

/// The body of the form that asks for a token.
#[derive(Deserialize)]
struct SignIn {
    token: String,
    #[serde(default)]
    to: String,
}

/// Asks for a token.
pub(super) async fn ask(uri: Uri) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    Ok(shown(sign_in_page("/ui/", false)))
}

/// Puts a token into a cookie, if it is valid.
pub(super) async fn sign_in(State(app): State<SharedApp>, request: Request) -> Result<Response, Problem> {
    // Over plain HTTP a browser would discard a cookie with stricter attributes.
    let origin = request
        .headers()
        .get(ORIGIN)
        .and_then(|origin| origin.to_str().ok());
    let secure = if origin.is_some_and(|origin| origin.starts_with("https://")) {
        "; Secure"
    } else {
        ""
    };
    let form: SignIn = read(request).await?;
    let to = own_place(&form.to);
    let token = form.token.trim();
    // Where there are no tokens everyone is let in, and a cookie would be of no use.
    if app.parts.access.identify(None).await.is_ok() {
        return Ok(sent_to(to, None));
    }
    if app.parts.access.identify(Some(token)).await.is_err() {
        return Ok((StatusCode::UNAUTHORIZED, shown(sign_in_page(to, true))).into_response());
    }
    Ok(sent_to(to, Some(&format!("{NAME}={token}; {PLACE}{secure}"))))
}

/// Forgets the session.
pub(super) async fn sign_out(uri: Uri) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    Ok(sent_to(
        "/ui/login",
        Some(&format!("{NAME}=; {PLACE}; Max-Age=0")),
    ))
}

/// A path of the dashboard, whatever the form asks for.
fn own_place(to: &str) -> &str {
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_plain && to.starts_with("/ui/") && !to.starts_with("/ui/log") {
        to
    } else {
        "/ui/"
    }
}

/// Redirects a browser that posted a form to `place`.
pub(super) fn sent_to(place: &str, cookie: Option<&str>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let Ok(place) = HeaderValue::from_str(place) {
        headers.insert(LOCATION, place);
    }
    if let Some(Ok(cookie)) = cookie.map(HeaderValue::from_str) {
        headers.insert(SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for (to, place) in [
            ("/ui/agents/a?before=3", "/ui/agents/a?before=3"),
            ("//evil.example", "/ui/"),
            ("https://evil.example/ui/", "/ui/"),
            ("/ui/\r\nset-cookie: a", "/ui/"),
            ("/ui/login", "/ui/"),
            ("", "/ui/"),
        ] {
            assert_eq!(own_place(to), place);
        }
    }

    #[test]
    fn the_token_is_one_of_several_cookies() {
        let headers = |value: &str| HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(value).unwrap())]);
        assert_eq!(token(&headers("a=b; recapd_session=rcp_1; c=d")), Some("rcp_1"));
        assert_eq!(token(&headers("xrecapd_session=rcp_1")), None);
        assert_eq!(token(&HeaderMap::new()), None);
    }
}
