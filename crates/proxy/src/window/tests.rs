//! Rewritten requests, judged by the validator of providers' rules.

mod script;

use std::sync::Arc;

use proptest::prelude::*;
use recapd_core::{
    domain::{
        continuation::{Beginning, StoredConversation, beginnings},
        time::Timestamp,
        window::{Budget, Window},
    },
    formats::request::{SentMessage, units_of},
    tokenizer::EstimateCounter,
    validator::{self, Severity, validate},
};
use script::{dialects, requests, turns};
use serde_json::{Value, json, value::RawValue};

use super::{step::Replacement, *};

const SECOND: Duration = Duration::from_secs(1);

/// The daemon: what it stores, and what has left its window.
struct StoringDaemon {
    window: Window,
    stored: StoredConversation,
    /// The number of messages of the client that are stored.
    through: usize,
}

impl StoringDaemon {
    fn new(budget: Budget) -> Self {
        Self {
            window: Window::new(budget, Arc::new(EstimateCounter)),
            stored: StoredConversation::default(),
            through: 0,
        }
    }

    fn store(&mut self, writer: RequestWriter, messages: &[Value]) {
        for message in &messages[self.through.min(messages.len())..] {
            let sent = SentMessage::parse(writer.dialect.format(), None, &message.to_string()).unwrap();
            let Some(message) = sent.part(|_| true, &[]).unwrap() else {
                continue;
            };
            let units = units_of(&message);
            self.window.push(message, Timestamp(0));
            let exchange = self.window.exchanges().last().map_or(0, |newest| newest.exchange.exchange);
            self.stored.push(None, &units, exchange);
        }
        self.through = self.through.max(messages.len());
    }

    fn replacement(&self, anchor: Option<u64>) -> Replacement {
        let first_exchange = self.window.exchanges().next().map_or(1, |first| first.exchange.exchange);
        Replacement {
            agent: AgentId::slug("it"),
            tag: first_exchange.to_string(),
            version: first_exchange,
            replaced: self.stored.before(first_exchange),
            anchor,
            text: format!("<summary>\nUp to #{first_exchange} \"cache_control\"\n</summary>"),
        }
    }
}

