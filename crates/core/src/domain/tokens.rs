//! Counting tokens: the seam to a tokenizer, and the tokens of a message.

use super::{
    attachment::Extent,
    message::{Kind, Message, Part},
    number::i64_or_max,
    thought::{Seal, Sealer, Thought},
};

/// Tokens of each message beside its content: role and separators (OpenAI's chat format, 3 and the role).
pub const MESSAGE_OVERHEAD_TOKENS: i64 = 4;
/// Tokens of a tool call beside its name and arguments.
pub const TOOL_CALL_OVERHEAD_TOKENS: i64 = 3;
/// Tokens assumed for an image or a document of which nothing is known: the cap of older Claude models for an image
/// (provider documentation, "Vision").
pub const ATTACHMENT_TOKENS: i64 = 1_568;
/// Tokens assumed for a page of a document: the most of its text, 1,500 to 3,000 as a rule, or less of it and the page as
/// an image.
pub const PAGE_TOKENS: i64 = 3_000;
/// Pixels of a side of a patch of an image, and the most patches: Claude's, where nobody says whose model it is.
const IMAGE_PATCH: u32 = 28;
const IMAGE_TOKENS_MAX: i64 = 4_784;
/// What is sealed is more than a summary of it by at least this factor.
const SUMMARY_TIMES: i64 = 2;
/// What stands before a sealed text in compact JSON. Within a string the quotation marks would be escaped.
const SEALED_FIELD: &str = "\"encrypted_content\":\"";

/// Counts the tokens of a text. Implementations are linear in the text's length, also on adversarial input.
pub trait TokenCounter: Send + Sync {
    /// Tokens of `text`.
    fn count(&self, text: &str) -> i64;

    /// Tokens of an image or a document, by its media type and its extent.
    fn count_attachment(&self, _media: &str, extent: Extent) -> i64 {
        match extent {
            Extent::Unknown => ATTACHMENT_TOKENS,
            Extent::Pixels(size) => size.cells(IMAGE_PATCH).min(IMAGE_TOKENS_MAX),
            Extent::Pages(pages) => i64::from(pages) * PAGE_TOKENS,
        }
    }

    /// How this counter counts, as stored beside each count: `o200k`, `o200k*claude`, `bytes/3`, and with the factor of
    /// a guard `o200k*claude×1.12`.
    fn method(&self) -> &str;

    /// Whether it counts exactly as the provider does, so that nothing has to be learned about it.
    fn is_exact(&self) -> bool {
        false
    }

    /// `tokens` that it counted, without the factor of a guard: the estimate that calibration learns about.
    fn plain(&self, tokens: i64) -> i64 {
        tokens
    }
}

/// Tokens of a message, by its content and not by its wire bytes: ids, timestamps and braces that no model sees
/// are free, and so is metadata.
pub fn count_message(counter: &dyn TokenCounter, message: &Message) -> i64 {
    if let Kind::Metadata(_) = message.kind {
        return 0;
    }
    message
        .parts
        .iter()
        .map(|part| count_part(counter, part))
        .sum::<i64>()
        + MESSAGE_OVERHEAD_TOKENS
}

/// Tokens of one piece of a message's content.
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

/// Tokens of a block that only its provider reads, by its compact JSON.
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

/// Tokens of what a model thought, as they are paid for when it goes back to its provider.
///
/// OpenAI's seal stands for the text beside it, which is a summary. Anthropic's holds what the text says, which is counted
/// as every text is, unless that is so much shorter that it can only be a summary, too.
pub fn count_thought(counter: &dyn TokenCounter, thought: &Thought) -> i64 {
    let told = counter.count(&thought.text);
    let Some(seal) = thought.seal else { return told };
    let sealed = count_sealed(seal);
    if seal.sealer == Sealer::OpenAi || sealed > told.saturating_mul(SUMMARY_TIMES) {
        sealed
    } else {
        told
    }
}

