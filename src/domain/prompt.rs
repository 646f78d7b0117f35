//! What a model is told: the instructions, and the exchanges as fenced, untrusted data.

/// A prompt: instructions in the system role only, material in the user role only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Who the model is and what it must do.
    pub system: String,
    /// The material, fenced.
    pub user: String,
}
