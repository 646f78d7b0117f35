//! `recapd token`: creates, lists and revokes the tokens for the daemon's HTTP interface.

use std::{process::ExitCode, sync::Arc};

use clap::{Args, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser as _};
use serde_json::{Value, json};

use crate::cli::{GlobalOptions, backend::open, exit::CommandFailure, terminal::output};
use recapd_api::access::{SECRET_BYTES, digest_of, file, token_text};
use recapd_config::Config;
use recapd_core::domain::{
    access::{AccessNames, Reach, Scope, TokenName},
    agent::AgentId,
    number::count,
    project::ProjectId,
    time::{DAY_MS, HOUR_MS, Timestamp},
};
use recapd_platform::{
    clock::{Clock as _, SystemClock},
    randomness,
};
use recapd_store::access::{AccessStore, NewToken, TOKENS_MAX, Token as KeptToken, TokenOutcome};

/// A token names at most this many agents and projects.
const NAMED_MAX: usize = 1_000;
/// The longest lifetime of a token: ten years.
const EXPIRES_MAX_MS: i64 = 3_653 * DAY_MS;

#[derive(Debug, Args)]
#[command(after_help = "\
Works directly on the database, so whoever can write to it decides who has access. Daemons follow within seconds. Once a token
exists, every request needs one, also on loopback; `reset` undoes that. Examples:
  recapd token create laptop --scope admin
  recapd token create coder --scope write --agent coder --expires 90d
  recapd token create dashboard --scope read --project web
  recapd token create ci --scope write --offline       its line is for the file that http.tokens_file names
  recapd token list
  recapd token revoke laptop")]
pub(crate) struct Token {
    #[command(subcommand)]
    action: TokenAction,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Create a token and print it, only this once
    Create(CreateToken),
    /// Print the tokens: what they allow, when they expire, when they were last used
    List,
    /// Revoke a token
    Revoke {
        /// The token's name
        name: TokenName,
    },
    /// Delete all tokens: everybody may then do everything on loopback
    Reset,
}

#[derive(Debug, Args)]
struct CreateToken {
    /// The token's name, for lists and for revoking it
    name: TokenName,
    /// What the token allows: `read` reads, `write` also appends and corrects, `admin` also changes settings, pauses,
    /// and forgets
    #[arg(long, value_name = "SCOPE",
        value_parser = PossibleValuesParser::new(["read", "write", "admin"]).try_map(|name| scope(&name)))]
    scope: Scope,
    /// Only for this agent, even if it doesn't exist yet; may be given several times
    #[arg(long = "agent", value_name = "AGENT")]
    agents: Vec<AgentId>,
    /// Only for this project's summary and the project's agents; may be given several times
    #[arg(long = "project", value_name = "PROJECT")]
    projects: Vec<ProjectId>,
    /// When the token expires, in hours or days from now, such as 12h or 30d [default: never]
    #[arg(long, value_name = "TIME", value_parser = span_ms)]
    expires: Option<i64>,
    /// Don't store the token in a database: print it, and the line for the file that `http.tokens_file` names
    #[arg(long)]
    offline: bool,
}

fn scope(name: &str) -> Result<Scope, String> {
    Scope::from_name(name).ok_or_else(|| "expected read, write or admin".to_owned())
}

/// Parses `12h` or `30d`; returns milliseconds.
pub(super) fn span_ms(text: &str) -> Result<i64, String> {
    let unit = |text: &str| match text.as_bytes().last() {
        Some(b'h') => Some(HOUR_MS),
        Some(b'd') => Some(DAY_MS),
        _ => None,
    };
    let number = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let span = unit(text).and_then(|unit| number.parse::<i64>().ok()?.checked_mul(unit));
    span.filter(|span| (1..=EXPIRES_MAX_MS).contains(span))
        .ok_or_else(|| "expected hours or days, such as 12h or 30d, at most 3653d".to_owned())
}

