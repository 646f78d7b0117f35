//! The tokens that a model reads and writes to keep the summary up to date: with recapd, and with the plain method of
//! rewriting the whole summary at each update. Computed, not measured: the same on any machine.
//!
//! `cargo bench --bench condense -- FILE` reads any conversation; without a file it is `examples/two-weeks.jsonl`. A
//! generated live conversation of short turns is added, in the same window, in a small one, and in one that slides,
//! where most of what left the window waits as long as it may.
//!
//! Assumptions:
//! - The model answers like real ones: an item for two or three exchanges, with texts of some 60, 25 and 10 tokens,
//!   and two facts with each answer.
//! - The plain method: exchanges leave the window one by one; whenever three have left, the model reads instructions
//!   as long as recapd's, the whole summary, and the three in full, and writes the whole summary anew.
//! - Its summary is as long as recapd's at the same message.
//! - The cost of rewriting at recapd's own updates is given as well; these are fewer, and their material is cut.
//! - Tokens are counted in o200k, and prices are those of `prices.toml`, without a cache; batches cost half.

#[path = "../measure/conversation.rs"]
mod conversation;
mod lived;
#[path = "../measure/table.rs"]
mod table;
mod turns;
mod usual;

use std::sync::Arc;

use lived::{Budgeted, Lived, live};
use recapd_config::{self as config, Config};
use recapd_core::{
    domain::{
        message::Message,
        price::{Price, Usage},
        time::Timestamp,
        tokens::{TokenCounter, count_message},
        window::{Budget, Window},
    },
    tokenizer,
};
use table::Table;
use usual::{Calls, PRICED};

/// Exchanges that the plain method waits for.
const PLAIN_BATCH: i64 = 3;
/// The turns of the live conversation.
const TURNS: usize = 5_000;
/// The same in a quick run.
const QUICK_TURNS: usize = 100;
/// Turns with small windows, which need an update every few turns.
const TURNS_IN_SMALL: usize = 1_500;
const SMALL_TOKENS: i64 = 8_000;

/// A method of keeping a summary, and its totals.
struct Way {
    name: &'static str,
    calls: Calls,
    evicted_tokens: i64,
    /// The price of a token, relative to the list price.
    factor: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given = conversation::given()?;
    compare("the file", &given, stepping(&given)).await?;
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let turns = turns::short_turns(if is_measured { TURNS } else { QUICK_TURNS })?;
    compare("live, short turns", &turns, stepping(&turns)).await?;
    let few = turns.get(..2 * TURNS_IN_SMALL).unwrap_or(&turns);
    let small = |low_water| Budgeted {
        budget_tokens: SMALL_TOKENS,
        low_water,
    };
    compare(
        "live, short turns",
        few,
        small(Config::default().window.low_water),
    )
    .await?;
    compare("live, short turns, sliding", few, small(1.0)).await
}

/// The default window, or a fifth of a conversation that would fit into it.
fn stepping(messages: &[Message]) -> Budgeted {
    let counter = counter();
    let all: i64 = messages
        .iter()
        .map(|message| count_message(counter.as_ref(), message))
        .sum();
    let window = Config::default().window;
    Budgeted {
        budget_tokens: window.budget_tokens.min(all / 5),
        low_water: window.low_water,
    }
}

fn counter() -> Arc<dyn TokenCounter> {
    tokenizer::counter_for("openai", "gpt-5")
}

async fn compare(name: &str, messages: &[Message], window: Budgeted) -> anyhow::Result<()> {
    let lived = live(messages, window, counter()).await?;
    let plain = rewrite(messages, window.budget_tokens, &lived);
    let Budgeted { budget_tokens, .. } = window;
    let title = format!("{name}: {} messages, a window of {budget_tokens}", messages.len());
    print(&title, &lived, &plain);
    Ok(())
}

