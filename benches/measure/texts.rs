//! Texts that are as hard for a tokenizer as real ones: words of falling frequency, JSON like that of tools, source
//! code. They are generated from a seed, so that all runs measure the same bytes.

use std::fmt::Write as _;

/// English words, most frequent first.
const WORDS: &str = "the to and a of in is that it for on with as be this are was not or by at from we you have an \
    if can all will one has but which when there so file test error then build change request cache value \
    window token server database version because should before after does still while between without every first \
    second message summary exchange budget agent tool result function module argument configuration deployment \
    pipeline regression threshold connection timeout retry backoff migration schema transaction commit rollback \
    watermark latency throughput allocation compiler warning dependency release branch merge review customer order \
    refund shipping reservation flight passenger itinerary invoice subscription account password verification \
    measured reproduces intermittently unexpectedly deterministic concurrency synchronous idempotent normalisation \
    Kubernetes PostgreSQL SQLite TypeScript Thursday November Amsterdam Zürich naïve résumé 42 1,337 0.85 v2.3.1";

const NAMES: [&str; 16] = [
    "request",
    "user_id",
    "orderItems",
    "window_tokens",
    "createdAt",
    "parseHeader",
    "retry_count",
    "payload",
    "flight_number",
    "isEnabled",
    "lastSeen",
    "http_status",
    "Config",
    "summarize",
    "total_price",
    "cursor",
];

pub(crate) struct Texts(fastrand::Rng);

impl Texts {
    /// Creates a source that returns the same texts for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns sentences of at least `bytes` bytes.
    pub(crate) fn prose(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            for place in 0..6 + self.0.usize(..14) {
                let word = self.word();
                if place > 0 {
                    text.push(' ');
                }
                text.push_str(word);
            }
            text.push_str(if self.0.usize(..5) == 0 { ".\n\n" } else { ". " });
        }
        text
    }

    /// Returns a JSON array of records of at least `bytes` bytes.
    pub(crate) fn json(&mut self, bytes: usize) -> String {
        let mut text = String::from("[");
        while text.len() < bytes {
            let (name, number) = (self.name(), self.0.u32(..10_000_000));
            let (price, day) = (self.0.u32(..90_000), self.0.u32(1..29));
            let words = format!("{} {}", self.word(), self.word());
            let id = self.0.u64(..);
            let written = write!(
                text,
                r#"{{"id":"{id:016x}","{name}":{number},"total":{}.{:02},"at":"2026-03-{day:02}T08:{:02}:07Z","note":"{words}","tags":["{}",null,true]}},"#,
                price / 100,
                price % 100,
                day * 2,
                self.name(),
            );
            debug_assert!(written.is_ok());
        }
        text.push_str("null]");
        text
    }

    /// Returns lines of source code of at least `bytes` bytes.
    pub(crate) fn code(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            let (a, b, c) = (self.name(), self.name(), self.word());
            let number = self.0.u32(..4_096);
            let line = match self.0.usize(..6) {
                0 => format!("    let {a} = self.{b}.get({number}).copied().unwrap_or_default();\n"),
                1 => format!(
                    "        if {a}.len() > {number} && !{b} {{\n            return Err({c:?}.into());\n        }}\n"
                ),
                2 => format!("// The {a} of a {b} is {c}, see issue #{number}.\n"),
                3 => format!("    pub fn {a}_{b}(&mut self, {c}: Vec<u8>) -> Option<usize> {{\n"),
                4 => format!("\t\tfor (const {a} of {b}.entries()) {{ console.log(`${{{a}}} {c}`); }}\n"),
                _ => "    }\n\n".to_owned(),
            };
            text.push_str(&line);
        }
        text
    }

    pub(crate) fn name(&mut self) -> &'static str {
        NAMES.get(self.0.usize(..NAMES.len())).copied().unwrap_or_default()
    }

    /// Returns a word; the product of two random numbers makes the first words frequent.
    fn word(&mut self) -> &'static str {
        let words = WORDS.split_ascii_whitespace().count();
        let place = self.0.usize(..words) * self.0.usize(..words) / words;
        WORDS.split_ascii_whitespace().nth(place).unwrap_or_default()
    }
}
