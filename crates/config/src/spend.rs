//! `[spend]`, and the prices of models: the shipped table, and a file that overrides it.

use std::{collections::BTreeMap, io, path::Path};

use serde::{Deserialize, Serialize};

use super::file::read_bounded;
use recapd_core::domain::{
    price::{Price, Prices},
    spend::{DailyLimits, SpendLimits, microusd},
};

const SHIPPED: &str = include_str!("../prices.toml");
const FILE_BYTES_MAX: u64 = 1_048_576;
/// Limits a price: a million dollars per million tokens.
const PRICE_MAX: i64 = 1_000_000_000_000;

/// `[spend]`: limits of the cost per UTC day; 0 means no limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpendConfig {
    pub calls_per_day: i64,
    pub tokens_per_day: i64,
    pub usd_per_day: f64,
    pub agent_calls_per_day: i64,
    pub agent_tokens_per_day: i64,
    pub agent_usd_per_day: f64,
    pub prices_file: String,
}

impl SpendConfig {
    pub fn limits(&self) -> DailyLimits {
        DailyLimits {
            all: SpendLimits {
                calls: self.calls_per_day,
                tokens: self.tokens_per_day,
                cost_microusd: microusd(self.usd_per_day),
            },
            agent: SpendLimits {
                calls: self.agent_calls_per_day,
                tokens: self.agent_tokens_per_day,
                cost_microusd: microusd(self.agent_usd_per_day),
            },
        }
    }
}

/// The price file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PricesError {
    #[error("`{path}` can't be read: {source}")]
    Unreadable { path: String, source: io::Error },
    #[error("`{path}` is no table of prices like prices.toml: {message}")]
    Invalid { path: String, message: String },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceTable {
    as_of: String,
    source: String,
    #[serde(default)]
    models: BTreeMap<String, Price>,
}

impl SpendConfig {
    /// Returns the shipped prices, overridden by those of `prices_file`.
    ///
    /// # Errors
    /// If the file can't be read, or doesn't contain prices.
    pub fn prices(&self) -> Result<Prices, PricesError> {
        let shipped = shipped_prices();
        if self.prices_file.is_empty() {
            return Ok(shipped);
        }
        let path = self.prices_file.clone();
        match read_bounded(Path::new(&path), FILE_BYTES_MAX) {
            Ok(text) => match read(&text) {
                Ok(prices) => Ok(shipped.overridden(prices)),
                Err(message) => Err(PricesError::Invalid { path, message }),
            },
            Err(source) => Err(PricesError::Unreadable { path, source }),
        }
    }
}

/// Returns the prices that are compiled into recapd.
pub fn shipped_prices() -> Prices {
    read(SHIPPED).expect("a test reads the embedded prices.toml")
}

