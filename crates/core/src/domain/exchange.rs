//! An exchange: a user's message and everything that follows until the next one, kept or evicted whole (seed 000, "What is an
//! Exchange?").

use serde::{Deserialize, Serialize};

use super::{
    message::{Kind, Message, Metadata},
    perspective::named_speaker,
    redaction::Redactor,
    round::{ResponsePart, Round},
    text::{first_line, first_line_by},
    time::Timestamp,
    user_text::OwnWords,
};

/// The number of the preamble: leading system messages, always in view, counted, never evicted.
pub const PREAMBLE: i64 = 0;
/// The number of an agent's first exchange.
pub const FIRST_EXCHANGE: i64 = 1;
/// The most characters of an exchange's title and of its answer.
pub const HEADLINE_CHARS_MAX: usize = 160;
/// The most speakers that an exchange records.
pub const HEADLINE_SPEAKERS_MAX: usize = 8;
/// The most tools that an exchange records.
pub const HEADLINE_TOOLS_MAX: usize = 8;

/// The title of a forgotten exchange.
pub const FORGOTTEN_TITLE: &str = "(forgotten)";

const INTERRUPTED_MARK: &str = "(interrupted) ";
/// The text around the first leg's number, which together prefix the digest of a later leg.
const CONTINUES_MARK: (&str, &str) = ("(continues #", ") ");

/// Says if more messages are expected in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExchangeState {
    /// The model is still working, or the user has just asked.
    Open,
    /// The model gave a final answer, or the turn was ended explicitly.
    Closed,
    /// The user interrupted it.
    Interrupted,
}

impl ExchangeState {
    /// The name under which the state is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Parses a state's name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Open, Self::Closed, Self::Interrupted]
            .into_iter()
            .find(|state| state.name() == name)
    }

    /// The state once no more messages are expected.
    #[must_use]
    pub fn ended(self) -> Self {
        match self {
            Self::Open | Self::Closed => Self::Closed,
            Self::Interrupted => Self::Interrupted,
        }
    }

    /// The state after one more message.
    #[must_use]
    pub fn after(self, entry: &LedgerEntry) -> Self {
        match &entry.kind {
            _ if entry.interrupts => Self::Interrupted,
            Kind::Metadata(Metadata::Interrupted) => Self::Interrupted,
            Kind::Assistant | Kind::Metadata(Metadata::TurnEnd) => Self::Closed,
            Kind::User | Kind::ToolCall | Kind::ToolResult => Self::Open,
            Kind::System | Kind::Metadata(_) => self,
        }
    }
}

/// Data about an exchange's messages: enough for a title and a digest without reading them again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headline {
    /// The first line of the user's words.
    pub title: String,
    /// The called tools in order of their first call, with the number of calls.
    pub tools: Vec<(String, u32)>,
    /// The number of failed results.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// The first line of the model's last text.
    pub answer: String,
    /// The named speakers, ordered by their last message; without humans who step in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub speakers: Vec<String>,
    /// The first leg of the exchange, if this row is a later leg, or continues a leg that a fork or a rewind closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// The first row of its leg; `None` in the exchange's first leg. It is the row's own number, unless a fork or a rewind closed an
    /// earlier part of the leg.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leg_from: Option<i64>,
    /// Tokens of earlier parts of its leg.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub leg_tokens_before: i64,
    /// The newest round, while it may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
}

/// The leg that a new row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// The leg of the row before, which a fork or a rewind closed.
    Same,
    /// A new leg.
    Next,
}

/// A message as the ledger sees it: kind, tokens, time, and its contribution to the headline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The message's kind.
    pub kind: Kind,
    /// True if it ends the open exchange as interrupted.
    pub interrupts: bool,
    /// True if it is a user's request: a message with the user's role may come entirely from a program.
    pub is_request: bool,
    /// The message's tokens.
    pub tokens: i64,
    /// The time of the message. Without one from the client, the time of arrival or a later one.
    pub at: Timestamp,
    /// The first line of its text; of a user's message, of the user's own words.
    pub line: String,
    /// The names of the tools that it calls.
    pub tools: Vec<String>,
    /// The number of failed results in it.
    pub failures: u32,
    /// The speaker's name in a conversation of several; `None` for a human who steps in.
    pub speaker: Option<String>,
    /// The model's answer that it is a part of.
    pub response: ResponsePart,
}

