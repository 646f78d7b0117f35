//! Rounds of an agent that calls tools, in OpenAI's chat format: a call and its result each. As in real traces, a usual
//! result has half a kilobyte, and some have dozens.

use recapd_core::{
    domain::message::{Format, Message},
    formats,
};

use super::texts::Texts;

/// Generates rounds; the same for the same seed.
pub(crate) struct Rounds {
    pub(crate) texts: Texts,
    pub(crate) random: fastrand::Rng,
    calls: u32,
}

impl Rounds {
    pub(crate) fn new(seed: u64) -> Self {
        Self { texts: Texts::new(seed), random: fastrand::Rng::with_seed(seed), calls: 0 }
    }

    /// Returns a realistic length: most are short, some are long; the median is `median`, the mean about twice that.
    pub(crate) fn length(&mut self, median: usize) -> usize {
        let spread = [1, 2, 3, 4, 4, 5, 6, 8, 14, 40];
        let quarters = spread.get(self.random.usize(..spread.len())).copied().unwrap_or(4);
        median * quarters / 4 + self.random.usize(..median / 4)
    }
}

impl Iterator for Rounds {
    type Item = anyhow::Result<[Message; 2]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.calls += 1;
        let id = format!("call_{:08x}", self.calls.wrapping_mul(2_654_435_761));
        let bytes = self.length(700);
        let result = if self.random.bool() { self.texts.code(bytes) } else { self.texts.json(bytes) };
        let name = self.texts.name();
        let arguments = serde_json::json!({ name: self.texts.prose(40) }).to_string();
        let call = serde_json::json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]});
        let answer = serde_json::json!({"role": "tool", "tool_call_id": id, "content": result});
        Some(parse(&call).and_then(|call| Ok([call, parse(&answer)?])))
    }
}

pub(crate) fn said(role: &str, content: &str) -> anyhow::Result<Message> {
    parse(&serde_json::json!({"role": role, "content": content}))
}

fn parse(payload: &serde_json::Value) -> anyhow::Result<Message> {
    Ok(formats::parse(Format::OpenAiChat, &payload.to_string())?)
}
