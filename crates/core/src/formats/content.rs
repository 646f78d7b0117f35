//! Reads a message's `content`: a string, a list of blocks, null, or nothing. OpenAI's two APIs and Anthropic's name their blocks
//! differently, so one reader knows all of them.

use serde_json::value::RawValue;

use super::{
    NAME_CHARS_MAX,
    json::{self, Fields},
};
use crate::domain::{
    attachment::Extent,
    message::Part,
    text::cut,
    thought::{Seal, Sealer, Thought},
};

/// The name of the tool in a call that names none.
const UNNAMED_TOOL: &str = "unknown";
/// The kind of a block that has no type and several fields.
const UNNAMED_BLOCK: &str = "unknown";
// The media types of attachments that name none.
pub(super) const IMAGE: &str = "image/*";
const VIDEO: &str = "video/*";
pub(super) const AUDIO: &str = "audio/*";
const DOCUMENT: &str = "application/octet-stream";

/// Reads the parts of a content. Blocks of unknown types become opaque, unless they have a text.
pub(super) fn parts(content: Option<&RawValue>) -> Vec<Part> {
    let Some(content) = content else { return Vec::new() };
    match json::list(content) {
        Some(blocks) => blocks.into_iter().flat_map(block).collect(),
        None => text_part(json::as_text(content)).into_iter().collect(),
    }
}

/// Makes the parts of a tool's result. Images and documents in it become parts of their own.
pub(super) fn tool_result(
    call_id: Option<String>,
    name: Option<String>,
    content: Option<&RawValue>,
    is_error: bool,
) -> Vec<Part> {
    let (text, attachments) = result_text(content);
    let result = Part::ToolResult { call_id, name, text, is_error };
    std::iter::once(result).chain(attachments).collect()
}

/// Makes a call of a tool. Arguments that are a string stay verbatim.
pub(super) fn tool_call(id: Option<String>, name: Option<String>, arguments: Option<&RawValue>) -> Part {
    Part::ToolCall {
        id,
        name: name.unwrap_or_else(|| UNNAMED_TOOL.to_owned()),
        arguments: arguments.map(json::as_text).unwrap_or_default(),
    }
}

/// Makes a text part, unless the text is empty.
pub(super) fn text_part(text: String) -> Option<Part> {
    (!text.is_empty()).then_some(Part::Text(text))
}

fn block(raw: &RawValue) -> Vec<Part> {
    let Some(block) = Fields::of(raw) else {
        return json::string(raw).and_then(text_part).into_iter().collect();
    };
    let part = match block.text("type").unwrap_or_default().as_str() {
        "tool_result" => {
            let is_error = block.flag("is_error").unwrap_or(false);
            return tool_result(block.text("tool_use_id"), None, block.raw("content"), is_error);
        }
        "tool_use" => Some(tool_call(block.text("id"), block.text("name"), block.raw("input"))),
        // Kept even without a text, since its signature belongs to the blocks around it.
        "thinking" => Some(thinking(&block, "signature")),
        // The provider sealed the text, but bills it like other thinking.
        "redacted_thinking" => Some(thinking(&block, "data")).filter(|_| block.contains("data")),
        "refusal" => block.text("refusal").and_then(text_part),
        "search_result" => search_result(&block),
        kind => attachment(&block).or_else(|| {
            let is_text = kind == "text" || block.contains("text");
            // The Assistants API has the words of a text and its notes on sources in an object.
            let inner = || block.object("text")?.text("value");
            let text = || block.text("text").or_else(inner).and_then(text_part);
            if is_text { text() } else { Some(opaque(raw, &block)) }
        }),
    };
    part.into_iter().collect()
}

/// Makes a thinking part. `seal_field` is the field with its signature or its encrypted text.
fn thinking(block: &Fields<'_>, seal_field: &str) -> Part {
    Part::Thinking(Thought {
        text: block.text("thinking").unwrap_or_default(),
        seal: Seal::of(Sealer::Anthropic, &block.text(seal_field).unwrap_or_default()),
    })
}

/// Makes a text from a result of the client's own search, with its title and source.
fn search_result(block: &Fields<'_>) -> Option<Part> {
    let head = [block.text("title"), block.text("source")];
    let text = result_text(block.raw("content")).0;
    let lines = head.into_iter().flatten().chain([text]);
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    text_part(lines.join("\n"))
}

/// Makes an opaque part from a block. Its kind is the block's type or, without one, the name of its only field.
pub(super) fn opaque(raw: &RawValue, block: &Fields<'_>) -> Part {
    let sole = || Some(Fields::of(raw)?.sole()?.0);
    let kind = block.text("type").or_else(|| block.text("block_type")).or_else(sole);
    Part::Opaque {
        kind: cut(kind.as_deref().unwrap_or(UNNAMED_BLOCK), NAME_CHARS_MAX),
        json: json::as_text(raw),
    }
}

