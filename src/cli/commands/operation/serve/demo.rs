//! `recapd serve --demo`: a daemon with a sample conversation, without a key and without permanent files.

use serde_json::{Value, json};

use super::dashboard;
use crate::cli::exit::CommandFailure;
use recapd_config::{Config, Listen};
use recapd_core::{
    domain::{
        agent::AgentId,
        message::{Format, Message},
        time::{MINUTE_MS, Timestamp},
    },
    formats,
};
use recapd_engine::assembly::Parts;

pub(super) const AGENT: &str = "demo";
/// The window's budget. Only some of the exchanges fit.
const BUDGET_TOKENS: i64 = 240;
/// The time between the beginnings of two exchanges.
const APART_MS: i64 = 25 * MINUTE_MS;

/// For each exchange: the request, the command that runs, and the answer.
const EXCHANGES: [(&str, &str, &str); 10] = [
    (
        "Set up the project: Rust, axum, SQLite. Keep it to one crate.",
        "cargo init",
        "The crate is there, with axum and sqlx. I decided for SQLite in WAL mode, since one process writes.",
    ),
    (
        "Add a route for health checks.",
        "file_edit src/http.rs",
        "GET /health answers 200 once the database can be read, else 503.",
    ),
    (
        "Users complain that login takes 4 seconds. Find out why.",
        "grep argon2",
        "Argon2 ran with 1 GiB of memory per login. It is 64 MiB now, which takes 180 ms on bill-1.",
    ),
    (
        "Implement auth with JWT. Tokens last an hour.",
        "file_write src/auth.rs",
        "Tokens are signed with HS256 and last 60 minutes; the key comes from AUTH_KEY_FILE.",
    ),
    (
        "Add tests for expired and forged tokens.",
        "cargo test auth",
        "Seven tests, all green. A token without `exp` was accepted: fixed in src/auth.rs.",
    ),
    (
        "We must never log tokens. Is that so?",
        "grep -n Authorization src",
        "The access log held the header. It is redacted now, and a test fails if it comes back.",
    ),
    (
        "Refactor error handling to use Result<T> everywhere.",
        "file_edit src/errors.rs",
        "No unwrap is left outside of tests; errors name the field and the cure.",
    ),
    (
        "Document the new error handling.",
        "file_write docs/errors.md",
        "docs/errors.md has a table: error, status, what the client does next.",
    ),
    (
        "Deploy to staging.",
        "ssh bill-2 deploy 0.4.1",
        "Version 0.4.1 runs on bill-2 since the migration 12 went through.",
    ),
    (
        "Add structured logging.",
        "cargo add tracing",
        "Requests have ids now; next are spans around the database.",
    ),
];

/// Returns the settings of the demo. `--set` overrides them.
pub(super) fn settings() -> Vec<String> {
    [
        format!("window.budget_tokens={BUDGET_TOKENS}"),
        "model.mode=offline".to_owned(),
        "fallback.mode=none".to_owned(),
        "queue.batch_exchanges=1".to_owned(),
        "queue.debounce_ms=0".to_owned(),
        // A newcomer's terminal should show only what to try next. `--verbose` shows more.
        "log.level=warn".to_owned(),
    ]
    .into()
}

/// Returns the greeting: where to look, and which commands to try next. They name the daemon's address if it isn't the
/// default.
pub(super) fn next(listen: &Listen) -> String {
    let is_default = *listen == Config::default().http.listen;
    let server = if is_default { String::new() } else { format!(" --server {}", listen.base()) };
    format!(
        "recapd shows a conversation of the agent `{AGENT}`{}. Nothing of it is kept, and no model is called.\n\
         In another terminal:\n\
         \x20 recapd history {AGENT}{server}    what the model still sees, below the line\n\
         \x20 recapd summary {AGENT}{server}    the summary of everything else\n\
         \x20 recapd status{server}          the state of the updates\n\
         Ctrl-C stops the daemon.",
        dashboard(listen)
    )
}

/// Stores the conversation as if it had just taken place.
pub(super) async fn store_conversation(parts: &Parts) -> Result<(), CommandFailure> {
    let agent: AgentId = AGENT.parse().map_err(anyhow::Error::new)?;
    let messages = messages(parts.clock.now())?;
    for exchange in messages.chunks(MESSAGES_EACH) {
        parts.ingestor.append(&agent, exchange.to_vec()).await?;
    }
    parts.ingestor.index_all().await?;
    Ok(())
}

/// The number of messages in each exchange.
const MESSAGES_EACH: usize = 4;

fn messages(now: Timestamp) -> Result<Vec<Message>, CommandFailure> {
    let mut messages = Vec::new();
    for (back, exchange) in (1..).zip(EXCHANGES.iter().rev()) {
        let at = now.plus_ms(-back * APART_MS);
        for line in lines(exchange, at).into_iter().rev() {
            let parsed = formats::parse(Format::Native, &line.to_string());
            messages.push(parsed.map_err(anyhow::Error::new)?);
        }
    }
    messages.reverse();
    Ok(messages)
}

fn lines((question, tool_call, answer): &(&str, &str, &str), at: Timestamp) -> [Value; MESSAGES_EACH] {
    let (name, arguments) = tool_call.split_once(' ').unwrap_or((tool_call, ""));
    let call = format!("call-{}", at.0);
    [
        json!({ "kind": "user", "at": at, "content": question }),
        json!({ "kind": "tool_call", "at": at, "data": { "tool_call_id": call, "name": name, "arguments": { "args": arguments } } }),
        json!({ "kind": "tool_result", "at": at, "data": { "tool_call_id": call, "output": "ok", "success": true } }),
        json!({ "kind": "assistant", "at": at.plus_ms(MINUTE_MS), "content": answer }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conversation_can_be_read_and_is_in_order() {
        let messages = messages(Timestamp(1_000_000_000_000)).unwrap();
        assert_eq!(messages.len(), EXCHANGES.len() * MESSAGES_EACH);
        let first = messages.first().unwrap();
        assert!(first.payload.contains("Set up the project"), "{}", first.payload);
    }
}
