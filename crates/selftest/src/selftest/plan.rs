//! A plan: conversations, and for each of them windows of random budgets.
//!
//! Every random choice follows from the seed, the conversation's name and the window's number only, so pieces of work may
//! be done in any order, on any thread, at any time.

use std::{ops::Range, sync::Arc};

use sha2::{Digest as _, Sha256};

use recapd_core::domain::{
    message::{Kind, Message},
    number::usize_or_max,
    tokens::{TokenCounter, count_message},
    window::Budget,
};

const LEG_TOKENS_MIN: f64 = 500.0;
const LEG_TOKENS_MAX: f64 = 20_000.0;
const BUDGET_TOKENS_MIN: f64 = 20.0;
/// The largest budget, as a multiple of the whole conversation.
const BUDGET_SHARE_MAX: f64 = 1.25;
/// The approximate number of messages that a piece of work fills windows with.
const PIECE_MESSAGES: usize = 100_000;

pub struct Conversation {
    pub name: String,
    pub messages: Vec<Message>,
    pub tokens: Vec<i64>,
    /// The places where a request may be made: after the model has answered, before the user speaks.
    pub moments: Vec<usize>,
}

impl Conversation {
    /// Counts the messages, once.
    pub fn new(name: String, messages: Vec<Message>, counter: &dyn TokenCounter) -> Self {
        let tokens = messages.iter().map(|message| count_message(counter, message));
        let moments = messages.iter().enumerate();
        Self {
            tokens: tokens.collect(),
            moments: moments
                .filter(|(_, message)| matches!(message.kind, Kind::User | Kind::ToolResult))
                .map(|(place, _)| place)
                .collect(),
            name,
            messages,
        }
    }

    fn digest(&self, into: &mut Sha256) {
        into.update(self.name.as_bytes());
        for (message, tokens) in self.messages.iter().zip(&self.tokens) {
            into.update(message.payload.as_bytes());
            into.update(tokens.to_le_bytes());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialSize {
    pub budgets: u32,
    /// Random moments per budget at which requests are built, in addition to the last one.
    pub looks: usize,
    pub seed: u64,
}

pub struct Plan {
    /// In order of their names.
    pub conversations: Vec<Conversation>,
    pub extent: TrialSize,
    /// Counts the tokens of requests.
    pub counter: Arc<dyn TokenCounter>,
    /// The work, in pieces of about equal duration.
    pub pieces: Vec<PlanPiece>,
}

/// Some windows of one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPiece {
    pub conversation: usize,
    pub windows: Range<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub budget: Budget,
    /// Places of the messages after which requests are built, in order.
    pub looks: Vec<usize>,
}

impl Plan {
    /// Plans the tests of `conversations`, without empty ones.
    pub fn new(conversations: Vec<Conversation>, extent: TrialSize, counter: Arc<dyn TokenCounter>) -> Self {
        let mut conversations = conversations;
        conversations.retain(|conversation| !conversation.messages.is_empty());
        conversations.sort_by(|a, b| a.name.cmp(&b.name));
        let pieces = conversations
            .iter()
            .enumerate()
            .flat_map(|(number, conversation)| pieces(number, conversation.messages.len(), extent.budgets));
        Self { pieces: pieces.collect(), conversations, extent, counter }
    }

    pub fn windows(&self) -> u64 {
        self.conversations.len() as u64 * u64::from(self.extent.budgets)
    }

    /// A hash of everything that determines the findings, except the program itself.
    pub fn fingerprint(&self) -> String {
        let TrialSize { budgets, looks, seed } = self.extent;
        let mut hash = Sha256::new();
        hash.update(format!("{budgets} {looks} {seed} {}", self.counter.method()));
        for conversation in &self.conversations {
            conversation.digest(&mut hash);
        }
        format!("{:x}", hash.finalize())
    }

    pub fn trial(&self, conversation: &Conversation, window: u32) -> Trial {
        let mut random = fastrand::Rng::with_seed(self.seed(&conversation.name, window));
        let mut looks: Vec<usize> = (0..self.extent.looks)
            .filter_map(|_| random.choice(&conversation.moments).copied())
            .chain(conversation.moments.last().copied())
            .collect();
        looks.sort_unstable();
        looks.dedup();
        let low_water = 0.5 + random.f64() / 2.0;
        let budget_tokens = budget_tokens(&mut random, conversation.tokens.iter().sum());
        Trial {
            budget: Budget::new(budget_tokens, low_water).with_leg_tokens(leg_tokens(&mut random)),
            looks,
        }
    }

    fn seed(&self, name: &str, window: u32) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.extent.seed.to_le_bytes());
        hash.update(window.to_le_bytes());
        hash.update(name.as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        digest.iter().take(8).fold(0, |seed, &byte| seed << 8 | u64::from(byte))
    }
}

/// Logarithmically uniform sizes of legs from 500 to 20,000 tokens; in one window of eight, exchanges aren't cut.
#[expect(clippy::cast_possible_truncation, reason = "far below 2^52 tokens")]
fn leg_tokens(random: &mut fastrand::Rng) -> i64 {
    if random.u8(..8) == 0 {
        return 0;
    }
    (LEG_TOKENS_MIN * (LEG_TOKENS_MAX / LEG_TOKENS_MIN).powf(random.f64())) as i64
}

fn pieces(conversation: usize, messages: usize, budgets: u32) -> impl Iterator<Item = PlanPiece> {
    let windows = u32::try_from(PIECE_MESSAGES / messages).unwrap_or(u32::MAX).max(1);
    let starts = (0..budgets).step_by(usize_or_max(windows));
    starts.map(move |start| PlanPiece {
        conversation,
        windows: start..start.saturating_add(windows).min(budgets),
    })
}

/// Logarithmically uniform budgets, from tiny to larger than the conversation.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "far below 2^52 tokens")]
fn budget_tokens(random: &mut fastrand::Rng, conversation_tokens: i64) -> i64 {
    let largest = (conversation_tokens as f64 * BUDGET_SHARE_MAX).max(2.0 * BUDGET_TOKENS_MIN);
    (BUDGET_TOKENS_MIN.ln() + random.f64() * (largest / BUDGET_TOKENS_MIN).ln()).exp() as i64
}
