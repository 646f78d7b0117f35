//! The providers' APIs: the structure of requests and answers.

use serde_json::{Value, json};

pub(crate) const THOUGHT_TOKENS: i64 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Anthropic,
    OpenAi,
    Responses,
    Gemini,
    Ollama,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Done,
    Length,
    Refusal,
    Filter,
}

impl Shape {
    pub(crate) const ALL: [Self; 5] =
        [Self::Anthropic, Self::OpenAi, Self::Responses, Self::Gemini, Self::Ollama];

    /// The provider's name, which is also the mode in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    pub(crate) fn base_path(self) -> &'static str {
        match self {
            Self::Anthropic | Self::OpenAi | Self::Responses => "/v1",
            Self::Gemini => "/v1beta",
            Self::Ollama => "",
        }
    }

    pub(crate) fn key_header(self) -> &'static str {
        match self {
            Self::Anthropic => "x-api-key",
            Self::Gemini => "x-goog-api-key",
            Self::OpenAi | Self::Responses | Self::Ollama => "authorization",
        }
    }

    /// The header with the request's id; `None` if the provider has none.
    pub(crate) fn request_id_header(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("request-id"),
            Self::OpenAi | Self::Responses => Some("x-request-id"),
            Self::Gemini | Self::Ollama => None,
        }
    }

    /// The API of a path for answers.
    pub(super) fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/messages" => Self::Anthropic,
            "/v1/chat/completions" => Self::OpenAi,
            "/v1/responses" => Self::Responses,
            "/api/chat" => Self::Ollama,
            _ => {
                let model =
                    ["/v1/models/", "/v1beta/models/"].iter().find_map(|prefix| path.strip_prefix(prefix))?;
                let (_, call) = model.split_once(':')?;
                return (call == "generateContent").then_some(Self::Gemini);
            }
        })
    }

    /// The instructions and the material of a request.
    pub(super) fn prompt(self, body: &Value) -> (&str, &str) {
        let [system, user] = match self {
            Self::Anthropic => [&body["system"][0]["text"], &body["messages"][0]["content"]],
            Self::OpenAi | Self::Ollama => [&body["messages"][0]["content"], &body["messages"][1]["content"]],
            Self::Responses => [&body["instructions"], &body["input"]],
            Self::Gemini => {
                [&body["systemInstruction"]["parts"][0]["text"], &body["contents"][0]["parts"][0]["text"]]
            }
        };
        (system.as_str().unwrap_or_default(), user.as_str().unwrap_or_default())
    }

    /// The requested format of the answer (`json_schema`, `json_object`, or empty), and the schema.
    pub(super) fn format(self, body: &Value) -> (&str, &Value) {
        let (kind, schema) = match self {
            Self::Anthropic => {
                let format = &body["output_config"]["format"];
                (format["type"].as_str(), &format["schema"])
            }
            Self::OpenAi => {
                let format = &body["response_format"];
                (format["type"].as_str(), &format["json_schema"]["schema"])
            }
            Self::Responses => {
                let format = &body["text"]["format"];
                (format["type"].as_str(), &format["schema"])
            }
            Self::Gemini => {
                let config = &body["generationConfig"];
                let schema = &config["responseJsonSchema"];
                let is_json = config["responseMimeType"] == "application/json";
                (named(!schema.is_null(), is_json), schema)
            }
            Self::Ollama => {
                let format = &body["format"];
                (named(format.is_object(), *format == json!("json")), format)
            }
        };
        (kind.unwrap_or_default(), schema)
    }

    /// An answer to `body`. Half of the input was read from the cache, a quarter was written to it.
    pub(super) fn answer(self, body: &Value, text: &str, ending: Ending) -> Value {
        let (system, user) = self.prompt(body);
        let input = i64::try_from((system.len() + user.len()) / 4).unwrap();
        let output = i64::try_from(text.len() / 4).unwrap() + THOUGHT_TOKENS;
        let usage = Usage { input, output };
        match self {
            Self::Anthropic => message(body, text, ending, usage),
            Self::OpenAi => completion(body, text, ending, usage),
            Self::Responses => response(body, text, ending, usage),
            Self::Gemini => generated(text, ending, usage),
            Self::Ollama => chat(body, text, ending, usage),
        }
    }
}

fn named(has_schema: bool, is_json: bool) -> Option<&'static str> {
    if has_schema { Some("json_schema") } else { is_json.then_some("json_object") }
}

#[derive(Clone, Copy)]
struct Usage {
    input: i64,
    output: i64,
}

