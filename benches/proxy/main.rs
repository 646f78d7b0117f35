//! The costs of the proxy: the time that it adds to a request, the memory of many concurrent streams, and the time of a
//! compaction that it answers. Run `cargo bench --bench proxy`; with `-- --small` it takes a minute.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a plain program that prints a table")]

mod compaction;
mod latency;
mod process;
mod streams;

use bytes::Bytes;
use serde_json::{Value, json};

const KIB: usize = 1_024;

/// The size of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Small,
    Full,
}

impl Scale {
    fn of<T>(self, small: T, full: T) -> T {
        match self {
            Self::Small => small,
            Self::Full => full,
        }
    }
}

/// Returns a conversation of about `bytes` bytes that ends with an answer.
fn messages(bytes: usize) -> Vec<Value> {
    let text = "All work and no play makes a dull agent. ".repeat(25);
    let count = (bytes / (text.len() + 60) + 1).next_multiple_of(2);
    let messages = (0..count).map(|at| {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": format!("{at} {text}")})
    });
    messages.collect()
}

fn request(messages: &[Value]) -> Bytes {
    json!({"model": "m", "tools": [{}], "stream": true, "messages": messages}).to_string().into()
}

#[tokio::main]
async fn main() {
    let scale = if std::env::args().any(|word| word == "--small") { Scale::Small } else { Scale::Full };
    latency::measure(scale).await;
    streams::measure(scale).await;
    compaction::measure(scale).await;
}
