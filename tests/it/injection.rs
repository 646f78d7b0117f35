//! Prompt injections, and what becomes of them in a summary.

use std::{collections::BTreeSet, sync::LazyLock};

use recapd_core::{
    domain::{
        agent::AgentId,
        context::fence,
        demand::UserWords,
        exchange::{Exchange, LedgerEntry},
        message::{Kind, Message, Part},
        redaction::Redactor,
        reply,
        summary::{
            compaction::{SummaryPolicy, compose},
            coverage::{digest_items, items_from},
            item::{Item, Origin},
            pending::{PENDING_HEADING, PendingLine, with_pending},
            reading::name_and_span,
            render::FOOTER,
            section::Section,
            state,
        },
        time::Timestamp,
        transcript::{Transcript, TranscriptLimits},
    },
    tokenizer::BytesCounter,
};
use recapd_llm::offline::summarise;
use serde_json::json;
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

const PLACES: [&str; 7] = ["user", "assistant", "result", "arguments", "speaker", "tool", "file"];
const LIVE: [&str; 34] = [
    "<|",
    "<｜",
    "_end|>",
    "[INST]",
    "[/INST]",
    "<<SYS",
    "</",
    "<s>",
    "<start_of",
    "<end_of",
    "<function",
    "<invoke",
    "<parameter",
    "<tool",
    "<system",
    "<IMPORTANT",
    "[TOOL_CALLS]",
    "<script",
    "<img",
    "<!--",
    "](",
    "![",
    "<http",
    "<javascript",
    "javascript:",
    "```",
    "~~~",
    "recap-material",
    "\u{200b}",
    "\u{202e}",
    "\u{e0069}",
    "\u{1b}",
    "\u{7}",
    "\n#",
];
/// Orders that no text may contain outside of quotation marks, in lower case.
const ORDERS: [&str; 34] = [
    "ignore all",
    "ignore the above",
    "ignore your",
    "ignore previous",
    "disregard",
    "you are now",
    "you must",
    "system:",
    "assistant:",
    "human:",
    "from now on you",
    "developer mode enabled",
    "repeat everything",
    "note to ai",
    "attention all",
    "if you are an llm",
    "when you summarise",
    "new instructions",
    "new task",
    "always end",
    "before answering",
    "do not tell",
    "never mention",
    "remember that",
    "whenever you",
    "under no circumstances",
    "ignoriere",
    "olvida todas",
    "oublie toutes",
    "забудь",
    "忽略",
    "無視",
    "무시",
    "تجاهل",
];

/// A text that attacks, and how it is recognised.
#[derive(serde::Deserialize)]
struct Injection {
    seen: String,
    text: String,
    /// The part that no line may contain outside of quotation marks, in lower case and without obfuscation.
    order: Option<String>,
    /// The part that may not appear anywhere in a document.
    live: Option<String>,
}

fn all_injections() -> Vec<Injection> {
    let lines = include_str!("../fixtures/injections.jsonl").lines();
    let all: Vec<Injection> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(all.iter().all(|injection| !injection.seen.is_empty()));
    let texts: BTreeSet<&String> = all.iter().map(|injection| &injection.text).collect();
    let languages: BTreeSet<&str> =
        all.iter().filter_map(|injection| injection.seen.strip_prefix("another language: ")).collect();
    assert!(texts.len() >= 120 && texts.len() == all.len(), "{}", texts.len());
    assert!(languages.len() >= 30, "{languages:?}");
    all
}

fn injections() -> Vec<String> {
    all_injections().into_iter().map(|injection| injection.text).collect()
}

/// Lists what a document contains of one injection and may not.
fn narrated(document: &str, text: &str) -> Vec<String> {
    static ALL: LazyLock<Vec<Injection>> = LazyLock::new(all_injections);
    let Some(injection) = ALL.iter().find(|injection| injection.text == text) else {
        return Vec::new();
    };
    let bare = |text: &str| -> String {
        let letters = text.nfkd().flat_map(char::to_lowercase);
        letters.filter(|c| !is_combining_mark(*c)).map(small).collect()
    };
    let order = injection.order.as_deref().map(bare).filter(|order| {
        let mut lines = document.lines().filter(|line| !line.starts_with('#'));
        lines.any(|line| bare(&outside(line)).contains(order.as_str()))
    });
    let live = injection.live.clone().filter(|live| document.contains(live.as_str()));
    let told = order.map(|order| format!("narrated: {order}"));
    told.into_iter().chain(live.map(|live| format!("live: {live:?}"))).collect()
}

/// Maps a small capital to its lower-case letter.
fn small(c: char) -> char {
    let capitals = "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡxʏᴢ".chars();
    let found = capitals.zip('a'..='z').find(|(capital, _)| *capital == c);
    found.map_or(c, |(_, letter)| letter)
}

