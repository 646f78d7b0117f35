//! `[fallback]`: who is asked in the model's place.

use serde::{Deserialize, Serialize};

use super::sections::{ModelConfig, ModelMode};

/// `[fallback]`: who is asked in the model's place. What isn't said here is as in `[model]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackConfig {
    /// Who is asked.
    pub mode: FallbackMode,
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
    /// The most calls at the same time.
    pub concurrency: usize,
    /// The most requests a minute; 0 for no limit.
    pub requests_per_minute: i64,
    /// The most tokens a minute; 0 for no limit.
    pub tokens_per_minute: i64,
}

impl FallbackConfig {
    /// The second model, as `[model]` would say it; `None` if none is asked.
    pub fn model(&self, first: &ModelConfig) -> Option<ModelConfig> {
        let mode = self.mode.model_mode()?;
        Some(ModelConfig {
            mode,
            base_url: self.base_url.clone(),
            allow_http: self.allow_http,
            model: self.model.clone(),
            api_key_file: self.api_key_file.clone(),
            proxy: self.proxy.clone(),
            concurrency: self.concurrency,
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            ..first.clone()
        })
    }
}

/// Who is asked in the model's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackMode {
    /// Nobody.
    None,
    /// The built-in summariser.
    Offline,
    /// Anthropic's Messages, then the built-in summariser.
    Anthropic,
    /// OpenAI, or what speaks its chat completions, then the built-in summariser.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's Responses, then the built-in summariser.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Google's Gemini, then the built-in summariser.
    Gemini,
    /// Ollama, then the built-in summariser.
    Ollama,
}

impl FallbackMode {
    /// The mode of the second model; `None` if none is asked.
    fn model_mode(self) -> Option<ModelMode> {
        match self {
            Self::None | Self::Offline => None,
            Self::Anthropic => Some(ModelMode::Anthropic),
            Self::OpenAi => Some(ModelMode::OpenAi),
            Self::OpenAiResponses => Some(ModelMode::OpenAiResponses),
            Self::Gemini => Some(ModelMode::Gemini),
            Self::Ollama => Some(ModelMode::Ollama),
        }
    }
}
