//! Builds the request for a question about exchanges.

use super::{Worker, material::has_lines};
use recapd_core::domain::{
    agent::AgentId,
    message::Message,
    prompt::{LAST_ITEMS_MAX, Prompt, PromptLimits, PromptMaterial},
    summary::{fact::Fact, item::Item},
    transcript::{Transcript, TranscriptLimits},
    zone::Zone,
};
use recapd_llm::{ModelRequest, limits::LimitWait};
use recapd_store::StoredExchange;

/// How many letters and digits the nonce of a prompt's fence has.
const NONCE_CHARS: usize = 16;

#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    /// The exchanges. Those without a line are left out.
    pub(super) exchanges: &'a [StoredExchange],
    pub(super) zone: Zone,
    /// The items of the document. The prompt shows the last ones before the exchanges.
    pub(super) items: &'a [Item],
    pub(super) facts: &'a [Fact],
}

impl Worker {
    /// Builds the request about the exchanges that are worth asking about.
    pub(super) fn request(
        &self,
        agent: &AgentId,
        subject: Subject<'_>,
        limits: PromptLimits,
    ) -> ModelRequest {
        let transcripts = self.transcripts(subject.exchanges, subject.zone);
        let first = transcripts.first().map_or(0, |transcript| transcript.exchange);
        let material = PromptMaterial {
            transcripts: &transcripts,
            facts: subject.facts,
            last_items: &items_before(subject.items, first),
        };
        ModelRequest {
            prompt: Prompt::within(
                material,
                &self.nonce(),
                limits,
                self.settings.limits.tokens_max,
                self.parts.counter.as_ref(),
            ),
            transcripts,
            facts: subject.facts.to_vec(),
            output_tokens_max: self.settings.output_tokens_max,
            agent: Some(agent.clone()),
            limit_wait: LimitWait::default(),
        }
    }

    /// Returns the exchanges as a model reads them. Leaves out exchanges that have no lines.
    pub(super) fn transcripts(&self, exchanges: &[StoredExchange], zone: Zone) -> Vec<Transcript> {
        let with_lines = exchanges.iter().filter(|stored| has_lines(stored));
        with_lines.map(|stored| self.transcript(stored, zone)).collect()
    }

    fn transcript(&self, stored: &StoredExchange, zone: Zone) -> Transcript {
        let (limits, redactor) = (TranscriptLimits::default(), &self.parts.redactor);
        let messages = stored
            .messages
            .iter()
            .map(|stored| Message { at: Some(stored.said_at), ..stored.message.clone() });
        let messages: Vec<Message> = messages.collect();
        let transcript = Transcript::new(&stored.exchange, &messages, limits, redactor);
        let transcript = match &stored.request {
            Some(request) => transcript.working_on(&request.message, limits, redactor),
            None => transcript,
        };
        Transcript { zone, ..transcript }
    }

    /// Returns a random text that marks the fence of one prompt.
    pub(super) fn nonce(&self) -> String {
        self.draw(|random| std::iter::repeat_with(|| random.alphanumeric()).take(NONCE_CHARS).collect())
    }
}

/// Returns the last items before the exchange, oldest first. Leaves out provisional items.
fn items_before(items: &[Item], exchange: i64) -> Vec<&Item> {
    let end = |item: &Item| item.ranges.last().map_or(i64::MIN, |range| range.last);
    let before = items.iter().filter(|item| end(item) < exchange && !item.provisional);
    let mut before: Vec<&Item> = before.collect();
    before.sort_by_key(|item| end(item));
    before.split_off(before.len().saturating_sub(LAST_ITEMS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::{summary::fixtures::item, time::Timestamp};

    #[test]
    fn the_last_items_before_an_exchange_are_shown() {
        let mut items: Vec<Item> = [4, 9, 1, 3, 2, 6].map(|number| item(number, Timestamp(0))).to_vec();
        items[3].provisional = true;
        let shown = items_before(&items, 6);
        let numbers: Vec<i64> = shown.iter().map(|item| item.item).collect();
        assert_eq!(numbers, [1, 2, 4]);
        assert!(items_before(&items, 1).is_empty());
    }
}
