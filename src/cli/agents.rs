//! `recapd agents`: what an agent overrides in the configuration.

use std::{process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{Shared, exit::Failed, open, output, remote::Remote};
use crate::{
    assembly,
    clock::SystemClock,
    config::Config,
    domain::{
        agent::AgentId,
        settings::{AgentSettings, SettingsError, SettingsPatch},
    },
    store::Store as _,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd agents show my-agent
  recapd agents set my-agent budget_tokens=50_000 model=gpt-5
  recapd agents set my-agent budget_tokens=          takes it back to the configuration")]
pub(super) struct Agents {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print what an agent overrides in the configuration
    Show {
        /// The agent
        agent: AgentId,
    },
    /// Change what an agent overrides, from its next message on
    Set {
        /// The agent
        agent: AgentId,
        /// The settings: `budget_tokens`, `low_water`, `provider`, `model`, `output_reserve_tokens`, `on_overflow`
        /// (evict, refuse, end), `participants`, `human_tag`, `mode` (talk, choose-names, meditation); an empty value
        /// takes one back
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
}

impl Agents {
    pub(super) fn run(self, config: &Config, shared: &Shared) -> Result<ExitCode, Failed> {
        let (agent, patch) = match self.action {
            Action::Show { agent } => (agent, None),
            Action::Set { agent, settings } => (agent, Some(patch(&settings)?)),
        };
        let settings = open::block_on(async {
            match (&shared.server, patch) {
                (Some(server), patch) => ask(&Remote::new(server)?, &agent, patch).await,
                (None, patch) => look(config, &agent, patch).await,
            }
        })?;
        if shared.json {
            output::json(&json!({ "agent_id": agent, "settings": settings }))?;
        } else {
            output::text(&lines(&settings))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn look(config: &Config, agent: &AgentId, patch: Option<Value>) -> Result<AgentSettings, Failed> {
    let store = open::look(config).await?;
    let Some(row) = store.agent(agent).await? else {
        return Err(open::unknown(&store, agent).await);
    };
    let Some(patch) = patch else {
        return Ok(row.settings);
    };
    let patch = SettingsPatch::parse(patch).map_err(|error| refusal(&error))?;
    let keeper = assembly::keeper_alone(config, Arc::new(store), Arc::new(SystemClock)).await?;
    Ok(keeper.change_settings(agent, &patch).await?)
}

async fn ask(daemon: &Remote, agent: &AgentId, patch: Option<Value>) -> Result<AgentSettings, Failed> {
    let url = format!("/v1/agents/{agent}");
    let settings = if let Some(patch) = patch {
        SettingsPatch::parse(patch.clone()).map_err(|error| refusal(&error))?;
        serde_json::from_str(&daemon.patch(&url, &patch).await?)
    } else {
        let shown = daemon.get(&url, "application/json").await?;
        serde_json::from_str(&shown)
            .and_then(|mut shown: Value| serde_json::from_value(shown["settings"].take()))
    };
    Ok(settings.map_err(anyhow::Error::new)?)
}

/// What was typed, as a merge patch.
fn patch(settings: &[String]) -> Result<Value, Failed> {
    let pairs = settings.iter().map(|setting| {
        let pair = setting.split_once('=');
        let (name, text) = pair.ok_or_else(|| Failed::usage(format!("`{setting}`: expected KEY=VALUE")))?;
        Ok((name.trim().to_owned(), AgentSettings::typed(text.trim())))
    });
    Ok(Value::Object(pairs.collect::<Result<Map<_, _>, Failed>>()?))
}

fn refusal(error: &SettingsError) -> Failed {
    let SettingsError::Unknown(name) = error else {
        return Failed::usage(error.to_string());
    };
    let likeness = |known: &&str| strsim::jaro_winkler(known, name);
    let nearest = AgentSettings::names().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let nearest = nearest.unwrap_or_default();
    Failed::usage(format!("{error}; the nearest one is `{nearest}`"))
}

fn lines(settings: &AgentSettings) -> String {
    let fields = json!(settings);
    let set: Vec<String> = AgentSettings::names()
        .filter_map(|name| {
            let value = fields.get(name)?;
            Some(format!("{name} = {value}"))
        })
        .collect();
    if set.is_empty() {
        "(nothing: the configuration's settings are in force)".to_owned()
    } else {
        set.join("\n")
    }
}