/// Makes an attachment from an image, a film, a sound or a document. A document of plain text becomes a text.
fn attachment(block: &Fields<'_>) -> Option<Part> {
    Some(match block.text("type")?.as_str() {
        "image" => attachment_from_source(block, IMAGE),
        "image_url" | "input_image" | "computer_screenshot" => {
            attachment_from_url(url(block, "image_url"), IMAGE)
        }
        "video_url" => attachment_from_url(url(block, "video_url"), VIDEO),
        "audio_url" => attachment_from_url(url(block, "audio_url"), AUDIO),
        "input_audio" => unmeasured(audio_media(block)),
        "file" => attachment_from_url(file_data(block), DOCUMENT),
        "input_file" => attachment_from_url(block.text("file_data"), DOCUMENT),
        "document" => match document_text(block) {
            Some(text) => return text_part(text),
            None => attachment_from_source(block, DOCUMENT),
        },
        _ => return None,
    })
}

/// Makes an attachment whose media type alone is known.
pub(super) fn unmeasured(media: impl Into<String>) -> Part {
    Part::Attachment { media: media.into(), extent: Extent::Unknown }
}

/// Makes an attachment, and measures its data, if present. Measures the raw JSON without copying it, since base64 needs no escapes; only
/// if a writer has escaped its slashes, the data are unescaped first.
pub(super) fn measured(media: impl Into<String>, data: Option<&RawValue>) -> Part {
    let extent = |data: &RawValue| {
        let is_escaped = data.get().contains('\\');
        let plain = is_escaped.then(|| json::string(data)).flatten();
        Extent::of(plain.as_deref().unwrap_or(data.get().trim_matches('"')))
    };
    Part::Attachment { media: media.into(), extent: data.map_or(Extent::Unknown, extent) }
}

/// Makes an attachment from a block with a `source`, as Anthropic's images and documents have.
fn attachment_from_source(block: &Fields<'_>, default_media: &str) -> Part {
    let Some(source) = block.object("source") else {
        return unmeasured(default_media);
    };
    let media = source.text("media_type");
    measured(media.unwrap_or_else(|| default_media.to_owned()), source.raw("data"))
}

/// Makes an attachment from a URL, which may be a `data:` URL with the data in it.
pub(super) fn attachment_from_url(url: Option<String>, default_media: &str) -> Part {
    let url = url.unwrap_or_default();
    Part::Attachment { media: data_url_media(&url, default_media), extent: Extent::of_url(&url) }
}

fn document_text(block: &Fields<'_>) -> Option<String> {
    let source = block.object("source")?;
    match source.text("type")?.as_str() {
        "text" => source.text("data"),
        "content" => Some(result_text(source.raw("content")).0),
        _ => None,
    }
}

fn url(block: &Fields<'_>, name: &str) -> Option<String> {
    let object = block.object(name).and_then(|inner| inner.text("url"));
    object.or_else(|| block.text(name))
}

fn file_data(block: &Fields<'_>) -> Option<String> {
    block.object("file")?.text("file_data")
}

fn audio_media(block: &Fields<'_>) -> String {
    let format = block.object("input_audio").and_then(|audio| audio.text("format"));
    format.map_or_else(|| AUDIO.to_owned(), |format| format!("audio/{format}"))
}

/// Returns the media type in a `data:` URL (RFC 2397), or else `default_media`.
fn data_url_media(url: &str, default_media: &str) -> String {
    url.strip_prefix("data:")
        .and_then(|url| url.split([';', ',']).next())
        .filter(|media| !media.is_empty())
        .unwrap_or(default_media)
        .to_owned()
}

/// Returns a result as text: blocks joined by line feeds, anything else as compact JSON. Returns its images, documents and sealed blocks
/// separately.
fn result_text(content: Option<&RawValue>) -> (String, Vec<Part>) {
    let Some(content) = content else {
        return (String::new(), Vec::new());
    };
    let Some(blocks) = json::list(content).filter(|blocks| is_block_list(blocks)) else {
        return match Fields::of(content).as_ref().and_then(attachment) {
            Some(Part::Text(text)) => (text, Vec::new()),
            Some(part) => (String::new(), vec![part]),
            None => (json::as_text(content), Vec::new()),
        };
    };
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    for raw in blocks {
        let block = Fields::of(raw);
        let sealed = block.as_ref().filter(|block| is_sealed(block));
        match sealed.map(|block| opaque(raw, block)).or_else(|| attachment(block.as_ref()?)) {
            Some(Part::Text(text)) => texts.push(text),
            Some(part) => attachments.push(part),
            None => texts.push(block_text(raw, block.as_ref())),
        }
    }
    (texts.join("\n"), attachments)
}

/// Returns true for a block that only its provider can read. Tool results in Codex rollouts have such blocks.
fn is_sealed(block: &Fields<'_>) -> bool {
    block.text("type").as_deref() == Some("encrypted_content")
}

/// Returns true for a list of blocks, false for a list that is itself the tool's result, as JSON.
fn is_block_list(blocks: &[&RawValue]) -> bool {
    blocks.iter().all(|raw| {
        json::string(raw).is_some() || Fields::of(raw).is_some_and(|block| block.text("type").is_some())
    })
}

fn block_text(raw: &RawValue, block: Option<&Fields<'_>>) -> String {
    block
        .filter(|block| block.text("type").is_some_and(|kind| kind.ends_with("text")))
        .and_then(|block| json::string(block.raw("text")?))
        .unwrap_or_else(|| json::as_text(raw))
}
