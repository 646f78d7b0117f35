//! Reads a request's path and query.

use std::ops::RangeInclusive;

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::{Uri, request::Parts},
};

use crate::http::response::problem::{
    Finding, INVALID_AGENT_ID, INVALID_PARAMETER, INVALID_PROJECT_ID, Problem, RequestPlace,
    UNKNOWN_PARAMETER,
};
use recapd_core::domain::{
    agent::{AgentId, InvalidAgentId},
    project::ProjectId,
    time::Timestamp,
};

/// A name is suggested if it is at least this similar (Jaro-Winkler; 1 is equal).
const SIMILARITY_MIN: f64 = 0.75;

/// The path's agent.
pub(crate) struct Agent(pub(crate) AgentId);

impl<S: Send + Sync> FromRequestParts<S> for Agent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(id) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::new(INVALID_AGENT_ID, rejection.body_text()))?;
        Ok(Self(agent_id(&id)?))
    }
}

/// The path's agent, and the number that follows it.
pub(crate) struct AgentNumber(pub(crate) AgentId, pub(crate) i64);

impl<S: Send + Sync> FromRequestParts<S> for AgentNumber {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((id, number)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::new(INVALID_AGENT_ID, rejection.body_text()))?;
        let number = number.parse().map_err(|_| {
            Problem::new(INVALID_PARAMETER, format!("the path ends with `{number}`, which isn't a number"))
                .hint("give an integer, such as 12")
        })?;
        Ok(Self(agent_id(&id)?, number))
    }
}

/// Parses an agent's id from a path.
pub(crate) fn agent_id(id: &str) -> Result<AgentId, Problem> {
    id.parse().map_err(|error: InvalidAgentId| {
        Problem::new(INVALID_AGENT_ID, error.to_string())
            .hint("use the id under which the agent sends its messages")
    })
}

/// Parses a project's id from a path.
pub(crate) fn project_id(text: &str) -> Result<ProjectId, Problem> {
    text.parse::<ProjectId>()
        .map_err(|error| Problem::new(INVALID_PROJECT_ID, error.to_string()).hint("send a valid project id"))
}

/// The query parameters of a request. The route has declared all of them.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads the parameters of `uri`. Fails if the name of one isn't among `names`.
    pub(crate) fn read(uri: &Uri, names: &[&str]) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|rejection| Problem::new(INVALID_PARAMETER, rejection.body_text()))?;
        for (index, (name, _)) in pairs.iter().enumerate() {
            if !names.contains(&name.as_str()) {
                return Err(unknown(name, names));
            }
            if pairs.iter().skip(index + 1).any(|(key, _)| key == name) {
                return Err(invalid(name, "is given twice", "give it once"));
            }
        }
        Ok(Self(pairs))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the parameter as an integer within `range`.
    pub(crate) fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let cure = format!("give an integer from {} to {}", range.start(), range.end());
            invalid(name, &format!("can't be `{text}`"), &cure)
        })
    }

    /// Returns the parameter as a duration in whole seconds, written with or without an `s`.
    pub(crate) fn seconds(&self, name: &str, max: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = text.strip_suffix('s').unwrap_or(text).parse().ok();
        number.filter(|number| *number <= max).map(Some).ok_or_else(|| {
            let cure = format!("give seconds from 0 to {max}, such as 30s");
            invalid(name, &format!("can't be `{text}`"), &cure)
        })
    }

    /// Returns the parameter as a time.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let read = |text: &str| {
            let cure = "send a time such as 2026-11-20T08:40:00Z";
            Timestamp::parse(text).ok_or_else(|| invalid(name, &format!("can't be `{text}`"), cure))
        };
        self.text(name).map(read).transpose()
    }

    /// Returns the parameter as a flag: `all`, `all=1` and `all=true` turn `all` on.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.text(name) {
            None | Some("0" | "false") => Ok(false),
            Some("" | "1" | "true") => Ok(true),
            Some(text) => Err(invalid(name, &format!("can't be `{text}`"), "give 1 or 0")),
        }
    }
}

pub(crate) fn invalid(name: &str, what: &str, cure: &str) -> Problem {
    Problem::new(INVALID_PARAMETER, format!("parameter `{name}` {what}"))
        .hint(cure)
        .findings(vec![Finding { place: RequestPlace::Parameter(name.to_owned()), detail: what.to_owned() }])
}

fn unknown(name: &str, names: &[&str]) -> Problem {
    let hint = if names.is_empty() {
        "this route takes no parameters".to_owned()
    } else {
        suggestion(name, "parameters", names)
    };
    Problem::new(UNKNOWN_PARAMETER, format!("parameter `{name}` is unknown"))
        .hint(hint.clone())
        .findings(vec![Finding { place: RequestPlace::Parameter(name.to_owned()), detail: hint }])
}

/// Returns a hint about a name that isn't among `names`: a similar one of them, or all of them. `what` is the plural noun
/// for what they name, such as `parameters`.
pub(crate) fn suggestion(name: &str, what: &str, names: &[&str]) -> String {
    let similarity = |candidate: &&str| (strsim::jaro_winkler(candidate, name) * 1_000.0).round();
    let nearest = names
        .iter()
        .max_by(|one, other| similarity(one).total_cmp(&similarity(other)))
        .filter(|nearest| similarity(nearest) >= SIMILARITY_MIN * 1_000.0);
    nearest.map_or_else(
        || format!("known {what}: {}", quote_names(names)),
        |nearest| format!("did you mean `{nearest}`?"),
    )
}

fn quote_names(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::page, *};
    use recapd_core::domain::cursor::PagedList;

    proptest! {
        #[test]
        fn any_query_is_read_or_refused(
            query in "(wait|limit|all|cursor|=|=|&|&|%|%[0-9a-f]{2}|[0-9]{1,20}|-|s|1[aqr][0-9a-f]{8,12}|\\PC){0,20}",
        ) {
            let Ok(uri) = format!("/v1/agents?{query}").parse::<Uri>() else { return Ok(()) };
            let Ok(parameters) = Parameters::read(&uri, &["wait", "limit", "all", "cursor"]) else { return Ok(()) };
            if let Ok(Some(seconds)) = parameters.seconds("wait", 60) {
                prop_assert!(seconds <= 60);
            }
            if let Ok(limit) = page::limit(&parameters) {
                prop_assert!((1..=page::LIMIT_MAX).contains(&limit));
            }
            let all = parameters.flag("all").unwrap_or_default();
            prop_assert!(!all || parameters.text("all").is_some());
            // Random text is never a valid cursor.
            let cursor = page::cursor::<AgentId>(&parameters, PagedList::Agents);
            prop_assert!(cursor.is_err() || parameters.text("cursor").is_none());
        }
    }
}
