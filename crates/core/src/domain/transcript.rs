//! Transcripts: exchanges as a summariser reads them. They have texts with their speakers, tool calls and results. Long texts are cut to
//! head and tail. Thinking is left out (provider documentation: never feed reasoning to a summariser).

mod pairs;
mod reminders;

use std::borrow::Cow;

use self::{pairs::LinkedLine, reminders::without_reminders};
use super::{
    effects::Effects,
    exchange::Exchange,
    message::{Kind, Message, Metadata, Part},
    outcome, own_output,
    redaction::Redactor,
    script, spoken_call,
    text::{cut, head_tail, one_line},
    time::Timestamp,
    user_text::{self, OwnWords},
    zone::Zone,
};

const MEDIA_CHARS_MAX: usize = 80;
const API_ERROR_CHARS_MAX: usize = 300;
/// Claude Code writes this in the model's place when nothing was asked of it.
const NO_RESPONSE: &str = "No response requested.";

/// Who speaks in a line of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A program that writes in the user's place. The line may be a tool's result.
    Program,
    /// A tool call. The line's `label` is the tool's name, its text the arguments.
    Call,
    /// A tool result, right after its call, or anywhere if it belongs to no call of the exchange. The line's `label` is the tool's name,
    /// if known.
    Result,
    /// A failed tool result.
    FailedResult,
}

impl Voice {
    /// Every voice.
    pub const ALL: [Self; 6] =
        [Self::User, Self::Assistant, Self::Program, Self::Call, Self::Result, Self::FailedResult];

    /// Returns the name used in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Program => "program",
            Self::Call => "call",
            Self::Result => "result",
            Self::FailedResult => "failed_result",
        }
    }

    /// Parses a voice's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|voice| voice.name() == name)
    }
}

/// One line of a transcript. Its text may contain line feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The kind of speaker.
    pub voice: Voice,
    /// The speaker's or the tool's name; empty if unknown.
    pub label: String,
    /// The text, with secrets redacted.
    pub text: String,
    /// When the message was written.
    pub at: Timestamp,
}

/// The exchange that a later leg continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The first leg of the exchange.
    pub exchange: i64,
    /// The user's request; empty if an earlier leg in the same prompt has it, or if it is unknown.
    pub request: String,
}

/// One exchange or leg, as a summariser reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// The number of the exchange or leg.
    pub exchange: i64,
    /// The continued exchange, for a later leg.
    pub continues: Option<Continuation>,
    /// When it began.
    pub started_at: Timestamp,
    /// The agent's time zone. Words such as `yesterday` refer to its days.
    pub zone: Zone,
    /// The tokens of the exchange.
    pub tokens: i64,
    /// True if the user interrupted it.
    pub interrupted: bool,
    /// The error of the model's provider that ended it; empty if it ended otherwise.
    pub api_error: String,
    /// What its calls changed outside of the conversation, read before the calls are cut.
    pub effects: Effects,
    /// Its lines, in order. Instructions (kind `system`), metadata and recapd's own output are left out.
    pub lines: Vec<Line>,
}

#[cfg(any(test, feature = "fixtures"))]
impl Transcript {
    /// Makes an uninterrupted exchange of voices, labels and texts, for tests.
    pub fn of_lines(exchange: i64, started_at: Timestamp, lines: &[(Voice, &str, &str)]) -> Self {
        Self {
            exchange,
            continues: None,
            started_at,
            zone: Zone::UTC,
            tokens: 0,
            interrupted: false,
            api_error: String::new(),
            effects: Effects::default(),
            lines: pairs::side_by_side(
                lines
                    .iter()
                    .map(|&(voice, label, text)| LinkedLine {
                        id: None,
                        line: Line { voice, label: label.to_owned(), text: text.to_owned(), at: started_at },
                    })
                    .collect(),
            ),
        }
    }
}

/// How long the texts of a transcript may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranscriptLimits {
    /// Limits a user's or a model's text to this many characters: two thirds from its head, one third from its tail.
    pub said_chars_max: usize,
    /// Limits a tool call's arguments and a tool's result to this many characters, split in the same way.
    pub tool_chars_max: usize,
}

impl Default for TranscriptLimits {
    fn default() -> Self {
        Self { said_chars_max: 6_000, tool_chars_max: 1_200 }
    }
}

