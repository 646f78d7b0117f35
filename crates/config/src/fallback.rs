//! `[fallback]`: the model that is called when the first one fails.

use serde::{Deserialize, Serialize};

use super::sections::{ModelConfig, ModelMode};

/// `[fallback]`: the model that is called when the first one fails. Other settings are as in `[model]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackConfig {
    pub mode: FallbackMode,
    /// The provider's URL; empty for its official one.
    pub base_url: String,
    /// True if another host may be called over `http://`.
    pub allow_http: bool,
    /// The provider's name of the model; empty for the mode's default.
    pub model: String,
    /// A file with the key; empty for none.
    pub api_key_file: String,
    /// The proxy of calls; empty for none.
    pub proxy: String,
    /// The most concurrent calls.
    pub concurrency: usize,
    /// The most requests per minute; 0 for no limit.
    pub requests_per_minute: i64,
    /// The most tokens per minute; 0 for no limit.
    pub tokens_per_minute: i64,
}

impl FallbackConfig {
    /// The second model's settings, in the form of `[model]`; `None` if there is none.
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

/// The fallback's provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackMode {
    /// No fallback.
    None,
    /// The built-in summariser.
    Offline,
    /// Anthropic's Messages, then the built-in summariser.
    Anthropic,
    /// OpenAI, or servers with its chat completions API, then the built-in summariser.
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
    /// The mode of the second model; `None` if there is none.
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
