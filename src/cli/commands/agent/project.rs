//! `recapd project`: which agents share a summary.

use std::{process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    terminal::output,
};
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, number::count, project::ProjectId};
use recapd_engine::{assembly, ingest::Ingestor};
use recapd_platform::clock::SystemClock;
use recapd_store::Store;

/// Projects on one page.
const PAGE: i64 = 200;

#[derive(Debug, Args)]
#[command(after_help = "\
The agents of a project share one summary, within the ceiling of a single one. Examples:
  recapd project join ikigai coder tester
  recapd summary --project ikigai
  recapd project leave ikigai tester
  recapd project list")]
pub(in crate::cli) struct Project {
    #[command(subcommand)]
    action: ProjectAction,
}

#[derive(Debug, Subcommand)]
enum ProjectAction {
    /// Print the projects, and how many agents belong to each
    List,
    /// Make agents belong to a project, whatever they belonged to; the first one makes the project
    Join {
        /// The project
        project: ProjectId,
        /// The agents
        #[arg(required = true, value_name = "AGENT")]
        agents: Vec<AgentId>,
    },
    /// Take agents out of a project
    Leave {
        /// The project
        project: ProjectId,
        /// The agents
        #[arg(required = true, value_name = "AGENT")]
        agents: Vec<AgentId>,
    },
}

impl Project {
    pub(in crate::cli) fn run(
        self,
        config: &Config,
        shared: &GlobalOptions,
    ) -> Result<ExitCode, CommandFailure> {
        match self.action {
            ProjectAction::List => list(config, shared),
            ProjectAction::Join { project, agents } => change(config, shared, &project, &agents, true),
            ProjectAction::Leave { project, agents } => change(config, shared, &project, &agents, false),
        }
    }
}

fn list(config: &Config, shared: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
    let projects = open::block_on(async {
        match &shared.server {
            Some(server) => ask_all(&Api::new(server)?).await,
            None => read_all(config).await,
        }
    })?;
    if shared.json {
        output::json(&json!(projects))?;
    } else if projects.is_empty() {
        output::text("(no projects yet: `recapd project join PROJECT AGENT` makes one)")?;
    } else {
        let line = |project: &Value| {
            let name = project["project_id"].as_str().unwrap_or_default().to_owned();
            format!(
                "{name}  {}, active last {}",
                count(project["agents"].as_i64().unwrap_or_default(), "agent"),
                project["updated_at"].as_str().unwrap_or_default()
            )
        };
        let lines: Vec<String> = projects.iter().map(line).collect();
        output::text(&lines.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn read_all(config: &Config) -> Result<Vec<Value>, CommandFailure> {
    let store = open::look(config).await?;
    let mut projects: Vec<Value> = Vec::new();
    let mut after: Option<ProjectId> = None;
    loop {
        let page = store.projects(after.as_ref(), PAGE).await?;
        after = page.last().map(|last| last.project.clone());
        projects.extend(page.into_iter().map(|figures| {
            json!({
                "project_id": figures.project,
                "agents": figures.agents,
                "updated_at": figures.updated_at,
            })
        }));
        if after.is_none() {
            return Ok(projects);
        }
    }
}

async fn ask_all(daemon: &Api) -> Result<Vec<Value>, CommandFailure> {
    let mut projects = Vec::new();
    let mut path = format!("/v1/projects?limit={PAGE}");
    loop {
        let page = daemon.get(&path, "application/json").await?;
        let mut page: Value = serde_json::from_str(&page).map_err(anyhow::Error::new)?;
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
        match &shared.server {
            Some(server) => {
                let daemon = Api::new(server)?;
                for agent in agents {
                    let path = format!("/v1/projects/{project}/agents/{agent}");
                    if joins {
                        daemon.put(&path).await?;
                    } else {
                        daemon.delete(&path).await?;
                    }
                }
            }
            None => change_here(config, project, agents, joins).await?,
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

async fn change_here(
    config: &Config,
    project: &ProjectId,
    agents: &[AgentId],
    joins: bool,
) -> Result<(), CommandFailure> {
    let store: Arc<dyn Store> = Arc::new(open::look(config).await?);
    // All are looked at before the first one is changed.
    for agent in agents {
        let Some(row) = store.agent(agent).await? else {
            return Err(open::unknown(store.as_ref(), agent).await);
        };
        if !joins && row.project.as_deref() != Some(project.as_str()) {
            let belongs = row.project.as_deref().unwrap_or("none");
            return Err(CommandFailure::not_found(format!(
                "agent `{agent}` doesn't belong to project `{project}` but to {belongs}; nothing was changed"
            )));
        }
    }
    let ingestor: Ingestor = assembly::ingestor_alone(config, store, Arc::new(SystemClock)).await?;
    for agent in agents {
        ingestor.set_project(agent, joins.then_some(project)).await?;
    }
    Ok(())
}
