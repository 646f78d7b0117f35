//! An exchange: a user's message and everything that follows until the next one (seed 000, "What is an Exchange?"). A long exchange is
//! stored in several legs, each a row of its own. A leg is kept or evicted as a whole.

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

/// The number of the preamble: the leading system messages. They always stay in view, and their tokens count. They are never evicted.
pub const PREAMBLE: i64 = 0;
/// The number of an agent's first exchange.
pub const FIRST_EXCHANGE: i64 = 1;
/// Limits the title and the answer of a headline to this many characters each.
pub const HEADLINE_CHARS_MAX: usize = 160;
/// A headline records at most this many speakers.
pub const HEADLINE_SPEAKERS_MAX: usize = 8;
/// A headline records at most this many tools.
pub const HEADLINE_TOOLS_MAX: usize = 8;

/// The title of a forgotten exchange.
pub const FORGOTTEN_TITLE: &str = "(forgotten)";

const INTERRUPTED_MARK: &str = "(interrupted) ";
/// The number of the exchange's first leg stands between these two texts at the beginning of a later leg's digest.
const CONTINUES_MARK: (&str, &str) = ("(continues #", ") ");

/// Whether an exchange expects more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExchangeState {
    /// The user has asked, or the model is still working.
    Open,
    /// The model gave a final answer, or the turn was ended explicitly.
    Closed,
    /// The user interrupted it.
    Interrupted,
}

impl ExchangeState {
    /// Returns the stored name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Parses a state's name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Open, Self::Closed, Self::Interrupted].into_iter().find(|state| state.name() == name)
    }

    /// Returns the state once no more messages are expected.
    #[must_use]
    pub fn ended(self) -> Self {
        match self {
            Self::Open | Self::Closed => Self::Closed,
            Self::Interrupted => Self::Interrupted,
        }
    }

    /// Returns the state after one more message.
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

/// The data for the title and the digest of an exchange, so that its messages needn't be read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headline {
    /// The first line of the user's words.
    pub title: String,
    /// The called tools, in order of their first call, and how often each was called.
    pub tools: Vec<(String, u32)>,
    /// How many results are failures.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// The first line of the model's last text.
    pub answer: String,
    /// The named speakers, the last speaker last; without humans who step in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub speakers: Vec<String>,
    /// The first leg of the exchange, if this row is a later leg, or if it continues a leg that a fork or a rewind closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// The first row of this row's leg; `None` in the exchange's first leg. It is this row, unless a fork or a rewind closed an earlier
    /// part of the leg.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leg_from: Option<i64>,
    /// Tokens of the earlier parts of this row's leg.
    #[serde(default, skip_serializing_if = "is_zero_tokens")]
    pub leg_tokens_before: i64,
    /// The newest round, while more messages may belong to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
}

/// Which leg a new row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// The leg of the row before it, which a fork or a rewind closed.
    Same,
    /// A new leg.
    Next,
}

/// What the ledger needs to know about a message: kind, tokens, time, and what it adds to the headline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The message's kind.
    pub kind: Kind,
    /// True if it interrupts the open exchange.
    pub interrupts: bool,
    /// True if it is a user's request. A message with the user's role may come entirely from a program.
    pub is_request: bool,
    /// The message's tokens.
    pub tokens: i64,
    /// The time of the message. If the client gives none, the time of arrival or a later one.
    pub at: Timestamp,
    /// The first line of its text, or, in a user's message, of the user's own words.
    pub line: String,
    /// The names of the tools that it calls.
    pub tools: Vec<String>,
    /// How many of its results are failures.
    pub failures: u32,
    /// The speaker's name in a conversation of several; `None` for a human who steps in.
    pub speaker: Option<String>,
    /// Which answer of the model it belongs to.
    pub response: ResponsePart,
}

impl LedgerEntry {
    /// Makes the entry of `message`, which has `tokens` and the time `at`. `redactor` redacts secrets in its line, since readers see it
    /// in headlines.
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
            line: first_line_by(&text, HEADLINE_CHARS_MAX, |line| redactor.redact(line).into_owned()),
            tools: message.tool_names().map(|name| first_line(name, HEADLINE_CHARS_MAX)).collect(),
            failures: message.parts.iter().map(|part| u32::from(part.is_failed())).sum(),
            speaker: named_speaker(message.speaker.as_deref())
                .map(|name| first_line(name, HEADLINE_CHARS_MAX)),
            response: ResponsePart::of(message),
        }
    }
}

