//! The sections, one struct each. What a key means and may be stands in `config.toml`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::RedactPatterns;
use recapd_core::domain::{
    context::{Alternation, ContextOptions},
    convergence::{InvalidWeights, Profile, Rules, Thresholds},
    perspective::{self, Mode, PerspectiveStyle},
    preset::Preset,
    redaction::Redactor,
    settings::OnOverflow,
    summary::compaction::Style,
    window::Budget,
    work::{Fairness, RetryPolicy},
};
use recapd_platform::crontab::Crontab;

/// `[window]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    /// Values for what isn't set; when a configuration is loaded they are in it.
    pub preset: Preset,
    /// Ceiling; 0 disables eviction.
    pub budget_tokens: i64,
    /// Where an eviction stops, as a share of the budget.
    pub low_water: f64,
    /// Tokens of a leg from which on the next round begins another one.
    pub leg_tokens: i64,
    /// Ceiling in messages; 0 is none.
    pub max_messages: i64,
    /// What happens when the newest leg alone is too big.
    pub on_overflow: OnOverflow,
    /// Whose tokenizer counts messages.
    pub provider: String,
    /// Which model's tokenizer counts messages.
    pub model: String,
}

impl WindowConfig {
    /// The budget of an agent that has none of its own.
    pub fn budget(&self) -> Budget {
        Budget::new(self.budget_tokens, self.low_water)
            .with_max_messages(self.max_messages)
            .with_leg_tokens(self.leg_tokens)
    }
}

/// `[session]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionConfig {
    /// A pause longer than this ends a session; 0 never does.
    pub idle_gap_minutes: i64,
}

/// `[context]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Ceiling of a whole request.
    pub max_tokens: i64,
    /// Tokens of it that stay free for the answer.
    pub output_reserve_tokens: i64,
    /// Tokens of it that stay free for what agents send beside the conversation.
    pub system_reserve_tokens: i64,
    /// The most tokens of copies of pinned and important messages.
    pub pins_max_tokens: i64,
    /// Whether the first message of the session stays in view.
    pub anchor: bool,
    /// What happens to neighbouring turns of one side.
    pub alternation: Alternation,
}

impl ContextConfig {
    /// How contexts are built unless a request says otherwise.
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

/// `[perspective]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerspectiveConfig {
    /// Speakers' names with commas between them; empty for those who are heard.
    pub participants: String,
    /// What stands before the words of a human who steps in.
    pub human_tag: String,
    /// What kind of conversation it is.
    pub mode: Mode,
}

impl PerspectiveConfig {
    /// How shared conversations are told unless an agent's settings say otherwise.
    pub fn telling(&self) -> PerspectiveStyle {
        PerspectiveStyle {
            participants: perspective::names(&self.participants),
            human_tag: self.human_tag.clone(),
            mode: self.mode,
        }
    }
}

/// `[convergence]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvergenceConfig {
    /// How speakers are compared.
    pub profile: ProfileName,
    /// What each likeness weighs with [`ProfileName::Custom`].
    pub weights: String,
    /// So many of the last messages are compared.
    pub window_messages: usize,
    /// From this score on a warning is given; 0 never.
    pub warn_at: f64,
    /// From this score on the conversation should end; 0 never.
    pub stop_at: f64,
}

impl ConvergenceConfig {
    /// The rules that this is; the weights of a custom profile were checked.
    pub fn rules(&self) -> Rules {
        let at = |score: f64| (score > 0.0).then_some(score);
        Rules {
            profile: self.profile().unwrap_or(Profile::BALANCED),
            window_messages: self.window_messages,
            thresholds: Thresholds {
                warn_at: at(self.warn_at),
                stop_at: at(self.stop_at),
            },
        }
    }

    /// The profile, of whichever kind.
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

/// How two speakers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    /// A bit of everything.
    Balanced,
    /// Above all the form.
    Structural,
    /// Above all the words.
    Semantic,
    /// Words and form.
    Strict,
    /// By weights of one's own.
    Custom,
}

