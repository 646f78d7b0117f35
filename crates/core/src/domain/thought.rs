//! The reasoning of a model: the text that its provider shows, and a sealed part that only the provider can read.

/// One reasoning of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thought {
    /// The readable text: all of it, a summary, or nothing.
    pub text: String,
    /// The whole reasoning, in a form that only its provider can read.
    pub seal: Option<Seal>,
}

/// A text that only its provider can read: base64 of encrypted data. [`super::tokens::count_sealed`] estimates its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Who sealed it.
    pub sealer: Sealer,
    /// The length in base64 characters.
    pub chars: usize,
}

/// Who seals reasoning, as far as the methods differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealer {
    /// OpenAI: `encrypted_content` of reasoning and of compactions.
    OpenAi,
    /// Anthropic: `signature` of thinking, `data` of redacted thinking.
    Anthropic,
    /// Any other provider, and sealed data other than thinking, such as pages found by a search.
    Other,
}

impl Seal {
    /// Makes a seal of `base64`; `None` if it is empty.
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
