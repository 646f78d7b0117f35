//! Errors in each provider's words.

use serde_json::{Value, json};

use super::Shape;

/// The date of the fake's answers.
const NOW: &str = "Fri, 20 Nov 2026 08:00:00 GMT";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    RateLimited,
    /// The quota is used up.
    Quota,
    BadKey,
    /// The key may not do this.
    Forbidden,
    NoModel,
    /// The request is wrong, for this reason.
    Because(String),
    /// The input is longer than the window.
    TooLong,
    /// The request is bigger than the provider reads.
    TooLarge,
    Server,
    Overloaded,
    /// A server behind the provider's gateway took too long.
    GatewayTimeout,
}

/// The wait that the provider asks for, and where it says so; in seconds, except `Millis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Unsaid,
    Seconds(u64),
    Millis(u64),
    Date(u64),
    /// As the times at which limits are reset.
    Limits(u64),
    /// In the body.
    Body(u64),
}

/// Status, body and headers of an error.
pub(super) type Refusal = (u16, String, Vec<(&'static str, String)>);

impl Trouble {
    pub(super) fn refusal(&self, shape: Shape, wait: Wait) -> Refusal {
        let (status, body) = match shape {
            Shape::Anthropic => self.anthropic(),
            Shape::OpenAi | Shape::Responses => self.openai(),
            Shape::Gemini => self.gemini(wait),
            Shape::Ollama => self.ollama(),
        };
        let mut body = body;
        if let (Wait::Body(seconds), false) = (wait, shape == Shape::Gemini) {
            tell(&mut body, &format!(" Please try again in {seconds}s."));
        }
        (status, body.to_string(), headers(shape, wait))
    }

    fn anthropic(&self) -> (u16, Value) {
        let (status, kind, message) = match self {
            Self::RateLimited => {
                (429, "rate_limit_error", "This request would exceed your organization's rate limit.")
            }
            Self::Quota => {
                (400, "invalid_request_error", "You have reached your specified API usage limits.")
            }
            Self::BadKey => (401, "authentication_error", "invalid x-api-key"),
            Self::Forbidden => (403, "permission_error", "Your API key does not have permission."),
            Self::NoModel => (404, "not_found_error", "model: small-model"),
            Self::Because(why) => (400, "invalid_request_error", why.as_str()),
            Self::TooLong => {
                (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
            }
            Self::TooLarge => {
                (413, "request_too_large", "Request exceeds the maximum allowed number of bytes.")
            }
            Self::Server => (500, "api_error", "Internal server error"),
            Self::Overloaded => (529, "overloaded_error", "Overloaded"),
            Self::GatewayTimeout => (504, "timeout_error", "Request timed out."),
        };
        let error = json!({"type": kind, "message": message});
        (status, json!({"type": "error", "error": error, "request_id": "req_fake"}))
    }

    fn openai(&self) -> (u16, Value) {
        let (status, kind, code, message) = match self {
            Self::RateLimited => {
                (429, "requests", Some("rate_limit_exceeded"), "Rate limit reached for small-model.")
            }
            Self::Quota => {
                (429, "insufficient_quota", Some("insufficient_quota"), "You exceeded your current quota.")
            }
            Self::BadKey => {
                (401, "invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided.")
            }
            Self::Forbidden => {
                (403, "invalid_request_error", None, "You are not allowed to sample from this model.")
            }
            Self::NoModel => {
                (404, "invalid_request_error", Some("model_not_found"), "The model does not exist.")
            }
            Self::Because(why) => (400, "invalid_request_error", None, why.as_str()),
            Self::TooLong => (
                400,
                "invalid_request_error",
                Some("context_length_exceeded"),
                "Your input exceeds the context window of this model.",
            ),
            Self::TooLarge => (413, "invalid_request_error", None, "Request too large."),
            Self::Server => {
                (500, "server_error", None, "The server had an error while processing your request.")
            }
            Self::Overloaded => {
                (503, "server_error", Some("server_is_overloaded"), "Our servers are overloaded.")
            }
            Self::GatewayTimeout => (504, "server_error", None, "Gateway timeout."),
        };
        (status, json!({"error": {"message": message, "type": kind, "param": null, "code": code}}))
    }

    fn gemini(&self, wait: Wait) -> (u16, Value) {
        let (code, status, message) = match self {
            Self::RateLimited => {
                (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan.")
            }
            Self::Quota => (429, "RESOURCE_EXHAUSTED", "Quota exceeded, limit: 0."),
            Self::BadKey => (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
            Self::Forbidden => (403, "PERMISSION_DENIED", "The caller does not have permission."),
            Self::NoModel => (404, "NOT_FOUND", "models/small-model is not found for API version v1beta."),
            Self::Because(why) => (400, "INVALID_ARGUMENT", why.as_str()),
            Self::TooLong => (
                400,
                "INVALID_ARGUMENT",
                "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            Self::TooLarge => (413, "INVALID_ARGUMENT", "Request payload size exceeds the limit."),
            Self::Server => (500, "INTERNAL", "An internal error has occurred."),
            Self::Overloaded => (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
            Self::GatewayTimeout => {
                (504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.")
            }
        };
        let mut details = vec![json!({"@type": "type.googleapis.com/google.rpc.Help", "links": []})];
        if *self == Self::BadKey {
            details.push(
                json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
                                "domain": "googleapis.com"}),
            );
        }
        if *self == Self::Quota {
            let violation = json!({"quotaId": "GenerateRequestsPerDayPerProjectPerModel", "quotaValue": "0"});
            details.push(
                json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}),
            );
        }
        if let Wait::Body(seconds) = wait {
            details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo",
                                "retryDelay": format!("{seconds}s")}));
        }
        (code, json!({"error": {"code": code, "message": message, "status": status, "details": details}}))
    }

    fn ollama(&self) -> (u16, Value) {
        let (status, message) = match self {
            Self::RateLimited => (429, "too many requests"),
            Self::Quota => (402, "a subscription is required"),
            Self::BadKey => (401, "unauthorized"),
            Self::Forbidden => (403, "forbidden"),
            Self::NoModel => (404, "model 'small-model' not found"),
            Self::Because(why) => (400, why.as_str()),
            Self::TooLong => (400, "the input length exceeds the context length"),
            Self::TooLarge => (413, "request body too large"),
            Self::Server => (500, "llama runner process has terminated"),
            Self::Overloaded => (503, "server busy, please try again. maximum pending requests exceeded"),
            Self::GatewayTimeout => (504, "upstream timed out"),
        };
        (status, json!({"error": message}))
    }
}

/// Appends to the error's message, in whichever form the body has it.
fn tell(body: &mut Value, more: &str) {
    let message = match &mut body["error"] {
        Value::Object(error) => error.get_mut("message").unwrap(),
        message => message,
    };
    *message = format!("{}{more}", message.as_str().unwrap()).into();
}

fn headers(shape: Shape, wait: Wait) -> Vec<(&'static str, String)> {
    let now = ("date", NOW.to_owned());
    let mut headers = match wait {
        Wait::Unsaid | Wait::Body(_) => Vec::new(),
        Wait::Seconds(seconds) => vec![("retry-after", seconds.to_string())],
        Wait::Millis(millis) => vec![("retry-after-ms", millis.to_string()), ("retry-after", "1".to_owned())],
        Wait::Date(seconds) => {
            vec![now, ("retry-after", NOW.replace("00:00 GMT", &format!("00:{seconds:02} GMT")))]
        }
        Wait::Limits(seconds) if shape == Shape::Anthropic => vec![
            now,
            ("anthropic-ratelimit-requests-remaining", "9".to_owned()),
            ("anthropic-ratelimit-requests-reset", "2026-11-20T08:10:00Z".to_owned()),
            ("anthropic-ratelimit-input-tokens-remaining", "0".to_owned()),
            ("anthropic-ratelimit-input-tokens-reset", format!("2026-11-20T08:00:{seconds:02}Z")),
        ],
        Wait::Limits(seconds) => vec![
            ("x-ratelimit-remaining-requests", "0".to_owned()),
            ("x-ratelimit-reset-requests", format!("{seconds}s")),
            ("x-ratelimit-remaining-tokens", "9".to_owned()),
            ("x-ratelimit-reset-tokens", "6m0s".to_owned()),
        ],
    };
    headers.extend(shape.request_id_header().map(|name| (name, "req_fake".to_owned())));
    headers
}
