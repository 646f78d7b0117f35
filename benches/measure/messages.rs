//! Messages of an agent that calls tools, in OpenAI's chat format, mixed as in real traces: of ten messages two or
//! three are prose, the others are calls and their results, and half a kilobyte is usual, some dozen common.

use recapd::{
    domain::message::{Format, Message},
    formats,
};

use super::texts::Texts;

/// A source of turns.
pub(crate) struct Messages {
    texts: Texts,
    random: fastrand::Rng,
    calls: u32,
}

impl Messages {
    /// A source that always yields the same messages.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            texts: Texts::new(seed),
            random: fastrand::Rng::with_seed(seed),
            calls: 0,
        }
    }

    /// A turn without tools: what the user says, and the answer.
    pub(crate) fn turn(&mut self) -> anyhow::Result<Vec<Message>> {
        let (question, answer) = (self.texts.prose(150), self.texts.prose(500));
        Ok(vec![said("user", &question)?, said("assistant", &answer)?])
    }

    /// `count` messages: questions, tool calls with their results, answers.
    pub(crate) fn mix(&mut self, count: usize) -> anyhow::Result<Vec<Message>> {
        let mut mixed = Vec::with_capacity(count);
        while mixed.len() < count {
            let bytes = self.length(140);
            mixed.push(said("user", &self.texts.prose(bytes))?);
            while !self.is_one_in(4) {
                mixed.extend(self.call()?);
            }
            let bytes = self.length(400);
            mixed.push(said("assistant", &self.texts.prose(bytes))?);
        }
        mixed.truncate(count);
        Ok(mixed)
    }

    fn call(&mut self) -> anyhow::Result<[Message; 2]> {
        self.calls += 1;
        let id = format!("call_{:08x}", self.calls.wrapping_mul(2_654_435_761));
        let bytes = self.length(700);
        let result = if self.is_one_in(2) {
            self.texts.code(bytes)
        } else {
            self.texts.json(bytes)
        };
        let name = self.texts.name();
        let arguments = serde_json::json!({ name: self.texts.prose(40) }).to_string();
        let call = serde_json::json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]});
        let answer = serde_json::json!({"role": "tool", "tool_call_id": id, "content": result});
        Ok([parse(&call)?, parse(&answer)?])
    }

    /// A length as real messages have it: most are short, some are long (median `median`, mean about twice that).
    fn length(&mut self, median: usize) -> usize {
        let spread = [1, 2, 3, 4, 4, 5, 6, 8, 14, 40];
        let quarters = spread
            .get(self.random.usize(..spread.len()))
            .copied()
            .unwrap_or(4);
        median * quarters / 4 + self.random.usize(..median / 4)
    }

    fn is_one_in(&mut self, n: usize) -> bool {
        self.random.usize(..n) == 0
    }
}

fn said(role: &str, content: &str) -> anyhow::Result<Message> {
    parse(&serde_json::json!({"role": role, "content": content}))
}

fn parse(payload: &serde_json::Value) -> anyhow::Result<Message> {
    Ok(formats::parse(Format::OpenAiChat, &payload.to_string())?)
}
