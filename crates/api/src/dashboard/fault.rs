//! The error page and the sign-in page.

use maud::{Markup, html};

use super::frame::{Viewer, bare_page};

pub struct Fault<'f> {
    /// What went wrong, in short.
    pub title: &'f str,
    /// What went wrong with this request.
    pub detail: &'f str,
    pub hint: Option<&'f str>,
    pub request_id: &'f str,
    /// The caller, if they were let in.
    pub viewer: Option<&'f Viewer>,
}

pub fn fault_page(fault: &Fault<'_>) -> String {
    let content = html! {
        section.fault {
            h1 { (fault.title) }
            p.lead { (fault.detail) }
            @if let Some(hint) = fault.hint { p { (hint) } }
            p { a href="/ui/agents" { "Show the agents" } }
            p.note { "Request " code { (fault.request_id) } }
        }
    };
    bare_page(fault.viewer, fault.title, &content)
}

/// Renders the sign-in page. After signing in, the browser goes to `to`.
pub fn sign_in_page(to: &str, was_refused: bool) -> String {
    let content = html! {
        section.fault {
            h1 { "Sign in" }
            @if was_refused { p.refused role="alert" { "This token isn't valid: it is unknown, expired or revoked." } }
            (form(to))
            p.note { "An administrator creates tokens: " code { "recapd token create NAME --scope read" } }
        }
    };
    bare_page(None, "Sign in", &content)
}

fn form(to: &str) -> Markup {
    html! {
        form.sign-in method="post" action="/ui/login" {
            input type="hidden" name="to" value=(to);
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="current-password" maxlength="200" spellcheck="false" required autofocus;
            button type="submit" { "Sign in" }
        }
    }
}
