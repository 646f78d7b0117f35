//! Files of messages, read in a given format or in the detected one.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
};

use crate::Corpus;
use recapd_core::{
    domain::{
        context::{ContextInput, ContextOptions, SourceExchange, SourceMessage, build},
        message::{Format, Message},
    },
    formats::{
        self,
        file::{FileReader, Record, SkippedEntry},
        outgoing::{RequestFormat, render},
    },
    tokenizer::BytesCounter,
};
use serde_json::value::RawValue;

type Outcome = Result<Record, SkippedEntry>;

/// Fields of an object that may hold several messages.
const CONTAINER_FIELDS: [&str; 7] =
    ["messages", "history", "traj", "contents", "input", "output", "simulations"];

/// Reads `data` and checks the reader's guarantees.
pub(crate) fn read(data: &[u8], format: Option<Format>) -> Corpus {
    let outcomes = outcomes(Cursor::new(data.to_vec()), format);
    let chunk = 1 + data.len() % 7;
    let in_chunks = outcomes_of_chunks(data, chunk, format);
    assert_eq!(outcomes, in_chunks, "chunks of {chunk} bytes make a difference");
    let Some(outcomes) = outcomes else {
        return Corpus::Keep;
    };
    for record in outcomes.iter().flatten() {
        let message = &record.message;
        let again = formats::parse(message.format, &message.payload);
        assert_eq!(again.as_ref(), Ok(message), "its payload says something else");
        let _ = formats::reported_usage(message);
    }
    if !matches!(format, Some(Format::Aider | Format::Pidgin)) {
        nothing_is_lost(data, &outcomes);
    }
    if let Some(target) = format.and_then(request_format) {
        writes_again(target, &outcomes);
    }
    Corpus::Keep
}

fn outcomes(reader: impl Read + Send + 'static, format: Option<Format>) -> Option<Vec<Outcome>> {
    Some(FileReader::from_reader(reader, "conversation.jsonl", format).ok()?.collect())
}

fn outcomes_of_chunks(data: &[u8], chunk: usize, format: Option<Format>) -> Option<Vec<Outcome>> {
    struct Chunks(Cursor<Vec<u8>>, usize);

    impl Read for Chunks {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let most = buffer.len().min(self.1);
            self.0.read(&mut buffer[..most])
        }
    }

    outcomes(Chunks(Cursor::new(data.to_vec()), chunk), format)
}

/// Checks that lines of one object each come out in order and byte for byte, or with a reason.
fn nothing_is_lost(data: &[u8], outcomes: &[Outcome]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<(u64, &str)> = (1..)
        .zip(text.split('\n'))
        .map(|(number, line)| (number, line.strip_suffix('\r').unwrap_or(line)))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    let is_message = |line: &str| {
        serde_json::from_str::<BTreeMap<String, &RawValue>>(line)
            .is_ok_and(|fields| !CONTAINER_FIELDS.iter().any(|name| fields.contains_key(*name)))
    };
    let is_pidgin =
        |outcome: &Outcome| matches!(outcome, Ok(record) if record.message.format == Format::Pidgin);
    if lines.iter().any(|(_, line)| !is_message(line)) || outcomes.iter().any(is_pidgin) {
        return;
    }
    assert_eq!(lines.len(), outcomes.len(), "something is lost or made up");
    for ((number, line), outcome) in lines.into_iter().zip(outcomes) {
        match outcome {
            Ok(record) => assert_eq!(record.message.payload, line),
            Err(skipped) => assert_eq!(skipped.line, number),
        }
    }
}

fn request_format(format: Format) -> Option<RequestFormat> {
    match format {
        Format::Anthropic => Some(RequestFormat::Anthropic),
        Format::OpenAiChat => Some(RequestFormat::OpenAiChat),
        Format::OpenAiResponses => Some(RequestFormat::OpenAiResponses),
        Format::Gemini => Some(RequestFormat::Gemini),
        _ => None,
    }
}

/// Checks that a request that was read and written stays the same from then on.
fn writes_again(target: RequestFormat, outcomes: &[Outcome]) {
    let messages: Vec<&Message> = outcomes.iter().flatten().map(|record| &record.message).collect();
    if messages.is_empty() {
        return;
    }
    let once = written(target, &messages);
    let said = ["messages", "input", "contents"].into_iter().find_map(|field| once.get(field));
    if said.and_then(|said| said.as_array()).is_none_or(Vec::is_empty) {
        return;
    }
    // Blank words of the user are written once, but make no turn when they are read.
    let messages = once.get("messages").and_then(serde_json::Value::as_array);
    let is_blank = |message: &serde_json::Value| {
        let content = message.get("content").and_then(serde_json::Value::as_str);
        content.is_some_and(|content| content.trim().is_empty())
    };
    if messages.is_some_and(|messages| messages.iter().any(is_blank)) {
        return;
    }
    let forced = match target {
        RequestFormat::Anthropic => Format::Anthropic,
        RequestFormat::OpenAiChat => Format::OpenAiChat,
        RequestFormat::OpenAiResponses => Format::OpenAiResponses,
        RequestFormat::Gemini => Format::Gemini,
    };
    let Some(read) = outcomes_of_chunks(once.to_string().as_bytes(), usize::MAX, Some(forced)) else {
        return;
    };
    assert!(read.iter().all(Result::is_ok), "can't read {once}");
    let read: Vec<&Message> = read.iter().flatten().map(|record| &record.message).collect();
    assert_eq!(without_reasoning(written(target, &read)), without_reasoning(once));
}

/// Removes reasoning, which is kept only in a round of calls that isn't over; a result that belongs to no call ends it.
fn without_reasoning(mut request: serde_json::Value) -> serde_json::Value {
    if let Some(items) = request.get_mut("input").and_then(serde_json::Value::as_array_mut) {
        items.retain(|item| item.get("type").is_none_or(|kind| kind != "reasoning"));
    }
    request
}

fn written(target: RequestFormat, messages: &[&Message]) -> serde_json::Value {
    let sources = (1..).zip(messages).map(|(seq, message)| SourceMessage::uncounted(seq, message));
    let input = ContextInput {
        exchanges: vec![SourceExchange {
            exchange: 1,
            first_leg: 1,
            is_open: true,
            messages: sources.collect(),
        }],
        ..ContextInput::default()
    };
    let options =
        ContextOptions { system_in_place: target.takes_system_in_place(), ..ContextOptions::default() };
    render(target, &build(&input, &options, &BytesCounter).turns).body
}
