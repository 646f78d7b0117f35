//! Finds the vendor of a model by the names of provider and model. Has the factors between the vendor's tokenizer and o200k.

use super::TextKind;

/// The maker of a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    /// OpenAI's encodings are public, so counts are exact.
    OpenAi {
        /// True for the older encoding, that of GPT-4 and GPT-3.5.
        is_cl100k: bool,
    },
    /// Claude has two tokenizers; neither is public.
    Anthropic {
        /// True for the tokenizer that came with Opus 4.7.
        is_newer: bool,
    },
    /// Gemini has the vocabulary of Gemma 3.
    Google,
    /// Llama, Qwen, `DeepSeek`, Mistral, GLM or Kimi on the user's own server.
    Local,
}

/// How many tokens 100 tokens of o200k are for a vendor, by the kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factors {
    prose: i64,
    dense: i64,
    cjk: i64,
    other_script: i64,
}

impl Factors {
    pub(super) fn percent(self, kind: TextKind) -> i64 {
        match kind {
            TextKind::Prose => self.prose,
            TextKind::Dense => self.dense,
            TextKind::Cjk => self.cjk,
            TextKind::OtherScript => self.other_script,
        }
    }
}

impl Vendor {
    /// Returns the vendor of a provider's model, whose name may have a router's prefix (`anthropic/claude-…`). Returns `None` for an
    /// unknown provider.
    pub(super) fn of(provider: &str, model: &str) -> Option<Self> {
        let model = bare(model);
        Some(match provider {
            "openai" => Self::OpenAi { is_cl100k: is_cl100k(model) },
            "anthropic" => Self::Anthropic { is_newer: !is_older_claude(model) },
            "google" | "gemini" => Self::Google,
            "local" | "ollama" | "llama.cpp" | "vllm" => Self::Local,
            _ => return None,
        })
    }

    /// Returns the vendor's factors, rounded up so that counts are rather too high.
    ///
    /// - Google and local models: measured with the vocabularies themselves. Gemma 3: documentation 1.11, JSON 1.18, code 1.21, multilingual
    ///   0.88. Llama 3, Qwen 3, `DeepSeek` V3 and Mistral v3: 0.99 to 1.10, multilingual up to 1.26. GLM: 1.29.
    /// - Claude's older tokenizer: from users' reports.
    /// - Claude's newer tokenizer: from Anthropic's figures, which are 1.0 to 1.35 times the older tokenizer's counts, and by the kind of text
    ///   1.45 on English, 1.13 to 1.33 on code and logs, and 1.00 on CJK.
    ///
    /// Calibration corrects the factors from what providers report.
    pub(super) fn factors(self) -> Factors {
        let factors = |prose, dense, cjk, other_script| Factors { prose, dense, cjk, other_script };
        match self {
            Self::OpenAi { .. } => factors(100, 100, 100, 100),
            Self::Anthropic { is_newer: false } => factors(125, 125, 125, 125),
            Self::Anthropic { is_newer: true } => factors(165, 165, 125, 165),
            Self::Google => factors(115, 122, 100, 100),
            Self::Local => factors(110, 110, 130, 130),
        }
    }

    /// Returns the name of the method that multiplies o200k's count by the factors.
    #[cfg(feature = "tokenizer")]
    pub(super) fn factor_method(self) -> &'static str {
        match self {
            Self::OpenAi { .. } => "o200k",
            Self::Anthropic { is_newer: false } => "o200k*claude",
            Self::Anthropic { is_newer: true } => "o200k*claude-4.7",
            Self::Google => "o200k*gemini",
            Self::Local => "o200k*local",
        }
    }

    /// Returns the name of the method that multiplies the estimate of o200k by the factors.
    #[cfg(not(feature = "tokenizer"))]
    pub(super) fn estimate_method(self) -> &'static str {
        match self {
            Self::OpenAi { .. } => "estimate",
            Self::Anthropic { is_newer: false } => "estimate*claude",
            Self::Anthropic { is_newer: true } => "estimate*claude-4.7",
            Self::Google => "estimate*gemini",
            Self::Local => "estimate*local",
        }
    }
}

/// Returns a model's name without a router's prefix.
pub(super) fn bare(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

/// Returns true if the model's encoding is known. A model behind an API like OpenAI's may be another vendor's, whose encoding isn't.
#[cfg(feature = "tokenizer")]
pub(super) fn has_known_encoding(model: &str) -> bool {
    const KNOWN: [&str; 9] = ["gpt-3.5", "gpt-4", "gpt-5", "gpt-oss", "chatgpt-", "codex-", "o1", "o3", "o4"];
    KNOWN.iter().any(|prefix| bare(model).starts_with(prefix))
}

fn is_cl100k(model: &str) -> bool {
    (model.starts_with("gpt-4") && !model.starts_with("gpt-4o") && !model.starts_with("gpt-4."))
        || model.starts_with("gpt-3.5")
}

fn is_older_claude(model: &str) -> bool {
    const OLDER: [&str; 9] = [
        "claude-2",
        "claude-3",
        "claude-opus-4-0",
        "claude-opus-4-1",
        "claude-opus-4-2",
        "claude-opus-4-5",
        "claude-opus-4-6",
        "claude-sonnet-4",
        "claude-haiku-4",
    ];
    OLDER.iter().any(|prefix| model.starts_with(prefix))
}