fn read(text: &str) -> Result<Prices, String> {
    let table: PriceTable = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if table.as_of.trim().is_empty() || table.source.trim().is_empty() {
        return Err("as_of and source must say when and where the prices were looked up".to_owned());
    }
    let is_sound = |price: &Price| {
        let long = price.long.map_or([0; 3], |long| [long.above_tokens, long.input, long.output]);
        let all = [price.input, price.cached_input, price.cache_write, price.output];
        all.iter().chain(&long).all(|price| (0..=PRICE_MAX).contains(price))
    };
    match table.models.iter().find(|(_, price)| !is_sound(price)) {
        Some((model, _)) => Err(format!(
            "the prices of {model} must be from 0 to {PRICE_MAX} micro-dollars per million tokens"
        )),
        None => Ok(table.models.into_iter().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Loader, ModelMode, ReloadOutcome};
    use recapd_core::domain::price::Usage;

    const MILLION: i64 = 1_000_000;

    /// The published prices of some models in dollars, to test the table's unit as well.
    #[test]
    fn the_shipped_table_is_in_micro_dollars_per_million_tokens() {
        let prices = shipped_prices();
        for (model, input_usd, output_usd) in
            [("claude-opus-5-5", 4.0, 20.0), ("gpt-5.4-mini", 0.75, 4.5), ("gemini-3.8-flash", 0.75, 3.75)]
        {
            let price = prices.of(model).unwrap();
            let cost = |usage| price.cost_microusd(usage);
            let input = Usage { input: MILLION, ..Usage::default() };
            let output = Usage { output: MILLION, ..Usage::default() };
            assert_eq!((cost(input), cost(output)), (microusd(input_usd), microusd(output_usd)), "{model}");
        }
    }

    #[test]
    fn every_price_is_plausible_and_every_proposed_model_has_one() {
        let prices = shipped_prices();
        assert!(prices.models().count() >= 20);
        for (model, price) in prices.models() {
            // Ten cents to a hundred dollars per million tokens.
            assert!((100_000..=100_000_000).contains(&price.input), "{model}");
            assert!(price.cached_input < price.input && price.input < price.output, "{model}");
            assert!((price.input..=2 * price.input).contains(&price.cache_write), "{model}");
            assert!(price.long.is_none_or(|long| long.input > price.input), "{model}");
        }
        for mode in [ModelMode::Anthropic, ModelMode::OpenAi, ModelMode::Gemini] {
            let mut config = Config::default();
            config.model.mode = mode;
            assert!(prices.of(config.model.name()).is_some(), "{mode:?}");
        }
    }

    #[test]
    fn a_price_file_adds_overrides_and_reports_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let mut spend = Config::default().spend;
        spend.prices_file = path.display().to_string();
        let prices = |text: &str| {
            std::fs::write(&path, text).unwrap();
            spend.prices().map_err(|error| error.to_string().replace(&spend.prices_file, "FILE"))
        };
        let head = "as_of = \"2026-12-01\"\nsource = \"our contract\"\n";
        let free = "input = 0\ncached_input = 0\ncache_write = 0\noutput = 0\n";
        let found = prices(&format!("{head}[models.\"gpt-5.4-mini\"]\n{free}[models.mine]\n{free}")).unwrap();
        assert_eq!(found.of("gpt-5.4-mini").unwrap().input, 0);
        assert!(found.of("mine").is_some() && found.of("claude-haiku-5-5").is_some());
        for (text, said) in [
            (format!("[models.mine]\n{free}"), "missing field `as_of`"),
            (format!("{head}[models.mine]\ninput = 1\n"), "missing field `cached_input`"),
            (format!("{head}[models.mine]\n{free}surcharge = 1\n"), "unknown field `surcharge`"),
            (
                format!("{head}[models.mine]\n{}", free.replace("output = 0", "output = -1")),
                "the prices of mine must be from 0",
            ),
        ] {
            let error = prices(&text).unwrap_err();
            assert!(error.contains(said) && error.starts_with("`FILE`"), "{error}");
        }
        spend.prices_file = "/nonexistent/prices.toml".to_owned();
        assert!(matches!(spend.prices(), Err(PricesError::Unreadable { .. })));
    }

    /// If the file disappears or breaks later, the prices must not change.
    #[test]
    fn prices_are_read_once_with_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let priced = |usd: i64| {
            let text = format!(
                "as_of = \"2026-12-01\"\nsource = \"our contract\"\n[models.mine]\n\
                 input = {usd}\ncached_input = 0\ncache_write = 0\noutput = 0\n"
            );
            std::fs::write(&path, text).unwrap();
        };
        let input = |prices: &Prices| prices.of("mine").unwrap().input;
        priced(1);
        let load = || {
            let set = format!("spend.prices_file={}", path.display());
            Loader::new().set(set).load()
        };
        let loaded = load().unwrap();
        priced(2);
        let reloaded = ReloadOutcome::of(&loaded.config, &loaded.config).unwrap();
        assert_eq!((input(&loaded.prices), input(&reloaded.prices)), (1, 2));
        assert!(reloaded.changed.is_empty());
        std::fs::remove_file(&path).unwrap();
        for error in [load().unwrap_err(), ReloadOutcome::of(&loaded.config, &loaded.config).unwrap_err()] {
            assert!(error.to_string().contains("spend.prices_file: "), "{error}");
        }
    }
}
