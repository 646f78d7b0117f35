//! The trace spans of updates and of calls to models: figures and names, never text of a conversation.

use tracing::{Span, field::Empty, info_span};

use recapd_core::domain::work::Lease;
use recapd_llm::{ChatModel, LlmError, ModelAnswer, ModelRequest};
use recapd_telemetry::trace::{ERROR, TARGET};

/// Returns the span of an update, from its claim to its end. In OpenTelemetry's terms it updates an agent's memory.
pub(super) fn update(lease: &Lease) -> Span {
    info_span!(
        target: TARGET,
        "upsert_memory",
        "gen_ai.operation.name" = "upsert_memory",
        "gen_ai.conversation.id" = %lease.agent,
        "recapd.attempt" = lease.attempt,
        "recapd.outcome" = Empty,
        "recapd.path" = Empty,
        "recapd.exchanges" = Empty,
        "error.type" = Empty,
    )
}

pub(super) fn call(model: &dyn ChatModel, request: &ModelRequest) -> Span {
    let name = format!("chat {}", model.model());
    info_span!(
        target: TARGET,
        "chat",
        "otel.name" = name.as_str(),
        "otel.kind" = "client",
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = provider(model.provider()),
        "gen_ai.request.model" = model.model(),
        "gen_ai.request.max_tokens" = request.output_tokens_max,
        "gen_ai.response.id" = Empty,
        "recapd.is_waiting" = Empty,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.cache_read.input_tokens" = Empty,
        "gen_ai.usage.cache_write.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "gen_ai.usage.reasoning.output_tokens" = Empty,
        "error.type" = Empty,
    )
}

pub(super) fn record_answer(call: &Span, answer: &Result<ModelAnswer, LlmError>) {
    match answer {
        Ok(answer) => {
            call.record("gen_ai.usage.input_tokens", answer.input_tokens)
                .record("gen_ai.usage.cache_read.input_tokens", answer.cached_input_tokens)
                .record("gen_ai.usage.cache_write.input_tokens", answer.cache_write_tokens)
                .record("gen_ai.usage.output_tokens", answer.output_tokens)
                .record("gen_ai.usage.reasoning.output_tokens", answer.reasoning_tokens);
            if let Some(id) = &answer.request_id {
                call.record("gen_ai.response.id", id.as_str());
            }
        }
        // The call wasn't made, because a limit is used up or the circuit breaker is open.
        Err(LlmError::Waiting { .. }) => {
            call.record("recapd.is_waiting", true);
        }
        Err(error) => {
            call.record(ERROR, error.class());
        }
    }
}

/// Returns OpenTelemetry's name for a provider.
fn provider(name: &str) -> &str {
    match name {
        "openai-responses" => "openai",
        "gemini" => "gcp.gemini",
        name => name,
    }
}