impl LedgerEntry {
    /// Makes the entry of `message`, which costs `tokens` and was said at `at`. Secrets in its line are redacted by the rules of
    /// `redactor`, as readers see headlines.
    pub fn new(message: &Message, tokens: i64, at: Timestamp, redactor: &Redactor) -> Self {
        let own_words = OwnWords::of(message);
        let text = match message.kind {
            Kind::User => own_words.text(),
            _ => message.text(),
        };
        Self {
            kind: message.kind.clone(),
            interrupts: message.interrupts,
            is_request: own_words.is_request,
            tokens,
            at,
            line: first_line_by(&text, HEADLINE_CHARS_MAX, |line| {
                redactor.redact(line).into_owned()
            }),
            tools: message
                .tool_names()
                .map(|name| first_line(name, HEADLINE_CHARS_MAX))
                .collect(),
            failures: message.parts.iter().map(|part| u32::from(part.is_failed())).sum(),
            speaker: named_speaker(message.speaker.as_deref())
                .map(|name| first_line(name, HEADLINE_CHARS_MAX)),
            response: ResponsePart::of(message),
        }
    }
}

/// A row of the ledger: an exchange, or a leg of one that outgrew a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The number, from 1; never reused. 0 is the preamble.
    pub exchange: i64,
    /// The session it belongs to.
    pub session: i64,
    /// The sequence number of the first message.
    pub first_seq: i64,
    /// The sequence number of the last message.
    pub last_seq: i64,
    /// The number of messages without metadata.
    pub messages: i64,
    /// The tokens of all messages.
    pub tokens: i64,
    /// Tokens of all live exchanges before it (without the preamble).
    pub tokens_before: i64,
    /// Open, closed or interrupted.
    pub state: ExchangeState,
    /// The earliest time of its messages.
    pub opened_at: Timestamp,
    /// The latest time of its first message and of its conversation messages; others may come days later.
    pub last_at: Timestamp,
    /// The data for its title and digest.
    pub headline: Headline,
    /// When a rewind set it aside.
    pub set_aside_at: Option<Timestamp>,
}

impl Exchange {
    /// Opens an exchange with the message `entry`, number `seq`.
    pub fn open(exchange: i64, session: i64, tokens_before: i64, seq: i64, entry: &LedgerEntry) -> Self {
        let mut opened = Self {
            exchange,
            session,
            first_seq: seq,
            last_seq: seq,
            messages: 0,
            tokens: 0,
            tokens_before,
            state: ExchangeState::Open,
            opened_at: entry.at,
            last_at: entry.at,
            headline: Headline::default(),
            set_aside_at: None,
        };
        opened.add(seq, entry);
        opened
    }

    /// Makes the row a continuation of the exchange of `before`.
    #[must_use]
    pub fn continuing(mut self, before: &Self, leg: Leg) -> Self {
        let headline = &mut self.headline;
        headline.continues = Some(before.begins_with());
        (headline.leg_from, headline.leg_tokens_before) = match leg {
            Leg::Same => (before.headline.leg_from, before.leg_tokens()),
            Leg::Next => (Some(self.exchange), 0),
        };
        self
    }

    /// The first leg of its exchange, perhaps itself.
    pub fn begins_with(&self) -> i64 {
        self.headline.continues.unwrap_or(self.exchange)
    }

    /// The first row of its leg, perhaps itself.
    pub fn leg_from(&self) -> i64 {
        self.headline.leg_from.unwrap_or_else(|| self.begins_with())
    }