/// A client's request around its messages. The newest message has a prompt cache marker, as agents set it.
fn body(dialect: Dialect, model: &str, messages: &[Value]) -> String {
    let mut messages = messages.to_vec();
    if dialect == Dialect::Anthropic
        && let Some(last) = messages.last_mut()
    {
        if let Some(text) = last["content"].as_str() {
            last["content"] = json!([{"type": "text", "text": text}]);
        }
        let blocks = last["content"].as_array_mut().unwrap();
        blocks.last_mut().unwrap()["cache_control"] = json!({"type": "ephemeral"});
    }
    let list: Vec<String> = messages.iter().map(Value::to_string).collect();
    let list = list.join(" , ");
    match dialect {
        Dialect::Anthropic => format!(
            r#"{{"model":"{model}", "system":[{{"type":"text","text":"Be \u0062rief.","cache_control":{{"type":"ephemeral"}}}}],"messages":[ {list} ],"unknown":1.0,"max_tokens":9}}"#
        ),
        Dialect::OpenAiChat => format!(r#"{{"model":"gpt-5", "messages":[ {list} ],"unknown":1.0}}"#),
        Dialect::OpenAiResponses => format!(r#"{{"model":"gpt-5", "input":[ {list} ],"unknown":1.0}}"#),
        Dialect::Gemini => format!(r#"{{"contents":[ {list} ],"unknown":1.0}}"#),
    }
}

fn list(dialect: Dialect, body: &str) -> Vec<Box<RawValue>> {
    let fields: std::collections::HashMap<String, Box<RawValue>> = serde_json::from_str(body).unwrap();
    serde_json::from_str(fields[dialect.list()].get()).unwrap()
}

/// A message without what may differ: prompt cache markers, and thinking from before a step.
fn bare(raw: &RawValue) -> Value {
    let mut message: Value = serde_json::from_str(raw.get()).unwrap();
    if let Some(blocks) = message["content"].as_array_mut() {
        for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
            block.remove("cache_control");
        }
        if let [only] = blocks.as_slice()
            && only["type"] == "text"
        {
            message["content"] = only["text"].clone();
        }
    }
    message
}

fn unthinking(message: &Value) -> Value {
    let mut message = message.clone();
    if let Some(blocks) = message["content"].as_array_mut() {
        blocks.retain(|block| block["type"] != "thinking");
    }
    message
}

fn refusals(dialect: Dialect, model: &str, body: &str) -> Vec<validator::Violation> {
    let target = match dialect {
        Dialect::Anthropic => validator::Target::Anthropic,
        Dialect::OpenAiChat => validator::Target::OpenAiChat,
        Dialect::OpenAiResponses => validator::Target::OpenAiResponses,
        Dialect::Gemini => validator::Target::Gemini,
    };
    let mut found = validate(target, &serde_json::from_str(body).unwrap(), Some(model));
    found.retain(|violation| violation.severity == Severity::Refused);
    found
}

fn read(writer: RequestWriter, body: &str) -> Outline {
    Outline::read(writer, &Bytes::copy_from_slice(body.as_bytes()), None, &OutlineMemory::default()).unwrap()
}

/// One conversation through the proxy, with what it sent for the request before.
struct ProxyCourse {
    writer: RequestWriter,
    model: &'static str,
    session: WindowSession,
    now: Instant,
    before: Option<(String, Vec<Value>)>,
    steps: usize,
}

impl ProxyCourse {
    fn new(dialect: Dialect, model: &'static str) -> Self {
        Self {
            writer: RequestWriter { dialect, client: "it" },
            model,
            session: WindowSession::default(),
            now: Instant::now(),
            before: None,
            steps: 0,
        }
    }

    fn ask(&mut self, messages: &[Value]) -> Result<(), TestCaseError> {
        let dialect = self.writer.dialect;
        let written = body(dialect, self.model, messages);
        prop_assert_eq!(refusals(dialect, self.model, &written), []);
        let outline = read(self.writer, &written);
        self.now += SECOND;
        let found = self.session.step(&outline, self.now);
        self.session.last_request_at = Some(self.now);
        let Some((WindowStep { replacement, thinks_from, .. }, cut)) = found else {
            self.before = None;
            return Ok(());
        };
        let rewrite = Rewrite { replacement: &replacement, cut, thinks_from };
        let sent = rewrite.body(&outline).unwrap();
        let sent = std::str::from_utf8(&sent).unwrap();
        prop_assert_eq!(refusals(dialect, self.model, sent), [], "{}", sent);
        let (head, tail) = (
            outline::slice(&written, 0..outline.list.start),
            outline::slice(&written, outline.list.end..written.len()),
        );
        prop_assert!(sent.starts_with(head) && sent.ends_with(tail), "{}", sent);
        let (written, sent) = (list(dialect, &written), list(dialect, sent));
        self.check_kept(&written[cut..], &sent, thinks_from - thinks_from.min(cut))?;
        let bare: Vec<Value> = sent.iter().map(|message| bare(message)).collect();
        if let Some((tag, before)) = &self.before
            && *tag == replacement.tag
        {
            prop_assert_eq!(&bare[..before.len()], before.as_slice(), "the prefix changed within a step");
        } else {
            self.steps += 1;
        }
        self.before = Some((replacement.tag.clone(), bare));
        Ok(())
    }

    /// Kept messages are the client's bytes, but for the thinking of the first ones.
    fn check_kept(
        &self,
        written: &[Box<RawValue>],
        sent: &[Box<RawValue>],
        unthinking_count: usize,
    ) -> Result<(), TestCaseError> {
        let kept = &sent[sent.len() - written.len()..];
        for (at, (written, kept)) in written.iter().zip(kept).enumerate() {
            if written.get() == kept.get() {
                continue;
            }
            let written: Value = serde_json::from_str(written.get()).unwrap();
            let kept: Value = serde_json::from_str(kept.get()).unwrap();
            prop_assert!(self.writer.dialect == Dialect::Anthropic && at < unthinking_count);
            prop_assert_eq!(unthinking(&written), kept);
        }
        let text = sent[sent.len() - written.len() - 1].get();
        prop_assert!(text.contains("<summary>"), "{}", text);
        Ok(())
    }
}

fn first_unit(writer: RequestWriter, messages: &[Value]) -> Option<u64> {
    let outline = read(writer, &body(writer.dialect, "m", messages));
    outline.units().next().map(|unit| unit.hash)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn providers_take_every_rewritten_request(
        dialect in dialects(),
        turns in turns(),
        budget in 100..1_500_i64,
        leg in 20..300_i64,
        has_anchor: bool,
        lags: bool,
        binds: bool,
    ) {
        let model = if binds { "claude-opus-5-5" } else { "claude-sonnet-4-5" };
        let mut course = ProxyCourse::new(dialect, model);
        let mut daemon = StoringDaemon::new(Budget::new(budget, 0.6).with_leg_tokens(leg));
        let mut last = 0;
        for messages in requests(dialect, &turns) {
            // By now the daemon knows the request before, and mostly the answer to it.
            daemon.store(course.writer, &messages[..last + usize::from(!lags)]);
            let anchor = first_unit(course.writer, &messages).filter(|_| has_anchor);
            course.session.offer = Some(Arc::new(daemon.replacement(anchor)));
            course.ask(&messages)?;
            last = messages.len();
        }
        let replaced = daemon.replacement(None).replaced;
        prop_assert!(replaced.units == 0 || course.steps > 0, "nothing was rewritten");
        let step = course.session.step.map(|step| step.replacement.replaced.units);
        prop_assert!(step.unwrap_or(0) <= replaced.units);
    }
}

const CHAT: RequestWriter = RequestWriter { dialect: Dialect::OpenAiChat, client: "it" };

/// What stands for the first `units` of a conversation.
fn offered(outline: &Outline, units: usize, tag: &str) -> Arc<Replacement> {
    let hash = beginnings(0, outline.units()).nth(units - 1).unwrap();
    Arc::new(Replacement {
        agent: AgentId::slug("it"),
        tag: tag.to_owned(),
        version: 1,
        replaced: Beginning { units, hash },
        anchor: None,
        text: "<summary>".to_owned(),
    })
}

#[test]
fn only_an_eviction_or_a_users_request_takes_a_step_while_the_cache_is_warm() {
    let user = |text: &str| json!({"role": "user", "content": text});
    let call = json!({"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]});
    let mut talk = vec![
        user("One"),
        json!({"role": "assistant", "content": "Done."}),
        user("Two"),
        call.clone(),
        json!({"role": "tool", "tool_call_id": "c1", "content": "text"}),
    ];
    let looping = read(CHAT, &body(CHAT.dialect, "m", &talk));
    talk.push(user("Three"));
    let asking = read(CHAT, &body(CHAT.dialect, "m", &talk));
    let open = read(CHAT, &body(CHAT.dialect, "m", &talk[..4]));
    let mut session = WindowSession::default();
    let mut now = Instant::now();
    // The request, what the daemon offers, the seconds since the request before, and the step in force.
    for (request, units, tag, seconds, expected) in [
        (&looping, 1, "first", 1, "first"),
        (&looping, 1, "newer text", 1, "first"),
        (&looping, 1, "newer text", 301, "newer text"),
        (&asking, 1, "newest text", 1, "newest text"),
        (&looping, 2, "evicted", 1, "evicted"),
        (&looping, 1, "back", 1, "evicted"),
        (&open, 3, "open", 1, "evicted"),
        // A call without its result would be gone.
        (&looping, 4, "torn", 301, "evicted"),
        // Nothing would be left.
        (&looping, 5, "empty", 301, "evicted"),
        (&looping, 3, "next", 1, "next"),
    ] {
        session.offer = Some(offered(&looping, units, tag));
        now += SECOND * seconds;
        let step = session.step(request, now);
        session.last_request_at = Some(now);
        let (step, _) = step.unwrap_or_else(|| panic!("no step for {tag}"));
        assert_eq!(step.replacement.tag, expected, "{tag}");
    }
    // The step isn't applied to another conversation.
    let other = read(CHAT, &body(CHAT.dialect, "m", &[user("Other"), call, user("Two")]));
    assert!(session.step(&other, now).is_none());
}

/// A request that is cut after `units`.
fn cut_after(writer: RequestWriter, messages: &[Value], units: usize) -> Vec<Value> {
    let outline = read(writer, &body(writer.dialect, "m", messages));
    let replacement = offered(&outline, units, "tag");
    let rewrite = Rewrite {
        replacement: &replacement,
        cut: outline.cut(replacement.replaced).unwrap(),
        thinks_from: 0,
    };
    let sent = rewrite.body(&outline).unwrap();
    let sent = list(writer.dialect, std::str::from_utf8(&sent).unwrap());
    sent.iter().map(|message| bare(message)).collect()
}

#[test]
fn instructions_and_files_that_the_host_shows_stay() {
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let files = [
        said("user", "I have *added these files to the chat* so you can go ahead and edit them.\n\nmain.rs"),
        said("assistant", "Ok, any changes I propose will be to those files."),
    ];
    let turn = |words: &str| [said("user", words), said("assistant", "Done.")];
    let (system, last) = (said("system", "Be brief."), said("user", "Three"));
    let talk = [
        vec![system.clone()],
        turn("One").to_vec(),
        files.to_vec(),
        turn("Two").to_vec(),
        vec![last.clone()],
    ];
    let sent = cut_after(CHAT, &talk.concat(), 4);
    let expected = [vec![system], files.to_vec(), vec![said("user", "<summary>"), last.clone()]];
    assert_eq!(sent, expected.concat());

    let anthropic = RequestWriter { dialect: Dialect::Anthropic, client: "it" };
    let blocks = json!([{"type": "text", "text": "Speak German."}, {"type": "text", "text": "Be kind."}]);
    let talk =
        [said("user", "One"), json!({"role": "system", "content": blocks}), said("assistant", "Eins."), last];
    let sent = cut_after(anthropic, &talk, 2);
    let text = sent[0]["content"].as_str().unwrap();
    assert!(text.ends_with("instructions in it:\n\nSpeak German.\n\nBe kind.\n\n<summary>"), "{text}");
    assert_eq!(sent.len(), 2);
}

#[test]
fn a_conversation_that_is_not_sent_whole_cannot_be_cut() {
    for body in [
        r#"{"input": "One"}"#,
        r#"{"input": [], "previous_response_id": "resp_1"}"#,
        r#"{"input": [], "conversation": "conv_1"}"#,
        r#"{"messages": []}"#,
        "{",
    ] {
        let writer = RequestWriter { dialect: Dialect::OpenAiResponses, client: "it" };
        let found = Outline::read(writer, &body.into(), None, &OutlineMemory::default());
        assert!(found.is_none(), "{body}");
    }
}
