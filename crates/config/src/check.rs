//! Checks what types can't express: limits of values, and keys that must agree with each other.

use std::net::IpAddr;

use toml::{Table, Value};

use super::{
    Config, FallbackMode, ModelConfig, ModelMode, Network, PricesError,
    keys::{self, INTEGER_LIMITS},
};
use recapd_core::domain::{
    price::Prices, settings::PARTICIPANTS_BYTES_MAX, spend::USD_PER_DAY_MAX, zone::Zone,
};

const HUMAN_TAG_BYTES_MAX: usize = 128;
const OWNER_BYTES_MAX: usize = 128;
/// Limits the number of host names or proxies.
const HOSTS_MAX: usize = 100;
/// Limits the bytes of a host name with its port.
const HOST_BYTES_MAX: usize = 261;
/// Keys with a share as value: above 0, at most 1.
pub(super) const SHARES: [&str; 1] = ["window.low_water"];
/// In each pair, the first value must be less than the second.
const MUST_BE_LESS: [(&str, &str); 2] =
    [("summary.session_hours", "summary.yesterday_hours"), ("summary.yesterday_hours", "summary.week_hours")];
/// In each pair, the first value must not be more than the second.
const MUST_NOT_BE_MORE: [(&str, &str); 4] = [
    ("context.system_reserve_tokens", "context.max_tokens"),
    ("queue.debounce_ms", "queue.max_wait_ms"),
    ("queue.backoff_base_ms", "queue.backoff_max_ms"),
    ("queue.batch_exchanges", "worker.batch_exchanges_max"),
];

/// A value outside of its limits, or two values that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub keys: Vec<&'static str>,
    pub text: String,
}

impl Violation {
    pub(super) fn new(keys: &[&'static str], text: String) -> Self {
        Self { keys: keys.to_vec(), text }
    }
}

impl Config {
    /// Returns everything that is wrong with the values; nothing if they are valid.
    pub fn validate(&self) -> Vec<Violation> {
        self.check_values().err().unwrap_or_default()
    }

    /// Returns the prices of models, or everything that is wrong with the values. The file of prices is read only here, so
    /// that the checked prices are the ones in use.
    pub(super) fn check_values(&self) -> Result<Prices, Vec<Violation>> {
        let prices = self.spend.prices();
        let values = Table::try_from(self).expect("strings, numbers and enums are all TOML");
        let mut found = beyond_limits(&values);
        found.extend(out_of_order(&values));
        found.extend(self.check_addresses());
        found.extend(self.check_talk());
        found.extend(self.check_spending(&prices));
        found.extend(self.check_batches());
        found.extend(self.check_hosts());
        found.extend(self.check_proxies());
        found.extend(self.trace.violations());
        found.extend(self.proxy.violations());
        found.extend(self.recall.violations());
        let proxies = [("model.proxy", &self.model.proxy), ("fallback.proxy", &self.fallback.proxy)];
        found.extend(proxies.into_iter().filter_map(|(key, proxy)| {
            let cure = proxy_cure(proxy)?;
            Some(Violation::new(&[key], format!("{key} {cure}")))
        }));
        if Zone::parse(&self.summary.time_zone).is_none() {
            let text = format!(
                "summary.time_zone must be a name of the IANA database such as `Europe/Berlin` or `UTC`, not `{}`",
                self.summary.time_zone
            );
            found.push(Violation::new(&["summary.time_zone"], text));
        }
        match prices {
            Ok(prices) if found.is_empty() => Ok(prices),
            _ => Err(found),
        }
    }

    /// Reports a host name that no client can use, or too many of them.
    fn check_hosts(&self) -> Option<Violation> {
        const KEY: &str = "http.allowed_hosts";
        let hosts = &self.http.allowed_hosts;
        let is_host = |host: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
            !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.bytes().all(is_plain)
        };
        if hosts.len() > HOSTS_MAX {
            let text = format!("{KEY} must name at most {HOSTS_MAX} hosts, not {}", hosts.len());
            return Some(Violation::new(&[KEY], text));
        }
        let wrong = hosts.iter().find(|host| !is_host(host))?;
        let text = format!(
            "{KEY}: `{wrong}` is no host name: give it as clients write it, such as `recapd.example.com` or \
             `recapd.example.com:8443`"
        );
        Some(Violation::new(&[KEY], text))
    }

    /// Reports a proxy that isn't an address or a network, or too many of them.
    fn check_proxies(&self) -> Option<Violation> {
        const KEY: &str = "http.trusted_proxies";
        let proxies = &self.http.trusted_proxies;
        if proxies.len() > HOSTS_MAX {
            let text = format!("{KEY} must name at most {HOSTS_MAX} proxies, not {}", proxies.len());
            return Some(Violation::new(&[KEY], text));
        }
        proxies.iter().find_map(|proxy| {
            let error = proxy.parse::<Network>().err()?;
            Some(Violation::new(&[KEY], format!("{KEY}: `{proxy}`: {error}")))
        })
    }