/// A row of the ledger: an exchange, or a leg of an exchange that has outgrown a step.
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
    /// How many messages it has, without metadata.
    pub messages: i64,
    /// The tokens of all messages.
    pub tokens: i64,
    /// The tokens of all live exchanges before it, without the preamble.
    pub tokens_before: i64,
    /// Open, closed or interrupted.
    pub state: ExchangeState,
    /// The earliest time of its messages.
    pub opened_at: Timestamp,
    /// The latest time of its first message and its other conversation messages. Metadata may come days later and doesn't count.
    pub last_at: Timestamp,
    /// What its title and digest are made of.
    pub headline: Headline,
    /// When a rewind set it aside, if one did.
    pub set_aside_at: Option<Timestamp>,
}

impl Exchange {
    /// Opens an exchange with message number `seq`.
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

    /// Makes this row continue the exchange of the row `previous`.
    #[must_use]
    pub fn continuing(mut self, previous: &Self, leg: Leg) -> Self {
        let headline = &mut self.headline;
        headline.continues = Some(previous.first_leg());
        (headline.leg_from, headline.leg_tokens_before) = match leg {
            Leg::Same => (previous.headline.leg_from, previous.leg_tokens()),
            Leg::Next => (Some(self.exchange), 0),
        };
        self
    }

    /// Returns the first leg of its exchange; it may be this row.
    pub fn first_leg(&self) -> i64 {
        self.headline.continues.unwrap_or(self.exchange)
    }

    /// Returns the first row of its leg; it may be this row.
    pub fn leg_from(&self) -> i64 {
        self.headline.leg_from.unwrap_or_else(|| self.first_leg())
    }

    /// Returns true if it begins a second or later leg of its exchange.
    pub fn is_later_leg(&self) -> bool {
        self.headline.leg_from == Some(self.exchange)
    }

    /// Returns the tokens of its leg so far.
    pub fn leg_tokens(&self) -> i64 {
        self.headline.leg_tokens_before + self.tokens
    }

    /// Returns true if a new leg must begin with `entry`: this leg has reached `leg_tokens`, and `entry` begins a round. 0 means no
    /// limit.
    pub fn ends_leg_before(&self, entry: &LedgerEntry, leg_tokens: i64) -> bool {
        let is_full = leg_tokens > 0 && self.leg_tokens() >= leg_tokens;
        // Rows of older versions recorded no rounds, so whether an answer continues there is unknown.
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
        // Metadata (a clear, a title, usage) may come days later and doesn't make the exchange newer.
        if entry.kind.is_conversation() {
            self.last_at = self.last_at.max(entry.at);
        }
        self.headline.add(entry);
    }

    /// Ends the last round of this row, because another row is now the newest.
    #[must_use]
    pub fn without_round(mut self) -> Self {
        self.headline.round = None;
        self
    }

    /// Returns true if the model's message `entry` begins the next exchange of a conversation of several speakers. Each speaker has one
    /// turn per exchange. So a speaker after whom another one has spoken begins the next exchange. Returns false while a call waits for
    /// its result.
    pub fn is_ended_by(&self, entry: &LedgerEntry) -> bool {
        self.state != ExchangeState::Open && self.headline.has_later_speaker(entry.speaker.as_deref())
    }

    /// Returns true if the user's message `entry` answers this exchange, because another speaker with the user's role opened it. An
    /// exchange with tool calls is never answered in this way.
    pub fn is_answered_by(&self, entry: &LedgerEntry) -> bool {
        let speakers = &self.headline.speakers;
        let is_new = |name: &String| !speakers.contains(name) && speakers.len() < HEADLINE_SPEAKERS_MAX;
        self.state == ExchangeState::Open
            && self.headline.tools.is_empty()
            && !speakers.is_empty()
            && entry.speaker.as_ref().is_some_and(is_new)
    }

    /// Returns true if it has message `seq`.
    pub fn holds(&self, seq: i64) -> bool {
        (self.first_seq..=self.last_seq).contains(&seq)
    }

    /// Returns the tokens of all live exchanges up to and including this one.
    pub fn tokens_through(&self) -> i64 {
        self.tokens_before + self.tokens
    }

    /// Writes a digest of one line without a model, with the marks of an interruption and a continuation.
    pub fn digest(&self) -> String {
        self.with_marks(&self.headline.digest())
    }

    /// Puts the marks of an interruption and a continuation before `text`. At the front, no cut removes them.
    pub(super) fn with_marks(&self, text: &str) -> String {
        let mark = match self.state {
            ExchangeState::Interrupted => INTERRUPTED_MARK,
            ExchangeState::Open | ExchangeState::Closed => "",
        };
        let (prefix, suffix) = CONTINUES_MARK;
        let continues = self
            .headline
            .continues
            .map_or_else(String::new, |exchange| format!("{prefix}{exchange}{suffix}"));
        format!("{mark}{continues}{text}")
    }
}