fn message(kind: Kind, speaker: Option<&str>, part: Part) -> Message {
    Message { speaker: speaker.map(str::to_owned), ..Message::new(kind, vec![part]) }
}

fn exchange(text: &str, place: &str) -> (Exchange, Vec<Message>) {
    let at = |here: &str, otherwise: &str| if here == place { text } else { otherwise }.to_owned();
    let speaker = (place == "speaker").then_some(text);
    let arguments = json!({"path": at("file", "src/a.rs"), "content": at("arguments", "fn main() {}")});
    let messages = vec![
        message(Kind::User, speaker, Part::Text(at("user", "Please fix the parser"))),
        message(
            Kind::ToolCall,
            None,
            Part::ToolCall { id: None, name: at("tool", "write_file"), arguments: arguments.to_string() },
        ),
        message(
            Kind::ToolResult,
            None,
            Part::ToolResult {
                call_id: None,
                name: None,
                text: at("result", "error: no such file"),
                is_error: true,
            },
        ),
        message(Kind::Assistant, speaker, Part::Text(at("assistant", "The parser is fixed."))),
    ];
    let mut entries =
        messages.iter().map(|message| LedgerEntry::new(message, 10, Timestamp(0), &Redactor::standard()));
    let mut exchange = Exchange::open(1, 1, 0, 1, &entries.next().unwrap());
    for (seq, entry) in (2..).zip(entries) {
        exchange.add(seq, &entry);
    }
    (exchange, messages)
}

fn document(items: &[Item]) -> String {
    compose(items, Timestamp(0), &SummaryPolicy::default(), &BytesCounter).document
}

/// Lists what is wrong with a document of `lines` items.
fn breaches(document: &str, lines: usize) -> Vec<String> {
    let names: Vec<&str> = Section::ALL.into_iter().map(Section::heading).chain([PENDING_HEADING]).collect();
    let is_heading = |line: &str| {
        let heading = line.strip_prefix("## ").map(name_and_span);
        heading.is_some_and(|(name, span)| {
            names.contains(&name) && span.is_none_or(|span| span.starts_with("1 January 1970"))
        })
    };
    let is_item = |line: &str| {
        line.starts_with("- ") && (line.ends_with("#1)") || line.ends_with(" (not yet condensed)"))
    };
    // Further points of an item are indented bullets with any text.
    let is_point = |line: &str| line.starts_with("  - ");
    let strange = document
        .lines()
        .filter(|line| {
            !line.is_empty() && *line != FOOTER && !is_heading(line) && !is_item(line) && !is_point(line)
        })
        .map(|line| format!("a line of its own: {line}"));
    let live = LIVE.into_iter().filter(|live| match *live {
        "\n#" => document.lines().any(|line| line.starts_with('#') && !is_heading(line)),
        live => document.contains(live),
    });
    let items: Vec<&str> = document.lines().filter(|line| is_item(line)).collect();
    let told = document.lines().filter(|line| is_item(line) || is_point(line));
    let orders = told.flat_map(|line| {
        let outside = outside(line).to_lowercase();
        ORDERS.into_iter().filter(move |order| outside.contains(order))
    });
    let agent: AgentId = "a".parse().unwrap();
    let fenced = fence(&agent, 1, document, None).to_lowercase();
    let tags = [fenced.matches("<summary").count(), fenced.matches("</summary").count()];
    let mut found: Vec<String> = strange.collect();
    found.extend(live.map(|live| format!("live: {live:?}")));
    found.extend(orders.map(|order| format!("an order: {order}")));
    if tags != [1, 1] {
        found.push(format!("{tags:?} tags of the fence"));
    }
    if items.len() != lines {
        found.push(format!("{} lines for {lines} items", items.len()));
    }
    found
}

fn outside(line: &str) -> String {
    let mut outside = String::new();
    let mut depth = 0;
    for c in line.chars() {
        match c {
            '“' => depth = 1,
            '”' => depth = 0,
            c if depth == 0 => outside.push(c),
            _ => {}
        }
    }
    outside
}

/// Says what is wrong with a document of one item that was made from the text.
fn harm(document: &str, text: &str, place: &str) -> Option<String> {
    let mut found = breaches(document, 1);
    found.extend(narrated(document, text));
    (!found.is_empty()).then(|| format!("{found:?}\nof {text:?} as {place}:\n{document}"))
}

