//! The tokens that a model reads and writes to keep the summary up to date: with recapd, and with the plain method,
//! which rewrites the whole summary at each update. The counts are computed, not measured, and equal on all machines.
//!
//! `cargo bench --bench condense -- FILE` reads a conversation; without a file, `examples/two-weeks.jsonl`. A
//! generated conversation of short turns is added with three windows: the default one, a small one, and a small one
//! that slides, where most updates wait as long as the configuration allows.
//!
//! Assumptions:
//! - The model answers like real models: one item for two or three exchanges, with texts of about 60, 25 and 10
//!   tokens, and two facts in each answer.
//! - The plain method: exchanges leave the window one by one; after every three, the model reads instructions as long
//!   as recapd's, the whole summary and the three exchanges in full, and rewrites the whole summary.
//! - The plain method's summary is as long as recapd's at the same message.
//! - The cost of rewriting at recapd's updates is shown too: these are fewer, and their material is shortened.
//! - Tokens are counted in o200k; prices are those of `prices.toml`, without a cache. Batches cost half.

#[path = "../measure/conversation.rs"]
mod conversation;
mod session;
#[path = "../measure/table.rs"]
mod table;
mod turns;
mod usual;

use std::sync::Arc;

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
use session::{Totals, WindowSize, run};
use table::Table;
use usual::{Calls, PRICED};

/// Exchanges after which the plain method updates its summary.
const PLAIN_BATCH: i64 = 3;
/// The turns of the generated conversation.
const TURNS: usize = 5_000;
/// The turns of the generated conversation in a quick run.
const QUICK_TURNS: usize = 100;
/// Turns for small windows, which need an update every few turns.
const TURNS_IN_SMALL: usize = 1_500;
const SMALL_TOKENS: i64 = 8_000;

/// The totals of one method of keeping a summary.
struct Method {
    name: &'static str,
    calls: Calls,
    evicted_tokens: i64,
    /// The price of a token, relative to the list price.
    factor: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given = conversation::read()?;
    compare("the file", &given, stepping(&given)).await?;
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let turns = turns::short_turns(if is_measured { TURNS } else { QUICK_TURNS })?;
    compare("live, short turns", &turns, stepping(&turns)).await?;
    let few = turns.get(..2 * TURNS_IN_SMALL).unwrap_or(&turns);
    let small = |low_water| WindowSize { budget_tokens: SMALL_TOKENS, low_water };
    compare("live, short turns", few, small(Config::default().window.low_water)).await?;
    compare("live, short turns, sliding", few, small(1.0)).await
}

/// Returns the default window, or a fifth of the conversation if that is smaller.
fn stepping(messages: &[Message]) -> WindowSize {
    let counter = counter();
    let all: i64 = messages.iter().map(|message| count_message(counter.as_ref(), message)).sum();
    let window = Config::default().window;
    WindowSize { budget_tokens: window.budget_tokens.min(all / 5), low_water: window.low_water }
}

fn counter() -> Arc<dyn TokenCounter> {
    tokenizer::counter_for("openai", "gpt-5")
}

async fn compare(name: &str, messages: &[Message], window: WindowSize) -> anyhow::Result<()> {
    let totals = run(messages, window, counter()).await?;
    let plain = rewrite(messages, window.budget_tokens, &totals);
    let WindowSize { budget_tokens, .. } = window;
    let title = format!("{name}: {} messages, a window of {budget_tokens}", messages.len());
    print(&title, &totals, &plain);
    Ok(())
}

/// Computes the totals of the plain method over a conversation.
fn rewrite(messages: &[Message], budget_tokens: i64, totals: &Totals) -> Method {
    let mut window = Window::new(Budget::new(budget_tokens, 1.0), counter());
    let (mut calls, mut evicted_tokens) = (Calls::default(), 0);
    let (mut waiting, mut waiting_tokens) = (0, 0);
    let instructions_tokens = totals.calls.instructions_tokens / totals.calls.count.max(1);
    for (message, document_tokens) in messages.iter().zip(&totals.document_tokens) {
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
    Method { name: "rewriting the whole summary", calls, evicted_tokens, factor: 1.0 }
}

fn print(title: &str, totals: &Totals, plain: &Method) {
    let mut table = Table::new(
        title,
        &[
            "calls",
            "per 1,000 exchanges",
            "read per evicted token",
            "written",
            "together",
            "× rewriting",
            "instructions",
            "costs, $",
            "× rewriting",
        ],
    );
    let by_recapd =
        |name, calls, factor| Method { name, calls, evicted_tokens: totals.evicted_tokens, factor };
    let methods = [
        by_recapd("rewriting it at recapd's updates", totals.rewriting, 1.0),
        by_recapd("recapd", totals.calls, 1.0),
        by_recapd("recapd, in batches", totals.calls, 0.5),
    ];
    for method in std::iter::once(plain).chain(&methods) {
        table.row(method.name, &method.cells(totals.evicted_exchanges, plain));
    }
    table.print();
    let mut table =
        Table::new("recapd's model tokens per evicted token", &["× rewriting", "× at its updates"]);
    let [rewriting, recapd, _] = &methods;
    let ratios = |per_token: fn(&Method) -> f64| {
        [plain, rewriting].map(|other| format!("{:.2}", per_token(recapd) / per_token(other).max(1e-9)))
    };
    table.row("read", &ratios(Method::read));
    table.row("read and written", &ratios(Method::together));
    table.print();
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
impl Method {
    fn cells(&self, exchanges: i64, plain: &Method) -> [String; 9] {
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

    /// Returns the tokens read per evicted token.
    fn read(&self) -> f64 {
        self.calls.input_tokens as f64 / self.evicted_tokens.max(1) as f64
    }

    /// Returns the tokens read and written per evicted token.
    fn together(&self) -> f64 {
        (self.calls.input_tokens + self.calls.output_tokens) as f64 / self.evicted_tokens.max(1) as f64
    }

    fn cost(&self) -> f64 {
        let usage =
            Usage { input: self.calls.input_tokens, output: self.calls.output_tokens, ..Usage::default() };
        // No single call is long enough for the price of long calls.
        let price = config::shipped_prices().of(PRICED).map(|price| Price { long: None, ..*price });
        price.map_or(0, |price| price.cost_microusd(usage)) as f64 / 1e6 * self.factor
    }
}