/// `[summary]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummaryConfig {
    /// Ceiling, in tokens of o200k; at most 10,000.
    pub max_tokens: i64,
    /// Below this share of `max_tokens` new items are appended.
    pub append_below: f64,
    /// Below this share lines are shortened; above it some are left out.
    pub merge_below: f64,
    /// Whether a model, if there is one, compacts documents that grew too big.
    pub compact_by_model: bool,
    /// Whether items age.
    pub ageing: Ageing,
    /// Oldest age of the first section.
    pub session_hours: i64,
    /// Oldest age of the second section.
    pub yesterday_hours: i64,
    /// Oldest age of the third section.
    pub week_hours: i64,
    /// Whether what is older leaves the document.
    pub drop_older: bool,
    /// How lines are written.
    pub style: Style,
    /// Where agents work that don't say it themselves.
    pub time_zone: String,
    /// Whether secrets are kept from models and readers.
    pub redact: bool,
    /// Regular expressions for more secrets.
    pub redact_patterns: RedactPatterns,
}

impl SummaryConfig {
    /// The rules that find secrets. What is unused was compiled, too, so that switching redaction on never fails.
    pub fn redactor(&self) -> Redactor {
        if self.redact {
            self.redact_patterns.redactor().clone()
        } else {
            Redactor::off()
        }
    }
}

/// Whether items move through the sections as they grow older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ageing {
    Age,
    /// By days.
    Calendar,
    /// They don't.
    Off,
}

/// `[queue]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// So many pending exchanges start an update.
    pub batch_exchanges: i64,
    /// These must have so many tokens, too, where a model is asked; 0 asks for none.
    pub batch_tokens_min: i64,
    /// Less starts one when the oldest has waited this long.
    pub max_wait_ms: i64,
    /// A new row waits this long for more.
    pub debounce_ms: i64,
    /// How often the queue is looked at while something in it may be due.
    pub poll_ms: u64,
    /// How long a claim holds without renewal.
    pub lease_ms: i64,
    /// Failed attempts until digests stand in.
    pub attempts_max: i64,
    /// Crashes until the row is parked.
    pub crashes_max: i64,
    /// The first wait is up to twice this long.
    pub backoff_base_ms: i64,
    /// No wait is longer.
    pub backoff_max_ms: i64,
    /// A parked row is revived at most this often.
    pub revive_after_ms: i64,
    /// How often missing rows are looked for.
    pub reconcile_ms: u64,
    /// How far an agent's update is put behind its time for each one of its project that waits already.
    pub project_spacing_ms: i64,
    /// PostgreSQL: this daemon's name in leases; empty: made of the machine's name and the address.
    pub owner: String,
}

impl QueueConfig {
    /// How often the queue is looked at when nothing wakes the worker.
    pub fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }

    /// When failed work is tried again.
    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempts_max: self.attempts_max,
            crashes_max: self.crashes_max,
            backoff_base_ms: self.backoff_base_ms,
            backoff_max_ms: self.backoff_max_ms,
        }
    }

    /// Where rows of a project stand.
    pub fn fairness(&self) -> Fairness {
        Fairness {
            project_spacing_ms: self.project_spacing_ms,
        }
    }
}

/// `[worker]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// The most updates at the same time.
    pub concurrency: usize,
    /// The most tokens that one model call reads.
    pub input_tokens_max: i64,
    /// The most exchanges that one model call reads.
    pub batch_exchanges_max: i64,
    /// The most characters of a tool's arguments or result that the model sees.
    pub tool_chars_max: usize,
    /// The most characters of what somebody said that the model sees.
    pub said_chars_max: usize,
    /// How long running updates may take to finish at shutdown.
    pub drain_ms: u64,
}

impl WorkerConfig {
    /// How long running updates may take to finish at shutdown.
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }
}