fn message(body: &Value, text: &str, ending: Ending, usage: Usage) -> Value {
    let (stop_reason, details) = match ending {
        Ending::Done => ("end_turn", Value::Null),
        Ending::Length => ("max_tokens", Value::Null),
        Ending::Refusal | Ending::Filter => (
            "refusal",
            json!({"type": "refusal", "category": "cyber", "explanation": "I can't help with that."}),
        ),
    };
    let (cached, written) = (usage.input / 2, usage.input / 4);
    let mut content = vec![json!({"type": "thinking", "thinking": "", "signature": "c2ln"})];
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text, "citations": null}));
    }
    json!({
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "stop_details": details,
        "container": null,
        "usage": {
            "input_tokens": usage.input - cached - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": cached,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": usage.output,
            "output_tokens_details": {"thinking_tokens": THOUGHT_TOKENS},
            "server_tool_use": null,
            "service_tier": "standard",
            "inference_geo": null,
        },
    })
}

fn completion(body: &Value, text: &str, ending: Ending, usage: Usage) -> Value {
    let is_refusal = ending == Ending::Refusal;
    let message = json!({
        "role": "assistant",
        "content": if is_refusal { Value::Null } else { text.into() },
        "refusal": is_refusal.then_some("I can't help with that."),
        "annotations": [],
    });
    let finish_reason = match ending {
        Ending::Done | Ending::Refusal => "stop",
        Ending::Length => "length",
        Ending::Filter => "content_filter",
    };
    json!({
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1_795_000_000,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.input / 2, "cache_write_tokens": usage.input / 4},
            "completion_tokens_details": {"reasoning_tokens": THOUGHT_TOKENS},
        },
    })
}

fn response(body: &Value, text: &str, ending: Ending, usage: Usage) -> Value {
    let part = match ending {
        Ending::Refusal => json!({"type": "refusal", "refusal": "I can't help with that."}),
        _ => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
    };
    let why = match ending {
        Ending::Length => Some("max_output_tokens"),
        Ending::Filter => Some("content_filter"),
        Ending::Done | Ending::Refusal => None,
    };
    let status = if why.is_some() { "incomplete" } else { "completed" };
    json!({
        "id": "resp_fake",
        "object": "response",
        "created_at": 1_795_000_000,
        "status": status,
        "error": null,
        "incomplete_details": why.map(|why| json!({"reason": why})),
        "instructions": body["instructions"],
        "max_output_tokens": body["max_output_tokens"],
        "metadata": {},
        "model": body["model"],
        "output": [
            {"type": "reasoning", "id": "rs_fake", "summary": []},
            {"type": "message", "id": "msg_fake", "role": "assistant", "status": status, "content": [part]},
        ],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": body["reasoning"]["effort"], "summary": null},
        "store": false,
        "temperature": null,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": null,
        "truncation": "disabled",
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.input / 2, "cache_write_tokens": usage.input / 4},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": THOUGHT_TOKENS},
            "total_tokens": usage.input + usage.output,
        },
        "user": null,
    })
}

fn generated(text: &str, ending: Ending, usage: Usage) -> Value {
    let finish_reason = match ending {
        Ending::Done => "STOP",
        Ending::Length => "MAX_TOKENS",
        Ending::Filter => "SAFETY",
        Ending::Refusal => {
            return json!({
                "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                "usageMetadata": {"promptTokenCount": usage.input, "totalTokenCount": usage.input},
                "modelVersion": "small-model",
                "responseId": "fake",
            });
        }
    };
    let parts = [json!({"text": "Let me see.", "thought": true}), json!({"text": text})];
    json!({
        "candidates": [{
            "content": {"role": "model", "parts": parts},
            "finishReason": finish_reason,
            "index": 0,
        }],
        "usageMetadata": {
            "promptTokenCount": usage.input,
            "cachedContentTokenCount": usage.input / 2,
            "candidatesTokenCount": usage.output - THOUGHT_TOKENS,
            "thoughtsTokenCount": THOUGHT_TOKENS,
            "totalTokenCount": usage.input + usage.output,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
        },
        "modelVersion": "small-model",
        "responseId": "fake",
    })
}

fn chat(body: &Value, text: &str, ending: Ending, usage: Usage) -> Value {
    json!({
        "model": body["model"],
        "created_at": "2026-11-20T08:00:00Z",
        "message": {"role": "assistant", "content": text},
        "done": true,
        "done_reason": if ending == Ending::Length { "length" } else { "stop" },
        "total_duration": 5_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": usage.input,
        "prompt_eval_duration": 1_000_000,
        "eval_count": usage.output,
        "eval_duration": 3_000_000,
    })
}
