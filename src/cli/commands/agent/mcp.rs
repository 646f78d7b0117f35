//! `recapd mcp`: the Model Context Protocol on standard input and output.

use std::{env::current_dir, process::ExitCode, sync::Arc};

use async_trait::async_trait;
use clap::Args;
use rmcp::{ServiceExt as _, transport::async_rw::AsyncRwTransport};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::handoff;
use crate::{
    cli::{
        GlobalOptions,
        backend::{api::Api, open, target},
        exit::{CONFIGURATION, CommandFailure},
    },
    hook,
};
use recapd_api::{
    history::HistoryQuery,
    mcp::{self, AgentHints, Desk, Local, MESSAGE_BYTES_MAX, Remote, Source, SourceError, ToolSet, Way},
};
use recapd_config::{Config, Environment};
use recapd_core::{domain::agent::AgentId, tokenizer};
use recapd_engine::{
    assembly,
    ingest::{NoteRequest, WrittenNotesReply},
    snapshot::Snapshots,
};
use recapd_platform::{clock::SystemClock, threads};
use recapd_store::Store;
use recapd_telemetry::{self as telemetry, Surroundings};

#[derive(Debug, Args)]
#[command(after_help = "\
Hosts start this command themselves; docs/mcp.md says how to configure them. It asks the daemon at http.listen if one runs there,
otherwise it reads the database. Its log goes to standard error. Examples:
  claude mcp add recapd -- recapd mcp
  codex mcp add recapd -- recapd mcp --server http://127.0.0.1:7411
  recapd mcp --db /var/lib/recapd/recapd.db
  recapd mcp --tools notes,memory")]
pub(crate) struct Mcp {
    /// The agent of calls that name none [default: the session's, otherwise the newest of the folder's project]
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Further tools to list, separated by commas: notes, memory (Anthropic's), codex (those that Codex' models know),
    /// or client (the set that fits the host)
    #[arg(long, value_name = "SETS", value_delimiter = ',')]
    tools: Vec<ToolSet>,
}

impl Mcp {
    pub(crate) fn run(
        self,
        config: &Config,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let _logging = telemetry::init(&config.log, &Surroundings::of_standard_error(environment), None)
            .map_err(|error| CommandFailure::new(CONFIGURATION, error))?;
        let own_environment = environment.clone();
        let hints = AgentHints {
            agent: self.agent,
            lookup: Some(Arc::new(move || hook::current_session(&own_environment))),
            project: current_dir().ok().map(|folder| hook::project_id(&folder, environment)),
            ..AgentHints::default()
        };
        open::block_on(async {
            let way = way(config, options).await?;
            let state = mcp::ServerState::new(way, hints, self.tools, CancellationToken::new());
            let (input, output) = rmcp::transport::io::stdio_pipes();
            let transport =
                AsyncRwTransport::new_server(input, output).with_max_line_length(MESSAGE_BYTES_MAX);
            let running = mcp::Server::new(&state).serve(transport).await;
            running.map_err(anyhow::Error::new)?.waiting().await.map_err(anyhow::Error::new)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Returns the way to the data: the daemon or the database that an option names. Without such an option, each request
/// goes to the configured daemon if it runs, and otherwise to the database.
async fn way(config: &Config, options: &GlobalOptions) -> Result<Way, CommandFailure> {
    let usage = |error: SourceError| CommandFailure::usage(error.to_string());
    if let Some(server) = &options.server {
        let daemon = Remote::new(&server.base).map_err(usage)?.with_credentials(options.credentials.clone());
        return Ok(Way::Fixed(Arc::new(daemon)));
    }
    if options.db.is_some() {
        return Ok(Way::Fixed(look(config.clone(), options.clone()).await?));
    }
    let daemon = Remote::new(&target::base(&config.http))
        .map_err(usage)?
        .with_credentials(options.credentials.clone());
    let (config, options) = (config.clone(), options.clone());
    let open = move || {
        let looking = look(config.clone(), options.clone());
        Box::pin(async {
            let looked = looking.await;
            looked.map_err(|failure| SourceError::Unavailable(failure.text()))
        }) as mcp::DatabaseOpening
    };
    Ok(Way::nearest(daemon, open))
}

/// Writes notes and handoffs in the same way as the commands `notes` and `handoff`.
struct CommandDesk {
    config: Config,
    options: GlobalOptions,
}

impl CommandDesk {
    /// Runs the command in another thread with its own runtime. The thread doesn't wait for the command's database to
    /// close, because this process goes on.
    async fn run<T, F>(
        &self,
        command: impl FnOnce(Config, GlobalOptions) -> F + Send + 'static,
    ) -> Result<T, SourceError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CommandFailure>>,
    {
        let (config, options) = (self.config.clone(), self.options.clone());
        let run = threads::computed("running a command", move || {
            let runtime = threads::runtime()?;
            let outcome = runtime.block_on(command(config, options));
            runtime.shutdown_background();
            outcome
        });
        let outcome = run.await.map_err(|panicked| SourceError::Unavailable(panicked.to_string()))?;
        outcome.map_err(|failure: CommandFailure| SourceError::Refused(failure.text()))
    }
}

#[async_trait]
impl Desk for CommandDesk {
    async fn write_notes(
        &self,
        agent: &AgentId,
        requests: &[NoteRequest],
    ) -> Result<WrittenNotesReply, SourceError> {
        let path = format!("/v1/agents/{agent}/notes");
        let body = json!({ "changes": requests });
        self.run(move |config, options| async move {
            Api::changing(&config, &options).await?.post(&path, &body).await
        })
        .await
    }

    async fn handoff(&self, agent: &AgentId, max_tokens: Option<i64>) -> Result<String, SourceError> {
        let agent = agent.clone();
        let reply = self.run(move |config, options| async move {
            handoff::read(&config, &options, &agent, max_tokens).await
        });
        Ok(reply.await?["text"].as_str().unwrap_or_default().to_owned())
    }
}

/// Opens the configured database for reading.
async fn look(config: Config, options: GlobalOptions) -> Result<Arc<dyn Source>, CommandFailure> {
    let store: Arc<dyn Store> = Arc::new(open::look(&config).await?);
    let clock = Arc::new(SystemClock);
    let snapshots = Snapshots::new(
        Arc::clone(&store),
        tokenizer::ceiling_counter(),
        Arc::clone(&clock) as _,
        config.summary.max_tokens,
    )
    .redacting(config.summary.redactor())
    .ageing(assembly::summary_policy(&config).ageing);
    Ok(Arc::new(Local {
        store,
        snapshots: Arc::new(snapshots),
        embedder: None,
        clock,
        history: HistoryQuery {
            summary_tokens_max: config.summary.max_tokens,
            convergence: config.convergence.rules(),
            ..HistoryQuery::default()
        },
        followed: None,
        scope: None,
        desk: Arc::new(CommandDesk { config, options }),
    }))
}
