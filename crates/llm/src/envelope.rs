//! Reads the body of an error in any provider's format, because compatible servers often send errors in another provider's
//! format.

use std::time::Duration;

use serde_json::Value;

use super::retry::go_duration;

/// A provider's description of an error. Missing fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorBody {
    /// The class in the provider's words, such as `invalid_request_error`.
    pub(super) kind: String,
    /// The code, such as `context_length_exceeded`. A number is given as text.
    pub(super) code: String,
    /// The field of the request that is wrong.
    pub(super) param: String,
    pub(super) message: String,
    pub(super) request_id: String,
    /// After which time to retry: from a field of the body (Google's `RetryInfo`), or from `try again in 9.8s` in the message. If
    /// both are given, the longer time.
    pub(super) retry_after: Option<Duration>,
    pub(super) quota: Quota,
}

/// The period for which a quota is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Quota {
    /// A minute, or unknown.
    #[default]
    Minute,
    Day,
    /// There is no quota: the account may not use the model at all.
    None,
}

/// The HTTP status that belongs to an error's name, for errors without a status of their own.
const STATUSES: [(&str, u16); 16] = [
    ("rate_limit_exceeded", 429),
    ("rate_limit_error", 429),
    ("resource_exhausted", 429),
    ("overloaded_error", 529),
    ("server_is_overloaded", 503),
    ("unavailable", 503),
    ("timeout_error", 504),
    ("deadline_exceeded", 504),
    ("api_error", 500),
    ("server_error", 500),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("invalid_request_error", 400),
];

impl ErrorBody {
    /// Reads `{"error": {…}}`, `{"error": "text"}`, `{"type": "error", "error": {…}}`, a bare `{"message": …}`, and an array
    /// around any of them. Returns `None` for other bodies.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        Self::from_value(&serde_json::from_slice(body).ok()?)
    }

    /// Reads a parsed body like [`Self::read`].
    pub(super) fn from_value(body: &Value) -> Option<Self> {
        let body = body.get(0).unwrap_or(body);
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        if let Some(message) = error.as_str() {
            return Some(Self {
                retry_after: wait_in_message(message),
                message: message.to_owned(),
                ..Self::default()
            });
        }
        let details = error.get("details").unwrap_or(&Value::Null);
        let message = message(error);
        let wait = detail(details, "RetryInfo").and_then(|info| go_duration(&text(info, "retryDelay")));
        let first_of = |texts: [String; 3]| texts.into_iter().find(|word| !word.is_empty());
        let read = Self {
            kind: first_of([text(error, "type"), text(error, "status"), String::new()]).unwrap_or_default(),
            code: first_of([
                text(details, "error_code"),
                detail(details, "ErrorInfo").map_or_else(String::new, |info| text(info, "reason")),
                text(error, "code"),
            ])
            .unwrap_or_default(),
            param: text(error, "param"),
            retry_after: wait_in_message(&message).max(wait),
            message,
            request_id: text(body, "request_id"),
            quota: detail(details, "QuotaFailure").map_or_else(Quota::default, quota),
        };
        (!read.message.is_empty() || !read.code.is_empty()).then_some(read)
    }

    /// Returns the HTTP status of the error: a gateway's numeric code, otherwise the status of the error's name.
    pub(super) fn implied_status(&self) -> Option<u16> {
        let status_of = |word: &String| STATUSES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        let number = self.code.parse().ok();
        number.or_else(|| [&self.code, &self.kind].into_iter().find_map(status_of).map(|(_, status)| *status))
    }

    /// Returns all texts of the error in lower case, to search in them.
    pub(super) fn lower_text(&self) -> String {
        [&self.kind, &self.code, &self.param, &self.message].map(|word| word.to_lowercase()).join("\n")
    }
}

/// Returns one of Google's error details by the end of its type, such as `RetryInfo` for `google.rpc.RetryInfo`.
fn detail<'a>(details: &'a Value, kind: &str) -> Option<&'a Value> {
    let details = details.as_array()?;
    details.iter().find(|detail| text(detail, "@type").rsplit('.').next() == Some(kind))
}

fn quota(failure: &Value) -> Quota {
    let violations = failure.get("violations").and_then(Value::as_array);
    let kind = |violation: &Value| {
        if text(violation, "quotaValue") == "0" {
            Quota::None
        } else if text(violation, "quotaId").contains("PerDay") {
            Quota::Day
        } else {
            Quota::Minute
        }
    };
    let kinds: Vec<Quota> = violations.into_iter().flatten().map(kind).collect();
    [Quota::None, Quota::Day].into_iter().find(|quota| kinds.contains(quota)).unwrap_or_default()
}

