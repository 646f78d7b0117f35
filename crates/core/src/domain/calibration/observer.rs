//! What one agent's messages, and the usage reports among them, say about the estimates.
//!
//! A report is about one request: its prompt is everything before the answer, system and tools included, and its output
//! is the answer. So there are two samples in it. The output against the estimate of the answer needs nothing else, but
//! says nothing when the answer holds thinking that the message may not show. The prompt is compared with the prompt
//! before ([`Meter`]): what was said between the two is all that differs, as long as the window began at the same
//! exchange and the summary was the same.

use super::{CalibrationSample, Meter};

/// A provider's report on one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    /// The model that answered, if the message says so.
    pub model: Option<String>,
    /// The provider's id of the answer. A transcript may spread one answer over several messages, each with the same
    /// report.
    pub response_id: Option<String>,
    /// Tokens of the whole request, those read from a cache and written to one included.
    pub prompt_tokens: i64,
    /// Tokens of the answer, if reported; with [`Self::thinking_tokens`].
    pub output_tokens: Option<i64>,
    /// How many of those were thinking, if the provider says so.
    pub thinking_tokens: Option<i64>,
}

impl ReportedUsage {
    /// Whether it is about `model`: it names no model, or the same one, perhaps by the name of a dated version
    /// (`claude-opus-4-5-20251101`) or behind the prefix of a router (`anthropic/claude-…`).
    pub fn is_about(&self, model: &str) -> bool {
        let bare = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        let Some(reported) = self.model.as_deref().map(bare) else {
            return true;
        };
        let wanted = bare(model);
        let is_version = |version: &str| {
            version == "latest"
                || version.len() >= 8 && version.chars().all(|c| c.is_ascii_digit() || c == '-')
        };
        let extends = |long: &str, short: &str| {
            let version = long
                .strip_prefix(short)
                .and_then(|rest| rest.strip_prefix(['-', '@']));
            version.is_some_and(is_version)
        };
        reported == wanted || extends(&reported, &wanted) || extends(&wanted, &reported)
    }
}

/// A stored message, as an observer sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Its estimated tokens, uncorrected.
    pub tokens: i64,
    /// Whether the model wrote it: an answer or a tool call.
    pub is_answer: bool,
    /// Whether it is metadata, which no model sees.
    pub is_metadata: bool,
    /// Whether its tokens depend on more than its text: an image, or thinking, which providers count in full although
    /// they show only part of it, and drop from later prompts.
    pub is_opaque: bool,
    /// The report that it carries.
    pub usage: Option<ReportedUsage>,
}

/// What the agent's window showed when messages were stored. Prompts can be compared only if it is the same for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowView {
    /// Where the window begins.
    pub first_exchange: i64,
    /// How far the summary reaches.
    pub summarized_through: i64,
}

/// One answer, perhaps in several messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ObservedAnswer {
    /// Tokens of all messages before it.
    before: i64,
    tokens: i64,
    is_opaque: bool,
    usage: Option<ReportedUsage>,
}

impl ObservedAnswer {
    /// Whether `seen` is another part of this answer.
    fn goes_on_in(&self, seen: &Observation) -> bool {
        match (&self.usage, &seen.usage) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => own.response_id.is_some() && own.response_id == other.response_id,
        }
    }

    /// The sample from its output. An answer without visible thinking may still have had some, if the provider doesn't
    /// report how much: then there is no sample.
    fn sample(&self) -> Option<CalibrationSample> {
        let usage = self.usage.as_ref().filter(|_| !self.is_opaque)?;
        Some(CalibrationSample {
            estimated_tokens: self.tokens,
            reported_tokens: usage.output_tokens? - usage.thinking_tokens?,
        })
    }
}

/// Watches the messages of one agent as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observer {
    shown: Option<WindowView>,
    /// Tokens of all messages seen so far.
    said: i64,
    meter: Meter,
    /// Whether an opaque message was seen since the last report.
    is_blurred: bool,
    answer: Option<ObservedAnswer>,
}

impl Observer {
    /// Takes in the messages of one append, after which the window is as `shown`. `has_step`: a clear or a rewind is
    /// among them, so the next prompt no longer holds what was said before.
    pub fn watch(
        &mut self,
        messages: &[Observation],
        shown: WindowView,
        has_step: bool,
    ) -> Vec<CalibrationSample> {
        let mut samples = Vec::new();
        for seen in messages {
            samples.extend(self.take(seen));
        }
        let has_moved = self.shown.replace(shown).is_some_and(|before| before != shown);
        if has_moved || has_step {
            // The request of the answer under way may have been written before the step or after it.
            self.meter = Meter::default();
            self.answer = None;
            samples.clear();
        }
        samples
    }

    fn take(&mut self, seen: &Observation) -> Vec<CalibrationSample> {
        if seen.is_metadata {
            return self.take_report(seen.usage.as_ref());
        }
        let mut samples = Vec::new();
        let goes_on = seen.is_answer && self.answer.as_ref().is_some_and(|answer| answer.goes_on_in(seen));
        if !goes_on {
            samples = self.end_answer();
        }
        if seen.is_answer {
            let before = self.said;
            let answer = self.answer.get_or_insert_with(|| ObservedAnswer {
                before,
                ..ObservedAnswer::default()
            });
            answer.tokens = answer.tokens.saturating_add(seen.tokens);
            answer.is_opaque |= seen.is_opaque;
            if seen.usage.is_some() {
                answer.usage.clone_from(&seen.usage);
            }
        } else {
            self.is_blurred |= seen.is_opaque;
        }
        self.said = self.said.saturating_add(seen.tokens);
        samples
    }

    /// Takes a report that comes in a message of its own: it is about the answer before it.
    fn take_report(&mut self, usage: Option<&ReportedUsage>) -> Vec<CalibrationSample> {
        match (&mut self.answer, usage) {
            (Some(answer), Some(usage)) if answer.usage.is_none() => answer.usage = Some(usage.clone()),
            _ => return Vec::new(),
        }
        self.end_answer()
    }

    /// Ends the answer: the next message isn't part of it.
    fn end_answer(&mut self) -> Vec<CalibrationSample> {
        let Some(answer) = self.answer.take() else {
            return Vec::new();
        };
        let mut samples: Vec<CalibrationSample> = answer.sample().into_iter().collect();
        if let Some(usage) = &answer.usage {
            let grown = self.meter.next(CalibrationSample {
                estimated_tokens: answer.before,
                reported_tokens: usage.prompt_tokens,
            });
            samples.extend(grown.filter(|_| !self.is_blurred));
            self.is_blurred = false;
        }
        self.is_blurred |= answer.is_opaque;
        samples
    }
}
