//! Faults of requests, by the providers' documentation.

use axum::http::HeaderMap;
use recapd_core::domain::prompt::FENCE_WORD;
use serde_json::{Value, json};

use super::Shape;

/// The keywords that strict schemas may use.
const SCHEMA_WORDS: [&str; 6] = ["type", "properties", "required", "additionalProperties", "items", "enum"];

pub(super) fn of(shape: Shape, headers: &HeaderMap, body: &Value) -> Vec<String> {
    let mut faults = Faults(Vec::new());
    if shape == Shape::Anthropic {
        let version = headers.get("anthropic-version").map(|value| value.to_str().unwrap());
        let is_known = matches!(version, Some("2023-06-01" | "2026-10-21"));
        faults.check(is_known, "anthropic-version is missing or unknown");
    }
    match shape {
        Shape::Anthropic => faults.anthropic(body),
        Shape::OpenAi => faults.openai(body),
        Shape::Responses => faults.responses(body),
        Shape::Gemini => faults.gemini(body),
        Shape::Ollama => faults.ollama(body),
    }
    faults.prompt(shape, body);
    faults.0
}

struct Faults(Vec<String>);

impl Faults {
    fn check(&mut self, is_right: bool, fault: &str) {
        if !is_right {
            self.0.push(fault.to_owned());
        }
    }

    /// Requires the absence of fields that some current model refuses.
    fn none_of(&mut self, body: &Value, fields: &[&str]) {
        for field in fields {
            self.check(body[field].is_null(), &format!("`{field}` is sent"));
        }
    }

    /// Requires that all fields are ones that the API knows.
    fn only(&mut self, body: &Value, fields: &[&str]) {
        for name in body.as_object().into_iter().flatten().map(|(name, _)| name) {
            self.check(fields.contains(&name.as_str()), &format!("`{name}` is unknown"));
        }
    }

    fn anthropic(&mut self, body: &Value) {
        self.check(body["model"].is_string(), "no model");
        self.none_of(body, &["temperature", "top_p", "top_k", "thinking", "tool_choice", "tools"]);
        self.only(body, &["model", "max_tokens", "system", "messages", "output_config"]);
        self.check(
            body["max_tokens"].as_i64().is_some_and(|tokens| tokens > 0),
            "the answer must be limited",
        );
        self.check(
            body["system"][0]["cache_control"] == json!({"type": "ephemeral"}),
            "the instructions aren't marked for the cache",
        );
        self.roles(&body["messages"], &["user"]);
    }

    fn openai(&mut self, body: &Value) {
        self.check(body["model"].is_string(), "no model");
        self.none_of(body, &["temperature", "top_p", "stop"]);
        let limits = ["max_tokens", "max_completion_tokens"];
        let sent = limits.iter().filter(|field| body[**field].is_i64()).count();
        self.check(sent == 1, "the answer must be limited by one field");
        self.roles(&body["messages"], &["system", "user"]);
        if body["response_format"]["type"] == "json_schema" {
            self.named(&body["response_format"]["json_schema"]);
        }
    }

    fn responses(&mut self, body: &Value) {
        self.check(body["model"].is_string(), "no model");
        self.none_of(body, &["temperature", "top_p", "messages", "max_tokens", "response_format"]);
        self.check(body["max_output_tokens"].is_i64(), "the answer must be limited");
        self.check(body["store"] == json!(false), "the response would be stored");
        if body["text"]["format"]["type"] == "json_schema" {
            self.named(&body["text"]["format"]);
        }
    }

    fn gemini(&mut self, body: &Value) {
        self.only(body, &["systemInstruction", "contents", "generationConfig"]);
        let config = &body["generationConfig"];
        self.none_of(config, &["temperature", "responseSchema"]);
        self.check(config["maxOutputTokens"].is_i64(), "the answer must be limited");
        let has_schema = !config["responseJsonSchema"].is_null();
        self.check(
            !has_schema || config["responseMimeType"] == "application/json",
            "a schema needs its MIME type",
        );
        self.roles(&body["contents"], &["user"]);
    }

    fn ollama(&mut self, body: &Value) {
        self.check(body["model"].is_string(), "no model");
        for (field, value) in [("stream", false), ("truncate", false), ("shift", false)] {
            self.check(body[field] == json!(value), &format!("`{field}` is not {value}"));
        }
        let option = |name: &str| body["options"][name].as_i64().unwrap_or_default();
        let (context, answer) = (option("num_ctx"), option("num_predict"));
        self.check(0 < answer && answer < context, "the context doesn't hold an answer");
        self.roles(&body["messages"], &["system", "user"]);
    }

    fn roles(&mut self, messages: &Value, expected: &[&str]) {
        let messages = messages.as_array().into_iter().flatten();
        let roles: Vec<&str> = messages.filter_map(|message| message["role"].as_str()).collect();
        self.check(roles == expected, &format!("the roles must be {}", expected.join(", ")));
    }

    fn named(&mut self, named: &Value) {
        let name = named["name"].as_str().unwrap_or_default();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let is_name = (1..=64).contains(&name.len()) && name.chars().all(allowed);
        self.check(named["strict"] == json!(true), "the schema isn't strict");
        self.check(is_name, "the schema's name is wrong");
    }

    fn prompt(&mut self, shape: Shape, body: &Value) {
        let (system, user) = shape.prompt(body);
        self.check(!system.contains(FENCE_WORD), "material in the system role");
        self.check(system.contains("JSON"), "the instructions must say JSON");
        self.check(user.matches(&format!("</{FENCE_WORD} ")).count() == 1, "one fence must close");
        match shape.format(body) {
            ("json_schema", schema) => {
                self.check(is_strict(schema), "the schema doesn't fit the strict mode");
            }
            ("json_object" | "", _) => {}
            _ => self.check(false, "unknown response_format"),
        }
    }
}

fn is_strict(schema: &Value) -> bool {
    let Some(words) = schema.as_object() else {
        return false;
    };
    let properties = schema["properties"].as_object();
    let required = schema["required"].as_array().map_or(0, Vec::len);
    let closed = schema["additionalProperties"] == json!(false);
    words.keys().all(|word| SCHEMA_WORDS.contains(&word.as_str()))
        && properties.is_none_or(|properties| {
            closed && required == properties.len() && properties.values().all(is_strict)
        })
        && words.get("items").is_none_or(is_strict)
}
