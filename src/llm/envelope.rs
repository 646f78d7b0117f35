//! The body of an error, in whichever envelope: servers that speak one provider's dialect answer errors in another's.

use serde_json::Value;

/// What a provider says about an error. Fields it doesn't give are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorBody {
    /// The class in the provider's words: `invalid_request_error`.
    pub(super) kind: String,
    /// The code: `context_length_exceeded`; numbers as text.
    pub(super) code: String,
    /// The field of the request that is wrong.
    pub(super) param: String,
    /// The message.
    pub(super) message: String,
    /// The request's id, if the body gives it.
    pub(super) request_id: String,
}

impl ErrorBody {
    /// Reads `{"error": {…}}`, `{"error": "text"}`, `{"type": "error", "error": {…}}`, a bare `{"message": …}`, and an
    /// array around any of them. `None` if the body is none of these.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        Self::from_value(&serde_json::from_slice(body).ok()?)
    }

    /// See [`Self::read`].
    pub(super) fn from_value(body: &Value) -> Option<Self> {
        let body = body.get(0).unwrap_or(body);
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        if let Some(message) = error.as_str() {
            return Some(Self {
                message: message.to_owned(),
                ..Self::default()
            });
        }
        let details = error.get("details").unwrap_or(&Value::Null);
        let read = Self {
            kind: text(error, "type"),
            code: [text(details, "error_code"), text(error, "code")]
                .into_iter()
                .find(|code| !code.is_empty())
                .unwrap_or_default(),
            param: text(error, "param"),
            message: message(error),
            request_id: text(body, "request_id"),
        };
        (!read.message.is_empty() || !read.code.is_empty()).then_some(read)
    }

    /// Everything it says, in lower case, to look for words in.
    pub(super) fn words(&self) -> String {
        [&self.kind, &self.code, &self.param, &self.message]
            .map(|word| word.to_lowercase())
            .join("\n")
    }
}

/// The message; a router adds what the provider behind it said (OpenRouter, `metadata.raw`).
fn message(error: &Value) -> String {
    let own = text(error, "message");
    let raw = error
        .get("metadata")
        .map(|metadata| text(metadata, "raw"))
        .unwrap_or_default();
    if raw.is_empty() {
        own
    } else {
        format!("{own}: {raw}")
    }
}

fn text(value: &Value, field: &str) -> String {
    match value.get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<(String, String, String)> {
        ErrorBody::read(body.as_bytes()).map(|error| (error.kind, error.code, error.message))
    }

    #[test]
    fn reads_every_envelope() {
        let cases = [
            (
                r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#,
                ("t", "c", "m"),
            ),
            (r#"{"error":"m"}"#, ("", "", "m")),
            (
                r#"{"type":"error","error":{"type":"t","message":"m","details":{"error_code":"c"}},"request_id":"r"}"#,
                ("t", "c", "m"),
            ),
            (
                r#"[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{}]}}]"#,
                ("", "429", "m"),
            ),
            (
                r#"{"object":"error","message":"m","type":"t","code":400}"#,
                ("t", "400", "m"),
            ),
            (
                r#"{"error":{"code":502,"message":"m","metadata":{"raw":"r"}}}"#,
                ("", "502", "m: r"),
            ),
        ];
        for (body, (kind, code, message)) in cases {
            assert_eq!(
                read(body),
                Some((kind.to_owned(), code.to_owned(), message.to_owned())),
                "{body}"
            );
        }
        for body in [
            "",
            "<html>Bad gateway</html>",
            "[]",
            "{}",
            "null",
            r#"{"error":null}"#,
            r#"{"choices":[]}"#,
        ] {
            assert_eq!(read(body), None, "{body}");
        }
    }
}
