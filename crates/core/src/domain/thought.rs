//! What a model thought: a text as far as its provider tells it, and what only the provider can read.

/// What a model thought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thought {
    /// What can be read of it: all of it, a summary, or nothing.
    pub text: String,
    /// The same, whole, as only its provider can read it.
    pub seal: Option<Seal>,
}

/// A text that only its provider can read: base64 of an encrypted one. What it costs, `tokens::count_sealed` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Who sealed it.
    pub sealer: Sealer,
    /// Its length in base64.
    pub chars: usize,
}

/// Who seals what a model thought, as far as their ways of doing so differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealer {
    /// OpenAI: `encrypted_content` of reasoning and of compactions.
    OpenAi,
    /// Anthropic: `signature` of thinking, `data` of redacted thinking.
    Anthropic,
    /// Anyone else, and what isn't thinking, such as pages that a search has found.
    Other,
}

impl Seal {
    /// The seal that is `base64`, unless there is nothing in it.
    pub fn of(sealer: Sealer, base64: &str) -> Option<Self> {
        let chars = base64.trim().len();
        (chars > 0).then_some(Self { sealer, chars })
    }
}

impl From<String> for Thought {
    fn from(text: String) -> Self {
        Self { text, seal: None }
    }
}
