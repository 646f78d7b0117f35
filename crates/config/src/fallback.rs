//! `[fallback]`: the model that is called if the first one fails.

use serde::{Deserialize, Serialize};

use super::sections::{ModelConfig, ModelMode};

/// `[fallback]`: the model that is called if the first one fails. The keys have the same meaning as in `[model]`, whose other
/// settings apply here, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackConfig {
    pub mode: FallbackMode,
    pub base_url: String,
    pub allow_http: bool,
    pub model: String,
    pub api_key_file: String,
    pub proxy: String,
    pub concurrency: usize,
    pub requests_per_minute: i64,
    pub tokens_per_minute: i64,
}

impl FallbackConfig {
    /// Returns the second model's settings, in the form of `[model]`; `None` if there is none.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackMode {
    None,
    Offline,
    Anthropic,
    #[serde(rename = "openai")]
    OpenAi,
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    Gemini,
    Ollama,
}

impl FallbackMode {
    /// Returns the mode of the second model; `None` if there is none.
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
