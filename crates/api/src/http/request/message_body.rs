//! Splits a body into messages. The bytes of each message stay unchanged.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::http::response::problem::{
    BODY_TOO_LARGE, Finding, INVALID_BODY, INVALID_MESSAGE, Problem, RequestPlace, TOO_MANY_MESSAGES,
};
use recapd_core::{
    domain::{
        calibration::ReportedUsage,
        message::{Format, Kind, Message, Metadata},
    },
    formats,
};

/// Limits how many unreadable messages are reported one by one. The others are only counted.
const FINDINGS_MAX: usize = 20;
/// A body may consist of this many messages of unknown kinds. A longer body needs a known kind.
const UNKNOWN_KINDS_MAX: usize = 3;
const MESSAGES_FIELD: &str = "messages";
/// The field with the provider's usage report about the request that led to the last answer.
const USAGE_FIELD: &str = "usage";
/// Each message has one of these fields. A batch has none of them.
const MESSAGE_FIELDS: [&str; 3] = ["role", "kind", "type"];

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Document,
    /// One JSON document on each line.
    Lines,
}

struct BodyMessage<'b> {
    place: RequestPlace,
    json: &'b str,
}

/// Limits the elements and members in one body.
pub(super) const VALUES_MAX: usize = 500_000;

#[derive(Debug)]
pub(crate) struct MessageBatch {
    /// The messages in their order.
    pub(crate) messages: Vec<Message>,
    /// The provider's usage report about the request that led to the last answer among them.
    pub(crate) usage: Option<ReportedUsage>,
}

/// Reads the messages of a body in order, at most `messages_max`; payloads stay verbatim. Without a `format`, detects
/// each message's format. A message whose format isn't certain is read in the format of the first certain one.
pub(crate) fn messages(
    body_format: BodyFormat,
    body: &[u8],
    format: Option<Format>,
    messages_max: usize,
) -> Result<MessageBatch, Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let detail = format!("byte {} of the body isn't UTF-8", error.valid_up_to() + 1);
        Problem::new(INVALID_BODY, detail).hint("send UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check_values(text.as_bytes())?;
    let (pieces, usage) = match body_format {
        BodyFormat::Lines => (lines(text, messages_max)?, None),
        BodyFormat::Document => document(text, messages_max)?,
    };
    if pieces.is_empty() {
        return Err(Problem::new(INVALID_BODY, "the body holds no messages").hint("send at least one"));
    }
    Ok(MessageBatch { messages: parse_all(&pieces, format)?, usage })
}

/// Refuses a body of too many values. While it is parsed, a value takes 100 to 200 times its bytes.
pub(crate) fn check_values(text: &[u8]) -> Result<(), Problem> {
    // A body with fewer bytes can't have that many values.
    if text.len() <= VALUES_MAX || values(text) <= VALUES_MAX {
        return Ok(());
    }
    let detail = format!("the body holds more than {VALUES_MAX} values");
    Err(Problem::new(BODY_TOO_LARGE, detail).hint("send the messages in several requests, in order"))
}

/// Counts array elements and object members in JSON, at any depth. Each of them is first in its array or object, or
/// follows a comma.
pub(super) fn values(json: &[u8]) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (0, false, false);
    for &byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

/// Refuses too many messages before they are split. Messages of a byte or two would take many times the body's memory.
fn check_count(count: usize, messages_max: usize) -> Result<(), Problem> {
    if count <= messages_max {
        return Ok(());
    }
    let detail = format!("the request holds {count} messages; at most {messages_max} are allowed");
    Err(Problem::new(TOO_MANY_MESSAGES, detail)
        .hint("send them in several requests, in order, or raise http.batch_messages_max"))
}

