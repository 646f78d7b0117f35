//! The sections of the configuration, one struct each. `config.toml` documents the keys and their limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::RedactPatterns;
use recapd_core::domain::{
    budget::OnOverflow,
    context::{Alternation, ContextOptions},
    convergence::{InvalidWeights, Profile, Rules, Thresholds},
    perspective::{self, Mode, PerspectiveStyle},
    preset::Preset,
    redaction::Redactor,
    summary::compaction::Style,
    window::Budget,
    work::RetryPolicy,
};
use recapd_platform::crontab::Crontab;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    /// Implies values for keys that aren't set. They are inserted when the configuration is loaded.
    pub preset: Preset,
    /// Limits the tokens of a window; 0 disables eviction.
    pub budget_tokens: i64,
    /// The share of the budget at which an eviction stops.
    pub low_water: f64,
    /// When a leg has this many tokens, the next round begins a new leg.
    pub leg_tokens: i64,
    /// Limits the messages of a window; 0 means no limit.
    pub max_messages: i64,
    pub on_overflow: OnOverflow,
    pub provider: String,
    pub model: String,
}

impl WindowConfig {
    /// Returns the budget of an agent that has none of its own.
    pub fn budget(&self) -> Budget {
        Budget::new(self.budget_tokens, self.low_water)
            .with_max_messages(self.max_messages)
            .with_leg_tokens(self.leg_tokens)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionConfig {
    /// The pause after which a session ends; 0 means never.
    pub idle_gap_minutes: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Limits the tokens of a request and its answer.
    pub max_tokens: i64,
    /// How many tokens of `max_tokens` are reserved for the answer.
    pub output_reserve_tokens: i64,
    /// How many tokens of `max_tokens` are reserved for what agents send in addition to the conversation.
    pub system_reserve_tokens: i64,
    /// Limits the tokens of copies of pinned and important messages.
    pub pins_max_tokens: i64,
    /// True if the first message of the session stays in view.
    pub anchor: bool,
    pub alternation: Alternation,
}

impl ContextConfig {
    /// Returns the options with which contexts are built. A request may override them.
    pub fn options(&self) -> ContextOptions {
        ContextOptions {
            max_tokens: self.max_tokens,
            output_reserve_tokens: self.output_reserve_tokens,
            system_reserve_tokens: self.system_reserve_tokens,
            pins_max_tokens: self.pins_max_tokens,
            anchor: self.anchor,
            alternation: self.alternation,
            ..ContextOptions::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerspectiveConfig {
    /// Speakers' names, separated by commas; empty for everybody who has spoken.
    pub participants: String,
    /// The mark before the words of a human who steps in.
    pub human_tag: String,
    pub mode: Mode,
}

impl PerspectiveConfig {
    /// Returns the style in which shared conversations are rendered. An agent's settings may override it.
    pub fn telling(&self) -> PerspectiveStyle {
        PerspectiveStyle {
            participants: perspective::names(&self.participants),
            human_tag: self.human_tag.clone(),
            mode: self.mode,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvergenceConfig {
    pub profile: ProfileName,
    /// The weight of each similarity for [`ProfileName::Custom`].
    pub weights: String,
    /// A warning is given from this score on; 0 means never.
    pub warn_at: f64,
    /// The conversation should end from this score on; 0 means never.
    pub stop_at: f64,
}

impl ConvergenceConfig {
    /// Returns the rules with these settings. The weights of a custom profile were checked before.
    pub fn rules(&self) -> Rules {
        let at = |score: f64| (score > 0.0).then_some(score);
        Rules {
            profile: self.profile().unwrap_or(Profile::BALANCED),
            thresholds: Thresholds { warn_at: at(self.warn_at), stop_at: at(self.stop_at) },
            ..Rules::default()
        }
    }

    /// Returns the built-in or the custom profile.
    pub(super) fn profile(&self) -> Result<Profile, InvalidWeights> {
        match self.profile {
            ProfileName::Balanced => Ok(Profile::BALANCED),
            ProfileName::Structural => Ok(Profile::STRUCTURAL),
            ProfileName::Semantic => Ok(Profile::SEMANTIC),
            ProfileName::Strict => Ok(Profile::STRICT),
            ProfileName::Custom => Profile::parse(&self.weights),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    /// Weighs all similarities about equally.
    Balanced,
    Structural,
    Semantic,
    Strict,
    Custom,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummaryConfig {
    /// Limits the tokens of a document, counted by o200k; at most 10,000.
    pub max_tokens: i64,
    /// True if a model, where one is configured, compacts documents that have become too big.
    pub compact_by_model: bool,
    pub ageing: Ageing,
    pub session_hours: i64,
    pub yesterday_hours: i64,
    pub week_hours: i64,
    /// True if older items leave the document.
    pub drop_older: bool,
    pub style: Style,
    /// The time zone of agents that have none of their own.
    pub time_zone: String,
    /// True if secrets are hidden from models and readers.
    pub redact: bool,
    pub redact_patterns: RedactPatterns,
}

impl SummaryConfig {
    /// Returns the rules that find secrets; none if redaction is off.
    pub fn redactor(&self) -> Redactor {
        if self.redact { self.redact_patterns.redactor().clone() } else { Redactor::off() }
    }
}

/// How items move through the sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ageing {
    /// By the hours since they happened.
    Age,
    /// By calendar days.
    Calendar,
    /// Not at all.
    Off,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// The number of pending exchanges that starts an update.
    pub batch_exchanges: i64,
    /// The tokens that the pending exchanges must also have if a model is called; 0 means no minimum.
    pub batch_tokens_min: i64,
    /// Fewer exchanges start an update when the oldest has waited this long.
    pub max_wait_ms: i64,
    /// How long a new row waits for more exchanges.
    pub debounce_ms: i64,
    /// The interval between polls while a row may be due.
    pub poll_ms: u64,
    /// How long a lease lasts if it isn't renewed.
    pub lease_ms: i64,
    /// After this many failed attempts, digests replace the answer.
    pub attempts_max: i64,
    /// After this many crashes, the row is parked.
    pub crashes_max: i64,
    /// The first wait after a failure is up to twice this long.
    pub backoff_base_ms: i64,
    /// Limits the wait after a failure.
    pub backoff_max_ms: i64,
    /// The shortest time between two revivals of a parked row.
    pub revive_after_ms: i64,
    pub reconcile_ms: u64,
    /// PostgreSQL: this daemon's name in leases; if empty, it is made from the machine's name and the address.
    pub owner: String,
}

impl QueueConfig {
    /// Returns the interval between polls of the queue if nothing wakes the worker.
    pub fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }

    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempts_max: self.attempts_max,
            crashes_max: self.crashes_max,
            backoff_base_ms: self.backoff_base_ms,
            backoff_max_ms: self.backoff_max_ms,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    pub concurrency: usize,
    pub input_tokens_max: i64,
    pub batch_exchanges_max: i64,
    pub drain_ms: u64,
}

impl WorkerConfig {
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    pub mode: ModelMode,
    pub base_url: String,
    /// True if another host may be called over `http://`.
    pub allow_http: bool,
    /// The model's name at the provider; empty for the mode's default.
    pub model: String,
    /// A file with the key; empty if there is none.
    pub api_key_file: String,
    /// The proxy for calls; empty if there is none.
    pub proxy: String,
    pub timeout_ms: u64,
    pub output_tokens_max: i64,
    /// The request field that carries `output_tokens_max`.
    pub output_limit_field: OutputLimitField,
    /// How much a reasoning model should think.
    pub effort: Effort,
    /// Is added to `output_tokens_max` if thinking counts towards it.
    pub thinking_reserve_tokens: i64,
    /// The context size with which Ollama loads the model; 0 for what updates may need.
    pub num_ctx: i64,
    pub concurrency: usize,
    /// Limits the requests per minute; 0 means no limit.
    pub requests_per_minute: i64,
    /// Limits the tokens per minute; 0 means no limit.
    pub tokens_per_minute: i64,
    /// After this many failures in a row the circuit breaker opens; 0 means never.
    pub breaker_failures: i64,
    /// How long the circuit breaker stays open the first time.
    pub breaker_rest_ms: i64,
    /// True if work that can wait is sent in batches.
    pub batch: bool,
}

impl ModelConfig {
    pub fn address(&self) -> &str {
        if self.base_url.is_empty() { self.mode.own_address() } else { &self.base_url }
    }

    /// Returns the model's name; empty if none is configured and the mode has no default.
    pub fn name(&self) -> &str {
        if self.model.is_empty() { self.mode.proposed_model() } else { &self.model }
    }
}

/// The provider that writes summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelMode {
    Offline,
    Anthropic,
    /// OpenAI, or servers with its chat completions API.
    #[serde(rename = "openai")]
    OpenAi,
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    Gemini,
    Ollama,
}

impl ModelMode {
    pub fn word(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    pub fn has_batches(self) -> bool {
        !matches!(self, Self::Offline | Self::Ollama)
    }

    /// Returns this mode. For `offline`, returns the provider that the name `model` suggests, or OpenAI, whose chat completions
    /// API may serve any model.
    #[must_use]
    pub fn or_of(self, model: &str) -> Self {
        match self {
            Self::Offline if model.starts_with("claude") => Self::Anthropic,
            Self::Offline if model.starts_with("gemini") => Self::Gemini,
            Self::Offline => Self::OpenAi,
            chosen => chosen,
        }
    }

    /// Returns the provider's official URL, as `config.toml` states it.
    fn own_address(self) -> &'static str {
        match self {
            Self::Offline => "",
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }

    /// Returns a cheap model that is good enough, as `config.toml` states it; empty for Ollama, because recapd doesn't know which
    /// models are installed.
    fn proposed_model(self) -> &'static str {
        match self {
            Self::Offline | Self::Ollama => "",
            Self::Anthropic => "claude-haiku-5-5",
            Self::OpenAi | Self::OpenAiResponses => "gpt-5.4-mini",
            Self::Gemini => "gemini-3.8-flash",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    Default,
    Low,
    Medium,
    High,
}

/// Which request field limits the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    /// The model's name decides.
    Auto,
    /// For reasoning models.
    MaxCompletionTokens,
    /// For older models and most compatible servers.
    MaxTokens,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleConfig {
    pub ageing: Crontab,
    pub prune: Crontab,
    pub runs_keep_days: i64,
    pub versions_keep: i64,
    /// The interval at which sampled metrics are read from the database.
    pub sample_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalConfig {
    /// The folder of journals; empty if there is none.
    pub dir: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookConfig {
    pub max_chars: usize,
    /// True if a session is notified of a newer version.
    pub announce: bool,
}
