//! `GET /protocol`: describes for machines what the proxy forwards, reads and changes, in the form of Claude Code's gateways:
//! <https://code.claude.com/docs/en/llm-gateway-protocol>.

use recapd_config::ProxyMode;
use serde_json::{Value, json};

use crate::session;

pub(crate) fn describe(mode: ProxyMode) -> Value {
    let (conversation, count) = if mode == ProxyMode::Window {
        let conversation = "messages that have left the window are replaced by the summary, everything else is forwarded byte for byte; the conversation is stored";
        (conversation, "rewritten like the request that it counts")
    } else {
        ("forwarded byte for byte; the conversation is stored", "forwarded unread")
    };
    let endpoint = |method: &str, path: &str, description: &str| json!({"method": method, "path": path, "description": description});
    json!({
        "name": "recapd",
        "version": env!("CARGO_PKG_VERSION"),
        "spec_url": "https://code.claude.com/docs/en/llm-gateway-protocol",
        "formats": ["anthropic-messages", "openai-responses", "openai-chat", "gemini"],
        "mode": mode,
        "endpoints": [
            endpoint("POST", "/v1/messages", conversation),
            endpoint("POST", "/v1/messages/count_tokens", count),
            endpoint("POST", "/v1/responses", "likewise; recapd's own compaction items become messages"),
            endpoint("POST", "/v1/chat/completions", "likewise"),
            endpoint("POST", "/v1beta/models/{model}:generateContent", "likewise, and streamGenerateContent"),
            endpoint("POST", "/v1beta/models/{model}:countTokens", count),
            endpoint("*", "/{any}", "forwarded unread, such as /v1/models"),
            endpoint("HEAD", "/", "answered here"),
            endpoint("GET", "/recapd/livez", "answered here"),
            endpoint("GET", "/protocol", "this description"),
        ],
        "request_headers": {
            "forward_unchanged": "all others, such as anthropic-version, anthropic-beta and credentials",
            "consumed": ["x-recapd-agent", "x-recapd-token"],
            "read_and_forwarded": session::HEADERS,
            "replaced": {"accept-encoding": "identity, in requests whose conversation is stored"},
        },
        "system_prompt_attribution": {"behavior": "forwarded unchanged"},
        "compaction": if mode == ProxyMode::Observe {
            "forwarded"
        } else {
            "answered from the stored summary if possible, otherwise forwarded"
        },
    })
}
