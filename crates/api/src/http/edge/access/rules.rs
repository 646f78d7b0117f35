//! Authorization: the table defines which token may call which route. A route that isn't in the table needs an
//! administrator's token for all agents, and fails a test.

use axum::http::Method;

use recapd_core::domain::access::Scope::{self, Admin, Read, Write};

/// The owner of the data that a route is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteSubject {
    /// Nobody's data. The route needs no token, because it reveals nothing.
    Open,
    /// The data of agent `{id}` in the path.
    Agent,
    /// The data of project `{id}` in the path.
    Project,
    /// Whatever the caller may see. The handler filters.
    Caller,
    /// The data of all agents. Only tokens for all agents may call the route.
    All,
}
use RouteSubject::{Agent, All, Caller, Open, Project};

impl RouteSubject {
    /// Returns the name that the API reference uses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Open => "open",
            Agent => "agent",
            Project => "project",
            Caller => "caller",
            All => "all",
        }
    }
}

/// What a caller needs to call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteRule {
    pub(crate) scope: Scope,
    pub(crate) subject: RouteSubject,
}

/// Stands for every method.
const ANY: &str = "*";

/// Which token may call which route: method and path as registered, the scope that the token needs, and whose data it
/// must reach.
///
/// Forgetting also affects forks, and deleting an agent reports its forks, so both need a token for all agents.
/// Settings decide what an agent costs, so the agent's own token may not change them.
#[rustfmt::skip]
pub(super) const RULES: &[(&str, &str, Scope, RouteSubject)] = &[
    ("GET", "/v1/agents", Read, Caller),
    ("GET", "/v1/agents/{id}", Read, Agent),
    ("PATCH", "/v1/agents/{id}", Admin, Agent),
    ("DELETE", "/v1/agents/{id}", Admin, All),
    ("POST", "/v1/agents/{id}/messages", Write, Agent),
    ("GET", "/v1/agents/{id}/summary", Read, Agent),
    ("GET", "/v1/agents/{id}/summary/versions", Read, Agent),
    ("GET", "/v1/agents/{id}/summary/versions/{version}", Read, Agent),
    ("POST", "/v1/agents/{id}/rollback", Write, Agent),
    ("POST", "/v1/agents/{id}/rebuild", Admin, Agent),
    ("GET", "/v1/agents/{id}/facts", Read, Agent),
    ("POST", "/v1/agents/{id}/facts", Write, Agent),
    ("PATCH", "/v1/agents/{id}/facts/{fact}", Write, Agent),
    ("GET", "/v1/agents/{id}/items", Read, Agent),
    ("PATCH", "/v1/agents/{id}/items/{item}", Write, Agent),
    ("GET", "/v1/agents/{id}/context", Read, Agent),
    ("POST", "/v1/agents/{id}/compact", Write, Agent),
    ("GET", "/v1/agents/{id}/handoff", Read, Agent),
    ("POST", "/v1/agents/{id}/conversation", Write, Agent),
    ("POST", "/v1/agents/{id}/replacement", Write, Agent),
    ("GET", "/v1/agents/{id}/proxy", Read, Agent),
    ("POST", "/v1/agents/{id}/proxy", Write, Agent),
    ("GET", "/v1/agents/{id}/history", Read, Agent),
    ("GET", "/v1/agents/{id}/window", Read, Agent),
    ("GET", "/v1/agents/{id}/recall", Read, Agent),
    ("GET", "/v1/agents/{id}/exchanges/{n}", Read, Agent),
    ("POST", "/v1/agents/{id}/forget", Admin, All),
    ("POST", "/v1/agents/{id}/clear", Write, Agent),
    ("POST", "/v1/agents/{id}/mark", Write, Agent),
    ("POST", "/v1/agents/{id}/rewind", Write, Agent),
    ("POST", "/v1/agents/{id}/fork", Write, Agent),
    ("POST", "/v1/agents/{id}/pin", Write, Agent),
    ("POST", "/v1/agents/{id}/unpin", Write, Agent),
    ("GET", "/v1/agents/{id}/pins", Read, Agent),
    ("GET", "/v1/agents/{id}/notes", Read, Agent),
    ("POST", "/v1/agents/{id}/notes", Write, Agent),
    ("GET", "/v1/agents/{id}/notes/{name}", Read, Agent),
    ("PUT", "/v1/agents/{id}/notes/{name}", Write, Agent),
    ("DELETE", "/v1/agents/{id}/notes/{name}", Write, Agent),
    ("POST", "/v1/agents/{id}/sessions/end", Write, Agent),
    ("POST", "/v1/agents/{id}/refresh", Write, Agent),
    ("POST", "/v1/agents/{id}/pause", Admin, Agent),
    ("POST", "/v1/agents/{id}/resume", Admin, Agent),
    ("GET", "/v1/agents/{id}/events", Read, Agent),
    ("GET", "/v1/events", Read, Caller),
    ("GET", "/v1/projects", Read, Caller),
    ("GET", "/v1/projects/{id}/summary", Read, Project),
    ("PUT", "/v1/projects/{id}/agents/{agent}", Admin, All),
    ("DELETE", "/v1/projects/{id}/agents/{agent}", Admin, All),
    ("GET", "/v1/queue", Read, Caller),
    ("POST", "/v1/queue/pause", Admin, All),
    ("POST", "/v1/queue/resume", Admin, All),
    // Agents may be called `pause` and `resume`.
    ("GET", "/v1/queue/pause", Read, Agent),
    ("GET", "/v1/queue/resume", Read, Agent),
    ("GET", "/v1/queue/{id}", Read, Agent),
    ("POST", "/v1/queue/{id}/retry", Admin, Agent),
    ("POST", "/v1/queue/{id}/cancel", Admin, Agent),
    ("POST", "/v1/age", Admin, All),
    // The audit is about all agents and tokens.
    ("GET", "/v1/audit", Admin, All),
    ("GET", "/v1/runs", Read, Caller),
    ("GET", "/v1/runs/{n}", Read, Caller),
    ("GET", "/v1/stats", Read, All),
    ("GET", "/v1/status", Read, All),
    ("GET", "/v1/openapi.json", Read, Caller),
    ("GET", "/version", Read, Caller),
    ("GET", "/metrics", Read, All),
    ("GET", "/livez", Read, Open),
    ("GET", "/readyz", Read, Open),
    // The bodies of MCP requests name agents, so the endpoint checks each agent itself.
    (ANY, "/mcp", Read, Caller),
    // The pages. An action needs the same token as its counterpart above.
    ("GET", "/", Read, Open),
    ("GET", "/ui", Read, Open),
    ("GET", "/ui/", Read, Caller),
    ("GET", "/ui/style.css", Read, Open),
    ("GET", "/ui/live.js", Read, Open),
    ("GET", "/ui/icon.svg", Read, Open),
    ("GET", "/ui/login", Read, Open),
    ("POST", "/ui/login", Read, Open),
    ("POST", "/ui/logout", Read, Open),
    ("GET", "/ui/events", Read, Caller),
    ("GET", "/ui/agents", Read, Caller),
    ("GET", "/ui/agents/find", Read, Caller),
    ("GET", "/ui/agents/{id}", Read, Agent),
    ("GET", "/ui/agents/{id}/events", Read, Agent),
    ("GET", "/ui/agents/{id}/context", Read, Agent),
    ("GET", "/ui/agents/{id}/exchanges", Read, Agent),
    ("GET", "/ui/agents/{id}/exchanges/{n}", Read, Agent),
    ("GET", "/ui/agents/{id}/exchanges/{n}/raw", Read, Agent),
    ("GET", "/ui/agents/{id}/versions", Read, Agent),
    ("GET", "/ui/agents/{id}/versions/{version}", Read, Agent),
    ("GET", "/ui/agents/{id}/diff", Read, Agent),
    ("GET", "/ui/agents/{id}/proxy", Read, Agent),
    ("GET", "/ui/agents/{id}/search", Read, Agent),
    ("POST", "/ui/agents/{id}/refresh", Write, Agent),
    ("POST", "/ui/agents/{id}/rollback", Write, Agent),
    ("POST", "/ui/agents/{id}/pause", Admin, Agent),
    ("POST", "/ui/agents/{id}/resume", Admin, Agent),
    ("GET", "/ui/queue", Read, Caller),
    ("POST", "/ui/queue/pause", Admin, All),
    ("POST", "/ui/queue/resume", Admin, All),
    ("POST", "/ui/queue/retry", Admin, All),
    ("POST", "/ui/queue/{id}/retry", Admin, Agent),
    ("POST", "/ui/queue/{id}/cancel", Admin, Agent),
    ("GET", "/ui/runs", Read, Caller),
    ("GET", "/ui/runs/{n}", Read, Caller),
    ("GET", "/ui/system", Read, All),
];