impl Transcript {
    /// Makes the transcript of an exchange from its messages. `redactor` redacts secrets.
    pub fn new(
        exchange: &Exchange,
        messages: &[Message],
        limits: TranscriptLimits,
        redactor: &Redactor,
    ) -> Self {
        Self {
            exchange: exchange.exchange,
            continues: exchange
                .headline
                .continues
                .map(|exchange| Continuation { exchange, request: String::new() }),
            started_at: exchange.opened_at,
            zone: Zone::UTC,
            tokens: exchange.tokens,
            interrupted: exchange.state == super::exchange::ExchangeState::Interrupted,
            api_error: api_error(messages, redactor),
            effects: Effects::of(messages).redacted(redactor),
            lines: without_own_output(pairs::side_by_side(
                messages
                    .iter()
                    .filter(|message| has_voice(message))
                    .flat_map(|message| linked_lines(message, limits, redactor, exchange.opened_at))
                    .collect(),
            )),
        }
    }

    /// Adds the request that a later leg works on.
    #[must_use]
    pub fn working_on(mut self, request: &Message, limits: TranscriptLimits, redactor: &Redactor) -> Self {
        if let Some(continued) = &mut self.continues {
            let own_words = OwnWords::of(request).text();
            let redacted = redactor.redact(own_words.trim());
            let chars_max = limits.said_chars_max;
            continued.request = head_tail(&redacted, chars_max * 2 / 3, chars_max / 3);
        }
        self
    }

    /// Returns true if a transcript of these messages has any line. Without lines, as after forgetting messages, a model would have to
    /// invent something.
    pub fn has_lines<'a>(mut messages: impl Iterator<Item = &'a Message>) -> bool {
        messages.any(|message| has_voice(message) && message.parts.iter().any(has_line))
    }

    /// Returns the bytes of all texts and labels.
    pub fn bytes(&self) -> usize {
        self.lines.iter().map(|line| line.text.len() + line.label.len()).sum()
    }
}

fn api_error(messages: &[Message], redactor: &Redactor) -> String {
    let is_error = |message: &&Message| message.kind.name() == Metadata::API_ERROR;
    let last = messages.iter().rfind(|message| message.kind.is_conversation() || is_error(message));
    let error = last.filter(is_error).map(Message::text).unwrap_or_default();
    cut(&one_line(&redactor.redact(&error)), API_ERROR_CHARS_MAX)
}

/// Returns true if the message has lines. Instructions and metadata have none.
fn has_voice(message: &Message) -> bool {
    message.kind.is_conversation() && message.kind != Kind::System
}

/// Leaves out the calls and results of recapd's own tools. Results have the names of their calls.
fn without_own_output(mut lines: Vec<Line>) -> Vec<Line> {
    lines.retain(|line| match line.voice {
        Voice::Call | Voice::FailedResult => !own_output::is_tool(&line.label),
        Voice::Result => !own_output::is_tool(&line.label) && !own_output::is_answer(&line.text),
        Voice::User | Voice::Assistant | Voice::Program => true,
    });
    lines
}

/// Returns true if a part becomes a line. A successful result without text doesn't become one.
fn has_line(part: &Part) -> bool {
    match part {
        Part::Text(text) => !text.trim().is_empty(),
        Part::ToolResult { text, is_error, .. } => *is_error || !result_text(text).trim().is_empty(),
        Part::ToolCall { .. } | Part::Attachment { .. } | Part::Opaque { .. } => true,
        Part::Thinking(_) => false,
    }
}

/// Returns what a tool wrote, without what its host added.
fn result_text(result: &str) -> Cow<'_, str> {
    without_reminders(script::output(result))
}

/// Returns the lines of a message. Its texts have only the user's own words. A script has a line for each of its calls.
fn linked_lines<'m>(
    message: &'m Message,
    limits: TranscriptLimits,
    redactor: &Redactor,
    opened_at: Timestamp,
) -> Vec<LinkedLine<'m>> {
    let mut own_words = OwnWords::of(message).texts.into_iter();
    let mut lines = Vec::new();
    for part in &message.parts {
        let own_text = match part {
            Part::Text(_) => own_words.next(),
            _ => None,
        };
        let line_of = |part: &Part| line(message, part, own_text.as_deref(), limits, redactor, opened_at);
        let calls = script::calls(part);
        let parts = if calls.is_empty() { std::slice::from_ref(part) } else { &calls };
        let id = part.call_id();
        lines.extend(parts.iter().filter_map(line_of).map(|line| LinkedLine { line, id }));
    }
    lines
}

