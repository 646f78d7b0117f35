//! Makes providers' messages safe for logs: short, on one line, without the key and without the prompt.

use recapd_core::domain::text::{cut, one_line};

const MESSAGE_CHARS_MAX: usize = 300;
const WORD_CHARS_MAX: usize = 80;
/// This many consecutive characters of the prompt count as a quotation.
const QUOTED_CHARS: usize = 24;

#[derive(Clone, Copy)]
pub(super) struct Discreet<'a> {
    pub(super) provider: &'static str,
    pub(super) key: Option<&'a str>,
    /// The prompt; no message may quote a part of it.
    pub(super) material: &'a str,
}

impl Discreet<'_> {
    /// Cleans a provider's message. Some servers repeat the key that they refuse, or the field of the request that they can't
    /// read.
    pub(super) fn message(self, text: &str) -> String {
        self.clean(text, MESSAGE_CHARS_MAX)
    }

    /// Cleans a code or an id.
    pub(super) fn word(self, text: &str) -> String {
        self.clean(text, WORD_CHARS_MAX)
    }

    fn clean(self, text: &str, chars_max: usize) -> String {
        let keyless = match self.key.filter(|key| !key.is_empty()) {
            Some(key) => text.replace(key, "[key]"),
            None => text.to_owned(),
        };
        let text = cut(&one_line(&keyless), chars_max);
        if self.quotes_prompt(&text) { "(left out, it quotes the prompt)".to_owned() } else { text }
    }

    fn quotes_prompt(self, text: &str) -> bool {
        let starts: Vec<usize> = text.char_indices().map(|(index, _)| index).chain([text.len()]).collect();
        starts
            .windows(QUOTED_CHARS + 1)
            .filter_map(|window| text.get(*window.first()?..*window.last()?))
            .any(|quote| self.material.contains(quote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_quotations_of_the_prompt_are_removed() {
        let discreet = Discreet {
            provider: "openai",
            key: Some("sk-secret"),
            material: "USER: My password is hunter2, please remember it.",
        };
        for (said, expected) in [
            ("Rate limit reached.\n Wait.", "Rate limit reached. Wait."),
            ("Incorrect API key provided: sk-secret.", "Incorrect API key provided: [key]."),
            ("bad input: 'password is hunter2, please'", "(left out, it quotes the prompt)"),
            ("hunter2 is short", "hunter2 is short"),
        ] {
            assert_eq!(discreet.message(said), expected);
        }
        assert_eq!(discreet.message(&"long ".repeat(1_000)).chars().count(), 300);
        assert_eq!(discreet.word(&"x".repeat(1_000)).chars().count(), 80);
    }
}
