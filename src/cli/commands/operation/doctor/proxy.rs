//! Checks that agents' requests pass through the proxy, and that their conversations are stored.

use std::str::FromStr;

use reqwest::Method;

use super::Check;
use crate::cli::terminal::figures::ago;
use recapd_client::{DaemonEndpoint, Transport};
use recapd_config::{Config, Listen};
use recapd_core::domain::time::Timestamp;
use recapd_platform::http_client::HttpSettings;

const TIMEOUT_MS: u64 = 2_000;
/// Limits the answers that are read. A proxy in the daemon shows all of the daemon's metrics.
const ANSWER_BYTES_MAX: usize = 4 << 20;
const NAME: &str = "proxy";

/// The figures of a proxy since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Traffic {
    /// Requests that passed and whose conversations are to be stored.
    observed: u64,
    /// Compactions that the proxy answered itself.
    answered: u64,
    /// Copies of requests and answers that were stored.
    stored: u64,
    /// In seconds since 1970; 0 if nothing was stored yet.
    stored_at: f64,
}

pub(super) async fn proxy(config: &Config, now: Timestamp) -> Check {
    let Some(listen) = config.proxy.standalone_address() else {
        return Check::skip(NAME, "proxy.listen doesn't name an address");
    };
    let Some(text) = metrics(&listen).await else {
        let detail = format!("no proxy listens at {listen}");
        return match config.proxy.listen.as_str() {
            "" => Check::skip(NAME, format!("{detail}; `recapd proxy` starts one")),
            _ => Check::warn(NAME, detail, "start it: `recapd proxy`, or `systemctl start recapd-proxy`"),
        };
    };
    match Traffic::read(&text) {
        Some(traffic) => traffic.check(&listen, now),
        None => Check::fail(
            NAME,
            format!("another program listens at {listen}"),
            "stop it, or choose another address for the proxy: proxy.listen",
        ),
    }
}

/// Returns the metrics of the program that listens at `listen`; `None` if no program listens.
async fn metrics(listen: &Listen) -> Option<String> {
    let endpoint: DaemonEndpoint = listen.base().parse().ok()?;
    let settings = HttpSettings { timeout_ms: TIMEOUT_MS, connect_timeout_ms: TIMEOUT_MS, proxy_url: None };
    let transport = Transport::new(&endpoint, &settings).ok()?;
    let request = transport.request(Method::GET, transport.at("/recapd/metrics"));
    let reply = transport.send(request, ANSWER_BYTES_MAX).await.ok()?;
    Some(String::from_utf8_lossy(&reply.body).into_owned())
}

/// Returns the value of a sample of the proxy.
fn value<T: FromStr>(metrics: &str, name: &str) -> Option<T> {
    metrics.lines().find_map(|line| {
        let rest = line.strip_prefix("recapd_proxy_")?;
        rest.strip_prefix(name)?.trim().parse().ok()
    })
}

impl Traffic {
    /// Parses a proxy's metrics; `None` if another program wrote them.
    fn read(metrics: &str) -> Option<Self> {
        Some(Self {
            observed: value(metrics, "requests_total{outcome=\"observed\"}")?,
            answered: value(metrics, "requests_total{outcome=\"answered\"}")?,
            stored: value(metrics, "stored_total")?,
            stored_at: value(metrics, "stored_timestamp_seconds")?,
        })
    }

    fn check(self, listen: &Listen, now: Timestamp) -> Check {
        let Self { observed, answered, stored, stored_at } = self;
        if observed == 0 {
            let fix = format!(
                "start the agent with `recapd run`, or set its base URL to {}; see docs/proxy.md",
                listen.base()
            );
            return Check::warn(
                NAME,
                format!("it listens at {listen}, but no agent has sent a request since it started"),
                fix,
            );
        }
        if stored == 0 {
            let detail = format!("{observed} requests were observed at {listen}, but nothing was stored");
            let fix = "see recapd_proxy_unstored_total, and the proxy's log; is the daemon running?";
            return Check::fail(NAME, detail, fix);
        }
        #[expect(clippy::cast_possible_truncation, reason = "present times fit")]
        let last = ago(Timestamp((stored_at * 1_000.0) as i64), now);
        Check::ok(
            NAME,
            format!(
                "{observed} requests observed at {listen}, {answered} compactions answered, last stored {last}"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use recapd_telemetry::metrics::{Metrics, labels::ProxyOutcome};

    #[test]
    fn observed_requests_without_stored_messages_are_a_failure() {
        let place: Listen = "127.0.0.1:7412".parse().unwrap();
        let now = Timestamp(1_800_000_000_000);
        let metrics = Metrics::new(now, &[]);
        let check = || Traffic::read(&metrics.encode(None).1).unwrap().check(&place, now);
        assert_eq!(check().verdict, Verdict::Warn);
        metrics.proxy.request(ProxyOutcome::Observed);
        assert_eq!(check().verdict, Verdict::Fail);
        metrics.proxy.stored(now.plus_ms(-180_000));
        let found = check();
        assert_eq!(found.verdict, Verdict::Ok);
        assert!(found.detail.ends_with("last stored 3m ago"), "{}", found.detail);
        assert_eq!(Traffic::read("<html>"), None);
    }
}
