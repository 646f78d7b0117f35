//! Counts the tokens of messages, with any tokenizer.

use super::{
    attachment::Extent,
    message::{Kind, Message, Part},
    number::i64_or_max,
    thought::{Seal, Sealer, Thought},
};

/// Tokens of each message besides its content: its role and separators (OpenAI's chat format: 3, and the role).
pub const MESSAGE_OVERHEAD_TOKENS: i64 = 4;
/// Tokens of a tool call besides its name and arguments.
pub const TOOL_CALL_OVERHEAD_TOKENS: i64 = 3;
/// Tokens assumed for an image or a document of unknown size: the cap of older Claude models for an image (provider documentation,
/// "Vision").
pub const ATTACHMENT_TOKENS: i64 = 1_568;
/// Tokens assumed for a page of a document: at most 3,000 of its text (usually 1,500 to 3,000), or fewer with the page as an image.
pub const PAGE_TOKENS: i64 = 3_000;
/// The side of an image's patch in pixels. Claude's value, used for unknown models.
const IMAGE_PATCH: u32 = 28;
/// Limits an image to this many patches, with a token each. Claude's value, used for unknown models.
const IMAGE_TOKENS_MAX: i64 = 4_784;
/// If a sealed text has more than this many times the tokens of the shown text, the shown text is only a summary of it.
const SUMMARY_TIMES: i64 = 2;
/// Precedes a sealed text in compact JSON. In a string its quotation marks would be escaped.
const SEALED_FIELD: &str = "\"encrypted_content\":\"";

/// Counts tokens. Implementations take time linear in the text's length, even on adversarial input.
pub trait TokenCounter: Send + Sync {
    /// Counts the tokens of `text`.
    fn count(&self, text: &str) -> i64;

    /// Estimates the tokens of an image or a document, by its media type and its size.
    fn count_attachment(&self, _media: &str, extent: Extent) -> i64 {
        match extent {
            Extent::Unknown => ATTACHMENT_TOKENS,
            Extent::Pixels(size) => size.cells(IMAGE_PATCH).min(IMAGE_TOKENS_MAX),
            Extent::Pages(pages) => i64::from(pages) * PAGE_TOKENS,
        }
    }

    /// Returns the name of the counting method, which is stored with each count: `o200k`, `o200k*claude`, `bytes/3`. A guard adds its
    /// factor: `o200k*claude×1.12`.
    fn method(&self) -> &str;

    /// Returns true if it counts exactly like the provider, so that it needs no calibration.
    fn is_exact(&self) -> bool {
        false
    }

    /// Removes a guard's factor from a count. Calibration needs the count without it.
    fn without_guard(&self, tokens: i64) -> i64 {
        tokens
    }
}

/// Counts the tokens of a message. Only its content counts. Ids, times, braces and metadata are free, since no model sees them.
pub fn count_message(counter: &dyn TokenCounter, message: &Message) -> i64 {
    if let Kind::Metadata(_) = message.kind {
        return 0;
    }
    message.parts.iter().map(|part| count_part(counter, part)).sum::<i64>() + MESSAGE_OVERHEAD_TOKENS
}

/// Counts the tokens of one part of a message.
pub fn count_part(counter: &dyn TokenCounter, part: &Part) -> i64 {
    match part {
        Part::Text(text) | Part::ToolResult { text, .. } => counter.count(text),
        Part::Thinking(thought) => count_thought(counter, thought),
        Part::ToolCall { name, arguments, .. } => {
            counter.count(name) + counter.count(arguments) + TOOL_CALL_OVERHEAD_TOKENS
        }
        Part::Attachment { media, extent } => counter.count_attachment(media, *extent),
        Part::Opaque { json, .. } => count_opaque(counter, json),
    }
}

/// Counts the tokens of a block that only its provider can read, by its compact JSON.
pub fn count_opaque(counter: &dyn TokenCounter, json: &str) -> i64 {
    let mut pieces = json.split(SEALED_FIELD);
    let head = pieces.next().map_or(0, |open| counter.count(open));
    let rest = pieces.map(|piece| {
        let (sealed, open) = piece.split_once('"').unwrap_or((piece, ""));
        let sealed = Seal::of(Sealer::Other, sealed).map_or(0, count_sealed);
        sealed.saturating_add(counter.count(open))
    });
    rest.fold(head, i64::saturating_add)
}

/// Counts the tokens of a model's reasoning, as a provider charges them when the reasoning goes back to it.
///
/// OpenAI's seal replaces the shown text, which is a summary. Anthropic's seal contains the shown text itself. That text is counted like
/// any other, unless the seal is so much longer that the shown text can only be a summary.
pub fn count_thought(counter: &dyn TokenCounter, thought: &Thought) -> i64 {
    let text_tokens = counter.count(&thought.text);
    let Some(seal) = thought.seal else {
        return text_tokens;
    };
    let sealed_tokens = count_sealed(seal);
    if seal.sealer == Sealer::OpenAi || sealed_tokens > text_tokens.saturating_mul(SUMMARY_TIMES) {
        sealed_tokens
    } else {
        text_tokens
    }
}

