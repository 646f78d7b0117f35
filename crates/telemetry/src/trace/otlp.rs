//! Spans in OTLP's JSON encoding (opentelemetry-proto 1.x, `ExportTraceServiceRequest`): ids in hexadecimal digits, 64-bit
//! integers as text.

use serde_json::{Value as Json, json};

use super::{
    TraceSettings,
    layer::{FinishedSpan, SpanKind, Value},
};

const STATUS_ERROR: u8 = 2;

/// Returns the attributes of this process.
pub(super) fn resource(settings: &TraceSettings) -> Json {
    let service =
        [("service.name", settings.service.as_str()), ("service.version", env!("CARGO_PKG_VERSION"))];
    let configured = settings.resource.iter();
    let configured = configured.map(|(name, value)| (name.as_str(), value.as_str()));
    // The service's own name takes precedence, as OpenTelemetry requires.
    let configured = configured.filter(|(name, _)| service.iter().all(|(reserved, _)| reserved != name));
    let all = service.into_iter().chain(configured);
    let all = all.map(|(name, value)| json!({ "key": name, "value": { "stringValue": value } }));
    json!({ "attributes": all.collect::<Vec<_>>() })
}

/// Returns the body of an export request.
pub(super) fn body(resource: &Json, spans: &[FinishedSpan]) -> Vec<u8> {
    let spans: Vec<Json> = spans.iter().map(span).collect();
    let scope = json!({ "name": recapd_platform::PROGRAM, "version": env!("CARGO_PKG_VERSION") });
    let body = json!({
        "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "scope": scope, "spans": spans }] }]
    });
    body.to_string().into_bytes()
}

fn span(span: &FinishedSpan) -> Json {
    let attributes = span.attributes.iter();
    let attributes = attributes.map(|(name, value)| json!({ "key": name, "value": self::value(value) }));
    let mut json = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.span),
        "name": span.name,
        "kind": match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        "startTimeUnixNano": span.start_ns.to_string(),
        "endTimeUnixNano": span.end_ns.to_string(),
        "attributes": attributes.collect::<Vec<_>>(),
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    if span.failure().is_some() {
        json["status"] = json!({ "code": STATUS_ERROR });
    }
    json
}

fn value(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Int(number) => json!({ "intValue": number.to_string() }),
        Value::Double(number) => json!({ "doubleValue": number }),
        Value::Bool(yes) => json!({ "boolValue": yes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_follows_the_protocol() {
        let settings = TraceSettings {
            url: String::new(),
            headers: Vec::new(),
            sample: 1.0,
            service: "web".to_owned(),
            resource: vec![
                ("service.name".to_owned(), "other".to_owned()),
                ("host.name".to_owned(), "a".to_owned()),
            ],
            gather_ms: 1,
            seed: 1,
        };
        let span = FinishedSpan {
            trace: 0x4b,
            span: 0xa,
            parent: Some(0xb),
            name: "chat m".to_owned(),
            kind: SpanKind::Client,
            start_ns: 1_700_000_000_000_000_001,
            end_ns: 1_700_000_000_000_000_002,
            attributes: vec![
                ("error.type", Value::Text("timeout".to_owned())),
                ("n", Value::Int(i64::MAX)),
                ("yes", Value::Bool(true)),
                ("share", Value::Double(0.5)),
            ],
        };
        let body: Json = serde_json::from_slice(&body(&resource(&settings), &[span])).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            body,
            json!({"resourceSpans": [{
                "resource": {"attributes": [
                    {"key": "service.name", "value": {"stringValue": "web"}},
                    {"key": "service.version", "value": {"stringValue": version}},
                    {"key": "host.name", "value": {"stringValue": "a"}},
                ]},
                "scopeSpans": [{
                    "scope": {"name": "recapd", "version": version},
                    "spans": [{
                        "traceId": "0000000000000000000000000000004b", "spanId": "000000000000000a",
                        "parentSpanId": "000000000000000b", "name": "chat m", "kind": 3,
                        "startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": "1700000000000000002",
                        "attributes": [
                            {"key": "error.type", "value": {"stringValue": "timeout"}},
                            {"key": "n", "value": {"intValue": "9223372036854775807"}},
                            {"key": "yes", "value": {"boolValue": true}},
                            {"key": "share", "value": {"doubleValue": 0.5}},
                        ],
                        "status": {"code": 2},
                    }],
                }],
            }]})
        );
    }
}
