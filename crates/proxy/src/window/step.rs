//! The steps of one conversation's window: the step that the daemon offers, and the step in force.

use std::sync::Arc;

use serde::Deserialize;
use tokio::time::Instant;

use super::outline::Outline;
use crate::tally::estimated_tokens;
use recapd_core::domain::{agent::AgentId, continuation::Beginning};

/// Models of Anthropic whose thinking is bound to all messages before it.
const BINDING_MODELS: [&str; 7] = [
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
];

/// What replaces the beginning of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) agent: AgentId,
    /// Changes with each replacement that the daemon offers.
    pub(super) tag: String,
    /// The version of the summary in the text.
    pub(super) version: i64,
    pub(super) replaced: Beginning,
    /// The hash of the first unit of the message that stays before the text.
    pub(super) anchor: Option<u64>,
    pub(super) text: String,
}

/// The daemon's answer.
#[derive(Deserialize)]
pub(super) struct ReplacementReply {
    agent_id: AgentId,
    summary_version: i64,
    units: usize,
    hash: String,
    pub(super) tag: String,
    anchor: Option<String>,
    text: Option<String>,
}

impl ReplacementReply {
    pub(super) fn replacement(self) -> Option<Replacement> {
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        Some(Replacement {
            replaced: Beginning { units: self.units, hash: number(&self.hash)? },
            agent: self.agent_id,
            tag: self.tag,
            version: self.summary_version,
            anchor: self.anchor.as_deref().and_then(number),
            text: self.text.unwrap_or_default(),
        })
    }
}

impl Replacement {
    /// Returns the index of the first message that stays; `None` if the text doesn't fit this request.
    fn cut(&self, outline: &Outline) -> Option<usize> {
        let cut = outline.cut(self.replaced)?;
        let has_anchor = self.anchor.is_none_or(|hash| outline.anchor(hash, cut).is_some());
        (has_anchor && !self.text.is_empty()).then_some(cut)
    }

    /// Estimates by how many tokens the removed messages exceed the text.
    fn saved_tokens(&self, outline: &Outline, cut: usize) -> i64 {
        let tokens = |index: usize| estimated_tokens(outline.message(index).as_bytes());
        let anchor = self.anchor.and_then(|hash| outline.anchor(hash, cut));
        let kept_messages = outline.instructions(cut).chain(outline.files(cut)).chain(anchor);
        let kept_tokens: i64 = kept_messages.map(tokens).sum();
        let removed_tokens: i64 = (0..cut).map(tokens).sum();
        (removed_tokens - kept_tokens - estimated_tokens(self.text.as_bytes())).max(0)
    }
}

/// A replacement that is in force.
#[derive(Clone, Debug)]
pub(super) struct WindowStep {
    pub(super) replacement: Arc<Replacement>,
    /// Thinking in messages before this one is older than the step.
    pub(super) thinks_from: usize,
    /// An estimate of the tokens that each request saves.
    pub(super) saved_tokens: i64,
}

/// What the proxy knows about a conversation.
#[derive(Debug, Default)]
pub(super) struct WindowSession {
    /// The daemon's newest answer.
    pub(super) offer: Option<Arc<Replacement>>,
    /// The step in force; `None` while the window has not moved.
    pub(super) step: Option<WindowStep>,
    /// The time of the last request.
    pub(super) last_request_at: Option<Instant>,
    /// True if the provider has refused thinking because a message before it was gone.
    pub(super) is_bound: bool,
}

impl WindowSession {
    /// Returns the step in force for a request, and the index of its first kept message. An offered step is taken at
    /// once if the window has moved forward. A step that only renews the text, or shows more messages again, waits for
    /// a cold cache or for the user's next request.
    pub(super) fn step(&mut self, outline: &Outline, now: Instant) -> Option<(WindowStep, usize)> {
        let current = self.step.clone();
        let current_cut = current.as_ref().and_then(|step| step.replacement.cut(outline));
        let is_cold =
            self.last_request_at.is_none_or(|last_request_at| now - last_request_at > outline.cache_life());
        if let Some(offer) = self.offer.clone().filter(|_| !outline.is_open()) {
            let is_due = match current.as_ref().filter(|_| current_cut.is_some()) {
                None => true,
                Some(WindowStep { replacement, .. }) if replacement.tag == offer.tag => false,
                Some(WindowStep { replacement, .. }) => {
                    let moves_on = offer.replaced.units > replacement.replaced.units;
                    moves_on || is_cold || outline.begins_turn()
                }
            };
            if is_due && offer.replaced.units == 0 {
                self.step = None;
            } else if is_due && let Some(cut) = offer.cut(outline) {
                let step = WindowStep {
                    saved_tokens: offer.saved_tokens(outline, cut),
                    replacement: offer,
                    thinks_from: self.thinks_from(outline),
                };
                self.step = Some(step.clone());
                return Some((step, cut));
            }
        }
        let current_cut = current_cut?;
        self.step.clone().map(|step| (step, current_cut))
    }

    /// Returns the index of the first message whose thinking stays: the model's newest, unless thinking is bound to
    /// messages that are gone.
    fn thinks_from(&self, outline: &Outline) -> usize {
        let is_binding = BINDING_MODELS.iter().any(|model| outline.model.contains(model));
        if self.is_bound || is_binding { outline.len() } else { outline.newest_answer() }
    }
}
