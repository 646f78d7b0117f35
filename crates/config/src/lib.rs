//! The configuration: its keys, sources and checks.
//!
//! There are four sources, each of which overrides the ones before: the defaults, a TOML file, the environment, `--set`. The
//! defaults are the commented `config.toml` of the repository, which is compiled in, so that the reference is always right.
//!
//! Invariants: every key has a default. An unknown key or variable is an error. [`Loader::load`] returns only what has passed
//! [`Config::validate`]. Secrets are not part of the configuration: [`api_key`] reads the provider's key separately, into a type
//! that can't be printed.

mod batch;
mod check;
mod database;
mod duration;
mod environment;
mod error;
mod expert;
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
mod proxy;
mod recall;
mod reference;
mod reload;
mod removed;
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
pub use proxy::{ProxyConfig, ProxyMode};
pub use recall::RecallConfig;
pub use reference::{commented, json_schema, markdown, starting};
pub use reload::{RELOADED, ReloadOutcome};
pub use secret::{KeyError, api_key, embeddings_api_key, fallback_api_key};
pub use sections::{
    Ageing, ContextConfig, ConvergenceConfig, Effort, HookConfig, JournalConfig, ModelConfig, ModelMode,
    OutputLimitField, PerspectiveConfig, ProfileName, QueueConfig, ScheduleConfig, SessionConfig,
    SummaryConfig, WindowConfig, WorkerConfig,
};
pub use socket::{InvalidSocket, LocalSocket, RuntimeFolders, Sockets};
pub use spend::{PricesError, SpendConfig, shipped_prices};
pub use trace::{HeadersError, TraceConfig};

/// The commented reference of all keys, which also states their defaults.
pub const DEFAULT_TOML: &str = include_str!("../config.toml");

/// All settings. `config.toml` documents the keys. The fields have the same names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub database: DatabaseConfig,
    /// The window's budget and how tokens are counted.
    pub window: WindowConfig,
    /// When a session ends by itself.
    pub session: SessionConfig,
    pub context: ContextConfig,
    /// How shared conversations are rendered for each speaker.
    pub perspective: PerspectiveConfig,
    /// How similar two speakers may sound.
    pub convergence: ConvergenceConfig,
    /// The summary's size and how it ages.
    pub summary: SummaryConfig,
    /// When updates are due, how long leases last, how failures are retried.
    pub queue: QueueConfig,
    pub worker: WorkerConfig,
    pub model: ModelConfig,
    pub fallback: FallbackConfig,
    pub spend: SpendConfig,
    pub batch: BatchConfig,
    pub schedule: ScheduleConfig,
    /// Search by embeddings.
    pub recall: RecallConfig,
    pub journal: JournalConfig,
    pub http: HttpConfig,
    pub proxy: ProxyConfig,
    pub hook: HookConfig,
    pub log: LogConfig,
    pub trace: TraceConfig,
}

impl Config {
    /// Returns how long exchanges may wait for a batch's answer, in milliseconds; 0 if batches are off.
    pub fn batch_wait_ms(&self) -> i64 {
        if self.model.batch { self.batch.max_wait_ms } else { 0 }
    }
}

impl Default for Config {
    fn default() -> Self {
        toml::from_str(DEFAULT_TOML).expect("a test reads the embedded config.toml")
    }
}

#[cfg(test)]
mod tests;
