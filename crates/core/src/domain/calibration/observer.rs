//! Makes calibration samples from one agent's messages and the usage reports among them.
//!
//! A report is about one request. The request's prompt is everything before the answer, system and tools included; its output is the
//! answer. A report gives up to two samples. The first compares the output with the estimate of the answer, unless the answer may have
//! thinking that the message doesn't show. The second compares the prompt with the prompt before it ([`Meter`]). The two prompts differ
//! only by the messages between them, as long as the window begins at the same exchange and the summary is the same.

use super::{CalibrationSample, Meter};

/// A provider's report on one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    /// The model that answered, if the message names it.
    pub model: Option<String>,
    /// The provider's id of the answer. A transcript may store one answer as several messages, each with the same report.
    pub response_id: Option<String>,
    /// Tokens of the whole request, including those read from a cache or written to one.
    pub prompt_tokens: i64,
    /// Tokens of the answer, thinking included, if reported.
    pub output_tokens: Option<i64>,
    /// Tokens of the answer's thinking, if reported.
    pub thinking_tokens: Option<i64>,
}

impl ReportedUsage {
    /// Returns true if the report is about `model`: it names no model, or the same one, perhaps as a dated version
    /// (`claude-opus-4-5-20251101`) or with a router's prefix (`anthropic/claude-…`).
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
            let version = long.strip_prefix(short).and_then(|rest| rest.strip_prefix(['-', '@']));
            version.is_some_and(is_version)
        };
        reported == wanted || extends(&reported, &wanted) || extends(&wanted, &reported)
    }
}

/// What an observer needs to know about a stored message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Estimated tokens, without a correction.
    pub tokens: i64,
    /// True if the model wrote it: an answer or a tool call.
    pub is_answer: bool,
    /// True for metadata, which no model sees.
    pub is_metadata: bool,
    /// True if its tokens depend on more than its text: it has an image or thinking. Providers count thinking in full although they show
    /// only part of it, and leave it out of later prompts.
    pub is_opaque: bool,
    /// The report that the message has, if any.
    pub usage: Option<ReportedUsage>,
}

/// The agent's window when messages were stored. Two prompts are comparable only if it is the same for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowView {
    /// The first exchange of the window.
    pub first_exchange: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ObservedAnswer {
    /// The estimated tokens of all messages before the answer.
    tokens_before: i64,
    tokens: i64,
    is_opaque: bool,
    usage: Option<ReportedUsage>,
}

impl ObservedAnswer {
    /// Returns true if `message` belongs to this answer as well: no report has come yet, or both reports name the same answer.
    fn continues_in(&self, message: &Observation) -> bool {
        match (&self.usage, &message.usage) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(one), Some(next)) => one.response_id.is_some() && one.response_id == next.response_id,
        }
    }

    /// Returns the sample from the output. Returns none if the provider doesn't report thinking tokens, because the answer may then
    /// have hidden thinking.
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
    window: Option<WindowView>,
    /// The estimated tokens of all messages so far.
    tokens_before: i64,
    meter: Meter,
    /// True if an opaque message has come since the last report. The next two prompts then can't be compared.
    is_blurred: bool,
    answer: Option<ObservedAnswer>,
}

impl Observer {
    /// Returns the samples from the messages of one append. `window` is the window after the append. `has_reset` is true if a clear or a
    /// rewind is among the messages: the next prompt then lacks earlier messages.
    pub fn samples_of(
        &mut self,
        messages: &[Observation],
        window: WindowView,
        has_reset: bool,
    ) -> Vec<CalibrationSample> {
        let mut samples = Vec::new();
        for message in messages {
            samples.extend(self.observe(message));
        }
        let has_moved = self.window.replace(window).is_some_and(|previous| previous != window);
        if has_moved || has_reset {
            // The request of the current answer may have been built before this change or after it, so it can't be compared.
            self.meter = Meter::default();
            self.answer = None;
            samples.clear();
        }
        samples
    }

    fn observe(&mut self, message: &Observation) -> Vec<CalibrationSample> {
        if message.is_metadata {
            return self.take_report(message.usage.as_ref());
        }
        let mut samples = Vec::new();
        let continues =
            message.is_answer && self.answer.as_ref().is_some_and(|answer| answer.continues_in(message));
        if !continues {
            samples = self.end_answer();
        }
        if message.is_answer {
            let tokens_before = self.tokens_before;
            let answer = self
                .answer
                .get_or_insert_with(|| ObservedAnswer { tokens_before, ..ObservedAnswer::default() });
            answer.tokens = answer.tokens.saturating_add(message.tokens);
            answer.is_opaque |= message.is_opaque;
            if message.usage.is_some() {
                answer.usage.clone_from(&message.usage);
            }
        } else {
            self.is_blurred |= message.is_opaque;
        }
        self.tokens_before = self.tokens_before.saturating_add(message.tokens);
        samples
    }

    /// Takes a report that is a message of its own: it is about the answer before it.
    fn take_report(&mut self, usage: Option<&ReportedUsage>) -> Vec<CalibrationSample> {
        match (&mut self.answer, usage) {
            (Some(answer), Some(usage)) if answer.usage.is_none() => answer.usage = Some(usage.clone()),
            _ => return Vec::new(),
        }
        self.end_answer()
    }

    fn end_answer(&mut self) -> Vec<CalibrationSample> {
        let Some(answer) = self.answer.take() else {
            return Vec::new();
        };
        let mut samples: Vec<CalibrationSample> = answer.sample().into_iter().collect();
        if let Some(usage) = &answer.usage {
            let sample = self.meter.add_request(CalibrationSample {
                estimated_tokens: answer.tokens_before,
                reported_tokens: usage.prompt_tokens,
            });
            samples.extend(sample.filter(|_| !self.is_blurred));
            self.is_blurred = false;
        }
        self.is_blurred |= answer.is_opaque;
        samples
    }
}
