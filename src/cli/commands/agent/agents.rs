//! `recapd agents`: lists agents, shows and changes an agent's settings, pauses and resumes an agent's updates.

mod list;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Value, json};

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::PageOptions,
    terminal::answer,
};
use recapd_config::Config;
use recapd_core::domain::{
    agent::AgentId,
    settings::{AgentSettings, SettingsError, SettingsPatch},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd agents                                      all agents, by name
  recapd agents show my-agent
  recapd agents set my-agent budget_tokens=50_000 model=gpt-5
  recapd agents set my-agent preset=chat max_messages=20
  recapd agents set my-agent budget_tokens=          removes the override
  recapd agents pause my-agent                       no summary updates until `recapd agents resume my-agent`")]
pub(crate) struct Agents {
    #[command(subcommand)]
    action: Option<AgentsAction>,
    #[command(flatten)]
    page: PageOptions,
}

#[derive(Debug, Subcommand)]
enum AgentsAction {
    /// List agents, by name
    List(PageOptions),
    /// Print the settings in force for an agent, and whether the agent, its preset or the configuration sets them
    Show {
        /// The agent
        agent: AgentId,
    },
    /// Change an agent's own settings, which override the configuration; takes effect with the agent's next message
    Set {
        /// The agent
        agent: AgentId,
        /// The agent's own settings: `preset` (none, request-limit, long-memory, dialogue, chat), `budget_tokens`, `low_water`,
        /// `max_messages`, `on_overflow` (evict, refuse, end), `provider`, `model`, `context_max_tokens`,
        /// `output_reserve_tokens`, `system_reserve_tokens`, `anchor`, `alternation` (merge, ack, keep), `participants`,
        /// `human_tag`, `mode` (talk, choose-names, meditation), `calls_per_day`, `tokens_per_day`, `usd_per_day` (the most
        /// that model calls may use in a UTC day), `time_zone` (such as Europe/Berlin); an empty value removes the setting
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Pause the updates of an agent's summary; the window stays in budget, and digests represent what leaves it
    Pause {
        /// The agent
        agent: AgentId,
    },
    /// Resume the updates of an agent's summary
    Resume {
        /// The agent
        agent: AgentId,
    },
}

#[derive(Serialize, Deserialize)]
struct AgentSettingsView {
    /// The agent's own settings.
    settings: AgentSettings,
    /// All settings that apply to the agent, each with its origin.
    in_force: Vec<Value>,
}

impl Agents {
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let (agent, patch) = match self.action.unwrap_or(AgentsAction::List(self.page)) {
            AgentsAction::Show { agent } => (agent, None),
            AgentsAction::Set { agent, settings } => (agent, Some(patch(&settings)?)),
            AgentsAction::List(page) => return open::block_on(list::print(&page, config, options)),
            AgentsAction::Pause { agent } => return pause(config, options, &agent, true),
            AgentsAction::Resume { agent } => return pause(config, options, &agent, false),
        };
        let view: AgentSettingsView = open::block_on(async {
            let route = format!("/v1/agents/{agent}");
            let Some(patch) = patch else {
                return Api::reading(config, options).await?.read(&route).await;
            };
            // A daemon reads an agent's settings with each append.
            let api = Api::changing_beside_daemon(config, options).await?;
            api.patch::<IgnoredAny>(&route, &patch).await?;
            api.read(&route).await
        })?;
        answer::print(
            options,
            &json!({ "agent_id": agent, "settings": view.settings, "in_force": view.in_force }),
            &lines(&view.in_force),
        )
    }
}

fn pause(
    config: &Config,
    options: &GlobalOptions,
    agent: &AgentId,
    paused: bool,
) -> Result<ExitCode, CommandFailure> {
    open::block_on(async {
        let api = Api::changing(config, options).await?;
        api.set_agent_paused(agent, paused).await
    })?;
    let text = if paused {
        format!("updates of {agent} are paused; `recapd agents resume {agent}` resumes them")
    } else {
        format!("updates of {agent} are resumed")
    };
    answer::print(options, &json!({ "agent_id": agent, "paused": paused }), &text)
}

/// Parses `KEY=VALUE` arguments into a merge patch, and checks the patch.
fn patch(settings: &[String]) -> Result<Value, CommandFailure> {
    let pairs = settings.iter().map(|setting| {
        let pair = setting.split_once('=');
        let (name, text) =
            pair.ok_or_else(|| CommandFailure::usage(format!("`{setting}`: expected KEY=VALUE")))?;
        Ok((name.trim().to_owned(), AgentSettings::parse_value(text.trim())))
    });
    let patch = Value::Object(pairs.collect::<Result<Map<_, _>, CommandFailure>>()?);
    SettingsPatch::parse(patch.clone()).map_err(|error| refusal(&error))?;
    Ok(patch)
}

fn refusal(error: &SettingsError) -> CommandFailure {
    let SettingsError::Unknown(name) = error else {
        return CommandFailure::usage(error.to_string());
    };
    let likeness = |candidate: &&str| strsim::jaro_winkler(candidate, name);
    let nearest = AgentSettings::names().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let nearest = nearest.unwrap_or_default();
    CommandFailure::usage(format!("{error}; did you mean `{nearest}`?"))
}

/// Formats a line for each setting: `budget_tokens = 50000  (this agent)`, with the origins in one column.
fn lines(in_force: &[Value]) -> String {
    let cells = |value: &Value| {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let from = match text("from").as_str() {
            "agent" => "this agent".to_owned(),
            "preset" => "its preset".to_owned(),
            from => from.to_owned(),
        };
        (format!("{} = {}", text("name"), value["value"]), from)
    };
    let cells: Vec<(String, String)> = in_force.iter().map(cells).collect();
    let width = cells.iter().map(|(value, _)| value.chars().count()).max().unwrap_or(0);
    let lines: Vec<String> = cells.iter().map(|(value, from)| format!("{value:width$}  ({from})")).collect();
    lines.join("\n")
}
