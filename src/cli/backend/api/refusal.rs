//! Turns a daemon's refusal into a failed command.

use reqwest::StatusCode;
use serde_json::Value;

use crate::cli::exit::{CommandFailure, RETRY_LATER, UNAVAILABLE};
use recapd_client::TOKEN_VARIABLE;

/// How many of the errors in a request are printed. The others are counted.
const FINDINGS_SHOWN_MAX: usize = 5;

pub(super) fn command_failure(status: StatusCode, text: &str) -> CommandFailure {
    let problem: Value = serde_json::from_str(text).unwrap_or_default();
    let detail = detail(&problem).unwrap_or_else(|| text.trim().to_owned());
    match status {
        StatusCode::NOT_FOUND => CommandFailure::not_found(format!("{detail}{}", hint(&problem))),
        StatusCode::UNAUTHORIZED => {
            anyhow::anyhow!("{detail}; put one into {TOKEN_VARIABLE} or --token-file").into()
        }
        // The request conflicts with the present state, or the token doesn't allow it.
        StatusCode::CONFLICT | StatusCode::FORBIDDEN => anyhow::anyhow!("{detail}{}", hint(&problem)).into(),
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::UNPROCESSABLE_ENTITY => anyhow::anyhow!("{detail}{}", findings(&problem)).into(),
        StatusCode::TOO_MANY_REQUESTS => CommandFailure::new(RETRY_LATER, anyhow::anyhow!("{detail}")),
        status => CommandFailure::new(UNAVAILABLE, anyhow::anyhow!("{status}: {detail}")),
    }
}

/// The hint for each code of a problem, usually a command that helps.
const HINTS: [(&str, &str); 8] = [
    ("unknown_version", "`recapd versions AGENT` lists them"),
    ("unknown_exchange", "`recapd history AGENT --all` lists them"),
    ("unknown_message", "`recapd window AGENT` shows their numbers"),
    ("unknown_mark", "`recapd mark AGENT NAME` sets one"),
    ("unknown_item", "`recapd items list AGENT --past --all` lists them"),
    ("unknown_fact", "`recapd facts AGENT --past --all` lists them"),
    ("unknown_run", "`recapd runs` lists them"),
    ("agent_exists", "choose another id; `recapd agents` lists the existing agents"),
];

fn hint(problem: &Value) -> String {
    let hint = HINTS.iter().find(|(code, _)| problem["code"] == *code);
    hint.map_or(String::new(), |(_, hint)| format!("; {hint}"))
}

/// Returns the agent that the daemon doesn't know, if this is why it refuses the request.
pub(super) fn unknown_agent(text: &str) -> Option<String> {
    let problem: Value = serde_json::from_str(text).ok()?;
    if problem["code"] != "unknown_agent" {
        return None;
    }
    problem["detail"].as_str()?.split('`').nth(1).map(str::to_owned)
}

/// Returns the detail of a problem (RFC 9457).
fn detail(problem: &Value) -> Option<String> {
    problem["detail"].as_str().map(str::to_owned)
}

/// Returns the errors in the request, and the problem's hint.
fn findings(problem: &Value) -> String {
    let findings = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<String> = findings.iter().take(FINDINGS_SHOWN_MAX).map(finding).collect();
    if findings.len() > FINDINGS_SHOWN_MAX {
        lines.push(format!("\n  … and {} more", findings.len() - FINDINGS_SHOWN_MAX));
    }
    if let Some(hint) = problem["hint"].as_str() {
        lines.push(format!("; {hint}"));
    }
    lines.concat()
}

fn finding(finding: &Value) -> String {
    let detail = finding["detail"].as_str().unwrap_or_default();
    let location = ["pointer", "line", "parameter"].iter().find_map(|name| match &finding[*name] {
        Value::Null => None,
        Value::String(location) => Some(format!("{name} {location}")),
        location => Some(format!("{name} {location}")),
    });
    format!("\n  {}: {detail}", location.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_the_field_and_the_cure() {
        let problem = r#"{"detail":"1 of 2 messages can't be read","hint":"mend it","errors":[{"pointer":"/1","detail":"no role"}]}"#;
        let failed = command_failure(StatusCode::UNPROCESSABLE_ENTITY, problem);
        assert_eq!(failed.text(), "1 of 2 messages can't be read\n  pointer /1: no role; mend it");
        assert_eq!(command_failure(StatusCode::BAD_GATEWAY, "proxy").text(), "502 Bad Gateway: proxy");
    }

    #[test]
    fn an_unknown_agent_is_named() {
        let problem = r#"{"code":"unknown_agent","detail":"agent `codr` is unknown"}"#;
        assert_eq!(unknown_agent(problem).as_deref(), Some("codr"));
        assert_eq!(unknown_agent(r#"{"code":"unknown_run","detail":"`1`"}"#), None);
        assert_eq!(unknown_agent("proxy"), None);
    }
}
