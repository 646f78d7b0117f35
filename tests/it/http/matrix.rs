//! Tokens × routes × ways in.

use recapd_api::http::route_rules;
use recapd_core::domain::access::Scope;
use reqwest::Method;

use super::security::{NOBODY, VICTIM, server};
use crate::support::server::{Reply, Server};

/// A token of the server, and its rights.
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
    /// Returns the status with which a route's rule refuses the holder; `None` if it doesn't.
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

/// Returns the concrete path of a route for `agent`. Routes about all agents change nobody here.
fn path_of(path: &str, whose: &str, agent: &str) -> String {
    let id = match whose {
        "project" => "web",
        "all" if path.starts_with("/v1/projects") => "web",
        "all" => NOBODY,
        _ => agent,
    };
    let mut concrete = path.replace("{id}", id).replace("{agent}", NOBODY);
    for number in ["{version}", "{item}", "{fact}", "{n}", "{name}"] {
        concrete = concrete.replace(number, "1");
    }
    if path.ends_with("/events") {
        concrete.push_str("?for=0s");
    }
    concrete
}

/// A request to try.
struct Trial {
    method: Method,
    path: &'static str,
    concrete: String,
    rule: (Scope, &'static str),
    agent: &'static str,
}

impl Trial {
    /// Returns all routes for each agent.
    fn all() -> impl Iterator<Item = Self> {
        let methods = |method| match method {
            "*" => vec!["GET", "POST", "DELETE"],
            method => vec![method],
        };
        let each = route_rules().flat_map(move |(method, path, scope, whose)| {
            let methods = methods(method).into_iter();
            methods.map(move |method| (method, path, (scope, whose)))
        });
        each.flat_map(|(method, path, rule)| {
            ["coder", VICTIM].map(|agent| Self {
                method: method.parse().unwrap(),
                path,
                concrete: path_of(path, rule.1, agent),
                rule,
                // Agents may have the name of a path's last part.
                agent: if path.contains("{id}") { agent } else { path.rsplit('/').next().unwrap() },
            })
        })
    }

    async fn status(&self, server: &Server, token: Option<&str>, cookie: Option<&str>) -> u16 {
        let request = server.request_by(token, self.method.clone(), &self.concrete);
        let request = match cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        };
        let request = if self.method == Method::GET {
            request
        } else {
            request.header("content-type", "application/json").body("{}")
        };
        Reply::of(request).await.status
    }

    /// Checks that the route's rule gives this status to a holder.
    fn is_as_expected(&self, holder: &Holder, status: u16) -> bool {
        match holder.refusal(self.rule, self.agent) {
            Some(refusal) => status == refusal,
            None => ![401, 403].contains(&status),
        }
    }
}

/// Signs in, and returns the session's cookie.
async fn cookie(server: &Server, holder: &Holder) -> String {
    let form = format!("token=rcp_{}", holder.name.unwrap());
    let reply = server.post_as("/ui/login", "application/x-www-form-urlencoded", form);
    let reply = reply.await;
    assert_eq!(reply.status, 303);
    reply.header("set-cookie").split(';').next().unwrap().to_owned()
}

/// Tokens × routes × ways in: a header, a session of the dashboard, no token at all. The routes come from the table by
/// which the daemon decides, so a new one is tried automatically.
#[tokio::test]
async fn each_token_may_do_what_the_table_says_by_every_way_in() {
    let server = server().await;
    let mut holders = Vec::new();
    for holder in HOLDERS {
        let cookie = cookie(&server, &holder).await;
        holders.push((holder, cookie));
    }
    let mut tried = 0;
    for trial in Trial::all() {
        let (method, concrete, is_open) = (&trial.method, &trial.concrete, trial.rule.1 == "open");
        for (holder, cookie) in &holders {
            let who = holder.name.unwrap();
            let status = trial.status(&server, holder.name, None).await;
            let is_right = trial.is_as_expected(holder, status);
            assert!(is_right, "{method} {concrete} by {who}: {status}");
            tried += 1;
            // It would end the session.
            if trial.path == "/ui/logout" {
                continue;
            }
            let status = trial.status(&server, None, Some(cookie)).await;
            let is_page = trial.path.starts_with("/ui/") || is_open;
            let is_right = (is_page && trial.is_as_expected(holder, status)) || (!is_page && status == 401);
            assert!(is_right, "{method} {concrete} in a session of {who}: {status}");
            tried += 1;
        }
        for token in [None, Some("unknown"), Some("expired"), Some("revoked")] {
            let status = trial.status(&server, token, None).await;
            assert_eq!(status != 401, is_open, "{method} {concrete} by {token:?}: {status}");
            tried += 1;
        }
    }
    assert!(tried > 1_000, "{tried}");
}
