//! Providers against fake servers: one suite for all, and one for each provider's particularities.

mod conformance;
mod openai;
mod particular;
mod secrets;

pub(crate) use conformance::failures;
use recapd_core::domain::{
    effects::Effects,
    prompt::{Prompt, PromptLimits, PromptMaterial},
    time::Timestamp,
    transcript::{Line, Transcript, Voice},
    zone::Zone,
};
use recapd_llm::{
    ChatModel, LlmError, ModelRequest,
    anthropic::{Anthropic, AnthropicModel},
    gemini::{Gemini, GeminiModel},
    limits::LimitWait,
    ollama::{Ollama, OllamaModel},
    openai::{OpenAiChat, OpenAiModel},
    remote::RemoteSettings,
    responses::{Responses, ResponsesModel},
};
pub(crate) use secrets::echoes;

use crate::support::fake_provider::{FakeProvider, Shape};

/// Must never be seen.
const KEY: &str = "sk-very-secret-key";
/// A word of the prompt that must never appear in output.
const PASSPHRASE: &str = "swordfish";
const ASKED: [i64; 3] = [4, 5, 9];
/// Long enough for a busy machine; only tests of slow answers wait less.
const PATIENT_MS: u64 = 30_000;
const IMPATIENT_MS: u64 = 120;
const MODEL: &str = "small-model";

/// A question about [`ASKED`].
pub(crate) fn request() -> ModelRequest {
    let transcript = |&exchange: &i64| Transcript {
        continues: None,
        exchange,
        started_at: Timestamp(1_795_000_000_000),
        zone: Zone::UTC,
        tokens: 0,
        interrupted: false,
        api_error: String::new(),
        effects: Effects::default(),
        lines: vec![Line {
            voice: Voice::User,
            label: String::new(),
            text: format!(
                "Please fix the parser of module number {exchange}, my passphrase is {PASSPHRASE}."
            ),
            at: Timestamp(1_795_000_000_000),
        }],
    };
    let transcripts: Vec<Transcript> = ASKED.iter().map(transcript).collect();
    ModelRequest {
        prompt: Prompt::new(PromptMaterial::of(&transcripts), "k3v9x2m7", PromptLimits::default()),
        transcripts,
        facts: Vec::new(),
        output_tokens_max: 2_000,
        agent: None,
        limit_wait: LimitWait::default(),
    }
}

fn settings(base_url: impl Into<String>, timeout_ms: u64) -> RemoteSettings {
    let mut settings = RemoteSettings::new(base_url, MODEL);
    settings.api_key = Some(KEY.into());
    settings.http.timeout_ms = timeout_ms;
    settings
}

fn model(shape: Shape, fake: &FakeProvider) -> Box<dyn ChatModel> {
    named(shape, fake, MODEL)
}

fn named(shape: Shape, fake: &FakeProvider, name: &str) -> Box<dyn ChatModel> {
    let mut settings = settings(fake.base_url(shape), PATIENT_MS);
    name.clone_into(&mut settings.model);
    with(shape, settings).unwrap().0
}

/// A model with these settings, and its debug output.
fn with(shape: Shape, settings: RemoteSettings) -> Result<(Box<dyn ChatModel>, String), LlmError> {
    fn shown<M: ChatModel + std::fmt::Debug + 'static>(model: M) -> (Box<dyn ChatModel>, String) {
        let shown = format!("{model:?}");
        (Box::new(model), shown)
    }
    Ok(match shape {
        Shape::Anthropic => shown(AnthropicModel::new(Anthropic, settings)?),
        Shape::OpenAi => shown(OpenAiModel::new(OpenAiChat::default(), settings)?),
        Shape::Responses => shown(ResponsesModel::new(Responses, settings)?),
        Shape::Gemini => shown(GeminiModel::new(Gemini, settings)?),
        Shape::Ollama => shown(OllamaModel::new(Ollama { num_ctx: 8_192 }, settings)?),
    })
}
