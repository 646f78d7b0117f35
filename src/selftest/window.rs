//! The window and the context, over one conversation and a budget: whole exchanges, never over budget, the newest
//! always kept, and requests that no provider refuses. The judge is the validator, which knows nothing of the builder.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    domain::{
        context::{ContextInput, ContextOptions, SourceExchange, SourceMessage, build},
        exchange::ExchangeState,
        message::{Kind, Message},
        time::Timestamp,
        tokens::TokenCounter,
        window::{Budget, HeldExchange, Window},
    },
    formats::outgoing::{RequestFormat, render},
    validator::{Severity, Target, validate},
};

/// Breaches kept word for word; more are counted.
const TOLD_MAX: usize = 20;

/// What was tried and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Windows filled.
    pub windows: u64,
    /// Exchanges that left them.
    pub evicted: u64,
    /// Requests built and judged.
    pub requests: u64,
    /// Requests that a provider would refuse.
    pub refused: u64,
    /// Exchanges that lost a part of themselves.
    pub split: u64,
    /// Windows over budget with more than the newest exchange in them.
    pub over_budget: u64,
    /// Windows without their newest exchange.
    pub newest_lost: u64,
    /// Windows and requests that are over budget because the newest exchange is too big alone: reported, and allowed.
    pub too_big_alone: u64,
    /// The first breaches, word for word.
    pub told: Vec<String>,
}

impl Findings {
    /// Nothing was broken.
    pub fn is_clean(&self) -> bool {
        (self.refused, self.split, self.over_budget, self.newest_lost) == (0, 0, 0, 0)
    }

    /// Takes in what another run found.
    pub fn add(&mut self, other: Self) {
        self.windows += other.windows;
        self.evicted += other.evicted;
        self.requests += other.requests;
        self.refused += other.refused;
        self.split += other.split;
        self.over_budget += other.over_budget;
        self.newest_lost += other.newest_lost;
        self.too_big_alone += other.too_big_alone;
        self.told.extend(other.told);
        self.told.truncate(TOLD_MAX);
    }

    fn tell(&mut self, breach: impl FnOnce() -> String) {
        if self.told.len() < TOLD_MAX {
            self.told.push(breach());
        }
    }
}

/// Fills a window of `budget` with `messages`, and builds a request for each provider after each of the messages whose
/// places are in `looks`, and after the last, where a request would be made.
pub fn try_budget(
    messages: &[Message],
    budget: Budget,
    looks: &[usize],
    counter: &Arc<dyn TokenCounter>,
) -> Findings {
    let mut findings = Findings {
        windows: 1,
        ..Findings::default()
    };
    let mut window = Window::new(budget, Arc::clone(counter));
    let mut pushed: usize = 0;
    let mut left: usize = 0;
    for (place, message) in messages.iter().enumerate() {
        let evicted = window.push(message.clone(), Timestamp(0));
        findings.evicted += evicted.len() as u64;
        left += evicted.iter().map(|held| held.messages.len()).sum::<usize>();
        pushed += 1;
        check_window(&window, budget, pushed - left, &mut findings);
        let is_looked_at = looks.contains(&place) || place + 1 == messages.len();
        if is_looked_at && wants_answer(message) {
            check_requests(&window, budget, left > 0, counter.as_ref(), &mut findings);
        }
    }
    findings
}

/// Whether a request would be made after `message`: once the model has answered, the user is next.
fn wants_answer(message: &Message) -> bool {
    matches!(message.kind, Kind::User | Kind::ToolResult)
}

fn check_window(window: &Window, budget: Budget, expected: usize, findings: &mut Findings) {
    let exchanges = window.exchanges().count();
    if window.messages().count() != expected {
        findings.split += 1;
        findings.tell(|| {
            format!(
                "budget {}: the window lost messages of an exchange",
                budget.budget_tokens()
            )
        });
    }
    if window.is_over_budget() {
        if exchanges > 1 {
            findings.over_budget += 1;
            findings.tell(|| {
                format!(
                    "budget {}: {exchanges} exchanges of {} tokens",
                    budget.budget_tokens(),
                    window.tokens()
                )
            });
        } else {
            findings.too_big_alone += 1;
        }
    }
    let has_said = window
        .messages()
        .any(|message| matches!(message.kind, Kind::User | Kind::Assistant));
    if exchanges == 0 && has_said {
        findings.newest_lost += 1;
        findings.tell(|| format!("budget {}: the window is empty", budget.budget_tokens()));
    }
}

fn check_requests(
    window: &Window,
    budget: Budget,
    evicted: bool,
    counter: &dyn TokenCounter,
    findings: &mut Findings,
) {
    let input = input(window, evicted);
    if input.exchanges.is_empty() {
        return;
    }
    for format in RequestFormat::ALL {
        let options = ContextOptions {
            max_tokens: budget.budget_tokens(),
            system_in_place: format.takes_system_in_place(),
            ..ContextOptions::default()
        };
        let context = build(&input, &options, counter);
        findings.requests += 1;
        findings.too_big_alone += u64::from(context.over_budget);
        let body = render(format, &context.turns).body;
        let (target, request) = request(format, body);
        let violations = validate(target, &request, None);
        let refused: Vec<_> = violations
            .iter()
            .filter(|violation| violation.severity == Severity::Refused)
            .collect();
        if let Some(first) = refused.first() {
            findings.refused += 1;
            findings.tell(|| {
                format!(
                    "budget {}, {}: {} at {}: {}",
                    budget.budget_tokens(),
                    format.name(),
                    first.rule,
                    first.path,
                    first.message
                )
            });
        }
    }
}

/// The body with what every request needs beside its messages.
fn request(format: RequestFormat, mut body: Value) -> (Target, Value) {
    let (target, extra) = match format {
        RequestFormat::Anthropic => (
            Target::Anthropic,
            json!({"model": "claude-sonnet-4-5", "max_tokens": 1_024}),
        ),
        RequestFormat::OpenAiChat => (Target::OpenAiChat, json!({"model": "gpt-5"})),
        RequestFormat::OpenAiResponses => (Target::OpenAiResponses, json!({"model": "gpt-5"})),
        RequestFormat::Gemini => (Target::Gemini, json!({})),
    };
    if let (Some(body), Some(extra)) = (body.as_object_mut(), extra.as_object()) {
        body.extend(extra.clone());
    }
    (target, body)
}

fn input(window: &Window, evicted: bool) -> ContextInput<'_> {
    let held: Vec<&HeldExchange> = window.exchanges().collect();
    let in_exchanges: usize = held.iter().map(|held| held.messages.len()).sum();
    let preamble = window.messages().count() - in_exchanges;
    let source = |(seq, message)| SourceMessage {
        seq,
        message,
        tokens: None,
    };
    let mut numbered = (1..).zip(window.messages()).map(source);
    let preamble = numbered.by_ref().take(preamble).collect();
    let exchanges = held
        .iter()
        .map(|held| SourceExchange {
            exchange: held.exchange.exchange,
            is_open: held.exchange.state == ExchangeState::Open,
            messages: numbered.by_ref().take(held.messages.len()).collect(),
        })
        .collect();
    ContextInput {
        preamble,
        anchor: None,
        summary: None,
        copies: Vec::new(),
        exchanges,
        evicted,
    }
}
