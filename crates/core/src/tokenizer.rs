//! Counts tokens, with a tokenizer for each provider and model (seed 001, "Dispatch Pattern"): exact for OpenAI's encodings (as tiktoken
//! counts), o200k times a factor for other vendors, bytes for an unknown provider.
//!
//! [`counter_for`] returns a counter of the tokens of texts for a model, as a window needs them. [`count_request`] counts a whole request
//! body, including what the provider adds. Counting takes time linear in the length of any input.

mod estimate;
mod image;
mod memo;
mod overhead;
mod request;
mod text_kind;
mod vendor;

use std::sync::Arc;

use crate::domain::{attachment::Extent, number::i64_or_max, tokens::TokenCounter};
pub use estimate::EstimateCounter;
pub use memo::{CachingCounter, caching};
pub use request::{RequestCount, RequestParts, count_request};
pub use text_kind::TextKind;
use vendor::{Factors, Vendor};

/// Bytes per token for an unknown provider. Calls and results have 3.4 bytes per o200k token, as measured. With 4 bytes per token, the
/// counts would be 15 % too low; with 3, they are rather too high.
pub const FALLBACK_BYTES_PER_TOKEN: i64 = 3;

/// Counts one token for a fixed number of bytes.
#[derive(Clone, Copy, Debug)]
pub struct BytesCounter;

impl BytesCounter {
    fn count_bytes(bytes: usize) -> i64 {
        let bytes = i64_or_max(bytes);
        bytes.saturating_add(FALLBACK_BYTES_PER_TOKEN - 1) / FALLBACK_BYTES_PER_TOKEN
    }
}

impl TokenCounter for BytesCounter {
    fn count(&self, text: &str) -> i64 {
        Self::count_bytes(text.len())
    }

    fn method(&self) -> &'static str {
        "bytes/3"
    }
}

/// Counts tokens in one of OpenAI's encodings.
#[cfg(feature = "tokenizer")]
struct EncodingCounter {
    encoding: fn() -> &'static bpe_openai::Tokenizer,
    method: &'static str,
    /// True if the model is known to use this encoding; false if this encoding is a guess.
    is_exact: bool,
}

#[cfg(feature = "tokenizer")]
impl TokenCounter for EncodingCounter {
    fn count(&self, text: &str) -> i64 {
        i64_or_max((self.encoding)().count(text))
    }

    fn method(&self) -> &str {
        self.method
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }
}

#[cfg(feature = "tokenizer")]
const O200K: EncodingCounter =
    EncodingCounter { encoding: bpe_openai::o200k_base, method: "o200k", is_exact: true };

#[cfg(feature = "tokenizer")]
const CL100K: EncodingCounter =
    EncodingCounter { encoding: bpe_openai::cl100k_base, method: "cl100k", is_exact: true };

/// Counts tokens for a vendor without a public tokenizer: o200k times a factor that depends on the kind of text.
struct FactorCounter<C> {
    base: C,
    factors: Factors,
    method: &'static str,
}

impl<C: TokenCounter> TokenCounter for FactorCounter<C> {
    fn count(&self, text: &str) -> i64 {
        let percent = self.factors.percent(TextKind::of(text));
        self.base.count(text).saturating_mul(percent).saturating_add(99) / 100
    }

    fn method(&self) -> &str {
        self.method
    }
}

/// Counts the tokens of texts, and those of images and documents at the vendor's rates.
struct VendorCounter {
    texts: Arc<dyn TokenCounter>,
    vendor: Vendor,
    model: String,
}

impl TokenCounter for VendorCounter {
    fn count(&self, text: &str) -> i64 {
        self.texts.count(text)
    }

    fn count_attachment(&self, media: &str, extent: Extent) -> i64 {
        image::attachment(self.vendor, &self.model, media, extent)
    }

    fn method(&self) -> &str {
        self.texts.method()
    }

    fn is_exact(&self) -> bool {
        self.texts.is_exact()
    }
}

/// Returns the counter for the summary's ceiling: o200k, whatever model the agent uses.
#[cfg(feature = "tokenizer")]
pub fn ceiling_counter() -> Arc<dyn TokenCounter> {
    Arc::new(O200K)
}

/// Chooses the tokenizer: returns the counter that counts the tokens of a message for a given model of a provider (`count_tokens`). For
/// an unknown or empty provider it counts bytes (seed 001).
pub fn counter_for(provider: &str, model: &str) -> Arc<dyn TokenCounter> {
    let Some(vendor) = Vendor::of(provider, model) else {
        return Arc::new(BytesCounter);
    };
    Arc::new(VendorCounter { texts: vendor_counter(vendor, model), vendor, model: model.to_owned() })
}

#[cfg(feature = "tokenizer")]
fn vendor_counter(vendor: Vendor, model: &str) -> Arc<dyn TokenCounter> {
    match vendor {
        Vendor::OpenAi { is_cl100k } => Arc::new(EncodingCounter {
            is_exact: vendor::has_known_encoding(model),
            ..if is_cl100k { CL100K } else { O200K }
        }),
        vendor => {
            Arc::new(FactorCounter { base: O200K, factors: vendor.factors(), method: vendor.factor_method() })
        }
    }
}

/// Makes the counter in a build without the feature `tokenizer`, in which o200k itself is estimated.
#[cfg(not(feature = "tokenizer"))]
fn vendor_counter(vendor: Vendor, _: &str) -> Arc<dyn TokenCounter> {
    Arc::new(FactorCounter {
        base: EstimateCounter,
        factors: vendor.factors(),
        method: vendor.estimate_method(),
    })
}

#[cfg(test)]
mod tests;