    /// Returns true if it begins a leg that isn't the first one of its exchange.
    pub fn is_later_leg(&self) -> bool {
        self.headline.leg_from == Some(self.exchange)
    }

    /// The tokens of its leg so far.
    pub fn leg_tokens(&self) -> i64 {
        self.headline.leg_tokens_before + self.tokens
    }

    /// Returns true if the next leg must begin before `entry`: this one has reached `leg_tokens`, and `entry` begins a round. 0 means no
    /// limit.
    pub fn ends_leg_before(&self, entry: &LedgerEntry, leg_tokens: i64) -> bool {
        let is_full = leg_tokens > 0 && self.leg_tokens() >= leg_tokens;
        // Rows from before rounds were recorded don't show if an answer goes on.
        let headline = &self.headline;
        let is_known = headline.round.is_some() || (headline.tools.is_empty() && headline.answer.is_empty());
        is_full && is_known && Round::is_begun_by(self.headline.round.as_ref(), &entry.kind, &entry.response)
    }

    /// Adds a message.
    pub fn add(&mut self, seq: i64, entry: &LedgerEntry) {
        self.last_seq = seq;
        self.messages += i64::from(entry.kind.is_conversation());
        self.tokens += entry.tokens;
        self.state = self.state.after(entry);
        self.opened_at = self.opened_at.min(entry.at);
        // Metadata (a clear, a title, usage) may come days later, and doesn't make the exchange newer.
        if entry.kind.is_conversation() {
            self.last_at = self.last_at.max(entry.at);
        }
        self.headline.add(entry);
    }

    /// Ends its last round, as another row is now the newest.
    #[must_use]
    pub fn left(mut self) -> Self {
        self.headline.round = None;
        self
    }

    /// Returns true if the model's message `entry` begins the next exchange of a conversation of several speakers. Each speaks once per
    /// exchange, so a speaker who spoke before another one opens the next. Never true while a call waits for its result.
    pub fn is_over_by(&self, entry: &LedgerEntry) -> bool {
        self.state != ExchangeState::Open && self.headline.has_passed_to_another(entry.speaker.as_deref())
    }

    /// Returns true if the user's message `entry` answers this exchange, in a conversation where all speak as users: another speaker
    /// opened it, and there were no tool calls.
    pub fn is_answered_by(&self, entry: &LedgerEntry) -> bool {
        let speakers = &self.headline.speakers;
        let is_new = |name: &String| !speakers.contains(name) && speakers.len() < HEADLINE_SPEAKERS_MAX;
        self.state == ExchangeState::Open
            && self.headline.tools.is_empty()
            && !speakers.is_empty()
            && entry.speaker.as_ref().is_some_and(is_new)
    }

    /// Returns true if message `seq` is in its range.
    pub fn holds(&self, seq: i64) -> bool {
        (self.first_seq..=self.last_seq).contains(&seq)
    }

    /// The tokens of all live exchanges up to and including this one.
    pub fn tokens_through(&self) -> i64 {
        self.tokens_before + self.tokens
    }

    /// A one-line digest, made without a model: the headline's, with the marks of an interruption and a continuation.
    pub fn digest(&self) -> String {
        self.marked(&self.headline.digest())
    }

    /// Prefixes `said` with the marks of an interruption and a continuation. At the front, no cut removes them.
    pub(super) fn marked(&self, said: &str) -> String {
        let mark = match self.state {
            ExchangeState::Interrupted => INTERRUPTED_MARK,
            ExchangeState::Open | ExchangeState::Closed => "",
        };
        let (before, behind) = CONTINUES_MARK;
        let continues = self
            .headline
            .continues
            .map_or_else(String::new, |exchange| format!("{before}{exchange}{behind}"));
        format!("{mark}{continues}{said}")
    }
}

pub(super) fn unmarked(digest: &str) -> &str {
    let said = digest.strip_prefix(INTERRUPTED_MARK).unwrap_or(digest);
    let (before, behind) = CONTINUES_MARK;
    let continued = said.strip_prefix(before).and_then(|rest| rest.split_once(behind));
    continued.map_or(said, |(_, said)| said)
}

