//! `[fallback]`: the model that is called if the model of `[model]` fails.

use serde::{Deserialize, Serialize};

use super::sections::{ModelConfig, ModelMode};

/// `[fallback]`. The keys have the same meaning as in `[model]`. The other settings of `[model]` apply to this model, too.
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
    /// Returns the settings of the fallback's model, in the form of `[model]`; `None` if the fallback isn't a model.
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
    /// No fallback.
    None,
    /// The built-in summariser.
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
    /// Returns the mode of the fallback's model; `None` if the fallback isn't a model.
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