/// Returns the message. A router adds the message of the provider behind it (OpenRouter: `metadata.raw`).
fn message(error: &Value) -> String {
    let message = text(error, "message");
    let raw = error.get("metadata").map(|metadata| text(metadata, "raw")).unwrap_or_default();
    if raw.is_empty() { message } else { format!("{message}: {raw}") }
}

/// Reads the wait in `try again in 9.8s` or `retry in 9.8s`.
fn wait_in_message(message: &str) -> Option<Duration> {
    let (_, after) = message.split_once("try again in ").or_else(|| message.split_once("retry in "))?;
    go_duration(after.split_whitespace().next()?.trim_end_matches(['.', ',']))
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
            (r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, ("t", "c", "m")),
            (r#"{"error":"m"}"#, ("", "", "m")),
            (
                r#"{"type":"error","error":{"type":"t","message":"m","details":{"error_code":"c"}},"request_id":"r"}"#,
                ("t", "c", "m"),
            ),
            (
                r#"[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{}]}}]"#,
                ("RESOURCE_EXHAUSTED", "429", "m"),
            ),
            (r#"{"object":"error","message":"m","type":"t","code":400}"#, ("t", "400", "m")),
            (r#"{"error":{"code":502,"message":"m","metadata":{"raw":"r"}}}"#, ("", "502", "m: r")),
        ];
        for (body, (kind, code, message)) in cases {
            assert_eq!(read(body), Some((kind.to_owned(), code.to_owned(), message.to_owned())), "{body}");
        }
        for body in
            ["", "<html>Bad gateway</html>", "[]", "{}", "null", r#"{"error":null}"#, r#"{"choices":[]}"#]
        {
            assert_eq!(read(body), None, "{body}");
        }
    }

    #[test]
    fn googles_details_give_reason_wait_and_quota() {
        let google = |details: &str| {
            let body = format!(
                r#"{{"error":{{"code":429,"message":"m","status":"S","details":[{{"@type":"type.googleapis.com/google.rpc.Help"}},{details}]}}}}"#
            );
            ErrorBody::read(body.as_bytes()).unwrap()
        };
        let info =
            google(r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}"#);
        assert_eq!((info.code.as_str(), info.kind.as_str()), ("API_KEY_INVALID", "S"));
        let wait = google(r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"46.5s"}"#);
        assert_eq!(wait.retry_after, Some(Duration::from_millis(46_500)));
        for (message, wait_ms) in [
            ("Please try again in 9.816s. Visit", Some(9_816)),
            ("Please retry in 10h17m5.7s.", Some(37_025_700)),
            ("no word", None),
        ] {
            let error = ErrorBody::from_value(&serde_json::json!({ "error": message })).unwrap();
            assert_eq!(error.retry_after, wait_ms.map(Duration::from_millis), "{message}");
        }
        let both = ErrorBody::read(br#"{"error":{"message":"Please retry in 1m.","details":[{"@type":"google.rpc.RetryInfo","retryDelay":"46s"}]}}"#);
        assert_eq!(both.unwrap().retry_after, Some(Duration::from_mins(1)));
        for (violation, expected) in [
            (r#"{"quotaId":"RequestsPerMinutePerProject","quotaValue":"10"}"#, Quota::Minute),
            (r#"{"quotaId":"RequestsPerDayPerProject","quotaValue":"250"}"#, Quota::Day),
            (r#"{"quotaId":"TokensPerMinute","quotaValue":"0"}"#, Quota::None),
        ] {
            let failure = format!(
                r#"{{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{violation}]}}"#
            );
            assert_eq!(google(&failure).quota, expected, "{violation}");
        }
    }

    #[test]
    fn errors_without_a_status_get_that_of_their_name() {
        for (body, status) in [
            (r#"{"error":{"code":"503","message":"m"}}"#, Some(503)),
            (r#"{"error":{"code":"server_error","message":"m"}}"#, Some(500)),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#, Some(529)),
            (r#"{"error":{"message":"m","status":"UNAVAILABLE"}}"#, Some(503)),
            (r#"{"error":"m"}"#, None),
        ] {
            assert_eq!(ErrorBody::read(body.as_bytes()).unwrap().implied_status(), status, "{body}");
        }
    }
}