impl Headline {
    fn add(&mut self, entry: &LedgerEntry) {
        let is_first_word = self.title.is_empty() && self.answer.is_empty();
        match entry.kind {
            Kind::User if self.title.is_empty() => self.title.clone_from(&entry.line),
            // If all speakers are models, or all are users, the first one asks and the others answer.
            Kind::Assistant if is_first_word && entry.speaker.is_some() => self.title.clone_from(&entry.line),
            Kind::User if entry.speaker.is_some() && !entry.interrupts => self.answer.clone_from(&entry.line),
            Kind::Assistant | Kind::ToolCall if !entry.line.is_empty() => self.answer.clone_from(&entry.line),
            _ => {}
        }
        self.hear(entry);
        self.round = Round::after(self.round.take(), &entry.kind, &entry.response);
        self.failures = self.failures.saturating_add(entry.failures);
        for tool in &entry.tools {
            if let Some((_, calls)) = self.tools.iter_mut().find(|(name, _)| name == tool) {
                *calls += 1;
            } else if self.tools.len() < HEADLINE_TOOLS_MAX {
                self.tools.push((tool.clone(), 1));
            }
        }
    }

    /// Returns true if everything said in the exchange was forgotten.
    pub fn is_forgotten(&self) -> bool {
        self.title == FORGOTTEN_TITLE && self.tools.is_empty() && self.answer.is_empty()
    }

    /// Sets the title of a forgotten exchange, if it has no other.
    pub fn note_forgotten(&mut self) {
        if self.title.is_empty() {
            FORGOTTEN_TITLE.clone_into(&mut self.title);
        }
    }

