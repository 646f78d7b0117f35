//! `[proxy]`: the proxy between agents and their providers.

use serde::{Deserialize, Serialize};

use super::{
    check::{Violation, base_url_cure},
    listen::Listen,
};

/// Where `recapd proxy` listens unless `proxy.listen` or its option says otherwise.
const OWN_LISTEN: &str = "127.0.0.1:7412";

/// `[proxy]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    /// Where the daemon's proxy listens; empty if the daemon has none.
    pub listen: String,
    pub mode: ProxyMode,
    pub anthropic_url: String,
    pub openai_url: String,
    pub gemini_url: String,
    /// Other providers: `name=URL,name=URL`.
    pub upstreams: String,
    /// A file with the token that every request must carry; empty if there is none.
    pub token_file: String,
    /// True if conversations of sub-agents are stored, each as a separate agent.
    pub subagents: bool,
    /// True if the mode `window` also rewrites requests that a subscription pays for.
    pub window_subscriptions: bool,
    pub body_bytes_max: usize,
    /// Limits the bytes of copies that wait to be stored.
    pub copies_bytes_max: usize,
    pub decide_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyMode {
    /// Passes bytes on, and stores both sides.
    Observe,
    /// Like `observe`, and answers the host's own compaction.
    Answer,
    /// Like `answer`; in addition, the summary replaces the messages of each request that have left the window.
    Window,
}

impl ProxyConfig {
    /// Returns where the daemon's proxy listens; `None` if it has none.
    pub fn address(&self) -> Option<Listen> {
        self.listen.parse().ok()
    }

    /// Returns where a separate proxy process listens.
    pub fn standalone_address(&self) -> Option<Listen> {
        self.address().or_else(|| OWN_LISTEN.parse().ok())
    }

    /// Returns the other providers, by name.
    pub fn named_upstreams(&self) -> Vec<(String, String)> {
        let pairs = self.upstreams.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, url)| (name.trim().to_owned(), url.trim().to_owned())).collect()
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        if !self.listen.is_empty()
            && let Err(error) = self.listen.parse::<Listen>()
        {
            found.push(Violation::new(&["proxy.listen"], format!("proxy.listen: {error}")));
        }
        let is_far = self.address().is_some_and(|address| !address.is_near());
        if is_far && self.token_file.is_empty() {
            let text = "proxy.listen is an address that others can reach: name a file with a token in proxy.token_file, or listen \
                        on a loopback address such as 127.0.0.1:7412";
            found.push(Violation::new(&["proxy.listen", "proxy.token_file"], text.to_owned()));
        }
        for (key, url) in [
            ("proxy.anthropic_url", &self.anthropic_url),
            ("proxy.openai_url", &self.openai_url),
            ("proxy.gemini_url", &self.gemini_url),
        ] {
            if base_url_cure(url).is_some() {
                let text = format!("{key} must be a URL such as `https://api.example.com`, not `{url}`");
                found.push(Violation::new(&[key], text));
            }
        }
        let is_pair = |pair: &str| {
            pair.split_once('=').is_some_and(|(name, url)| {
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                !name.trim().is_empty()
                    && name.trim().bytes().all(is_name)
                    && base_url_cure(url.trim()).is_none()
            })
        };
        let mut pairs = self.upstreams.split(',').filter(|pair| !pair.trim().is_empty());
        if let Some(wrong) = pairs.find(|pair| !is_pair(pair)) {
            let text =
                format!("proxy.upstreams: `{wrong}` is no `name=URL`, such as `local=http://127.0.0.1:8080`");
            found.push(Violation::new(&["proxy.upstreams"], text));
        }
        found
    }
}
