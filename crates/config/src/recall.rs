//! `[recall]`: search by embeddings.

use serde::{Deserialize, Serialize};

use super::check::{Violation, base_url_cure, leaves_in_the_clear, proxy_cure};

/// OpenAI's own address. `OPENAI_API_KEY` is sent only to this address.
const OPENAI_ADDRESS: &str = "https://api.openai.com";

/// `[recall]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecallConfig {
    /// The address of an embedding model's server; empty if there is none.
    pub embeddings: String,
    pub embeddings_allow_http: bool,
    pub embeddings_model: String,
    /// The length of the model's vectors; 0 if there is no model.
    pub embeddings_dimensions: i64,
    pub embeddings_api_key_file: String,
    pub embeddings_proxy: String,
    /// How long a search waits for the embedding of its question.
    pub embeddings_patience_ms: u64,
}

impl RecallConfig {
    pub fn has_embeddings(&self) -> bool {
        !self.embeddings.is_empty()
    }

    /// Returns true if the model is at OpenAI's own address.
    pub(super) fn is_at_openai(&self) -> bool {
        let rest = self.embeddings.strip_prefix(OPENAI_ADDRESS);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        if !self.has_embeddings() {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut wrong = |key: &'static str, what: &str| {
            found.push(Violation::new(&[key], format!("{key} {what}")));
        };
        if let Some(cure) = base_url_cure(&self.embeddings) {
            let cure = cure.replace("model.api_key_file", "recall.embeddings_api_key_file");
            wrong("recall.embeddings", &cure);
        } else if !self.embeddings_allow_http
            && !self.embeddings_proxy.starts_with("unix:")
            && leaves_in_the_clear(&self.embeddings)
        {
            let what = "is `http://` at another host: anyone on the network path can read the key and the messages. \
                        Use `https://`, or set recall.embeddings_allow_http = true";
            wrong("recall.embeddings", what);
        }
        if self.embeddings_model.trim().is_empty() {
            let what =
                "must name a model when recall.embeddings is set: nomic-embed-text, text-embedding-3-small";
            wrong("recall.embeddings_model", what);
        }
        if self.embeddings_dimensions == 0 {
            let what = "must be the length of the model's vectors when recall.embeddings is set: 768 for \
                        nomic-embed-text, 1536 for text-embedding-3-small";
            wrong("recall.embeddings_dimensions", what);
        }
        if let Some(cure) = proxy_cure(&self.embeddings_proxy) {
            wrong("recall.embeddings_proxy", cure);
        }
        found
    }
}
