//! `recapd project`: decides which agents share a summary.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cli::{
    GlobalOptions,
    backend::{api::Api, open},
    exit::CommandFailure,
    list::{ListPage, PageOptions, PagedPath},
    terminal::{
        output,
        table::{Align, Table},
    },
};
use recapd_config::Config;
use recapd_core::domain::{agent::AgentId, cursor::PagedList, project::ProjectId};

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
    /// List projects, by name, and how many agents each has
    List(PageOptions),
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
    pub(crate) fn run(self, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        match self.action {
            ProjectAction::List(page) => list(&page, config, options),
            ProjectAction::Join { project, agents } => change(config, options, &project, &agents, true),
            ProjectAction::Leave { project, agents } => change(config, options, &project, &agents, false),
        }
    }
}

fn list(page: &PageOptions, config: &Config, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
    let projects = PagedPath::new(PagedList::Projects, "/v1/projects", "projects");
    let page: ListPage<Value> =
        open::block_on(async { page.read(&Api::reading(config, options).await?, &projects).await })?;
    page.print(options, &text(&page.rows))
}

fn text(projects: &[Value]) -> String {
    if projects.is_empty() {
        return "(no projects yet: `recapd project join PROJECT AGENT` creates one)".to_owned();
    }
    let mut table =
        Table::new([("PROJECT", Align::Left), ("AGENTS", Align::Right), ("CHANGED", Align::Left)]);
    for project in projects {
        let text = |name: &str| project[name].as_str().unwrap_or_default().to_owned();
        table.row([text("project_id"), project["agents"].to_string(), text("updated_at")]);
    }
    table.text()
}

fn change(
    config: &Config,
    options: &GlobalOptions,
    project: &ProjectId,
    agents: &[AgentId],
    joins: bool,
) -> Result<ExitCode, CommandFailure> {
    open::block_on(async {
        let api = Api::changing_beside_daemon(config, options).await?;
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
    if options.json {
        let memberships: Vec<Value> =
            agents.iter().map(|agent| json!({ "agent_id": agent, "project_id": belongs })).collect();
        output::json(&json!(memberships))?;
    } else {
        let names: Vec<&str> = agents.iter().map(AgentId::as_str).collect();
        let (names, verb) = (names.join(", "), if joins { "joined" } else { "left" });
        output::text(&format!("{names} {verb} {project}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
