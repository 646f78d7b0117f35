//! OpenAI's chat completions, for OpenAI and all compatible servers: llama.cpp, vLLM, LM Studio, OpenRouter, LiteLLM. Ollama has
//! its own API.

pub(super) mod batch;
mod dialect;
mod wire;

use reqwest::Url;
use serde_json::Value;

use self::{
    dialect::ChatDialect,
    wire::{ChatRequest, ChatUsage, Completion},
};
use super::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{Protocol, RemoteModel, RemoteSettings, read_tokens},
};
pub use dialect::{OutputLimitField, is_reasoning_model};

pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
const OPENAI_HOST: &str = "api.openai.com";

pub type OpenAiModel = RemoteModel<OpenAiChat>;

#[derive(Clone, Copy, Debug, Default)]
pub struct OpenAiChat {
    pub output_limit_field: OutputLimitField,
}

impl Protocol for OpenAiChat {
    type Dialect = ChatDialect;

    const PROVIDER: &'static str = "openai";

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    fn first(&self, settings: &RemoteSettings, address: &Url) -> ChatDialect {
        ChatDialect::first(self.output_limit_field, settings, address)
    }

    fn path(&self, _: &str) -> String {
        "/chat/completions".to_owned()
    }

    fn body(
        &self,
        settings: &RemoteSettings,
        request: &ModelRequest,
        dialect: ChatDialect,
    ) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&ChatRequest::new(settings, request, dialect)?)
    }

    fn read(&self, body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        Completion::read(body)
    }

    fn read_usage(&self, body: &Value) -> ModelAnswer {
        read_tokens::<ChatUsage>(body, "usage").answer()
    }
}
