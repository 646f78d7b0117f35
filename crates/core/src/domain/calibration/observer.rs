//! Derives calibration samples from one agent's messages and the usage reports among them.
//!
//! A report covers one request: its prompt is everything before the answer, system and tools included, and its output is the answer. It
//! yields two samples. The first compares the output with the estimate of the answer; it is impossible if the answer holds thinking that
//! the message may not show. The second compares the prompt with the prompt before ([`Meter`]): only the messages between the two make
//! the difference, as long as the window began at the same exchange and the summary was the same.

use super::{CalibrationSample, Meter};

/// A provider's report on one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    /// The model that answered, if the message says so.
    pub model: Option<String>,
    /// The provider's id of the answer. A transcript may spread one answer over several messages, each with the same report.
    pub response_id: Option<String>,
    /// Tokens of the whole request, including those read from a cache or written to one.
    pub prompt_tokens: i64,
    /// Tokens of the answer, thinking included, if reported.
    pub output_tokens: Option<i64>,
    /// Tokens of the answer's thinking, if reported.
    pub thinking_tokens: Option<i64>,
}

impl ReportedUsage {
    /// Returns true if the report is about `model`: it names no model or the same one, perhaps as a dated version
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
            let version = long
                .strip_prefix(short)
                .and_then(|rest| rest.strip_prefix(['-', '@']));
            version.is_some_and(is_version)
        };
        reported == wanted || extends(&reported, &wanted) || extends(&wanted, &reported)
    }
}

/// The properties of a stored message that an observer uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Estimated tokens, uncorrected.
    pub tokens: i64,
    /// True if the model wrote it: an answer or a tool call.
    pub is_answer: bool,
    /// True for metadata, which no model sees.
    pub is_metadata: bool,
    /// True if its tokens depend on more than its text: it holds an image, or thinking. Providers count thinking in full although they
    /// show only part of it, and drop it from later prompts.
    pub is_opaque: bool,
    /// The report that the message carries.
    pub usage: Option<ReportedUsage>,
}

/// The state of the agent's window when messages were stored. Prompts are comparable only if it is the same for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowView {
    /// The first exchange of the window.
    pub first_exchange: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ObservedAnswer {
    before: i64,
    tokens: i64,
    is_opaque: bool,
    usage: Option<ReportedUsage>,
}

impl ObservedAnswer {
    fn goes_on_in(&self, seen: &Observation) -> bool {
        match (&self.usage, &seen.usage) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => own.response_id.is_some() && own.response_id == other.response_id,
        }
    }

    /// The sample from the output. Without a report of thinking tokens there is none, since the answer may hold hidden thinking.
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
    said: i64,
    meter: Meter,
    /// True if an opaque message came since the last report.
    is_blurred: bool,
    answer: Option<ObservedAnswer>,
}

impl Observer {
    /// Processes the messages of one append and returns their samples. `shown` is the window after the append. `has_step` says that a
    /// clear or a rewind is among them: the next prompt lacks earlier messages.
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
            // The request of the current answer may have been built before the step or after it.
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
