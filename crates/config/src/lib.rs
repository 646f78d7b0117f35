//! The configuration: what can be set, from where, and what is wrong with it.
//!
//! Four sources, each over the one before: the defaults, a TOML file, the environment, `--set`. The defaults are
//! the commented `config.toml` of the repository, compiled in, so that the reference and the truth are one text.
//!
//! Invariants: every key has a default; an unknown key or variable is an error; what [`Loader::load`] returns has
//! passed [`Config::validate`]. No secret is part of the configuration: the provider's key is read apart, by
//! [`api_key`], into a type that doesn't print.

mod batch;
mod check;
mod database;
mod environment;
mod error;
mod fallback;
mod file;
mod http;
mod keys;
mod listen;
mod loader;
mod log;
mod network;
mod owner;
mod patterns;
mod presets;
mod private;
mod reference;
mod reload;
mod secret;
mod sections;
mod socket;
mod spelling;
mod spend;
mod trace;

use serde::{Deserialize, Serialize};

pub use batch::BatchConfig;
pub use check::Violation;
pub use database::{DEFAULT_FILE, DatabaseConfig, Migrate, Synchronous, url_of};
pub use environment::{Environment, from_process_environment};
pub use error::{ConfigError, ConfigProblem, ConfigSource};
pub use fallback::{FallbackConfig, FallbackMode};
pub use http::{HttpConfig, SocketMode};
pub use listen::{InvalidListen, Listen};
pub use loader::{ConfigEntry, LoadedConfig, Loader, SYSTEM_FILE};
pub use log::{LogConfig, LogFormat, LogLevel};
pub use network::{InvalidNetwork, Network};
pub use patterns::RedactPatterns;
pub use private::read_private;
pub use reference::{commented, json_schema, markdown};
pub use reload::{RELOADED, ReloadOutcome};
pub use secret::{KeyError, api_key, fallback_api_key};
pub use sections::{
    Ageing, AnthropicVersion, ContextConfig, ConvergenceConfig, Effort, HookConfig, JournalConfig,
    ModelConfig, ModelMode, OutputLimitField, PerspectiveConfig, ProfileName, QueueConfig, ScheduleConfig,
    SessionConfig, SummaryConfig, WindowConfig, WorkerConfig,
};
pub use socket::{InvalidSocket, LocalSocket, RuntimeFolders, Sockets};
pub use spend::{PricesError, SpendConfig, shipped_prices};
pub use trace::{HeadersError, TraceConfig};

/// The commented reference of all keys, which is also the default of each.
pub const DEFAULT_TOML: &str = include_str!("../config.toml");

/// Everything that can be configured. The keys are documented in `config.toml`; the fields bear their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Storage.
    pub database: DatabaseConfig,
    /// The window's budget and how it is counted.
    pub window: WindowConfig,
    /// When a session ends by itself.
    pub session: SessionConfig,
    /// The whole request.
    pub context: ContextConfig,
    /// How shared conversations are told to their speakers.
    pub perspective: PerspectiveConfig,
    /// How alike two speakers may sound.
    pub convergence: ConvergenceConfig,
    /// The summary's size and ageing.
    pub summary: SummaryConfig,
    /// When updates are due, how long claims hold, how failures are retried.
    pub queue: QueueConfig,
    /// How updates run.
    pub worker: WorkerConfig,
    /// Who writes summaries.
    pub model: ModelConfig,
    /// Who is asked in its place.
    pub fallback: FallbackConfig,
    /// What that may cost.
    pub spend: SpendConfig,
    /// What is asked in batches.
    pub batch: BatchConfig,
    /// The cron jobs.
    pub schedule: ScheduleConfig,
    /// The live journal.
    pub journal: JournalConfig,
    /// The HTTP interface.
    pub http: HttpConfig,
    /// Hooks of coding agents.
    pub hook: HookConfig,
    pub log: LogConfig,
    /// Traces.
    pub trace: TraceConfig,
}

impl Config {
    /// How long exchanges may wait for the answer of a batch, in milliseconds; 0 if none are made.
    pub fn batch_wait_ms(&self) -> i64 {
        if self.model.batch {
            self.batch.max_wait_ms
        } else {
            0
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        toml::from_str(DEFAULT_TOML).expect("a test reads the embedded config.toml")
    }
}

#[cfg(test)]
mod tests;
