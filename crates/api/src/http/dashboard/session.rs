//! Browser sessions: an id in a cookie that no script can read and no other site can send, and a key in each form.
//! [`crate::access::session`] determines when a session ends.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Form,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode, Uri,
        header::{LOCATION, ORIGIN, SET_COOKIE},
    },
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::{
    super::{
        App, SharedApp,
        edge::{
            audit::Trail,
            connection::Peer,
            rate::{Asker, Rate, whole_seconds},
        },
        request::{
            credentials::{bearer, cookie_name, session_cookie},
            extract::Parameters,
        },
        response::problem::{FOREIGN_ORIGIN, INVALID_BODY, Problem, TOO_MANY_REQUESTS},
    },
    html_response,
};
use crate::{
    access::{SECRET_BYTES, digest_of, session::SessionKey, token_text},
    dashboard::sign_in_page,
};
use recapd_core::domain::text::hexadecimal;
use recapd_platform::randomness;

/// The cookie's attributes without TLS.
const COOKIE_ATTRIBUTES: &str = "Path=/ui; HttpOnly; SameSite=Strict";
/// The cookie's attributes over TLS. The prefix `__Host-` of the cookie's name demands `Secure` and `Path=/`.
const TLS_COOKIE_ATTRIBUTES: &str = "Path=/; HttpOnly; SameSite=Strict; Secure";
const FORM_BYTES_MAX: usize = 8_192;
const KEY_DIGITS: usize = 32;
/// One address may try to sign in this often at once.
const SIGN_INS_BURST: u32 = 10;
/// After a burst, one address may try to sign in once in this time.
const SIGN_INS_SPACING: Duration = Duration::from_secs(10);

/// Returns a new secret for signing forms. Each start of the daemon makes a new one.
pub(crate) fn new_secret() -> String {
    let secret = randomness::bytes::<SECRET_BYTES>().unwrap_or_else(|_| {
        tracing::warn!("dashboard.no_randomness: forms are protected only by the check of their origin");
        [0; SECRET_BYTES]
    });
    token_text(&secret)
}

pub(crate) fn sign_in_rate() -> Rate {
    Rate::every(SIGN_INS_SPACING, SIGN_INS_BURST)
}

/// Returns the key that the forms of a page must send. Only pages of this process have the key, and it differs for each
/// session and token.
pub(super) fn form_key(app: &App, uri: &Uri, headers: &HeaderMap) -> String {
    let secret = bearer(headers).or_else(|| session_cookie(uri, headers).map(|cookie| cookie.id));
    let digest = digest_of(&format!("form {} {}", app.form_secret, secret.unwrap_or_default()));
    digest.chars().take(KEY_DIGITS).collect()
}

/// The fields of a form that triggers an action, by name.
pub(super) type FormFields = BTreeMap<String, String>;

/// Reads a form. Refuses a form that isn't from recapd's pages. `access::origin` has already checked the origin.
pub(super) async fn check(app: &App, request: Request) -> Result<FormFields, Problem> {
    let key = form_key(app, request.uri(), request.headers());
    let form: FormFields = read(request).await?;
    let Some(sent_key) = form.get("key") else {
        return Err(unreadable_form("the form has no field `key`"));
    };
    if bool::from(sent_key.as_bytes().ct_eq(key.as_bytes())) {
        return Ok(form);
    }
    let detail = "the form is from another session; nothing was changed";
    Err(Problem::new(FOREIGN_ORIGIN, detail).hint("reload the page and try again"))
}

/// Returns the problem for a form that can't be read.
pub(super) fn unreadable_form(detail: impl Into<String>) -> Problem {
    Problem::new(INVALID_BODY, detail).hint("reload the page and try again")
}

async fn read<T: for<'d> Deserialize<'d>>(request: Request) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, FORM_BYTES_MAX)
        .await
        .map_err(|_| unreadable_form("the form is incomplete or too long"))?;
    let request = Request::from_parts(parts, bytes.into());
    let form = <Form<T> as axum::extract::FromRequest<()>>::from_request(request, &()).await;
    form.map(|Form(form)| form).map_err(|rejection| unreadable_form(rejection.body_text()))
}

