//! `recapd token`: creates, lists and revokes the tokens for the daemon's HTTP interface.

use std::{process::ExitCode, sync::Arc};

use clap::{Args, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser as _};
use serde_json::{Value, json};

use crate::cli::{
    GlobalOptions,
    backend::open,
    exit::CommandFailure,
    list::{ListPage, PageOptions},
    terminal::{
        output,
        table::{Align, Table},
    },
};
use recapd_api::access::{SECRET_BYTES, digest_of, file, token_text};
use recapd_config::Config;
use recapd_core::domain::{
    access::{AccessNames, Reach, Scope, TokenName},
    agent::AgentId,
    number::count,
    project::ProjectId,
    time::{DAY_MS, Timestamp, duration_ms},
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
    /// List the tokens: what they allow, when they expire, when they were last used
    List(PageOptions),
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
    /// How long the token is valid, such as 12h or 30d [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = lifetime_ms)]
    expires: Option<i64>,
    /// Don't store the token in a database: print it, and the line for the file that `http.tokens_file` names
    #[arg(long)]
    offline: bool,
}

fn scope(name: &str) -> Result<Scope, String> {
    Scope::from_name(name).ok_or_else(|| "expected read, write or admin".to_owned())
}

/// Parses `12h` or `30d`; returns milliseconds.
fn lifetime_ms(text: &str) -> Result<i64, String> {
    let span = duration_ms(text).filter(|span| (1..=EXPIRES_MAX_MS).contains(span));
    span.ok_or_else(|| "expected a duration such as 12h or 30d, at most 3653d".to_owned())
}

impl Token {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        if let TokenAction::Create(create) = &self.action
            && create.offline
        {
            create.run_offline(options)?;
            return Ok(ExitCode::SUCCESS);
        }
        open::block_on(async {
            let store: Arc<dyn AccessStore> = Arc::new(open::look(config).await?);
            match self.action {
                TokenAction::Create(create) => create.run(store.as_ref(), options).await,
                TokenAction::List(page) => list(store.as_ref(), &page, options).await,
                TokenAction::Revoke { name } => revoke(store.as_ref(), &name, options).await,
                TokenAction::Reset => reset(store.as_ref(), options).await,
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
    fn run_offline(&self, options: &GlobalOptions) -> Result<(), CommandFailure> {
        let (text, token) = self.make(SystemClock.now())?;
        let line = file::line(&token);
        if options.json {
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

    async fn run(self, store: &dyn AccessStore, options: &GlobalOptions) -> Result<(), CommandFailure> {
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
                    anyhow::anyhow!("there are {TOKENS_MAX} tokens, which is the limit: {cure}").into()
                );
            }
        }
        if options.json {
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

async fn list(
    store: &dyn AccessStore,
    page: &PageOptions,
    options: &GlobalOptions,
) -> Result<(), CommandFailure> {
    let now = SystemClock.now();
    let tokens = store.tokens().await?;
    let tokens: Vec<Value> = tokens.into_iter().map(|token| token_json(&token, now)).collect();
    let page: ListPage<Value> = page.cut(json!({ "tokens": tokens }), "tokens", "name")?;
    page.print(options, &table(&page.rows))?;
    Ok(())
}

/// Formats a token as JSON, with its state.
fn token_json(token: &KeptToken, now: Timestamp) -> Value {
    let state = match (token.revoked_at, token.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if at <= now => "expired",
        _ => "valid",
    };
    let names = token.reach.names().cloned();
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

fn table(tokens: &[Value]) -> String {
    if tokens.is_empty() {
        return "(no tokens yet: on loopback everybody may do everything; `recapd token create` creates one)"
            .to_owned();
    }
    let mut table = Table::new([
        ("TOKEN", Align::Left),
        ("STATE", Align::Left),
        ("SCOPE", Align::Left),
        ("REACH", Align::Left),
        ("EXPIRES", Align::Left),
        ("USED ABOUT", Align::Left),
    ]);
    for token in tokens {
        let text = |name: &str| token[name].as_str().unwrap_or("-").to_owned();
        table.row([
            text("name"),
            text("state"),
            text("scope"),
            reach(token),
            text("expires_at"),
            text("last_used_at"),
        ]);
    }
    table.text()
}

/// Names the agents and projects of a token.
fn reach(token: &Value) -> String {
    if token["agents"].is_null() {
        return "everything".to_owned();
    }
    let members = ["agents", "projects"].map(|name| token[name].as_array());
    let names = members.into_iter().flatten().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}

async fn revoke(
    store: &dyn AccessStore,
    name: &TokenName,
    options: &GlobalOptions,
) -> Result<(), CommandFailure> {
    if !store.revoke_token(name, SystemClock.now()).await? {
        return Err(CommandFailure::not_found(format!(
            "there is no token `{name}`; `recapd token list` shows them"
        )));
    }
    if options.json {
        output::json(&json!({ "name": name.as_str(), "state": "revoked" }))?;
    } else {
        output::text(&format!("{name} is revoked; daemons refuse it within a few seconds"))?;
    }
    Ok(())
}

async fn reset(store: &dyn AccessStore, options: &GlobalOptions) -> Result<(), CommandFailure> {
    let tokens = store.reset_tokens().await?;
    if options.json {
        output::json(&json!({ "forgotten": tokens }))?;
    } else {
        output::text(&format!("{} deleted", count(tokens, "token")))?;
    }
    Ok(())
}
