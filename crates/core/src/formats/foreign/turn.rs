//! Writes a turn of a conversation as messages of OpenAI's chat. A turn may have a model's words, its calls and their results in several
//! rounds. Each round becomes an assistant's message and the results after it.

use serde_json::{Value, value::RawValue};

use super::super::json;

/// A call of a tool.
#[derive(Default)]
pub(super) struct ForeignCall<'a> {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// An object, or its JSON as a string.
    pub(super) arguments: Option<&'a RawValue>,
}

/// The result of a tool call.
#[derive(Default)]
pub(super) struct ForeignResult {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// JSON: a string, or what the tool returned.
    pub(super) content: Option<String>,
    pub(super) is_error: bool,
}

/// A turn whose messages are being written.
#[derive(Default)]
pub(super) struct TurnWriter {
    role: String,
    pub(super) id: Option<String>,
    /// The time, as JSON: a text, or seconds or milliseconds since 1970.
    at: Option<String>,
    speaker: Option<String>,
    blocks: Vec<String>,
    thoughts: Vec<String>,
    calls: Vec<String>,
    results: Vec<String>,
    messages: Vec<String>,
}

impl TurnWriter {
    pub(super) fn new(role: &str) -> Self {
        Self { role: role.to_owned(), ..Self::default() }
    }

    #[must_use]
    pub(super) fn with_role(self, role: &str) -> Self {
        Self { role: role.to_owned(), ..self }
    }

    #[must_use]
    pub(super) fn id(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }

    #[must_use]
    pub(super) fn at(self, at: Option<&RawValue>) -> Self {
        let is_time = |raw: &&RawValue| !raw.get().starts_with(['{', '[', 't', 'f']);
        Self { at: at.filter(is_time).map(|raw| raw.get().to_owned()), ..self }
    }

    #[must_use]
    pub(super) fn speaker(self, speaker: Option<String>) -> Self {
        Self { speaker, ..self }
    }

    /// Returns the turn with `text` added.
    #[must_use]
    pub(super) fn saying(mut self, text: &str) -> Self {
        self.say(text);
        self
    }

    pub(super) fn say(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.add_block(format!(r#"{{"type":"text","text":{}}}"#, quoted(text)));
        }
    }

    /// Adds a block of OpenAI's or Anthropic's content.
    pub(super) fn add_block(&mut self, block: String) {
        self.end_round_after_results();
        self.blocks.push(block);
    }

    /// Adds a file by its address, which may contain its data. OpenAI takes only images by an address elsewhere, so other files are named.
    pub(super) fn attach(&mut self, media: &str, url: &str) {
        let media = media.to_ascii_lowercase();
        if media.starts_with("image") {
            self.add_block(format!(r#"{{"type":"image_url","image_url":{{"url":{}}}}}"#, quoted(url)));
        } else if url.starts_with("data:") {
            let (_, kind) = media.split_once('/').unwrap_or_default();
            let name = quoted(&format!("file.{kind}"));
            self.add_block(format!(
                r#"{{"type":"file","file":{{"filename":{name},"file_data":{}}}}}"#,
                quoted(url)
            ));
        } else {
            self.say(&format!("[{media} at {url}]"));
        }
    }

    /// Adds a file by its data in base64.
    pub(super) fn attach_data(&mut self, media: &str, data: &str) {
        let is_address = data.starts_with("data:") || data.starts_with("http");
        if is_address {
            self.attach(media, data);
        } else {
            self.attach(media, &format!("data:{media};base64,{data}"));
        }
    }

    pub(super) fn think(&mut self, text: &str) {
        if !text.is_empty() {
            self.end_round_after_results();
            self.thoughts.push(text.to_owned());
        }
    }

    pub(super) fn call(&mut self, call: &ForeignCall<'_>) {
        let arguments = call.arguments.map(json::as_text).unwrap_or_default();
        self.calls.push(format!(
            r#"{{{}"type":"function","function":{{{}"arguments":{}}}}}"#,
            field("id", call.id.as_deref()),
            field("name", call.name.as_deref()),
            quoted(&arguments)
        ));
    }

    pub(super) fn result(&mut self, result: &ForeignResult) {
        self.results.push(format!(
            r#"{}{}{}"content":{}"#,
            field("tool_call_id", result.id.as_deref()),
            field("name", result.name.as_deref()),
            if result.is_error { r#""is_error":true,"# } else { "" },
            result.content.as_deref().unwrap_or(r#""""#)
        ));
    }

    /// Ends a round: writes its message and results, so that a later text comes after them.
    pub(super) fn end_round(&mut self) {
        // The results in a user's message answer calls of the message before, so they come first.
        if self.is_from_user() {
            self.write_results();
            self.write_content();
        } else {
            self.write_content();
            self.write_results();
        }
    }

    /// Returns the messages, in order.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.end_round();
        self.messages
    }

    fn is_from_user(&self) -> bool {
        self.role == "user"
    }

    /// Ends the round if it has results: a model's text or thought after results belongs to the next round.
    fn end_round_after_results(&mut self) {
        if !self.results.is_empty() && !self.is_from_user() {
            self.end_round();
        }
    }

    fn write_content(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        let calls = std::mem::take(&mut self.calls);
        let thoughts = std::mem::take(&mut self.thoughts).join("\n");
        if blocks.is_empty() && calls.is_empty() && thoughts.is_empty() {
            return;
        }
        let thinking = field("reasoning", Some(thoughts.as_str()).filter(|text| !text.is_empty()));
        let speaker = field("speaker", self.speaker.as_deref());
        let calls = match calls.as_slice() {
            [] => String::new(),
            calls => format!(r#","tool_calls":[{}]"#, calls.join(",")),
        };
        let content = blocks.join(",");
        let body =
            format!(r#""role":{},{speaker}{thinking}"content":[{content}]{calls}"#, quoted(&self.role));
        self.write(&body);
    }

    fn write_results(&mut self) {
        for result in std::mem::take(&mut self.results) {
            self.write(&format!(r#""role":"tool",{result}"#));
        }
    }

    /// Writes a message. The first message of a turn has the turn's id; each later one has the id with its number.
    fn write(&mut self, body: &str) {
        let number = self.messages.len();
        let id = self.id.as_ref().map(|id| match number {
            0 => id.clone(),
            _ => format!("{id}/{number}"),
        });
        let at = self.at.as_ref().map(|at| format!(r#""at":{at},"#));
        self.messages.push(format!(
            "{{{}{}{body}}}",
            field("client_id", id.as_deref()),
            at.unwrap_or_default()
        ));
    }
}

/// Returns a field with a text and a comma after it; nothing if there is no text.
pub(super) fn field(name: &str, text: Option<&str>) -> String {
    text.map(|text| format!(r#""{name}":{},"#, quoted(text))).unwrap_or_default()
}

/// Returns a text as JSON.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