#[derive(Deserialize)]
struct SignIn {
    token: String,
    #[serde(default)]
    to: String,
}

pub(super) async fn ask(uri: Uri) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    Ok(html_response(sign_in_page("/ui/", false)))
}

pub(super) async fn sign_in(State(app): State<SharedApp>, request: Request) -> Result<Response, Problem> {
    let peer = request.extensions().get().copied();
    let trail: Trail = request.extensions().get().cloned().unwrap_or_default();
    let over_tls = is_over_tls(request.headers());
    let name = cookie_name(request.uri(), request.headers(), over_tls);
    let old_key = session_cookie(request.uri(), request.headers()).map(|cookie| cookie.key());
    let form: SignIn = read(request).await?;
    let (path, token, access) = (dashboard_path(&form.to), form.token.trim(), &app.parts.access);
    // If the daemon needs no token, everybody is let in, and a cookie would be useless.
    if access.identify(None).await.is_ok() {
        return Ok(redirect_to(path));
    }
    check_sign_ins(&app, peer)?;
    let Ok(caller) = access.identify(Some(token)).await else {
        return Ok((StatusCode::UNAUTHORIZED, html_response(sign_in_page(path, true))).into_response());
    };
    trail.note(caller.token.as_ref());
    let id = randomness::bytes::<SECRET_BYTES>().map_err(|_| Problem::internal())?;
    let id = hexadecimal(&id);
    if let Some(key) = old_key {
        access.end_session(&key);
    }
    access.open_session(SessionKey::of_cookie(&name, &id), token);
    let attributes = if over_tls { TLS_COOKIE_ATTRIBUTES } else { COOKIE_ATTRIBUTES };
    Ok(with_cookie(redirect_to(path), &format!("{name}={id}; {attributes}")))
}

/// Checks whether the browser used TLS, even if a proxy ended it. The guard has already compared the origin with the
/// host.
fn is_over_tls(headers: &HeaderMap) -> bool {
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    origin.is_some_and(|origin| origin.starts_with("https://"))
}

/// Limits how often one address may try to sign in, with whatever token.
fn check_sign_ins(app: &App, peer: Option<Peer>) -> Result<(), Problem> {
    let result = app.sign_ins.take(Asker::Peer(peer), Instant::now());
    result.map_err(|wait| {
        let seconds = whole_seconds(wait);
        Problem::new(TOO_MANY_REQUESTS, "there were too many attempts to sign in from this address")
            .hint(format!("try again in {seconds} seconds"))
            .retry_after(seconds)
    })
}

pub(super) async fn sign_out(
    State(app): State<SharedApp>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    if let Some(cookie) = session_cookie(&uri, &headers) {
        app.parts.access.end_session(&cookie.key());
    }
    let response = [(true, TLS_COOKIE_ATTRIBUTES), (false, COOKIE_ATTRIBUTES)].into_iter().fold(
        redirect_to("/ui/login"),
        |response, (over_tls, attributes)| {
            let name = cookie_name(&uri, &headers, over_tls);
            with_cookie(response, &format!("{name}=; {attributes}; Max-Age=0"))
        },
    );
    Ok(response)
}

/// Returns `to` if it is a path of the dashboard; otherwise the path of the overview.
fn dashboard_path(to: &str) -> &str {
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_plain && to.starts_with("/ui/") && !to.starts_with("/ui/log") { to } else { "/ui/" }
}

pub(super) fn redirect_to(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_in_the_dashboard() {
        for (to, path) in [
            ("/ui/agents/a?before=3", "/ui/agents/a?before=3"),
            ("//evil.example", "/ui/"),
            ("https://evil.example/ui/", "/ui/"),
            ("/ui/\r\nset-cookie: a", "/ui/"),
            ("/ui/login", "/ui/"),
            ("", "/ui/"),
        ] {
            assert_eq!(dashboard_path(to), path);
        }
    }
}