    /// Checks the settings for conversations of several speakers, and the lengths of texts.
    fn check_talk(&self) -> Vec<Violation> {
        let (perspective, convergence) = (&self.perspective, &self.convergence);
        let mut found = Vec::new();
        let texts = [
            ("perspective.participants", &perspective.participants, PARTICIPANTS_BYTES_MAX),
            ("perspective.human_tag", &perspective.human_tag, HUMAN_TAG_BYTES_MAX),
            ("queue.owner", &self.queue.owner, OWNER_BYTES_MAX),
        ];
        for (key, text, bytes_max) in texts {
            if text.len() > bytes_max {
                let problem = format!("{key} must have at most {bytes_max} bytes, not {}", text.len());
                found.push(Violation::new(&[key], problem));
            }
        }
        let scores =
            [("convergence.warn_at", convergence.warn_at), ("convergence.stop_at", convergence.stop_at)];
        for (key, score) in scores {
            if !(0.0..=1.0).contains(&score) {
                found.push(Violation::new(&[key], format!("{key} must be from 0 to 1, not {score}")));
            }
        }
        let (warn_at, stop_at) = (convergence.warn_at, convergence.stop_at);
        if stop_at > 0.0 && warn_at > stop_at {
            let text = format!(
                "convergence.warn_at ({warn_at}) must not be more than convergence.stop_at ({stop_at}): 0 turns one off"
            );
            found.push(Violation::new(&["convergence.warn_at", "convergence.stop_at"], text));
        }
        if let Err(error) = convergence.profile() {
            let text = format!("convergence.weights: {error}");
            found.push(Violation::new(&["convergence.weights", "convergence.profile"], text));
        }
        found
    }

    fn check_batches(&self) -> Option<Violation> {
        let mode = self.model.mode;
        let text = format!(
            "model.batch needs a provider that answers batches, not model.mode `{}`: one of `anthropic`, `openai`, \
             `openai-responses`, `gemini`",
            mode.word()
        );
        (self.model.batch && !mode.has_batches())
            .then(|| Violation::new(&["model.batch", "model.mode"], text))
    }

    fn check_addresses(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let unusable = self.database.unusable();
        found.extend(unusable.iter().map(|(key, cure)| Violation::new(&[key], format!("{key} {cure}"))));
        let base_url = &self.model.base_url;
        if let Some(cure) = base_url_cure(base_url).filter(|_| !base_url.is_empty()) {
            found.push(Violation::new(&["model.base_url"], format!("model.base_url {cure}")));
        }
        let second_url = &self.fallback.base_url;
        if let Some(cure) = base_url_cure(second_url).filter(|_| !second_url.is_empty()) {
            let cure = cure.replace("model.api_key_file", "fallback.api_key_file");
            found.push(Violation::new(&["fallback.base_url"], format!("fallback.base_url {cure}")));
        }
        found.extend(self.unencrypted_providers());
        found.extend(self.check_model_name());
        if self.fallback.mode == FallbackMode::Ollama && self.fallback.model.trim().is_empty() {
            let text = "fallback.model must name a model when fallback.mode is `ollama`: one that `ollama list` shows";
            found.push(Violation::new(&["fallback.model", "fallback.mode"], text.to_owned()));
        }
        found
    }

    /// Reports providers on another host that are called over `http://` without explicit consent. A provider behind a socket is
    /// allowed, because the socket leads to a program on this machine.
    fn unencrypted_providers(&self) -> Vec<Violation> {
        let (model, second) = (&self.model, self.fallback.model(&self.model));
        let first = Some(model).filter(|model| model.mode != ModelMode::Offline);
        let models = [
            (first, ["model.base_url", "model.allow_http"]),
            (second.as_ref(), ["fallback.base_url", "fallback.allow_http"]),
        ];
        let is_open = |model: &ModelConfig| {
            !model.allow_http && !model.proxy.starts_with("unix:") && leaves_in_the_clear(model.address())
        };
        let open = models.into_iter().filter(|(model, _)| model.is_some_and(is_open));
        open.map(|(_, keys)| {
            let [url, consent] = keys;
            let text = format!(
                "{url} is `http://` at another host: anyone on the network path can read the key and the messages. \
                 Use `https://`, or set {consent} = true"
            );
            Violation::new(&keys, text)
        })
        .collect()
    }