/// Returns the line of a part. If the part is a text, `own_text` has the user's own words in it.
fn line(
    message: &Message,
    part: &Part,
    own_text: Option<&str>,
    limits: TranscriptLimits,
    redactor: &Redactor,
    opened_at: Timestamp,
) -> Option<Line> {
    let at = message.at.unwrap_or(opened_at);
    let speaker =
        if matches!(message.kind, Kind::User | Kind::ToolResult) { Voice::User } else { Voice::Assistant };
    let spoken = spoken_call::text(part);
    let (voice, label, text, chars_max) = match part {
        Part::Text(text) if speaker == Voice::Assistant && text.trim() == NO_RESPONSE => return None,
        Part::Text(text) => match own_text.unwrap_or(text) {
            own_text if own_text.trim().is_empty() && !text.trim().is_empty() => {
                (Voice::Program, None, text.as_str(), limits.tool_chars_max)
            }
            own_text => (speaker, message.speaker.clone(), own_text, limits.said_chars_max),
        },
        Part::ToolCall { name, arguments, .. } => match &spoken {
            Some(text) => (speaker, message.speaker.clone(), text.as_str(), limits.said_chars_max),
            None => (Voice::Call, Some(name.clone()), arguments.as_str(), limits.tool_chars_max),
        },
        Part::ToolResult { name, text, .. } => {
            let voice = if part.is_failed() { Voice::FailedResult } else { Voice::Result };
            // The user's answer to a tool gets the same room as other words of the user.
            let chars_max =
                if user_text::has_user_words(text) { limits.said_chars_max } else { limits.tool_chars_max };
            (voice, name.clone(), text.as_str(), chars_max)
        }
        Part::Attachment { media: name, .. } | Part::Opaque { kind: name, .. } => {
            let kind = if matches!(part, Part::Opaque { .. }) { "block" } else { "attachment" };
            let text = format!("[{kind}: {}]", cut(&one_line(name), MEDIA_CHARS_MAX));
            let label = one_line(&redactor.redact(&message.speaker.clone().unwrap_or_default()));
            return Some(Line { voice: speaker, label, text, at });
        }
        Part::Thinking(_) => return None,
    };
    let text = match part {
        Part::ToolResult { .. } => result_text(text),
        Part::Text(_) => own_output::without_fences(text),
        _ => text.into(),
    };
    // Redacts before it cuts: half a secret has no shape.
    let redacted = redactor.redact(text.trim());
    let shorten = |text: &str| head_tail(text, chars_max * 2 / 3, chars_max / 3);
    let mut text = shorten(&redacted);
    // Cut JSON no longer shows why the call failed.
    if voice == Voice::FailedResult
        && text != *redacted
        && let Some(reason) = outcome::reason(&redacted)
    {
        text = shorten(&format!("{reason}\n{redacted}"));
    }
    // An empty result is kept until it is paired with its call.
    (!text.is_empty() || !matches!(voice, Voice::User | Voice::Assistant | Voice::Program)).then(|| Line {
        voice,
        label: one_line(&redactor.redact(&label.unwrap_or_default())),
        text,
        at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        attachment::Extent,
        exchange::LedgerEntry,
        message::Format,
        prompt::{Prompt, PromptLimits, PromptMaterial},
    };

    fn result(text: String) -> Part {
        Part::ToolResult { call_id: None, name: Some("bash".to_owned()), text, is_error: false }
    }

    fn failed(text: String) -> Part {
        Part::ToolResult { call_id: None, name: None, text, is_error: true }
    }

    fn transcript(messages: &[Message]) -> Transcript {
        let redactor = Redactor::standard();
        let entry = LedgerEntry::new(&messages[0], 1, Timestamp(0), &redactor);
        Transcript::new(&Exchange::open(1, 1, 0, 1, &entry), messages, TranscriptLimits::default(), &redactor)
    }

    #[test]
    fn a_programs_text_under_the_users_name_is_the_programs() {
        let message = Message {
            format: Format::Anthropic,
            ..Message::new(
                Kind::User,
                vec![
                    Part::Text("[read_file for 'a.rs'] Result:\nfn f()".to_owned()),
                    Part::Text(
                        "The user provided the following feedback:\n<feedback>\nSort it.\n</feedback>"
                            .to_owned(),
                    ),
                ],
            )
        };
        let lines = transcript(std::slice::from_ref(&message)).lines;
        let spoken: Vec<(Voice, &str)> = lines.iter().map(|line| (line.voice, line.text.as_str())).collect();
        assert_eq!(
            spoken,
            [(Voice::Program, "[read_file for 'a.rs'] Result:\nfn f()"), (Voice::User, "Sort it.")]
        );
    }

    #[test]
    fn has_lines_agrees_with_the_rendered_transcript() {
        let call = Part::ToolCall { id: None, name: "bash".to_owned(), arguments: "{}".to_owned() };
        let image = Part::Attachment { media: "image/png".to_owned(), extent: Extent::Unknown };
        for (kind, part) in [
            (Kind::User, Part::Text(" \n".to_owned())),
            (Kind::User, Part::Text("Look".to_owned())),
            (Kind::System, Part::Text("Be brief".to_owned())),
            (Kind::Assistant, Part::Thinking("Hm".to_owned().into())),
            (Kind::Assistant, image),
            (Kind::ToolCall, call),
            (Kind::ToolResult, result(" ".to_owned())),
            (Kind::ToolResult, result("ok".to_owned())),
            (Kind::ToolResult, failed(String::new())),
        ] {
            let said = [Message::new(kind, vec![part])];
            let has_lines = Transcript::has_lines(said.iter());
            assert_eq!(has_lines, !transcript(&said).lines.is_empty(), "{said:?}");
        }
        let forgotten = [Message::new(Kind::User, Vec::new())];
        assert!(!Transcript::has_lines(forgotten.iter()));
    }

    #[test]
    fn an_error_of_the_provider_ends_an_exchange_unless_an_answer_follows() {
        let said = |kind: Kind, text: &str| Message::new(kind, vec![Part::Text(text.to_owned())]);
        let error = said(Kind::from_name(Metadata::API_ERROR), "API Error: 529\nOverloaded");
        let request = said(Kind::User, "Oil the gate.");
        let read = transcript(&[request.clone(), error.clone()]);
        assert_eq!((read.api_error.as_str(), read.lines.len()), ("API Error: 529 Overloaded", 1));
        let read = transcript(&[request.clone(), error, said(Kind::Assistant, "Done.")]);
        assert_eq!((read.api_error.as_str(), read.lines.len()), ("", 2));
        let read = transcript(&[request, said(Kind::Assistant, NO_RESPONSE)]);
        assert_eq!(read.lines.len(), 1, "Claude Code wrote it");
    }

    #[test]
    fn a_script_has_a_line_for_each_call() {
        let script =
            "const a = await tools.exec_command({cmd: 'ls'}); tools.mcp__recapd__recall({query: 'bed'});";
        let call = |id: &str, arguments: &str| {
            let (id, name, arguments) = (Some(id.to_owned()), "exec".to_owned(), arguments.to_owned());
            Message::new(Kind::ToolCall, vec![Part::ToolCall { id, name, arguments }])
        };
        let listed = Part::ToolResult {
            call_id: Some("c1".to_owned()),
            name: None,
            text: "bed.rs".to_owned(),
            is_error: false,
        };
        let messages = [call("c1", script), Message::new(Kind::ToolResult, vec![listed])];
        let lines = transcript(&messages).lines;
        let texts: Vec<_> =
            lines.iter().map(|line| (line.voice, line.label.as_str(), line.text.as_str())).collect();
        let result = (Voice::Result, "exec_command", "bed.rs");
        assert_eq!(
            texts,
            [(Voice::Call, "exec_command", r#"{"cmd":"ls"}"#), result],
            "recapd's own call is left out"
        );
    }

    #[test]
    fn a_result_fails_by_its_flag_or_its_content() {
        let said = [
            result(r#"{"success": false, "log": "long"}"#.to_owned()),
            result("Exit code: 0\nerror: none".to_owned()),
            failed(String::new()),
            failed("gone".to_owned()),
        ];
        let voices = transcript(&[Message::new(Kind::ToolResult, said.to_vec())]).lines;
        assert_eq!(
            voices.iter().map(|line| line.voice).collect::<Vec<_>>(),
            [Voice::FailedResult, Voice::Result, Voice::FailedResult, Voice::FailedResult]
        );
    }

    #[test]
    fn a_long_failed_result_begins_with_its_reason() {
        let rows = "x".repeat(TranscriptLimits::default().tool_chars_max);
        let failed = format!(r#"{{"rows":"{rows}","success":false,"error":"no such order"}}"#);
        let lines = transcript(&[Message::new(Kind::ToolResult, vec![result(failed)])]).lines;
        assert_eq!(lines[0].voice, Voice::FailedResult);
        assert!(lines[0].text.starts_with("no such order\n{"), "{}", lines[0].text);
    }

    #[test]
    fn the_users_answer_to_a_tool_has_the_limit_of_their_words() {
        let limits = TranscriptLimits::default();
        let words = "tabs ".repeat(limits.said_chars_max / 10);
        let answer = format!("User has answered your questions: \"Which?\"=\"{words}\".");
        let said = [result(answer.clone()), result(answer.replace("User", "Nobody"))];
        let lines = transcript(&[Message::new(Kind::ToolResult, said.to_vec())]).lines;
        assert_eq!(lines[0].text, answer);
        assert!(lines[1].text.contains("characters left out"));
    }

    #[test]
    fn thinking_is_left_out_and_attachments_and_sealed_blocks_are_named() {
        let said = [
            Message::new(
                Kind::User,
                vec![
                    Part::Text("Look".to_owned()),
                    Part::Attachment { media: "image/png".to_owned(), extent: Extent::Unknown },
                ],
            ),
            Message::new(
                Kind::Assistant,
                vec![
                    Part::Thinking("SECRET-THOUGHT".to_owned().into()),
                    Part::Opaque {
                        kind: "web_search_tool_result".to_owned(),
                        json: r#"{"encrypted_content":"SECRET-PAGE"}"#.to_owned(),
                    },
                    Part::Text("A cat.".to_owned()),
                ],
            ),
        ];
        let transcript = transcript(&said);
        let texts: Vec<&str> = transcript.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["Look", "[attachment: image/png]", "[block: web_search_tool_result]", "A cat."]);
        let prompt = Prompt::new(PromptMaterial::of(&[transcript]), "k3v9x2m7", PromptLimits::default());
        assert!(!prompt.user.contains("SECRET-"));
    }

    #[test]
    fn secrets_are_redacted_before_texts_are_cut() {
        let token = format!("ghp_{}", "a1B2c3D4e".repeat(4));
        for at in 780..820 {
            let text = format!("{}{token} {}", "x ".repeat(at / 2), "y ".repeat(5_000));
            let said = [Message::new(Kind::ToolResult, vec![result(text)])];
            let shown = format!("{:?}", transcript(&said));
            assert!(!shown.contains("ghp_") && !shown.contains("D4ea1B2"), "{at}");
        }
    }

    /// Sizes as they occur; the prompt is bounded whatever the input.
    #[test]
    fn the_prompt_of_any_exchange_is_bounded() {
        let call = |n: usize| Part::ToolCall {
            id: None,
            name: "bash".to_owned(),
            arguments: format!("{{\"command\": \"step {n} {}\"}}", "of many ".repeat(100)),
        };
        let user = || Message::new(Kind::User, vec![Part::Text("the first words".to_owned())]);
        let answer = || Message::new(Kind::Assistant, vec![Part::Text("the last words".to_owned())]);
        let steps = (0..370).flat_map(|n| {
            [
                Message::new(Kind::ToolCall, vec![call(n)]),
                Message::new(Kind::ToolResult, vec![result("line\n".repeat(300))]),
            ]
        });
        let many_calls: Vec<Message> = [user()].into_iter().chain(steps).chain([answer()]).collect();
        let big_result = vec![
            user(),
            Message::new(Kind::ToolResult, vec![result("5 MB of output, ".repeat(350_000))]),
            answer(),
        ];
        let many_lines =
            vec![user(), Message::new(Kind::User, vec![Part::Text("a line\n".repeat(10_000))]), answer()];
        let limits = PromptLimits { material_chars_max: 20_000, ..PromptLimits::default() };
        for messages in [many_calls, big_result, many_lines] {
            let prompt = Prompt::new(PromptMaterial::of(&[transcript(&messages)]), "k3v9x2m7", limits).user;
            assert!(prompt.chars().count() < 23_000, "{}", prompt.len());
            assert!(prompt.contains("the first words") && prompt.contains("the last words"));
        }
    }
}
