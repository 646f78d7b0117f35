//! `recapd project`: decides which agents share a summary.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    terminal::output,
};
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, number::count, project::ProjectId};

const PAGE: i64 = 200;

#[derive(Debug, Args)]
#[command(after_help = "\
The agents of a project share one summary, within the ceiling of a single one. Examples:
  recapd project join ikigai coder tester
  recapd summary --project ikigai
  recapd project leave ikigai tester
  recapd project list")]
pub(crate) struct Project {
    #[command(subcommand)]
    action: ProjectAction,
}

#[derive(Debug, Subcommand)]
enum ProjectAction {
    /// Print the projects, and how many agents each has
    List,
    /// Add agents to a project, and remove them from their former one; the first agent creates the project
    Join {
        /// The project
        project: ProjectId,
        /// The agents
        #[arg(required = true, value_name = "AGENT")]
        agents: Vec<AgentId>,
    },
    /// Remove agents from a project
    Leave {
        /// The project
        project: ProjectId,
        /// The agents
        #[arg(required = true, value_name = "AGENT")]
        agents: Vec<AgentId>,
    },
}

impl Project {
    pub(crate) fn run(self, config: &Config, shared: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        match self.action {
            ProjectAction::List => list(config, shared),
            ProjectAction::Join { project, agents } => change(config, shared, &project, &agents, true),
            ProjectAction::Leave { project, agents } => change(config, shared, &project, &agents, false),
        }
    }
}

fn list(config: &Config, shared: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
    let projects = open::block_on(async { all(&Api::reading(config, shared).await?).await })?;
    if shared.json {
        output::json(&json!(projects))?;
    } else if projects.is_empty() {
        output::text("(no projects yet: `recapd project join PROJECT AGENT` creates one)")?;
    } else {
        let line = |project: &Value| {
            let name = project["project_id"].as_str().unwrap_or_default().to_owned();
            format!(
                "{name}  {}, last active {}",
                count(project["agents"].as_i64().unwrap_or_default(), "agent"),
                project["updated_at"].as_str().unwrap_or_default()
            )
        };
        let lines: Vec<String> = projects.iter().map(line).collect();
        output::text(&lines.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn all(api: &Api) -> Result<Vec<Value>, CommandFailure> {
    let mut projects = Vec::new();
    let mut path = format!("/v1/projects?limit={PAGE}");
    loop {
        let mut page: Value = api.read(&path).await?;
        if let Value::Array(found) = page["projects"].take() {
            projects.extend(found);
        }
        let Some(cursor) = page["next_cursor"].as_str() else {
            return Ok(projects);
        };
        path = format!("/v1/projects?limit={PAGE}&cursor={cursor}");
    }
}

fn change(
    config: &Config,
    shared: &GlobalOptions,
    project: &ProjectId,
    agents: &[AgentId],
    joins: bool,
) -> Result<ExitCode, CommandFailure> {
    open::block_on(async {
        let api = Api::changing_beside_daemon(config, shared).await?;
        // All agents are checked before the first one is changed.
        for agent in agents {
            let row: Value = api.read(&format!("/v1/agents/{agent}")).await?;
            let belongs = row["project_id"].as_str();
            if !joins && belongs != Some(project.as_str()) {
                let belongs = belongs.unwrap_or("none");
                return Err(CommandFailure::not_found(format!(
                    "agent `{agent}` doesn't belong to project `{project}` (its project: {belongs}); nothing was changed"
                )));
            }
        }
        for agent in agents {
            let path = format!("/v1/projects/{project}/agents/{agent}");
            if joins {
                api.put::<IgnoredAny>(&path).await?;
            } else {
                api.delete::<IgnoredAny>(&path).await?;
            }
        }
        Ok(())
    })?;
    let belongs = joins.then_some(project);
    if shared.json {
        let all: Vec<Value> = agents
            .iter()
            .map(|agent| json!({ "agent_id": agent, "project_id": belongs }))
            .collect();
        output::json(&json!(all))?;
    } else {
        let names: Vec<&str> = agents.iter().map(AgentId::as_str).collect();
        let (names, verb) = (names.join(", "), if joins { "joined" } else { "left" });
        output::text(&format!("{names} {verb} {project}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