fn parse_all(pieces: &[BodyMessage<'_>], format: Option<Format>) -> Result<Vec<Message>, Problem> {
    let likely = pieces.iter().find_map(|piece| formats::detect(piece.json));
    let likely = likely.unwrap_or(Format::OpenAiChat);
    let mut messages = Vec::with_capacity(pieces.len());
    let mut findings = Vec::new();
    for piece in pieces {
        let format = format.or_else(|| formats::detect(piece.json)).unwrap_or(likely);
        match formats::parse_strict(format, piece.json) {
            Ok(message) => messages.push(message),
            Err(error) => findings.push(Finding { place: piece.place.clone(), detail: error.to_string() }),
        }
    }
    if findings.is_empty() {
        check_kinds(pieces, &messages)?;
        check_conversation(pieces, &messages)?;
        return Ok(messages);
    }
    let (failed, total) = (findings.len(), pieces.len());
    findings.truncate(FINDINGS_MAX);
    let detail = format!("{failed} of {total} messages can't be read, so none was stored");
    Err(Problem::new(INVALID_MESSAGE, detail)
        .hint("correct what `errors` names and send all messages again; ?format= names the messages' format")
        .findings(findings))
}

/// Refuses a body of many messages if all their kinds are unknown. Agents may have kinds of their own, but no model
/// sees such messages, and a whole conversation of them is another program's.
fn check_kinds(pieces: &[BodyMessage<'_>], messages: &[Message]) -> Result<(), Problem> {
    let is_unknown = |message: &Message| matches!(message.kind, Kind::Metadata(Metadata::Other(_)));
    if messages.len() <= UNKNOWN_KINDS_MAX || !messages.iter().all(is_unknown) {
        return Ok(());
    }
    let examples = pieces.iter().zip(messages).take(FINDINGS_MAX);
    let findings: Vec<Finding> = examples
        .map(|(piece, message)| Finding {
            place: piece.place.clone(),
            detail: format!("kind `{}` is unknown", message.kind.name().escape_debug()),
        })
        .collect();
    let detail = format!(
        "all {} messages are of unknown kinds, so no model would ever see them; none was stored",
        messages.len()
    );
    Err(Problem::new(INVALID_MESSAGE, detail)
        .hint("use kinds of recapd's own format (user, assistant, tool_call, tool_result, system), or a provider's roles")
        .findings(findings))
}

/// Refuses messages of several conversations: of sub-agents and of their main agent, or of different sub-agents.
fn check_conversation(pieces: &[BodyMessage<'_>], messages: &[Message]) -> Result<(), Problem> {
    if messages.len() < 2 {
        return Ok(());
    }
    let agents: Vec<Option<String>> = messages.iter().map(formats::sub_agent).collect();
    if agents.iter().all(|agent| Some(agent) == agents.first()) {
        return Ok(());
    }
    let from_sub_agents = pieces.iter().zip(&agents).filter(|(_, agent)| agent.is_some());
    let findings: Vec<Finding> = from_sub_agents
        .clone()
        .take(FINDINGS_MAX)
        .map(|(piece, _)| Finding {
            place: piece.place.clone(),
            detail: "a sub-agent's message (isSidechain)".to_owned(),
        })
        .collect();
    let (from_sub_agents, total) = (from_sub_agents.count(), messages.len());
    let detail = format!(
        "{from_sub_agents} of {total} messages belong to sub-agents, which have conversations of their own, so none was stored"
    );
    Err(Problem::new(INVALID_MESSAGE, detail)
        .hint("leave out what `errors` names, or append each sub-agent's messages to an agent of their own")
        .findings(findings))
}

fn lines(text: &str, messages_max: usize) -> Result<Vec<BodyMessage<'_>>, Problem> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let filled = lines.filter(|(_, json)| !json.is_empty());
    check_count(filled.clone().count(), messages_max)?;
    let pieces = filled.map(|(line, json)| BodyMessage { place: RequestPlace::Line(line), json });
    Ok(pieces.collect())
}

/// Splits a document: a message, an array of messages, or an object with an array of messages and optionally a usage
/// report.
fn document(
    text: &str,
    messages_max: usize,
) -> Result<(Vec<BodyMessage<'_>>, Option<ReportedUsage>), Problem> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| broken_json(&error))?;
    if raw.get().starts_with('[') {
        return Ok((elements(raw, "", messages_max)?, None));
    }
    if let Some((messages, usage)) = batch(raw)? {
        let messages = elements(messages, "/messages", messages_max)?;
        return Ok((messages, usage.map(report).transpose()?));
    }
    let message = BodyMessage { place: RequestPlace::Pointer(String::new()), json: raw.get() };
    Ok((vec![message], None))
}

fn report(usage: &RawValue) -> Result<ReportedUsage, Problem> {
    formats::read_usage(usage.get()).ok_or_else(|| {
        pointer_problem(
            "/usage",
            "isn't a usage report; send the provider's own object, with input_tokens, prompt_tokens or promptTokenCount",
        )
    })
}

fn elements<'b>(
    array: &'b RawValue,
    pointer: &str,
    messages_max: usize,
) -> Result<Vec<BodyMessage<'b>>, Problem> {
    let not_an_array = |_| pointer_problem(pointer, "isn't an array; send the messages as an array");
    let elements: Vec<&RawValue> = serde_json::from_str(array.get()).map_err(not_an_array)?;
    check_count(elements.len(), messages_max)?;
    let messages = elements.into_iter().enumerate().map(|(number, raw)| BodyMessage {
        place: RequestPlace::Pointer(format!("{pointer}/{number}")),
        json: raw.get(),
    });
    Ok(messages.collect())
}

/// Returns the `messages` and the `usage` of an object, unless the object is itself a message. Refuses other members,
/// because they would be silently ignored.
fn batch(raw: &RawValue) -> Result<Option<(&RawValue, Option<&RawValue>)>, Problem> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    let is_message = MESSAGE_FIELDS.iter().any(|&name| fields.contains_key(name));
    let Some(&messages) = fields.get(MESSAGES_FIELD).filter(|_| !is_message) else {
        return Ok(None);
    };
    let mut names = fields.keys();
    if let Some(name) = names.find(|name| ![MESSAGES_FIELD, USAGE_FIELD].contains(&name.as_str())) {
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        return Err(pointer_problem(
            &pointer,
            "isn't allowed beside the messages; leave it out, or send it as a message (instructions with role system)",
        ));
    }
    let usage = fields.get(USAGE_FIELD).copied();
    Ok(Some((messages, usage.filter(|usage| usage.get() != "null"))))
}