/// True for a page. Pages aren't in the OpenAPI document.
fn is_page(path: &str) -> bool {
    path == "/" || path == "/ui" || path.starts_with("/ui/")
}

/// Returns the rule of every route.
pub(crate) fn all_rules() -> impl Iterator<Item = (&'static str, &'static str, Scope, RouteSubject)> {
    RULES.iter().copied()
}

/// Returns the rule of every route except the pages, in the table's order.
pub(crate) fn api_rules() -> impl Iterator<Item = (&'static str, &'static str, Scope, RouteSubject)> {
    RULES.iter().copied().filter(|(_, path, ..)| !is_page(path))
}

/// Returns the method and path of each page, as registered.
pub(crate) fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    let routes = RULES.iter().map(|(method, path, ..)| (*method, *path));
    routes.filter(|(_, path)| is_page(path))
}

/// Returns the rule for a request. `path` is the path with which the route is registered. It is `None` for an unknown route:
/// any caller with a valid token may learn that the route doesn't exist.
pub(super) fn of(method: &Method, path: Option<&str>) -> RouteRule {
    let Some(path) = path else {
        return RouteRule { scope: Read, subject: Caller };
    };
    find(method, path).unwrap_or(RouteRule { scope: Admin, subject: All })
}

/// Returns the rule in the table for this method and route.
pub(crate) fn find(method: &Method, path: &str) -> Option<RouteRule> {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let mut rules = RULES.iter();
    let found = rules.find(|(rule_method, rule_path, ..)| {
        (*rule_method == method || *rule_method == ANY) && *rule_path == path
    });
    found.map(|&(_, _, scope, subject)| RouteRule { scope, subject })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::openapi_document;

    #[test]
    fn each_route_has_one_rule_and_each_rule_a_route() {
        let document = openapi_document();
        let paths = document["paths"].as_object().unwrap();
        let mut routes: BTreeSet<(String, String)> = BTreeSet::from([(ANY.to_owned(), "/mcp".to_owned())]);
        for (path, methods) in paths {
            let methods = methods.as_object().unwrap().keys();
            routes.extend(methods.map(|method| (method.to_uppercase(), path.clone())));
        }
        let rules: Vec<_> = RULES
            .iter()
            .filter(|(_, path, ..)| !is_page(path))
            .map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned()))
            .collect();
        assert_eq!(rules.iter().cloned().collect::<BTreeSet<_>>(), routes);
        assert_eq!(rules.len(), routes.len());
    }

    #[test]
    fn a_rule_fits_its_route() {
        for (method, path, scope, subject) in RULES {
            let is_audit = *path == "/v1/audit";
            let is_read = (*method == "GET" && !is_audit) || *method == ANY || *subject == Open;
            assert_eq!(is_read, *scope == Read, "{method} {path}");
            if matches!(subject, Agent | Project) {
                let is_namesake = *method == "GET" && ["/v1/queue/pause", "/v1/queue/resume"].contains(path);
                assert!(path.contains("{id}") || is_namesake, "{method} {path}");
            }
            assert_eq!(path.starts_with("/v1/projects/{id}/summary"), *subject == Project);
        }
    }

    #[test]
    fn an_action_on_a_page_demands_what_its_route_demands() {
        let mut compared = 0;
        for (method, path) in pages().filter(|(method, _)| *method == "POST") {
            let page: Method = method.parse().unwrap();
            let rule = of(&page, Some(path));
            if rule.subject != Open {
                assert_eq!(rule, of(&page, Some(&path.replace("/ui/", "/v1/"))), "{path}");
                compared += 1;
            }
        }
        assert_eq!(compared, 9);
    }

    #[test]
    fn unlisted_routes_are_for_administrators_of_all_agents() {
        let strict = RouteRule { scope: Admin, subject: All };
        assert_eq!(of(&Method::GET, Some("/v1/new")), strict);
        assert_eq!(of(&Method::PUT, Some("/v1/agents")), strict);
        assert_eq!(of(&Method::HEAD, Some("/v1/agents")), of(&Method::GET, Some("/v1/agents")));
        assert_eq!(of(&Method::DELETE, Some("/mcp")).subject, Caller);
    }
}