pub(super) fn without_marks(digest: &str) -> &str {
    let text = digest.strip_prefix(INTERRUPTED_MARK).unwrap_or(digest);
    let (prefix, suffix) = CONTINUES_MARK;
    let continued = text.strip_prefix(prefix).and_then(|rest| rest.split_once(suffix));
    continued.map_or(text, |(_, rest)| rest)
}

impl Headline {
    fn add(&mut self, entry: &LedgerEntry) {
        let is_first_text = self.title.is_empty() && self.answer.is_empty();
        match entry.kind {
            Kind::User if self.title.is_empty() => self.title.clone_from(&entry.line),
            // If all speakers are models, or all are users, the first speaker asks and the others answer.
            Kind::Assistant if is_first_text && entry.speaker.is_some() => self.title.clone_from(&entry.line),
            Kind::User if entry.speaker.is_some() && !entry.interrupts => self.answer.clone_from(&entry.line),
            Kind::Assistant | Kind::ToolCall if !entry.line.is_empty() => self.answer.clone_from(&entry.line),
            _ => {}
        }
        self.add_speaker(entry);
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

    /// Returns true if everything in the exchange was forgotten.
    pub fn is_forgotten(&self) -> bool {
        self.title == FORGOTTEN_TITLE && self.tools.is_empty() && self.answer.is_empty()
    }

    /// Gives a forgotten exchange its title, unless it has another one.
    pub fn note_forgotten(&mut self) {
        if self.title.is_empty() {
            FORGOTTEN_TITLE.clone_into(&mut self.title);
        }
    }

    /// Redacts secrets in the title and the answer.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        Self {
            title: redactor.redact(&self.title).into_owned(),
            answer: redactor.redact(&self.answer).into_owned(),
            ..self
        }
    }

    fn add_speaker(&mut self, entry: &LedgerEntry) {
        let is_spoken = matches!(entry.kind, Kind::User | Kind::Assistant | Kind::ToolCall);
        let Some(speaker) = entry.speaker.as_ref().filter(|_| is_spoken) else {
            return;
        };
        self.speakers.retain(|name| name != speaker);
        if self.speakers.len() < HEADLINE_SPEAKERS_MAX {
            self.speakers.push(speaker.clone());
        }
    }

    /// Returns true if another speaker has spoken after `speaker`.
    fn has_later_speaker(&self, speaker: Option<&str>) -> bool {
        let index = self.speakers.iter().position(|name| Some(name.as_str()) == speaker);
        index.is_some_and(|index| index + 1 < self.speakers.len())
    }

    /// Writes the digest without marks: the request, the tools with their calls and failures, and the answer. See [`Exchange::digest`].
    pub fn digest(&self) -> String {
        let tools: Vec<String> = self
            .tools
            .iter()
            .map(|(name, calls)| if *calls == 1 { name.clone() } else { format!("{name} ×{calls}") })
            .collect();
        let failed = match self.failures {
            0 => String::new(),
            failures => format!(" ({failures} failed)"),
        };
        let done = tools.join(", ") + &failed;
        let parts = [self.title.as_str(), done.trim_start(), &self.answer];
        let texts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if texts.is_empty() { "(no text)".to_owned() } else { texts.join(" → ") }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero_tokens(tokens: &i64) -> bool {
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
                vec![Part::ToolResult { call_id: None, name: None, text: text.to_owned(), is_error: false }]
            };
            let message = Message { format: Format::ClaudeCode, ..Message::new(kind, parts) };
            LedgerEntry::new(&message, 1, Timestamp(0), &Redactor::standard())
        };
        let asked = said(Kind::User, "<ide_selection>fn f()</ide_selection>\nSort it.");
        let mut exchange = Exchange::open(1, 1, 0, 1, &asked);
        exchange.add(2, &entry(Kind::ToolCall, "", &["sort", "sort"]));
        exchange.add(3, &said(Kind::ToolResult, r#"{"error":"too long"}"#));
        exchange.add(4, &said(Kind::ToolResult, "[1, 2]"));
        assert_eq!(exchange.headline.digest(), "Sort it. → sort ×2 (1 failed)");
        let stored = serde_json::to_string(&exchange.headline).unwrap();
        assert_eq!(serde_json::from_str::<Headline>(&stored).unwrap(), exchange.headline);
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
        assert_eq!(exchange.digest(), "(interrupted) (continues #14) Deploy the shop → deploy");
        assert_eq!(without_marks(&exchange.digest()), "Deploy the shop → deploy");
        assert_eq!(without_marks("(continues to hold) it"), "(continues to hold) it");
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
