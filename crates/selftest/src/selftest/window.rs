//! The window and the context of one conversation under a budget: whole exchanges, never over budget, the newest always
//! kept, and requests that no provider refuses.

use std::sync::Arc;

use super::{
    findings::{TrialFindings, WindowPromise},
    judge::judge,
    known_counts::KnownCounts,
    plan::{Conversation, Plan, Trial},
    work::Work,
};
use recapd_core::{
    domain::{
        agent::AgentId,
        context::{
            Alternation, ContextInput, ContextOptions, Passes, SourceMessage, build_with, fence,
            is_safe_boundary,
        },
        message::{Kind, Message},
        number::i64_or_max,
        time::Timestamp,
        tokens::TokenCounter,
        window::{HeldExchange, Window},
    },
    formats::outgoing::{RequestFormat, render},
};

/// The most evicted exchanges in the summary of a request.
const DIGESTS_MAX: usize = 8;
/// The summary takes at most one part in so many of a request.
const SUMMARY_SHARE: i64 = 4;
const MODES: [Alternation; 3] = [Alternation::Merge, Alternation::Ack, Alternation::Keep];

/// A window that is being filled, and the exchanges that left it.
struct WindowFill<'c> {
    conversation: &'c Conversation,
    trial: &'c Trial,
    counter: &'c Arc<dyn TokenCounter>,
    passes: Passes,
    window: Window<&'c Message>,
    /// Digests of the last exchanges that left.
    left: Vec<String>,
    evicted: bool,
}

/// Fills a window with a conversation, and builds requests for each provider, in each mode, at the moments of `trial`.
pub(super) fn fill(
    conversation: &Conversation,
    trial: &Trial,
    counter: &Arc<dyn TokenCounter>,
    findings: &mut TrialFindings,
) {
    fill_with(conversation, trial, counter, Passes::ALL, findings);
}

/// As [`fill`], with these repairs of the requests.
pub(super) fn fill_with(
    conversation: &Conversation,
    trial: &Trial,
    counter: &Arc<dyn TokenCounter>,
    passes: Passes,
    findings: &mut TrialFindings,
) {
    findings.windows += 1;
    let mut filling = WindowFill {
        conversation,
        trial,
        counter,
        passes,
        window: Window::new(trial.budget, Arc::clone(counter)),
        left: Vec::new(),
        evicted: false,
    };
    let mut looks = trial.looks.iter().copied().peekable();
    let messages = conversation.messages.iter().zip(&conversation.tokens);
    for (place, (message, &tokens)) in messages.enumerate() {
        filling.push(message, tokens, findings);
        if looks.next_if_eq(&place).is_some() {
            filling.check_whole(findings);
            filling.try_requests(place, findings);
        }
    }
    filling.check_whole(findings);
}

impl<'c> WindowFill<'c> {
    fn push(&mut self, message: &'c Message, tokens: i64, findings: &mut TrialFindings) {
        let evicted = self.window.push_counted(message, tokens, Timestamp(0));
        findings.evicted += evicted.len() as u64;
        self.evicted |= !evicted.is_empty();
        for held in &evicted {
            self.check_exchange(held, findings);
        }
        let last = evicted.len().saturating_sub(DIGESTS_MAX);
        let digests = evicted.iter().skip(last).map(|held| held.exchange.digest());
        self.left.extend(digests);
        let oldest = self.left.len().saturating_sub(DIGESTS_MAX);
        self.left.drain(..oldest);
        self.check_window(message, findings);
    }

    /// Checks that an exchange has all its messages, by their consecutive numbers.
    fn check_exchange(&self, held: &HeldExchange<&Message>, findings: &mut TrialFindings) {
        let exchange = &held.exchange;
        let messages = i64_or_max(held.messages.len());
        if messages != exchange.last_seq - exchange.first_seq + 1 {
            let number = exchange.exchange;
            findings.break_promise(WindowPromise::Whole, || {
                self.tell(&format!("exchange {number} lost messages"))
            });
        }
    }

