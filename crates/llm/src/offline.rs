//! The built-in summariser: extractive, deterministic, without a model, a key or a network.
//!
//! ```text
//! transcripts ──► reading ──► topics ──► compose + importance ──► answer (JSON)
//!                 clauses     runs of     text, brief, gist
//!                 with terms  exchanges
//! ```
//!
//! It quotes: it picks the most informative clauses, calls and failures of a run of exchanges and puts them in order. It learns
//! how informative a word, a call or a failure is from the batch itself: words that are rare in the batch, identifiers, calls
//! that change more than they look up. Only small tables of everyday words are built in (`cues`).
//!
//! Invariants: exactly one item covers each exchange of the request, in order; every text is one clean line within its limit; the
//! same request gets the same answer; no text causes a panic or takes more than linear time.

mod account;
mod calls;
mod candidates;
mod clauses;
mod compose;
mod coordinate;
mod cues;
mod cuts;
mod dates;
mod failures;
mod importance;
mod patches;
mod reading;
mod render;
mod sentences;
mod state;
mod topics;
mod values;
mod weigh;

#[cfg(test)]
mod tests;

use std::ops::Range;

use async_trait::async_trait;

use super::{ChatModel, LlmError, ModelAnswer, ModelRequest};
use recapd_core::domain::{
    reply::Answer,
    summary::item::{ExchangeRange, ItemDraft, LITTLE_TOKENS_MAX, text_chars_max},
    text::first_line,
    transcript::{Transcript, Voice},
};

/// Limits the quotation, in characters, that represents an exchange without anything more informative.
const QUOTE_CHARS_MAX: usize = 80;
pub const OFFLINE: &str = "offline";

/// The built-in summariser as a model. It reads the transcripts of a request, never its prompt, and costs no tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

#[async_trait]
impl ChatModel for OfflineModel {
    fn provider(&self) -> &'static str {
        OFFLINE
    }

    fn model(&self) -> &'static str {
        "extractive"
    }

    /// Returns the JSON of an [`Answer`]. Ignores `output_tokens_max`: the items have limits of their own.
    ///
    /// # Errors
    /// [`LlmError::Permanent`] if the answer can't be written as JSON; no other error.
    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let answer = Answer {
            items: summarise(&request.transcripts),
            facts: state::changes(&request.transcripts, &request.facts),
        };
        let text = serde_json::to_string(&answer).map_err(|error| LlmError::Permanent(error.to_string()))?;
        Ok(ModelAnswer { text, ..ModelAnswer::default() })
    }
}

/// Summarises `transcripts`, which must be in the order of their exchanges. Each exchange is in exactly one item, oldest first.
pub fn summarise(transcripts: &[Transcript]) -> Vec<ItemDraft> {
    let transcripts: Vec<Transcript> = transcripts.iter().map(without_programs).collect();
    let batch = reading::Corpus::read(&transcripts);
    let runs = topics::runs(&batch);
    let work: Vec<&[Transcript]> = runs.iter().map(|run| work_of(&transcripts, run)).collect();
    let draft = |(run, account): (Range<usize>, Vec<account::Course>)| {
        let exchanges = batch.exchanges.get(run.clone())?;
        item(&batch, &TopicRun { exchanges, transcripts: transcripts.get(run)?, account })
    };
    runs.iter().cloned().zip(account::courses(&work)).filter_map(draft).collect()
}

/// Returns the exchanges of a run that has an account; none if it has none.
fn work_of<'t>(transcripts: &'t [Transcript], run: &Range<usize>) -> &'t [Transcript] {
    let transcripts = transcripts.get(run.clone()).unwrap_or_default();
    if transcripts.iter().any(account::applies_to) { transcripts } else { &[] }
}

/// Consecutive exchanges that become one item.
struct TopicRun<'a> {
    exchanges: &'a [reading::ExchangeReading],
    transcripts: &'a [Transcript],
    /// Empty if the run has no account.
    account: Vec<account::Course>,
}

fn item(batch: &reading::Corpus, run: &TopicRun<'_>) -> Option<ItemDraft> {
    let range =
        ExchangeRange { first: run.exchanges.first()?.exchange, last: run.exchanges.last()?.exchange };
    let account = account::texts(&run.account, tokens_of(run.transcripts));
    // A run of calls without words gives an empty account.
    let texts =
        if account.text.is_empty() { write_texts(batch, run.exchanges, run.transcripts) } else { account };
    let texts = texts.or_quote(&quotation(run.transcripts));
    Some(ItemDraft {
        exchanges: range,
        importance: importance::of(batch, run.exchanges),
        text: texts.text,
        brief: texts.brief,
        gist: texts.gist,
    })
}

/// Writes the texts for a run that changed nothing. The text of a long run has its most informative pieces first and then a point
/// for each exchange, because points are dropped from the end. Talk gets no points, because its runs are divided to fit already.
fn write_texts(
    batch: &reading::Corpus,
    exchanges: &[reading::ExchangeReading],
    transcripts: &[Transcript],
) -> compose::Texts {
    let texts = compose::texts(batch, exchanges);
    let tokens = tokens_of(transcripts);
    if tokens <= LITTLE_TOKENS_MAX || exchanges.iter().any(|reading| reading.is_talk) {
        return texts;
    }
    let room = text_chars_max(tokens) - texts.text.chars().count();
    let points = compose::long_text(batch, exchanges, room);
    let news = points.lines().filter(|point| !texts.text.contains(*point));
    let text: Vec<&str> = std::iter::once(texts.text.as_str()).chain(news).collect();
    compose::Texts { text: text.join("\n"), ..texts }
}

fn tokens_of(transcripts: &[Transcript]) -> i64 {
    transcripts.iter().fold(0, |sum, transcript| sum.saturating_add(transcript.tokens))
}

/// Removes the lines that programs wrote on behalf of the user.
fn without_programs(transcript: &Transcript) -> Transcript {
    let mut transcript = transcript.clone();
    transcript.lines.retain(|line| line.voice != Voice::Program);
    transcript
}

/// Returns the first words of a run. They represent a run that consists of, say, one repeated slash command.
fn quotation(run: &[Transcript]) -> String {
    let lines = run.iter().flat_map(|transcript| &transcript.lines);
    lines
        .map(|line| cuts::fit(&first_line(&line.text, QUOTE_CHARS_MAX), QUOTE_CHARS_MAX))
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}
