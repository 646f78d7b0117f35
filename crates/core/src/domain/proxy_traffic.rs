//! Counts of what the proxy did for an agent. The proxy reports them to the daemon, which adds them up.

use serde::{Deserialize, Serialize};

/// The longest name of a report.
pub const REPORT_NAME_MAX: usize = 64;
/// How many names of reports an agent's row remembers. Proxies repeat a report for a short time, so a repeated one is among these.
const RECENT_MAX: usize = 16;

/// Defines the counts, each with its name and what it is.
macro_rules! counts {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// What the proxy did for an agent.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct ProxyTraffic {
            $($(#[$doc])+ pub $name: i64,)+
        }

        impl ProxyTraffic {
            /// How many counts there are.
            pub const COUNTS: usize = [$(stringify!($name)),+].len();

            /// Returns all counts, in the order of the fields.
            pub fn counts(&self) -> [i64; Self::COUNTS] {
                [$(self.$name),+]
            }

            /// Makes the traffic from its counts, in the order of the fields.
            pub fn from_counts([$($name),+]: [i64; Self::COUNTS]) -> Self {
                Self { $($name),+ }
            }

            /// Adds `other`.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.saturating_add(other.$name);)+
            }
        }
    };
}

counts! {
    /// Requests of the conversation to the provider.
    requests,
    /// Their bytes as the client wrote them, without compression.
    request_bytes,
    /// The bytes of the provider's successful answers.
    answer_bytes,
    /// Compactions that recapd answered from the summary.
    compactions_answered,
    /// Compactions that a model answered.
    compactions_forwarded,
    /// The time that recapd took to answer compactions.
    answering_ms,
    /// How often the proxy replaced a longer part of the conversation, or took a newer summary.
    window_steps,
    /// An estimate of the input tokens that the provider didn't get: what the window left out of each request, and the
    /// conversations whose compactions recapd answered. Images and other attachments don't count.
    saved_input_tokens,
    /// Requests that were forwarded as they were, because the proxy failed to read or to rewrite them.
    failed_open,
    /// Requests and answers that weren't stored. The next request carries the conversation again.
    unstored,
}

impl ProxyTraffic {
    /// Returns true if no count is negative.
    pub fn is_valid(&self) -> bool {
        self.counts().iter().all(|count| *count >= 0)
    }
}

/// What a proxy counted for an agent since its report before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProxyReport {
    /// The report's name. A report that is sent again under its name counts once.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9A-Za-z-]{1,64}$"))]
    pub report: String,
    /// The counts.
    pub traffic: ProxyTraffic,
}

impl ProxyReport {
    /// Returns true if the report's name is a valid name.
    pub fn is_named(&self) -> bool {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=REPORT_NAME_MAX).contains(&self.report.len()) && self.report.bytes().all(is_allowed)
    }

    /// Adds this report's name to the names of an agent's recent reports; `None` if it is among them, so that the report was counted
    /// already.
    pub fn remembered(&self, recent: &str) -> Option<String> {
        let is_repeated = recent.split(' ').any(|name| name == self.report);
        let names = std::iter::once(self.report.as_str()).chain(recent.split_whitespace());
        (!is_repeated).then(|| names.take(RECENT_MAX).collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str) -> ProxyReport {
        ProxyReport { report: name.to_owned(), traffic: ProxyTraffic::default() }
    }

    #[test]
    fn each_count_is_added_to_its_own() {
        let counts = std::array::from_fn(|at| i64::try_from(at).unwrap());
        let mut sum = ProxyTraffic::from_counts(counts);
        sum.add(&ProxyTraffic::from_counts(counts));
        assert_eq!(sum.counts(), counts.map(|count| count * 2));
        assert_eq!((sum.request_bytes, sum.unstored), (2, 18));
        sum.add(&ProxyTraffic { requests: i64::MAX, unstored: i64::MAX, ..ProxyTraffic::default() });
        assert_eq!((sum.requests, sum.unstored), (i64::MAX, i64::MAX));
    }

    #[test]
    fn the_newest_reports_are_remembered() {
        let mut recent = String::new();
        for number in 0..40 {
            recent = report(&format!("a-{number}")).remembered(&recent).unwrap();
        }
        assert_eq!(recent.split(' ').count(), RECENT_MAX);
        assert_eq!(report("a-39").remembered(&recent), None);
        assert_eq!(report("a-24").remembered(&recent), None);
        // Part of a name isn't the name.
        assert!(report("a-3").remembered(&recent).is_some());
    }

    #[test]
    fn a_name_is_short_and_plain() {
        for (name, expected) in [
            ("0f-12", true),
            ("", false),
            ("a b", false),
            ("ä", false),
            (&"a".repeat(64), true),
            (&"a".repeat(65), false),
        ] {
            assert_eq!(report(name).is_named(), expected, "{name}");
        }
    }
}