    fn check_whole(&self, findings: &mut TrialFindings) {
        for held in self.window.exchanges() {
            self.check_exchange(held, findings);
        }
    }

    fn check_window(&self, message: &Message, findings: &mut TrialFindings) {
        let mut exchanges = self.window.exchanges();
        let (newest, more) = (exchanges.next(), exchanges.next());
        let tokens = self.window.tokens();
        if self.trial.budget.is_exceeded_by(tokens) {
            if more.is_some() {
                findings.break_promise(WindowPromise::Fits, || {
                    self.tell(&format!("a window of {tokens} tokens"))
                });
            } else {
                findings.too_big_alone += 1;
            }
        }
        let was_said = matches!(message.kind, Kind::User | Kind::Assistant);
        if newest.is_none() && was_said {
            findings.break_promise(WindowPromise::Newest, || self.tell("the window is empty"));
        }
    }

    fn try_requests(&self, place: usize, findings: &mut TrialFindings) {
        let input = self.input();
        if input.exchanges.is_empty() {
            return;
        }
        for (mode, system_in_place) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
            let options = ContextOptions {
                max_tokens: self.trial.budget.budget_tokens(),
                alternation: mode,
                system_in_place,
                ..ContextOptions::default()
            };
            let context = build_with(&input, &options, self.counter.as_ref(), self.passes);
            let formats = RequestFormat::ALL.into_iter();
            for format in formats.filter(|format| format.takes_system_in_place() == system_in_place) {
                findings.requests += 1;
                findings.too_big_alone += u64::from(context.over_budget);
                let body = render(format, &context.turns).body;
                for breach in judge(&input, &options, &context, format, body, self.counter.as_ref()) {
                    findings.break_promise(breach.promise, || {
                        let (format, mode) = (format.name(), mode.name());
                        self.tell(&format!("message {place}, {format}, {mode}: {}", breach.what))
                    });
                }
            }
        }
    }

    /// Builds the input as the daemon does: whole exchanges, and after an eviction the anchor and a summary.
    fn input(&self) -> ContextInput<'_> {
        ContextInput { anchor: self.anchor(), summary: self.summary(), ..self.window.context_input() }
    }

    fn anchor(&self) -> Option<SourceMessage<'_>> {
        let mut messages = (1..).zip(&self.conversation.messages);
        messages
            .find(|(_, message)| is_safe_boundary(message))
            .map(|(seq, message)| SourceMessage::uncounted(seq, message))
    }

    fn summary(&self) -> Option<String> {
        let agent: AgentId = "selftest".parse().ok()?;
        let room = self.trial.budget.budget_tokens() / SUMMARY_SHARE;
        let summary = fence(&agent, 1, &self.left.join("\n"), None);
        (self.evicted && self.counter.count(&summary) <= room).then_some(summary)
    }

    fn tell(&self, what: &str) -> String {
        let budget = self.trial.budget;
        format!(
            "{}, budget {} to {}, legs of {}: {what}",
            self.conversation.name,
            budget.budget_tokens(),
            budget.low_water_tokens(),
            budget.leg_tokens()
        )
    }
}

impl Work for Plan {
    type Findings = TrialFindings;

    fn fingerprint(&self) -> String {
        self.fingerprint()
    }

    fn beginning(&self) -> TrialFindings {
        TrialFindings { conversations: self.conversations.len() as u64, ..TrialFindings::default() }
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn size(&self, piece: usize) -> u64 {
        let windows = self.pieces.get(piece).map(|piece| &piece.windows);
        windows.map_or(0, |windows| u64::from(windows.end - windows.start))
    }

    fn try_piece(&self, piece: usize) -> TrialFindings {
        let mut findings = TrialFindings::default();
        let counter = KnownCounts::of(self.counter.clone());
        let Some(piece) = self.pieces.get(piece) else {
            return findings;
        };
        let Some(conversation) = self.conversations.get(piece.conversation) else {
            return findings;
        };
        for window in piece.windows.clone() {
            let trial = self.trial(conversation, window);
            fill(conversation, &trial, &counter, &mut findings);
        }
        findings
    }
}