/// Tokens of a text that only its provider can read.
///
/// Nobody else can count them, but providers say what they were: the length of a seal is a fixed wrapping and a number of
/// characters for each token.
///
/// - OpenAI: `encrypted_content` of 270 reasonings, beside the `reasoning_output_tokens` that nine Codex rollouts state for
///   the responses they come from (GPT-5.3 Codex, 5.4, 5.5 and three of 5.6; 6 to 9,823 tokens a response): each rollout's
///   sum is met within 9 %. The next request's `input_tokens` grow by as much. Codex itself has 650 bytes and 4 bytes a
///   token (`estimate_reasoning_length` in its `context_manager/history.rs`), which is a quarter more.
/// - Anthropic: `signature` of thinking that isn't shown, beside what `output_tokens` leave for it in two transcripts of
///   Opus 4.7, by whose output the next request's input grows, too; the median is 3 % and 7 % too low. Where the thinking is
///   shown (Sonnet 4 and 4.5), signatures are 235 characters and four for each three bytes of it.
/// - Others: a guess. Four characters of base64 carry three bytes, and four bytes of a text are about one token. Of Gemini's
///   signatures only those of thoughts count: its documentation says that they are paid for when they go back, users report
///   that they aren't (googleapis/python-genai#1129).
pub fn count_sealed(seal: Seal) -> i64 {
    let (wrapping_chars, chars_per_10_tokens) = match seal.sealer {
        Sealer::OpenAi => (920, 64),
        Sealer::Anthropic => (200, 35),
        Sealer::Other => (0, 50),
    };
    let chars = seal.chars.saturating_sub(wrapping_chars);
    i64_or_max(chars).saturating_mul(10) / chars_per_10_tokens
}

/// One token per character: tests say what a message costs.
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

    /// Of real reasoning: characters of base64, and the tokens that its provider says it had.
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
    fn a_thought_costs_what_is_told_of_it_or_what_is_sealed() {
        let thought = |text: &str, sealer: Sealer, tokens: usize| {
            let wrapped = |wrapping, per_10_tokens| Seal {
                sealer,
                chars: wrapping + tokens * per_10_tokens / 10,
            };
            let seal = match sealer {
                Sealer::OpenAi => wrapped(920, 64),
                Sealer::Anthropic => wrapped(200, 35),
                Sealer::Other => wrapped(0, 50),
            };
            let text = text.to_owned();
            count_thought(
                &Characters,
                &Thought {
                    text,
                    seal: Some(seal),
                },
            )
        };
        assert_eq!(count_thought(&Characters, &"ten chars.".to_owned().into()), 10);
        // A summary beside the whole, and the whole beside its seal.
        assert_eq!(thought("ten chars.", Sealer::OpenAi, 200), 200);
        assert_eq!(thought("ten chars.", Sealer::OpenAi, 5), 5);
        assert_eq!(thought("ten chars.", Sealer::Anthropic, 200), 200);
        assert_eq!(thought("ten chars.", Sealer::Anthropic, 14), 10);
        assert_eq!(thought("", Sealer::Anthropic, 14), 14);
    }

    #[test]
    fn what_is_sealed_stands_for_less_than_its_characters() {
        let cases = [
            ("", 0),
            (r#"{"type":"novel"}"#, 16),
            // `[{`, `,"url":"u"},{` and `}]`: 2 + 13 + 2; sealed: 20 / 5 and 5 / 5.
            (
                r#"[{"encrypted_content":"aaaaaaaaaaaaaaaaaaaa","url":"u"},{"encrypted_content":"bbbbb"}]"#,
                2 + 4 + 13 + 1 + 2,
            ),
            // A text that tells of such a field isn't one.
            (r#"{"text":"\"encrypted_content\":\"aaaaa\""}"#, 42),
            // Broken off.
            (r#"{"encrypted_content":"aaaaa"#, 1 + 1),
        ];
        for (json, tokens) in cases {
            assert_eq!(count_opaque(&Characters, json), tokens, "{json}");
        }
    }
}