/// The totals of the plain method over the same conversation.
fn rewrite(messages: &[Message], budget_tokens: i64, lived: &Lived) -> Way {
    let mut window = Window::new(Budget::new(budget_tokens, 1.0), counter());
    let (mut calls, mut evicted_tokens) = (Calls::default(), 0);
    let (mut waiting, mut waiting_tokens) = (0, 0);
    let instructions_tokens = lived.calls.instructions_tokens / lived.calls.count.max(1);
    for (message, document_tokens) in messages.iter().zip(&lived.document_tokens) {
        for eviction in window.push(message.clone(), Timestamp(0)) {
            waiting += 1;
            waiting_tokens += eviction.tokens.iter().sum::<i64>();
        }
        if waiting >= PLAIN_BATCH {
            evicted_tokens += waiting_tokens;
            calls.add(Calls {
                count: 1,
                input_tokens: instructions_tokens + document_tokens + waiting_tokens,
                output_tokens: *document_tokens,
                instructions_tokens,
            });
            (waiting, waiting_tokens) = (0, 0);
        }
    }
    Way {
        name: "rewriting the whole summary",
        calls,
        evicted_tokens,
        factor: 1.0,
    }
}

fn print(title: &str, lived: &Lived, plain: &Way) {
    let mut table = Table::new(
        title,
        &[
            "calls",
            "a 1,000 exchanges",
            "read, an evicted token",
            "written",
            "together",
            "× rewriting",
            "instructions",
            "costs, $",
            "× rewriting",
        ],
    );
    let by_recapd = |name, calls, factor| Way {
        name,
        calls,
        evicted_tokens: lived.evicted_tokens,
        factor,
    };
    let ways = [
        by_recapd("rewriting it at recapd's updates", lived.rewriting, 1.0),
        by_recapd("recapd", lived.calls, 1.0),
        by_recapd("recapd, in batches", lived.calls, 0.5),
    ];
    for way in std::iter::once(plain).chain(&ways) {
        table.row(way.name, &way.cells(lived.evicted_exchanges, plain));
    }
    table.print();
    let mut table = Table::new(
        "recapd's model tokens per evicted token",
        &["× rewriting", "× at its updates"],
    );
    let [rewriting, recapd, _] = &ways;
    let ratios = |per_token: fn(&Way) -> f64| {
        [plain, rewriting].map(|other| format!("{:.2}", per_token(recapd) / per_token(other).max(1e-9)))
    };
    table.row("read", &ratios(Way::read));
    table.row("read and written", &ratios(Way::together));
    table.print();
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
impl Way {
    fn cells(&self, exchanges: i64, plain: &Way) -> [String; 9] {
        let calls = self.calls;
        let share = calls.instructions_tokens as f64 / calls.input_tokens.max(1) as f64;
        [
            calls.count.to_string(),
            format!("{:.1}", calls.count as f64 * 1e3 / exchanges.max(1) as f64),
            format!("{:.3}", self.read()),
            format!("{:.3}", self.together() - self.read()),
            format!("{:.3}", self.together()),
            format!("{:.3}", self.together() / plain.together().max(1e-9)),
            format!("{:.0} %", share * 1e2),
            format!("{:.4}", self.cost()),
            format!("{:.2}", self.cost() / plain.cost().max(1e-9)),
        ]
    }

    /// Tokens read per evicted token.
    fn read(&self) -> f64 {
        self.calls.input_tokens as f64 / self.evicted_tokens.max(1) as f64
    }

    /// Tokens read and written per evicted token.
    fn together(&self) -> f64 {
        (self.calls.input_tokens + self.calls.output_tokens) as f64 / self.evicted_tokens.max(1) as f64
    }

    fn cost(&self) -> f64 {
        let usage = Usage {
            input: self.calls.input_tokens,
            output: self.calls.output_tokens,
            ..Usage::default()
        };
        // No single call is long.
        let price = config::shipped_prices()
            .of(PRICED)
            .map(|price| Price { long: None, ..*price });
        price.map_or(0, |price| price.cost_microusd(usage)) as f64 / 1e6 * self.factor
    }
}
