//! Counting tokens: the seam to a tokenizer, and the tokens of a message.

use super::{
    attachment::Extent,
    message::{Kind, Message, Part},
    number::i64_or_max,
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
/// Characters of a sealed text (base64 of an encrypted one) per token of what is sealed: four characters carry three
/// bytes, and four bytes of a text are about one token. A guess: nobody but the vendor can read it.
const SEALED_CHARS_PER_TOKEN: i64 = 5;
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
        Part::Text(text) | Part::Thinking(text) | Part::ToolResult { text, .. } => counter.count(text),
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
        count_sealed(sealed).saturating_add(counter.count(open))
    });
    rest.fold(head, i64::saturating_add)
}

/// Tokens of a text that only its provider can read.
pub fn count_sealed(sealed: &str) -> i64 {
    i64_or_max(sealed.len()) / SEALED_CHARS_PER_TOKEN
}

/// One token per character: tests say what a message costs.
#[cfg(test)]
pub(crate) struct Characters;

#[cfg(test)]
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
