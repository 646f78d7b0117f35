//! Tokens × routes × ways in.

use recapd::{domain::access::Scope, http::route_rules};
use reqwest::Method;

use super::security::{NOBODY, VICTIM, server};
use crate::support::server::Reply;

/// A token of the server, and what it opens.
struct Holder {
    name: Option<&'static str>,
    scope: Scope,
    agents: &'static [&'static str],
    projects: &'static [&'static str],
    is_of_all: bool,
}

const EVERYTHING: Holder = Holder {
    name: None,
    scope: Scope::Admin,
    agents: &["coder", VICTIM],
    projects: &["web"],
    is_of_all: true,
};

#[rustfmt::skip]
const HOLDERS: [Holder; 6] = [
    Holder { name: Some("root"), ..EVERYTHING },
    Holder { name: Some("writer"), scope: Scope::Write, ..EVERYTHING },
    Holder { name: Some("reader"), scope: Scope::Read, ..EVERYTHING },
    Holder { name: Some("coder-admin"), agents: &["coder"], projects: &[], is_of_all: false, ..EVERYTHING },
    Holder { name: Some("coder-read"), scope: Scope::Read, agents: &["coder"], projects: &[], is_of_all: false },
    Holder { name: Some("web"), scope: Scope::Write, agents: &[VICTIM], projects: &["web"], is_of_all: false },
];

impl Holder {
    /// The status of the refusal by a route's rule; none if the holder may.
    fn refusal(&self, (scope, whose): (Scope, &str), agent: &str) -> Option<u16> {
        let is_hidden = match whose {
            "agent" => !self.is_of_all && !self.agents.contains(&agent),
            "project" => !self.projects.contains(&"web"),
            _ => false,
        };
        match whose {
            "open" => None,
            _ if is_hidden => Some(404),
            "all" if !self.is_of_all => Some(403),
            _ => (scope > self.scope).then_some(403),
        }
    }
}

/// The concrete path of a route for `agent`. What is about all changes nobody here.
fn path_of(path: &str, whose: &str, agent: &str) -> String {
    let id = match whose {
        "project" => "web",
        "all" if path.starts_with("/v1/projects") => "web",
        "all" => NOBODY,
        _ => agent,
    };
    let mut concrete = path.replace("{id}", id).replace("{agent}", NOBODY);
    for number in ["{version}", "{item}", "{fact}", "{n}"] {
        concrete = concrete.replace(number, "1");
    }
    if path.ends_with("/events") {
        concrete.push_str("?for=0s");
    }
    concrete
}

/// Tokens × routes × ways in: a header, a session of the dashboard, no token at all. The routes are those of the table that
/// the daemon decides by, so that a new one is tried by itself.
#[tokio::test]
async fn each_token_may_do_what_the_table_says_by_every_way_in() {
    let server = server().await;
    let mut cookies = Vec::new();
    for holder in &HOLDERS {
        let form = format!("token=rcp_{}", holder.name.unwrap());
        let reply = server.post_as("/ui/login", "application/x-www-form-urlencoded", form);
        let reply = reply.await;
        assert_eq!(reply.status, 303);
        cookies.push(reply.header("set-cookie").split(';').next().unwrap().to_owned());
    }
    let mut tried = 0;
    for (method, path, scope, whose) in route_rules() {
        let methods = if method == "*" {
            vec!["GET", "POST", "DELETE"]
        } else {
            vec![method]
        };
        for (method, agent) in methods
            .into_iter()
            .flat_map(|method| [(method, "coder"), (method, VICTIM)])
        {
            let method: Method = method.parse().unwrap();
            let (concrete, named) = (path_of(path, whose, agent), path.contains("{id}"));
            let send = async |token: Option<&str>, cookie: Option<&str>| {
                let request = server.request_by(token, method.clone(), &concrete);
                let request = cookie
                    .into_iter()
                    .fold(request, |request, cookie| request.header("cookie", cookie));
                let request = if method == Method::GET {
                    request
                } else {
                    request.header("content-type", "application/json").body("{}")
                };
                Reply::of(request).await.status
            };
            for (holder, cookie) in HOLDERS.iter().zip(&cookies) {
                let agent = if named {
                    agent
                } else {
                    path.rsplit('/').next().unwrap()
                };
                let (refusal, who) = (holder.refusal((scope, whose), agent), holder.name.unwrap());
                let is_as_expected = |status: u16| match refusal {
                    Some(refusal) => status == refusal,
                    None => ![401, 403].contains(&status),
                };
                let status = send(holder.name, None).await;
                assert!(
                    is_as_expected(status),
                    "{method} {concrete} by {who}: {status}, not {refusal:?}"
                );
                // That would end the session.
                if path == "/ui/logout" {
                    continue;
                }
                let status = send(None, Some(cookie)).await;
                let is_page = path.starts_with("/ui/") || whose == "open";
                assert!(
                    if is_page {
                        is_as_expected(status)
                    } else {
                        status == 401
                    },
                    "{method} {concrete} in a session of {who}: {status}"
                );
                tried += 2;
            }
            for token in [None, Some("unknown"), Some("expired"), Some("revoked")] {
                let status = send(token, None).await;
                let is_refused = status == 401;
                assert_eq!(
                    is_refused,
                    whose != "open",
                    "{method} {concrete} by {token:?}: {status}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}