    /// Redacts secrets in title and answer.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        Self {
            title: redactor.redact(&self.title).into_owned(),
            answer: redactor.redact(&self.answer).into_owned(),
            ..self
        }
    }

    fn hear(&mut self, entry: &LedgerEntry) {
        let says = matches!(entry.kind, Kind::User | Kind::Assistant | Kind::ToolCall);
        let Some(speaker) = entry.speaker.as_ref().filter(|_| says) else {
            return;
        };
        self.speakers.retain(|known| known != speaker);
        if self.speakers.len() < HEADLINE_SPEAKERS_MAX {
            self.speakers.push(speaker.clone());
        }
    }

    /// Returns true if another speaker has spoken since `speaker` did.
    fn has_passed_to_another(&self, speaker: Option<&str>) -> bool {
        let place = self
            .speakers
            .iter()
            .position(|known| Some(known.as_str()) == speaker);
        place.is_some_and(|place| place + 1 < self.speakers.len())
    }

    /// The digest without marks: request, tools with calls and failures, answer. See [`Exchange::digest`].
    pub fn digest(&self) -> String {
        let tools: Vec<String> = self
            .tools
            .iter()
            .map(|(name, calls)| {
                if *calls == 1 {
                    name.clone()
                } else {
                    format!("{name} ×{calls}")
                }
            })
            .collect();
        let failed = match self.failures {
            0 => String::new(),
            failures => format!(" ({failures} failed)"),
        };
        let done = tools.join(", ") + &failed;
        let parts = [self.title.as_str(), done.trim_start(), &self.answer];
        let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if said.is_empty() {
            "(no text)".to_owned()
        } else {
            said.join(" → ")
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_none_of(tokens: &i64) -> bool {
    *tokens == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::{Format, Part};

    fn entry(kind: Kind, line: &str, tools: &[&str]) -> LedgerEntry {
        LedgerEntry {
            is_request: kind == Kind::User,
            kind,
            interrupts: false,
            tokens: 10,
            at: Timestamp(1_000),
            line: line.to_owned(),
            tools: tools.iter().map(|&t| t.to_owned()).collect(),
            failures: 0,
            speaker: None,
            response: ResponsePart::default(),
        }
    }

    #[test]
    fn a_digest_has_request_tools_and_answer() {
        let mut exchange = Exchange::open(1, 1, 0, 1, &entry(Kind::User, "Fix all linting errors", &[]));
        exchange.add(2, &entry(Kind::ToolCall, "", &["bash"]));
        exchange.add(3, &entry(Kind::ToolResult, "5 errors", &[]));
        exchange.add(4, &entry(Kind::ToolCall, "", &["file_edit", "bash"]));
        exchange.add(5, &entry(Kind::Assistant, "Fixed all 5 linting errors.", &[]));
        assert_eq!(
            exchange.headline.digest(),
            "Fix all linting errors → bash ×2, file_edit → Fixed all 5 linting errors."
        );
        assert_eq!((exchange.tokens, exchange.state), (50, ExchangeState::Closed));
        assert_eq!(Headline::default().digest(), "(no text)");
    }

    #[test]
    fn a_digest_counts_failures_and_skips_a_programs_words() {
        let said = |kind: Kind, text: &str| {
            let parts = if kind == Kind::User {
                vec![Part::Text(text.to_owned())]
            } else {
                vec![Part::ToolResult {
                    call_id: None,
                    name: None,
                    text: text.to_owned(),
                    is_error: false,
                }]
            };
            let message = Message {
                format: Format::ClaudeCode,
                ..Message::new(kind, parts)
            };
            LedgerEntry::new(&message, 1, Timestamp(0), &Redactor::standard())
        };
        let asked = said(Kind::User, "<ide_selection>fn f()</ide_selection>\nSort it.");
        let mut exchange = Exchange::open(1, 1, 0, 1, &asked);
        exchange.add(2, &entry(Kind::ToolCall, "", &["sort", "sort"]));
        exchange.add(3, &said(Kind::ToolResult, r#"{"error":"too long"}"#));
        exchange.add(4, &said(Kind::ToolResult, "[1, 2]"));
        assert_eq!(exchange.headline.digest(), "Sort it. → sort ×2 (1 failed)");
        let stored = serde_json::to_string(&exchange.headline).unwrap();
        assert_eq!(
            serde_json::from_str::<Headline>(&stored).unwrap(),
            exchange.headline
        );
        assert!(stored.contains("failures") && !stored.contains("speakers"));
    }

    #[test]
    fn a_digest_marks_an_interrupted_exchange() {
        let mut exchange = Exchange::open(1, 1, 0, 1, &entry(Kind::User, "Deploy the shop", &[]));
        exchange.add(2, &entry(Kind::ToolCall, "", &["deploy"]));
        assert_eq!(exchange.digest(), "Deploy the shop → deploy");
        exchange.add(3, &entry(Kind::Metadata(Metadata::Interrupted), "", &[]));
        assert_eq!(exchange.digest(), "(interrupted) Deploy the shop → deploy");
        exchange.headline.continues = Some(14);
        assert_eq!(
            exchange.digest(),
            "(interrupted) (continues #14) Deploy the shop → deploy"
        );
        assert_eq!(unmarked(&exchange.digest()), "Deploy the shop → deploy");
        assert_eq!(unmarked("(continues to hold) it"), "(continues to hold) it");
    }

    #[test]
    fn states_follow_the_messages() {
        let mut state = ExchangeState::Open;
        for (kind, expected) in [
            (Kind::ToolCall, ExchangeState::Open),
            (Kind::Assistant, ExchangeState::Closed),
            (Kind::Metadata(Metadata::Mark), ExchangeState::Closed),
            (Kind::ToolCall, ExchangeState::Open),
            (Kind::Metadata(Metadata::Interrupted), ExchangeState::Interrupted),
            (Kind::Metadata(Metadata::TurnEnd), ExchangeState::Closed),
        ] {
            state = state.after(&entry(kind, "", &[]));
            assert_eq!(state, expected);
        }
    }
}