    /// Reports limits in dollars that are out of range, or that can't be kept because a price is unknown.
    fn check_spending(&self, prices: &Result<Prices, PricesError>) -> Vec<Violation> {
        let spend = &self.spend;
        let mut found = Vec::new();
        let limits =
            [("spend.usd_per_day", spend.usd_per_day), ("spend.agent_usd_per_day", spend.agent_usd_per_day)];
        for (key, usd) in limits {
            if !(0.0..=USD_PER_DAY_MAX).contains(&usd) {
                let text = format!("{key} must be from 0 to {USD_PER_DAY_MAX}, not {usd}");
                found.push(Violation::new(&[key], text));
            }
        }
        let prices = match prices {
            Ok(prices) => prices,
            Err(error) => {
                let text = format!("spend.prices_file: {error}");
                found.push(Violation::new(&["spend.prices_file"], text));
                return found;
            }
        };
        let second = self.fallback.model(&self.model);
        let models = [Some(&self.model), second.as_ref()].into_iter().flatten();
        let unpriced = models
            .filter(|model| model.mode != ModelMode::Offline)
            .map(ModelConfig::name)
            .find(|name| prices.of(name).is_none());
        if let Some(name) = unpriced {
            found.extend(limits.into_iter().filter(|(_, usd)| *usd > 0.0).map(|(key, _)| {
                let text = format!(
                    "{key} can't be kept, since the price of `{name}` isn't known: put it into a file that \
                     spend.prices_file names, or limit tokens or calls instead"
                );
                Violation::new(&[key], text)
            }));
        }
        found
    }

    fn check_model_name(&self) -> Option<Violation> {
        let mode = self.model.mode;
        if mode == ModelMode::Offline || !self.model.name().trim().is_empty() {
            return None;
        }
        let text = match mode {
            ModelMode::Ollama => {
                "model.model must name a model when model.mode is `ollama`: one that `ollama list` shows"
                    .to_owned()
            }
            _ => format!(
                "model.model must not be blank when model.mode is `{}`: leave it empty for the proposed model",
                mode.word()
            ),
        };
        Some(Violation::new(&["model.model", "model.mode"], text))
    }
}

fn beyond_limits(values: &Table) -> Vec<Violation> {
    let integers = INTEGER_LIMITS.iter().filter_map(|&(key, ..)| {
        let text = keys::beyond_limits(key, value_of(values, key)?.as_integer()?)?;
        Some(Violation::new(&[key], text))
    });
    let shares = SHARES.into_iter().filter_map(|key| {
        let share = number(values, key)?;
        let text = format!("{key} must be above 0 and at most 1, not {share}");
        // The comparison is negated so that NaN is refused, too.
        (!(0.0 < share && share <= 1.0)).then(|| Violation::new(&[key], text))
    });
    integers.chain(shares).collect()
}

fn out_of_order(values: &Table) -> Vec<Violation> {
    let relation = |(one, other): (&'static str, &'static str), must: &str, holds: fn(f64, f64) -> bool| {
        let (first, second) = (number(values, one)?, number(values, other)?);
        let text = format!("{one} ({first}) {must} {other} ({second})");
        (!holds(first, second)).then(|| Violation::new(&[one, other], text))
    };
    let less = MUST_BE_LESS
        .into_iter()
        .filter_map(|pair| relation(pair, "must be less than", |first, second| first < second));
    let not_more = MUST_NOT_BE_MORE
        .into_iter()
        .filter_map(|pair| relation(pair, "must not be more than", |first, second| first <= second));
    less.chain(not_more).collect()
}

fn value_of<'a>(values: &'a Table, key: &str) -> Option<&'a Value> {
    let (section, key) = key.split_once('.')?;
    values.get(section)?.get(key)
}

#[expect(clippy::cast_precision_loss, reason = "the limits are far below 2^52")]
fn number(values: &Table, key: &str) -> Option<f64> {
    let value = value_of(values, key)?;
    value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64))
}

/// Says what is wrong with an invalid proxy. Doesn't show the proxy, which may contain a password.
pub(super) fn proxy_cure(proxy: &str) -> Option<&'static str> {
    const CURE: &str =
        "must be a proxy such as `http://127.0.0.1:3128`, or a socket such as `unix:/run/recapd-egress.sock`";
    if proxy.is_empty() {
        return None;
    }
    match proxy.strip_prefix("unix:") {
        Some(path) if path.starts_with('/') => None,
        Some(_) => Some(CURE),
        None if proxy.contains('@') => Some("must not carry a user or a password"),
        None => base_url_cure(proxy).map(|_| CURE),
    }
}

/// Returns true if a provider's URL is `http://` and leads to another host.
pub(super) fn leaves_in_the_clear(url: &str) -> bool {
    let authority = url.strip_prefix("http://").and_then(|rest| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| !is_this_host(authority))
}

fn is_this_host(authority: &str) -> bool {
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    };
    let host = host.to_ascii_lowercase();
    // `localhost` and its subdomains always mean this host (RFC 6761, 6.3).
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Says what is wrong with a provider's URL. Doesn't show the URL, which may contain a password.
pub(super) fn base_url_cure(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    match host {
        None | Some("") => Some("must be a URL such as `https://api.openai.com/v1`"),
        Some(host) if host.contains('@') => {
            Some("must not carry a user or a password: put the key into model.api_key_file")
        }
        Some(_) if url.contains(char::is_whitespace) => Some("must not contain white space"),
        Some(_) => None,
    }
}
