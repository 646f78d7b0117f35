//! The prices of models: integer micro-dollars per million tokens, from a dated table.
//!
//! A model that isn't in the table has no price. That isn't a price of 0: a model must not seem free because its price is unknown.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::number::i64_or_max;

/// Prices are per this many tokens.
const PER_TOKENS: i128 = 1_000_000;

/// The price of one model, in micro-dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input tokens.
    pub input: i64,
    /// Input tokens read from the provider's cache.
    pub cached_input: i64,
    /// Input tokens written to the provider's cache.
    pub cache_write: i64,
    /// Output tokens.
    pub output: i64,
    /// The price of calls with long prompts, if it differs.
    #[serde(default)]
    pub long: Option<LongPrice>,
}

/// The price of a call with a long prompt. Cache prices change in proportion to the input price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// Applies to calls with more input tokens than this, cached ones included.
    pub above_tokens: i64,
    /// Input tokens.
    pub input: i64,
    /// Output tokens.
    pub output: i64,
}

/// The tokens of one call, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens, neither read from the cache nor written to it.
    pub input: i64,
    /// Input tokens read from the cache.
    pub cached_input: i64,
    /// Input tokens written to the cache.
    pub cache_write: i64,
    /// Output tokens.
    pub output: i64,
}

impl Price {
    /// Returns the cost of a call in micro-dollars, rounded up.
    pub fn cost_microusd(&self, usage: Usage) -> i64 {
        let prompt = usage.input.saturating_add(usage.cached_input).saturating_add(usage.cache_write);
        let long = self.long.filter(|long| prompt > long.above_tokens);
        let (input, output) = long.map_or((self.input, self.output), |long| (long.input, long.output));
        let in_proportion = |price: i64| match self.input {
            0 => i128::from(price),
            usual => i128::from(price) * i128::from(input) / i128::from(usual),
        };
        let parts = [
            (usage.input, i128::from(input)),
            (usage.cached_input, in_proportion(self.cached_input)),
            (usage.cache_write, in_proportion(self.cache_write)),
            (usage.output, i128::from(output)),
        ];
        let sum: i128 = parts.iter().map(|(tokens, price)| i128::from((*tokens).max(0)) * price).sum();
        i64_or_max((sum + PER_TOKENS - 1) / PER_TOKENS)
    }
}

/// The prices of models by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Returns these prices with those of `overrides`, which have priority.
    #[must_use]
    pub fn overridden(mut self, overrides: Self) -> Self {
        self.0.extend(overrides.0);
        self
    }

    /// Returns the price of a model, if known. The model's name may have a date at its end (`claude-haiku-4-5-20251001`,
    /// `gpt-5.4-mini-2026-03-17`).
    pub fn of(&self, model: &str) -> Option<&Price> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        self.0.get(model).or_else(|| self.0.get(undated(model)?))
    }

    /// Returns the models with a price.
    pub fn models(&self) -> impl Iterator<Item = (&str, &Price)> {
        self.0.iter().map(|(model, price)| (model.as_str(), price))
    }
}

impl FromIterator<(String, Price)> for Prices {
    fn from_iter<I: IntoIterator<Item = (String, Price)>>(prices: I) -> Self {
        Self(prices.into_iter().collect())
    }
}

/// Removes the date at the end of a model's name; `None` if there is none.
fn undated(model: &str) -> Option<&str> {
    ["-dddd-dd-dd", "-dddddddd"].into_iter().find_map(|shape| {
        let (name, end) = model.split_at_checked(model.len().checked_sub(shape.len())?)?;
        let fits = |(c, shape): (char, char)| {
            if shape == 'd' { c.is_ascii_digit() } else { c == shape }
        };
        end.chars().zip(shape.chars()).all(fits).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HAIKU: Price = Price {
        input: 100_000,
        cached_input: 10_000,
        cache_write: 125_000,
        output: 500_000,
        long: Some(LongPrice { above_tokens: 100_000, input: 500_000, output: 2_500_000 }),
    };

    fn usage(input: i64, cached_input: i64, cache_write: i64, output: i64) -> Usage {
        Usage { input, cached_input, cache_write, output }
    }

    /// A dollar is a million micro-dollars, and prices are per million tokens. Tests the units with whole dollars.
    #[test]
    fn a_million_tokens_cost_their_price() {
        let price = Price { long: None, ..HAIKU };
        for (usage, expected) in [
            (usage(1_000_000, 0, 0, 0), 100_000),
            (usage(0, 1_000_000, 0, 0), 10_000),
            (usage(0, 0, 1_000_000, 0), 125_000),
            (usage(0, 0, 0, 1_000_000), 500_000),
            (usage(20_000, 0, 0, 2_000), 3_000),
            (usage(1, 0, 0, 0), 1),
            (usage(0, 0, 0, 0), 0),
            (usage(-5, 0, 0, 0), 0),
            (usage(i64::MAX, 0, 0, 0), 922_337_203_685_477_581),
        ] {
            assert_eq!(price.cost_microusd(usage), expected, "{usage:?}");
        }
    }

    #[test]
    fn long_prompts_have_their_own_price() {
        assert_eq!(HAIKU.cost_microusd(usage(100_000, 0, 0, 0)), 10_000);
        assert_eq!(HAIKU.cost_microusd(usage(200_000, 0, 0, 1_000)), 102_500);
        // The cache is five times as expensive, too.
        assert_eq!(HAIKU.cost_microusd(usage(0, 200_000, 0, 0)), 10_000);
    }

    #[test]
    fn a_model_is_found_by_its_name_with_or_without_a_date() {
        let prices: Prices = ["claude-haiku-4-5", "gpt-5.4-mini", "gpt-4o"]
            .map(|name| (name.to_owned(), HAIKU))
            .into_iter()
            .collect();
        for known in [
            "claude-haiku-4-5",
            "claude-haiku-4-5-20251001",
            "gpt-5.4-mini",
            "gpt-5.4-mini-2026-03-17",
            "models/gpt-4o",
        ] {
            assert!(prices.of(known).is_some(), "{known}");
        }
        for unknown in [
            "",
            "claude-haiku-4",
            "claude-haiku-4-5-fast",
            "gpt-5.4-mini-2026-03",
            "gpt-5.4",
            "my-gpt-4o",
            "gpt-4o-mini",
            "20251001",
            "-2026-03-17",
        ] {
            assert!(prices.of(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn other_prices_override() {
        let shipped: Prices = [("a".to_owned(), HAIKU), ("b".to_owned(), HAIKU)].into_iter().collect();
        let free = Price { input: 0, cached_input: 0, cache_write: 0, output: 0, long: None };
        let prices = shipped.overridden([("a".to_owned(), free)].into_iter().collect());
        assert_eq!((prices.of("a"), prices.of("b")), (Some(&free), Some(&HAIKU)));
        assert_eq!(free.cost_microusd(usage(9, 9, 9, 9)), 0);
    }
}
