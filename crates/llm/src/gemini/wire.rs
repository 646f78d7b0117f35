//! The JSON of requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{GeminiDialect, ThinkingLimit};
use crate::{
    ModelAnswer, ModelRequest,
    fault::NoAnswer,
    remote::{AnswerFormat, RemoteSettings},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerateRequest<'a> {
    system_instruction: Content<'a>,
    contents: [Content<'a>; 1],
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: [ContentPart<'a>; 1],
}

#[derive(Serialize)]
struct ContentPart<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    /// Raw JSON, because the order of its fields matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'static RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ThinkingConfig {
    ThinkingLevel(&'static str),
    ThinkingBudget(i64),
}

impl<'a> GenerateRequest<'a> {
    pub(super) fn new(
        settings: &'a RemoteSettings,
        request: &'a ModelRequest,
        dialect: GeminiDialect,
    ) -> serde_json::Result<Self> {
        let schema = match dialect.format {
            AnswerFormat::Schema => Some(serde_json::from_str(request.prompt.schema.json)?),
            AnswerFormat::Object | AnswerFormat::Free => None,
        };
        Ok(Self {
            system_instruction: Content::new(None, &request.prompt.system),
            contents: [Content::new(Some("user"), &request.prompt.user)],
            generation_config: GenerationConfig {
                max_output_tokens: settings.limit_with_thinking(request),
                response_mime_type: (dialect.format != AnswerFormat::Free).then_some("application/json"),
                response_json_schema: schema,
                thinking_config: match dialect.thinking {
                    ThinkingLimit::Level(level) => Some(ThinkingConfig::ThinkingLevel(level)),
                    ThinkingLimit::Budget(tokens) => Some(ThinkingConfig::ThinkingBudget(tokens)),
                    ThinkingLimit::Unsaid => None,
                },
            },
        })
    }
}

impl<'a> Content<'a> {
    fn new(role: Option<&'static str>, text: &'a str) -> Self {
        let parts = [ContentPart { text }];
        Self { role, parts }
    }
}

/// An answer's body. Google leaves out empty fields, so any field may be missing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerateAnswer {
    #[serde(default)]
    candidates: Vec<Candidate>,
    #[serde(default)]
    prompt_feedback: Option<PromptFeedback>,
    #[serde(default)]
    usage_metadata: UsageMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: CandidateContent,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct CandidateContent {
    #[serde(default)]
    parts: Vec<SaidPart>,
}

#[derive(Deserialize)]
struct SaidPart {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageMetadata {
    #[serde(rename = "promptTokenCount")]
    prompt: i64,
    #[serde(rename = "cachedContentTokenCount")]
    cached: i64,
    #[serde(rename = "candidatesTokenCount")]
    candidates: i64,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: i64,
}

impl GenerateAnswer {
    pub(super) fn read(body: &[u8]) -> Result<ModelAnswer, NoAnswer> {
        let mut generated: Self = serde_json::from_slice(body).map_err(|_| NoAnswer::Unknown)?;
        let blocked = generated.prompt_feedback.take().and_then(|feedback| feedback.block_reason);
        let mut candidates = std::mem::take(&mut generated.candidates).into_iter();
        let Some(candidate) = candidates.next() else {
            let blocked =
                blocked.map(|reason| NoAnswer::Refused(format!("the prompt was blocked: {reason}")));
            return Err(blocked.unwrap_or(NoAnswer::Unknown));
        };
        match candidate.finish_reason.as_deref() {
            Some("STOP") => Ok(generated.answer(candidate.content)),
            Some("MAX_TOKENS") => Err(NoAnswer::Truncated),
            Some(
                reason @ ("SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
                | "MODEL_ARMOR" | "ESCALATION"),
            ) => Err(NoAnswer::Refused(format!("the answer was stopped: {reason}"))),
            reason => {
                let reason = reason.unwrap_or("no reason");
                Err(NoAnswer::Broken(format!("the answer broke off with {reason}")))
            }
        }
    }

    /// Returns the answer without the parts that are thoughts.
    fn answer(self, content: CandidateContent) -> ModelAnswer {
        let parts = content.parts.into_iter().filter(|part| !part.thought);
        ModelAnswer { text: parts.filter_map(|part| part.text).collect(), ..self.usage_metadata.answer() }
    }
}

impl UsageMetadata {
    /// Returns an answer with this usage and no text.
    pub(super) fn answer(self) -> ModelAnswer {
        ModelAnswer {
            input_tokens: self.prompt,
            cached_input_tokens: self.cached,
            output_tokens: self.candidates + self.thoughts,
            reasoning_tokens: self.thoughts,
            ..ModelAnswer::default()
        }
    }
}
