//! Messages of an agent that calls tools, in OpenAI's chat format. The mix is that of real traces: two or three of ten
//! messages are prose, the others are calls and results.

use recapd_core::domain::message::Message;

use super::rounds::{Rounds, said};

pub(crate) struct Messages(Rounds);

impl Messages {
    /// Creates a source that returns the same messages for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rounds::new(seed))
    }

    /// Returns a turn without tools: a question and its answer.
    pub(crate) fn turn(&mut self) -> anyhow::Result<Vec<Message>> {
        let (question, answer) = (self.0.texts.prose(150), self.0.texts.prose(500));
        Ok(vec![said("user", &question)?, said("assistant", &answer)?])
    }

    /// Returns `count` messages: questions, tool calls with their results, answers.
    pub(crate) fn mix(&mut self, count: usize) -> anyhow::Result<Vec<Message>> {
        let mut mixed = Vec::with_capacity(count);
        while mixed.len() < count {
            let bytes = self.0.length(140);
            mixed.push(said("user", &self.0.texts.prose(bytes))?);
            while self.0.random.usize(..4) > 0 {
                let Some(round) = self.0.next() else { break };
                mixed.extend(round?);
            }
            let bytes = self.0.length(400);
            mixed.push(said("assistant", &self.0.texts.prose(bytes))?);
        }
        mixed.truncate(count);
        Ok(mixed)
    }
}