/// Estimates the tokens of a text that only its provider can read.
///
/// Providers report the counts of some sealed texts. By these, a seal has a fixed number of characters plus some characters per token.
///
/// - OpenAI: `encrypted_content` of 270 reasonings, compared with `reasoning_output_tokens` of their responses in nine Codex rollouts
///   (GPT-5.3 Codex, 5.4, 5.5 and three of 5.6; 6 to 9,823 tokens a response). The sum of each rollout is within 9 %. The next request's
///   `input_tokens` grow by the same amount. Codex itself assumes 650 bytes and 4 bytes a token (`estimate_reasoning_length` in its
///   `context_manager/history.rs`), which gives 30 % more.
/// - Anthropic: `signature` of hidden thinking, compared with its share of `output_tokens` in two transcripts of Opus 4.7. The next
///   request's input grows by the same output. The median is 3 % and 7 % too low. Where thinking is shown (Sonnet 4 and 4.5), a signature
///   has 235 characters, and four more for each three bytes of the text.
/// - Others: a guess. Four characters of base64 hold three bytes, and four bytes of text are about one token. Of Gemini's signatures only
///   those of thoughts count. Gemini's documentation says that they are charged when they go back; users report that they aren't
///   (googleapis/python-genai#1129).
pub fn count_sealed(seal: Seal) -> i64 {
    let (wrapping_chars, chars_per_10_tokens) = match seal.sealer {
        Sealer::OpenAi => (920, 64),
        Sealer::Anthropic => (200, 35),
        Sealer::Other => (0, 50),
    };
    let chars = seal.chars.saturating_sub(wrapping_chars);
    i64_or_max(chars).saturating_mul(10) / chars_per_10_tokens
}

/// Counts one token per character, for tests.
#[cfg(any(test, feature = "fixtures"))]
pub struct Characters;

#[cfg(any(test, feature = "fixtures"))]
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> i64 {
        i64_or_max(text.chars().count())
    }

    fn method(&self) -> &'static str {
        "characters"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real reasoning: the characters of base64, and the tokens that its provider reports.
    #[test]
    fn a_seal_costs_what_its_provider_says() {
        for (sealer, chars, tokens) in [
            (Sealer::OpenAi, 1_164, 44),
            (Sealer::OpenAi, 1_636, 114),
            (Sealer::OpenAi, 2_808, 299),
            (Sealer::OpenAi, 4_812, 569),
            (Sealer::OpenAi, 16_824, 2_198),
            (Sealer::Anthropic, 1_608, 372),
            (Sealer::Anthropic, 9_584, 2_735),
        ] {
            let counted = count_sealed(Seal { sealer, chars });
            assert!((counted - tokens).abs() * 7 <= tokens, "{chars}: {counted}");
        }
        let small = Seal::of(Sealer::OpenAi, "gAAAAA");
        assert_eq!(small.map(count_sealed), Some(0));
        assert_eq!(Seal::of(Sealer::Anthropic, " "), None);
    }

    #[test]
    fn a_thought_costs_its_text_or_its_seal() {
        let thought = |text: &str, sealer: Sealer, tokens: usize| {
            let wrapped =
                |wrapping, per_10_tokens| Seal { sealer, chars: wrapping + tokens * per_10_tokens / 10 };
            let seal = match sealer {
                Sealer::OpenAi => wrapped(920, 64),
                Sealer::Anthropic => wrapped(200, 35),
                Sealer::Other => wrapped(0, 50),
            };
            let text = text.to_owned();
            count_thought(&Characters, &Thought { text, seal: Some(seal) })
        };
        assert_eq!(count_thought(&Characters, &"ten chars.".to_owned().into()), 10);
        // A summary next to the sealed whole, and the whole next to its seal.
        assert_eq!(thought("ten chars.", Sealer::OpenAi, 200), 200);
        assert_eq!(thought("ten chars.", Sealer::OpenAi, 5), 5);
        assert_eq!(thought("ten chars.", Sealer::Anthropic, 200), 200);
        assert_eq!(thought("ten chars.", Sealer::Anthropic, 14), 10);
        assert_eq!(thought("", Sealer::Anthropic, 14), 14);
    }

    #[test]
    fn a_sealed_text_has_fewer_tokens_than_characters() {
        let cases = [
            ("", 0),
            (r#"{"type":"novel"}"#, 16),
            // `[{`, `,"url":"u"},{` and `}]`: 2 + 13 + 2; sealed: 20 / 5 and 5 / 5.
            (
                r#"[{"encrypted_content":"aaaaaaaaaaaaaaaaaaaa","url":"u"},{"encrypted_content":"bbbbb"}]"#,
                2 + 4 + 13 + 1 + 2,
            ),
            // A text that mentions such a field isn't one.
            (r#"{"text":"\"encrypted_content\":\"aaaaa\""}"#, 42),
            // Incomplete JSON.
            (r#"{"encrypted_content":"aaaaa"#, 1 + 1),
        ];
        for (json, tokens) in cases {
            assert_eq!(count_opaque(&Characters, json), tokens, "{json}");
        }
    }
}
