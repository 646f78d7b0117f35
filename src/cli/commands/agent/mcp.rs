//! `recapd mcp`: the Model Context Protocol on standard input and output.

use std::{env::current_dir, process::ExitCode, sync::Arc};

use clap::Args;
use rmcp::{ServiceExt as _, transport::async_rw::AsyncRwTransport};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{
        GlobalOptions,
        backend::{api, open},
        exit::{CONFIGURATION, CommandFailure},
    },
    hook,
};
use recapd_api::{
    history::HistoryQuery,
    mcp::{self, AgentHints, Local, MESSAGE_BYTES_MAX, Remote, Source, SourceError, Way},
};
use recapd_config::{Config, Environment};
use recapd_core::{domain::agent::AgentId, tokenizer};
use recapd_engine::{assembly, snapshot::Snapshots};
use recapd_platform::clock::SystemClock;
use recapd_store::Store;
use recapd_telemetry::{self as telemetry, Surroundings};

#[derive(Debug, Args)]
#[command(after_help = "\
Hosts start it themselves; docs/mcp.md says how to tell them. It asks the daemon at http.listen while one runs there, else
reads the database. Its log goes to standard error. Examples:
  claude mcp add recapd -- recapd mcp
  codex mcp add recapd -- recapd mcp --server http://127.0.0.1:7411
  recapd mcp --db /var/lib/recapd/recapd.db")]
pub(crate) struct Mcp {
    /// The agent that calls without one are about [default: the session's, or else the newest of its folder's project]
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
}

impl Mcp {
    pub(crate) fn run(
        self,
        config: &Config,
        shared: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let _logging = telemetry::init(&config.log, &Surroundings::of_standard_error(environment), None)
            .map_err(|error| CommandFailure::new(CONFIGURATION, error))?;
        let surroundings = environment.clone();
        let hints = AgentHints {
            agent: self.agent,
            lookup: Some(Arc::new(move || hook::current_session(&surroundings))),
            project: current_dir()
                .ok()
                .map(|folder| hook::project_of(&folder, environment)),
            ..AgentHints::default()
        };
        open::block_on(async {
            let way = way(config, shared).await?;
            let shared = mcp::ServerState::new(way, hints, CancellationToken::new());
            let (input, output) = rmcp::transport::io::stdio_pipes();
            let transport =
                AsyncRwTransport::new_server(input, output).with_max_line_length(MESSAGE_BYTES_MAX);
            let running = mcp::Server::new(&shared).serve(transport).await;
            running
                .map_err(anyhow::Error::new)?
                .waiting()
                .await
                .map_err(anyhow::Error::new)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// The daemon or the database that was named; by default whichever is nearest.
async fn way(config: &Config, shared: &GlobalOptions) -> Result<Way, CommandFailure> {
    let refused = |error: SourceError| CommandFailure::usage(error.to_string());
    if let Some(server) = &shared.server {
        let daemon = Remote::new(&server.base)
            .map_err(refused)?
            .with_credentials(shared.credentials.clone());
        return Ok(Way::Fixed(Arc::new(daemon)));
    }
    if shared.db.is_some() {
        return Ok(Way::Fixed(look(config.clone()).await?));
    }
    let daemon = Remote::new(&api::base(&config.http))
        .map_err(refused)?
        .with_credentials(shared.credentials.clone());
    let config = config.clone();
    let open = move || {
        let looking = look(config.clone());
        Box::pin(async {
            let looked = looking.await;
            looked.map_err(|failed| SourceError::Unavailable(failed.text()))
        }) as mcp::DatabaseOpening
    };
    Ok(Way::nearest(daemon, open))
}

/// Opens the configured database for reading.
async fn look(config: Config) -> Result<Arc<dyn Source>, CommandFailure> {
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
    }))
}