/// `[model]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Who writes the summaries.
    pub mode: ModelMode,
    /// Where the provider answers; empty for its own address.
    pub base_url: String,
    /// Whether another host may be asked over `http://`.
    pub allow_http: bool,
    /// The model's name at the provider; empty for the one proposed for the mode.
    pub model: String,
    /// A file with the key; empty for none.
    pub api_key_file: String,
    /// What calls go through; empty for nothing.
    pub proxy: String,
    /// How long one call may take.
    pub timeout_ms: u64,
    /// How long connecting may take.
    pub connect_timeout_ms: u64,
    /// The most tokens of one answer.
    pub output_tokens_max: i64,
    /// Which field of the request carries `output_tokens_max`.
    pub output_limit_field: OutputLimitField,
    /// How much a model that thinks should think.
    pub effort: Effort,
    /// Added to `output_tokens_max` where thinking counts in it.
    pub thinking_reserve_tokens: i64,
    /// The version of Anthropic's API.
    pub anthropic_version: AnthropicVersion,
    /// The context with which Ollama loads the model; 0 for what updates may need.
    pub num_ctx: i64,
    /// The most calls at the same time.
    pub concurrency: usize,
    /// The most requests a minute; 0 for no limit.
    pub requests_per_minute: i64,
    /// The most tokens a minute; 0 for no limit.
    pub tokens_per_minute: i64,
    /// So many failures in a row, and the provider is left alone; 0 never does.
    pub breaker_failures: i64,
    /// For how long, at first.
    pub breaker_rest_ms: i64,
    /// Whether what may wait is asked in batches.
    pub batch: bool,
}

impl ModelConfig {
    /// Where the provider answers.
    pub fn address(&self) -> &str {
        if self.base_url.is_empty() {
            self.mode.own_address()
        } else {
            &self.base_url
        }
    }

    /// The model that is asked; empty if none is named and none can be proposed.
    pub fn name(&self) -> &str {
        if self.model.is_empty() {
            self.mode.proposed_model()
        } else {
            &self.model
        }
    }
}

/// Who writes the summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelMode {
    /// The built-in extractive summariser.
    Offline,
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI, or what speaks its chat completions.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Google's Gemini.
    Gemini,
    Ollama,
}

impl ModelMode {
    /// How the configuration spells it.
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

    /// Whether the provider answers batches.
    pub fn has_batches(self) -> bool {
        !matches!(self, Self::Offline | Self::Ollama)
    }

    /// This mode; for `offline` the one whose models are called like `model`, which may also stand behind a server that
    /// speaks OpenAI's chat completions.
    #[must_use]
    pub fn or_of(self, model: &str) -> Self {
        match self {
            Self::Offline if model.starts_with("claude") => Self::Anthropic,
            Self::Offline if model.starts_with("gemini") => Self::Gemini,
            Self::Offline => Self::OpenAi,
            chosen => chosen,
        }
    }

    /// Where the provider itself answers; `config.toml` states the same.
    fn own_address(self) -> &'static str {
        match self {
            Self::Offline => "",
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }

    /// A model that is good enough and cheap; `config.toml` states the same. Nobody knows what an Ollama has.
    fn proposed_model(self) -> &'static str {
        match self {
            Self::Offline | Self::Ollama => "",
            Self::Anthropic => "claude-haiku-5-5",
            Self::OpenAi | Self::OpenAiResponses => "gpt-5.4-mini",
            Self::Gemini => "gemini-3.8-flash",
        }
    }
}

/// How much a model that thinks should think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// As the provider finds right.
    Default,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// The version of Anthropic's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnthropicVersion {
    /// What every gateway knows.
    #[serde(rename = "2023-06-01")]
    June2023,
    /// The newer one.
    #[serde(rename = "2026-10-21")]
    October2026,
}

/// Which field of the request limits the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    /// By the model's name.
    Auto,
    /// What reasoning models take.
    MaxCompletionTokens,
    /// What older models and most compatible servers take.
    MaxTokens,
}

/// `[schedule]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleConfig {
    /// When items move to their next section.
    pub ageing: Crontab,
    /// When old records are deleted.
    pub prune: Crontab,
    /// How long the record of an update is kept.
    pub runs_keep_days: i64,
    /// How many versions of a summary are kept.
    pub versions_keep: i64,
    /// How long a model's answer is kept.
    pub journal_keep_hours: i64,
    /// How often the sampled metrics are read from the database.
    pub sample_ms: u64,
}

/// `[journal]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalConfig {
    /// A folder for what is accepted; empty for none.
    pub dir: String,
}

/// `[hook]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookConfig {
    /// The longest brief that a session is given.
    pub max_chars: usize,
    /// Whether a session is told that there is a newer version.
    pub announce: bool,
}
