//! Texts that readers get instead of an empty summary: why it is empty, and what to do.

use crate::domain::number::grouped;

/// The option that shows a summary soon: a window that a short conversation overflows.
const SMALL_WINDOW: &str = "--set window.budget_tokens=4000";

/// How full a window is, if nothing has left it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFill {
    /// Tokens of the window.
    pub tokens: i64,
    /// Budget of the window; 0 for no limit.
    pub budget_tokens: i64,
}

impl WindowFill {
    /// Says why there is no summary, and which option shows one soon.
    pub fn hint(self) -> String {
        self.hint_with(SMALL_WINDOW)
    }

    /// Like [`Self::hint`], with another option.
    pub fn hint_with(self, option: &str) -> String {
        let tokens = grouped(self.tokens);
        if self.budget_tokens > 0 {
            let budget = grouped(self.budget_tokens);
            format!("nothing has left the window yet: {tokens} of {budget} tokens; try {option}")
        } else {
            format!("nothing has left the window yet: {tokens} tokens, and no limit to them; try {option}")
        }
    }
}

/// Returns the text instead of an empty project document. `has_past` is true if anything has left the windows of the project's agents.
pub fn in_place_of_shared(has_past: bool) -> &'static str {
    if has_past { NOTHING_SHOWN } else { "(no summary yet: nothing has left the windows of its agents)" }
}

/// Stands for a document whose requested size is too small for any line.
pub const NOTHING_SHOWN: &str =
    "(nothing of the summary is shown: what has left the window is archived, and recall finds it)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_the_fill_and_an_option() {
        let fill = |tokens, budget_tokens| WindowFill { tokens, budget_tokens };
        assert_eq!(
            fill(812, 100_000).hint(),
            "nothing has left the window yet: 812 of 100,000 tokens; try --set window.budget_tokens=4000"
        );
        assert_eq!(
            fill(812, 0).hint_with("--budget 400"),
            "nothing has left the window yet: 812 tokens, and no limit to them; try --budget 400"
        );
    }
}