impl Token {
    pub(crate) fn run(self, config: &Config, shared: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        if let TokenAction::Create(create) = &self.action
            && create.offline
        {
            create.run_offline(shared)?;
            return Ok(ExitCode::SUCCESS);
        }
        open::block_on(async {
            let store: Arc<dyn AccessStore> = Arc::new(open::look(config).await?);
            match self.action {
                TokenAction::Create(create) => create.run(store.as_ref(), shared).await,
                TokenAction::List => list(store.as_ref(), shared).await,
                TokenAction::Revoke { name } => revoke(store.as_ref(), &name, shared).await,
                TokenAction::Reset => reset(store.as_ref(), shared).await,
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CreateToken {
    /// Returns a new token's text, and the record to store.
    fn make(&self, now: Timestamp) -> Result<(String, NewToken), CommandFailure> {
        let reach = self.reach()?;
        let secret = randomness::bytes::<SECRET_BYTES>()?;
        let text = token_text(&secret);
        let token = NewToken {
            name: self.name.clone(),
            digest: digest_of(&text),
            scope: self.scope,
            reach,
            expires_at: self.expires.map(|span| now.plus_ms(span)),
        };
        Ok((text, token))
    }

    /// Prints a token for its holder, and the line for the token file.
    fn run_offline(&self, shared: &GlobalOptions) -> Result<(), CommandFailure> {
        let (text, token) = self.make(SystemClock.now())?;
        let line = file::line(&token);
        if shared.json {
            let expires_at = token.expires_at;
            output::json(
                &json!({ "name": self.name.as_str(), "token": text, "expires_at": expires_at, "line": line }),
            )?;
        } else {
            output::note(
                "recapd: this is the token, which can't be shown again, and its line for http.tokens_file",
            );
            output::text(&format!("{text}\n{line}"))?;
        }
        Ok(())
    }

    async fn run(self, store: &dyn AccessStore, shared: &GlobalOptions) -> Result<(), CommandFailure> {
        let now = SystemClock.now();
        let (text, token) = self.make(now)?;
        let expires_at = token.expires_at;
        match store.keep_token(token, now).await? {
            TokenOutcome::Done => {}
            TokenOutcome::NameTaken => {
                let cure = "revoke it first, or choose another name";
                return Err(anyhow::anyhow!("a token named `{}` already exists: {cure}", self.name).into());
            }
            TokenOutcome::TooMany => {
                let cure = "`recapd token list` shows them; the name of a revoked token can be used again";
                return Err(
                    anyhow::anyhow!("there are {TOKENS_MAX} tokens, which is the limit: {cure}").into(),
                );
            }
        }
        if shared.json {
            output::json(&json!({ "name": self.name.as_str(), "token": text, "expires_at": expires_at }))?;
        } else {
            output::note("recapd: this is the token; it can't be shown again");
            output::text(&text)?;
        }
        Ok(())
    }

    fn reach(&self) -> Result<Reach, CommandFailure> {
        let names = AccessNames {
            agents: self.agents.iter().cloned().collect(),
            projects: self.projects.iter().cloned().collect(),
        };
        match names.agents.len() + names.projects.len() {
            0 => Ok(Reach::All),
            count if count <= NAMED_MAX => Ok(Reach::Only(names)),
            count => Err(CommandFailure::usage(format!(
                "{count} agents and projects are named, but a token can name at most {NAMED_MAX}: create several tokens, or let the \
                 agents join a project"
            ))),
        }
    }
}

async fn list(store: &dyn AccessStore, shared: &GlobalOptions) -> Result<(), CommandFailure> {
    let now = SystemClock.now();
    let tokens: Vec<Value> = store
        .tokens()
        .await?
        .into_iter()
        .map(|token| shown(&token, now))
        .collect();
    if shared.json {
        output::json(&tokens)?;
    } else if tokens.is_empty() {
        output::text(
            "(no tokens yet: on loopback everybody may do everything; `recapd token create` creates one)",
        )?;
    } else {
        let lines: Vec<String> = tokens.iter().map(line).collect();
        output::text(&lines.join("\n"))?;
    }
    Ok(())
}

/// Formats a token as JSON, with its state.
fn shown(token: &KeptToken, now: Timestamp) -> Value {
    let state = match (token.revoked_at, token.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if at <= now => "expired",
        _ => "valid",
    };
    let names = token.reach.named().cloned();
    json!({
        "name": token.name.as_str(),
        "state": state,
        "scope": token.scope,
        "agents": names.as_ref().map(|names| &names.agents),
        "projects": names.as_ref().map(|names| &names.projects),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
    })
}

fn line(token: &Value) -> String {
    let text = |name: &str| token[name].as_str().unwrap_or_default().to_owned();
    let of = |name: &str| {
        let names = token[name].as_array().into_iter().flatten();
        names
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let names = [of("agents"), of("projects")].concat();
    let reach = if token["agents"].is_null() {
        "everything".to_owned()
    } else {
        names.join(", ")
    };
    let mut parts = vec![
        text("name"),
        text("state"),
        format!("{} of {reach}", text("scope")),
    ];
    for (name, words) in [("expires_at", "until"), ("last_used_at", "used about")] {
        if let Some(at) = token[name].as_str() {
            parts.push(format!("{words} {at}"));
        }
    }
    parts.join("  ")
}

async fn revoke(
    store: &dyn AccessStore,
    name: &TokenName,
    shared: &GlobalOptions,
) -> Result<(), CommandFailure> {
    if !store.revoke_token(name, SystemClock.now()).await? {
        return Err(CommandFailure::not_found(format!(
            "there is no token `{name}`; `recapd token list` shows them"
        )));
    }
    if shared.json {
        output::json(&json!({ "name": name.as_str(), "state": "revoked" }))?;
    } else {
        output::text(&format!(
            "{name} is revoked; daemons refuse it within a few seconds"
        ))?;
    }
    Ok(())
}

async fn reset(store: &dyn AccessStore, shared: &GlobalOptions) -> Result<(), CommandFailure> {
    let tokens = store.reset_tokens().await?;
    if shared.json {
        output::json(&json!({ "forgotten": tokens }))?;
    } else {
        output::text(&format!("{} deleted", count(tokens, "token")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_hours_or_days() {
        assert_eq!(span_ms("12h"), Ok(12 * HOUR_MS));
        assert_eq!(span_ms("30d"), Ok(30 * DAY_MS));
        for bad in [
            "",
            "d",
            "0d",
            "-1d",
            "30",
            "30m",
            "9999999d",
            "99999999999999999999h",
            "ö",
        ] {
            assert!(span_ms(bad).is_err(), "{bad}");
        }
    }
}