fn pointer_problem(pointer: &str, detail: &str) -> Problem {
    Problem::new(INVALID_BODY, format!("`{pointer}` {detail}"))
        .hint("send a message, an array of messages, {\"messages\": [...]}, or one message per line")
        .findings(vec![Finding {
            place: RequestPlace::Pointer(pointer.to_owned()),
            detail: detail.to_owned(),
        }])
}

fn broken_json(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let hint = if text.starts_with("trailing characters") {
        "send one JSON document, or one message per line as content-type application/x-ndjson"
    } else {
        "send a message, an array of messages, or {\"messages\": [...]}"
    };
    Problem::new(INVALID_BODY, format!("the body is broken JSON: {text}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const MESSAGES_MAX: usize = 4;

    #[test]
    fn a_body_of_too_many_values_is_refused_before_it_is_parsed() {
        let said = |content: &str| format!(r#"{{"role":"user","content":{content}}}"#);
        let many = said(&format!("[{}0]", "0,".repeat(VALUES_MAX)));
        let refused = messages(BodyFormat::Lines, many.as_bytes(), None, MESSAGES_MAX).unwrap_err();
        assert!(format!("{refused:?}").contains("500000 values"), "{refused:?}");
        // Commas in a string don't count.
        let long = said(&format!(r#""\\\"{}""#, "[,".repeat(VALUES_MAX)));
        assert!(messages(BodyFormat::Lines, long.as_bytes(), None, MESSAGES_MAX).is_ok());
    }

    #[test]
    fn messages_of_sub_agents_are_not_mixed_into_a_conversation() {
        let line = |aside: &str| {
            format!(r#"{{"type":"user","uuid":"u"{aside},"message":{{"role":"user","content":"x"}}}}"#)
        };
        let main = line(r#","isSidechain":false"#);
        let (one, other) =
            (line(r#","isSidechain":true,"agentId":"a1""#), line(r#","isSidechain":true,"agentId":"b2""#));
        let read = |lines: &[&String]| {
            let body: Vec<&str> = lines.iter().map(|line| line.as_str()).collect();
            messages(BodyFormat::Lines, body.join("\n").as_bytes(), None, MESSAGES_MAX)
        };
        assert_eq!(read(&[&main, &main]).unwrap().messages.len(), 2);
        // Alone, a sub-agent's messages belong to an agent of their own.
        assert_eq!(read(&[&one]).unwrap().messages.len(), 1);
        assert_eq!(read(&[&one, &one]).unwrap().messages.len(), 2);
        for mixed in [&[&main, &one][..], &[&one, &main, &one], &[&one, &other]] {
            let refused = format!("{:?}", read(mixed).unwrap_err());
            assert!(refused.contains("messages belong to sub-agents"), "{refused}");
        }
    }

    /// A line as clients send it, sometimes broken.
    fn line() -> impl Strategy<Value = String> {
        let fine = "[a-z \\u{e4}\\u{2028}\\u{85}]{0,8}"
            .prop_map(|text| serde_json::json!({ "role": "user", "content": text }).to_string());
        prop_oneof![3 => fine, 1 => "[{}\\[\\]\":,a-z0-9 \\t]{0,12}", 1 => "\\PC{0,12}", 1 => Just(String::new())]
    }

    proptest! {
        #[test]
        fn no_line_is_lost_or_changed(lines in vec(line(), 0..8), end in "(\n|\r\n)", mark in "\u{feff}?") {
            let body = mark + &lines.join(&end);
            for body_format in [BodyFormat::Lines, BodyFormat::Document] {
                let Ok(batch) = messages(body_format, body.as_bytes(), None, MESSAGES_MAX) else { continue };
                prop_assert!((1..=MESSAGES_MAX).contains(&batch.messages.len()));
                let mut rest = body.as_str();
                for message in &batch.messages {
                    let found = rest.split_once(message.payload.as_str());
                    prop_assert!(found.is_some(), "{} isn't in {rest}", message.payload);
                    rest = found.unwrap().1;
                }
            }
            let filled = lines.iter().filter(|line| !line.trim().is_empty()).count();
            if let Ok(batch) = messages(BodyFormat::Lines, body.as_bytes(), None, MESSAGES_MAX) {
                prop_assert_eq!(batch.messages.len(), filled);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(body in vec(any::<u8>(), 0..64)) {
            for body_format in [BodyFormat::Lines, BodyFormat::Document] {
                messages(body_format, &body, None, MESSAGES_MAX).ok();
            }
        }
    }
}