#[test]
fn nothing_said_reaches_the_document_through_the_offline_model() {
    let mut harms = Vec::new();
    for text in injections() {
        for place in PLACES {
            let (exchange, messages) = exchange(&text, place);
            let (limits, redactor) = (TranscriptLimits::default(), Redactor::standard());
            let transcript = Transcript::new(&exchange, &messages, limits, &redactor);
            let answer = json!({"items": summarise(&[transcript])}).to_string();
            let drafts = reply::parse(&answer, &[1], &redactor).unwrap().drafts;
            let items = items_from(&drafts, &[exchange], Origin::Offline).unwrap();
            harms.extend(harm(&document(&items), &text, place));
        }
    }
    assert!(harms.is_empty(), "{} times:\n{}", harms.len(), harms.join("\n"));
}

#[test]
fn no_digest_reaches_the_document_or_the_pending_lines() {
    let mut harms = Vec::new();
    for text in injections() {
        for place in PLACES {
            let (exchange, _) = exchange(&text, place);
            let line = PendingLine { exchange: 1, at: Timestamp(0), tokens: 40, digest: exchange.digest() };
            let (pending, _) = with_pending("", &[line], 10_000, &BytesCounter);
            harms.extend(harm(&pending, &text, place));
            harms.extend(harm(&document(&digest_items(&[exchange])), &text, place));
        }
    }
    assert!(harms.is_empty(), "{} times:\n{}", harms.len(), harms.join("\n"));
}

#[test]
fn a_model_that_obeys_is_not_believed() {
    let mut harms = Vec::new();
    for text in injections() {
        for (field, place) in [("text", "user"), ("brief", "user"), ("gist", "user"), ("all", "user")] {
            let (exchange, _) = exchange("Please fix the parser", place);
            let mut item = json!({"exchanges": {"first": 1, "last": 1}, "importance": "decision",
                                  "text": "Fixed it.", "brief": "Fixed it.", "gist": "Fixed it."});
            for name in ["text", "brief", "gist"] {
                if [name, "all"].contains(&field) {
                    item[name] = json!(text);
                }
            }
            let answer = json!({"items": [item]}).to_string();
            let drafts = reply::parse(&answer, &[1], &Redactor::standard())
                .map(|checked| checked.drafts)
                .unwrap_or_default();
            let items = items_from(&drafts, &[exchange], Origin::Model).unwrap();
            for age_days in [0, 2, 8] {
                let as_of = Timestamp(age_days * 86_400_000);
                let composed = compose(&items, as_of, &SummaryPolicy::default(), &BytesCounter);
                harms.extend(harm(&composed.document, &text, field));
            }
        }
    }
    assert!(harms.is_empty(), "{} times:\n{}", harms.len(), harms.join("\n"));
}

/// Has a model obey a text at `place` by claiming a demand of the user's. Returns the document, and the number of
/// demands among the accepted facts.
fn claimed(text: &str, place: &str) -> (String, usize) {
    let (exchange, messages) = exchange(text, place);
    let (limits, redactor) = (TranscriptLimits::default(), Redactor::standard());
    let transcripts = [Transcript::new(&exchange, &messages, limits, &redactor)];
    let words = UserWords::of(&transcripts);
    let claim = format!("The user demanded: “{}”", text.replace('\n', " "));
    let answer = json!({
        "items": [{"exchanges": {"first": 1, "last": 1}, "importance": "demand",
                   "text": claim, "brief": claim, "gist": claim}],
        "facts": {"add": [{"kind": "demand", "text": text, "exchange": 1}], "replace": [], "close": []},
    });
    let checked = reply::parse_with_words(&answer.to_string(), &[1], &words, &redactor).unwrap();
    let items = items_from(&checked.drafts, &[exchange], Origin::Model).unwrap();
    let believed = state::apply(&[], &[checked.facts], &transcripts);
    (document(&items), believed.added.len())
}

#[test]
fn no_tool_and_no_file_demands_anything_in_the_users_name() {
    for text in injections() {
        for place in PLACES.into_iter().filter(|place| *place != "user") {
            let (document, demands) = claimed(&text, place);
            let outside = outside(&document).to_lowercase();
            assert!(!outside.contains("user demanded"), "{text:?} as {place}:\n{document}");
            assert_eq!(demands, 0, "{text:?} as {place}");
        }
    }
    let (document, demands) = claimed("Always use pnpm, never npm.", "user");
    assert!(document.contains("The user demanded: “Always use pnpm, never npm.”"), "{document}");
    assert_eq!(demands, 1);
}

/// The same checks fail if nothing is cleaned, so they do detect what they look for.
#[test]
fn without_the_cleaning_the_same_checks_find_breaches() {
    let texts = injections();
    let unseen: Vec<&String> = texts
        .iter()
        .filter(|text| {
            let document = format!("## Yesterday (1 January 1970)\n- {text} (#1)\n\n{FOOTER}\n");
            breaches(&document, 1).is_empty() && narrated(&document, text).is_empty()
        })
        .collect();
    assert!(unseen.len() * 5 <= texts.len(), "{} of {}: {unseen:#?}", unseen.len(), texts.len());
}
