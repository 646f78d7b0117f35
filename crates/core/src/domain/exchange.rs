//! An exchange: a user's message and everything that follows until the next one. It is the unit that is kept or evicted
//! whole (seed 000, "What is an Exchange?").

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
/// The longest title and answer that an exchange remembers, in characters.
pub const HEADLINE_CHARS_MAX: usize = 160;
/// How many different speakers an exchange remembers by name.
pub const HEADLINE_SPEAKERS_MAX: usize = 8;
/// How many different tools an exchange remembers by name.
pub const HEADLINE_TOOLS_MAX: usize = 8;

/// The title of an exchange that was forgotten.
pub const FORGOTTEN_TITLE: &str = "(forgotten)";

/// What stands before the digest of an exchange that was interrupted.
const INTERRUPTED_MARK: &str = "(interrupted) ";
/// What stands around the number in front of the digest of what continues an exchange.
const CONTINUES_MARK: (&str, &str) = ("(continues #", ") ");

/// Whether more is expected in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExchangeState {
    /// The model is still working, or the user has just asked.
    Open,
    /// A final answer was given, or the turn was ended explicitly.
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

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Open, Self::Closed, Self::Interrupted]
            .into_iter()
            .find(|state| state.name() == name)
    }

    /// The state of what nothing more is expected in.
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

/// What an exchange remembers of its messages: enough for a title and a digest without reading them again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headline {
    /// The first line of what the user said.
    pub title: String,
    /// The tools called, in order of their first call, with the number of calls.
    pub tools: Vec<(String, u32)>,
    /// How many results report a failure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// The first line of the last thing the model said.
    pub answer: String,
    /// The names of the speakers, if messages have them, by when each spoke last; without humans who step in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub speakers: Vec<String>,
    /// The first leg of the exchange, if this is a later one, or if a fork or a rewind kept the leg before from taking more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// Where the leg begins that this is a part of, if it isn't the first one of its exchange: at its own number, unless a
    /// fork or a rewind kept the part before from taking more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leg_from: Option<i64>,
    /// Tokens of the parts of its leg that come before it.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub leg_tokens_before: i64,
    /// The newest round, as long as more may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
}

/// Which leg goes on in a new row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// The leg of the row before, which takes no more: a fork or a rewind came between.
    Same,
    /// The next one.
    Next,
}

/// A message as the ledger sees it: its kind, tokens and time, and what it adds to the headline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The message's kind.
    pub kind: Kind,
    /// Whether it ends the open exchange as interrupted.
    pub interrupts: bool,
    /// Whether it is a request of the user's: a message of the user's role may be all a program's.
    pub is_request: bool,
    /// The message's tokens.
    pub tokens: i64,
    /// When it was said; the time of arrival if the client gave none, or a later one.
    pub at: Timestamp,
    /// The first line of its text; of the user's, of what they said themselves.
    pub line: String,
    /// Names of the tools it calls.
    pub tools: Vec<String>,
    /// How many of the results in it report a failure.
    pub failures: u32,
    /// The speaker's name, in a shared conversation; `None` for a human who steps in.
    pub speaker: Option<String>,
    /// Which answer of the model it is a part of.
    pub response: ResponsePart,
}

impl LedgerEntry {
    /// The ledger's view of `message`, which costs `tokens` and was said at `at`. Secrets in its line are redacted by the
    /// rules of `redactor`: headlines are shown to readers.
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

/// A row of the ledger: an exchange or, of one that outgrew a step, a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Its number, from 1; never reused. 0 is the preamble.
    pub exchange: i64,
    /// The session it belongs to.
    pub session: i64,
    /// Sequence number of its first message.
    pub first_seq: i64,
    /// Sequence number of its last message.
    pub last_seq: i64,
    /// How many of its messages are sent: metadata doesn't count.
    pub messages: i64,
    /// Its tokens.
    pub tokens: i64,
    /// Tokens of all live exchanges before it (without the preamble).
    pub tokens_before: i64,
    /// Whether it is open, complete or interrupted.
    pub state: ExchangeState,
    /// The earliest time of its messages.
    pub opened_at: Timestamp,
    /// The latest time of its first message and of those that are said; others may come days later.
    pub last_at: Timestamp,
    /// What it was about.
    pub headline: Headline,
    /// When it was set aside by a rewind, if it was.
    pub set_aside_at: Option<Timestamp>,
}

impl Exchange {
    /// A new exchange whose first message is `entry`, stored as number `seq`.
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

    /// The same, as what comes after `before` in the same exchange.
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

    /// The first leg of its exchange: itself, or the first of those that it continues.
    pub fn begins_with(&self) -> i64 {
        self.headline.continues.unwrap_or(self.exchange)
    }

    /// Where its leg begins: at itself, or at an earlier part of it.
    pub fn leg_from(&self) -> i64 {
        self.headline.leg_from.unwrap_or_else(|| self.begins_with())
    }

    /// Whether a leg begins with it that isn't the first one of its exchange.
    pub fn is_later_leg(&self) -> bool {
        self.headline.leg_from == Some(self.exchange)
    }

    /// Tokens of its leg so far.
    pub fn leg_tokens(&self) -> i64 {
        self.headline.leg_tokens_before + self.tokens
    }

    /// Whether the next leg has to begin before `entry`: this one holds `leg_tokens`, and `entry` begins a round. 0 never
    /// cuts.
    pub fn ends_leg_before(&self, entry: &LedgerEntry, leg_tokens: i64) -> bool {
        let is_full = leg_tokens > 0 && self.leg_tokens() >= leg_tokens;
        // Of rows that were written before rounds were kept, nobody knows whether an answer goes on.
        let headline = &self.headline;
        let is_known = headline.round.is_some() || (headline.tools.is_empty() && headline.answer.is_empty());
        is_full && is_known && Round::is_begun_by(self.headline.round.as_ref(), &entry.kind, &entry.response)
    }

    /// Takes one more message in.
    pub fn add(&mut self, seq: i64, entry: &LedgerEntry) {
        self.last_seq = seq;
        self.messages += i64::from(entry.kind.is_conversation());
        self.tokens += entry.tokens;
        self.state = self.state.after(entry);
        self.opened_at = self.opened_at.min(entry.at);
        // What nobody says (a clear, a title, usage) may come days later, and makes nothing younger.
        if entry.kind.is_conversation() {
            self.last_at = self.last_at.max(entry.at);
        }
        self.headline.add(entry);
    }

    /// The same, once another row is the newest: no round of it goes on.
    #[must_use]
    pub fn left(mut self) -> Self {
        self.headline.round = None;
        self
    }

    /// Whether the model's message `entry` begins the next exchange of a conversation of several speakers: in an
    /// exchange each speaks once, so a speaker who spoke before another one opens the next. Never while a call waits
    /// for its result.
    pub fn is_over_by(&self, entry: &LedgerEntry) -> bool {
        self.state != ExchangeState::Open && self.headline.has_passed_to_another(entry.speaker.as_deref())
    }

    /// Whether the user's message `entry` answers this exchange, in a conversation of several speakers who all speak as
    /// users: another one opened it, and no model has said anything yet.
    pub fn is_answered_by(&self, entry: &LedgerEntry) -> bool {
        let speakers = &self.headline.speakers;
        let is_new = |name: &String| !speakers.contains(name) && speakers.len() < HEADLINE_SPEAKERS_MAX;
        self.state == ExchangeState::Open
            && self.headline.tools.is_empty()
            && !speakers.is_empty()
            && entry.speaker.as_ref().is_some_and(is_new)
    }

    /// Whether the message of that number is in its range.
    pub fn holds(&self, seq: i64) -> bool {
        (self.first_seq..=self.last_seq).contains(&seq)
    }

    /// Tokens of all live exchanges up to and including this one.
    pub fn tokens_through(&self) -> i64 {
        self.tokens_before + self.tokens
    }

    /// A summary of it in one line, made without a model: the headline's, whether it was interrupted, and what it continues.
    pub fn digest(&self) -> String {
        self.marked(&self.headline.digest())
    }

    /// What is `said` of it, marked if it was interrupted or continues another one: in front, where no cut takes the marks away.
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

/// A digest without the marks in front of it.
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

    /// Whether it was forgotten, so that nothing said in it is left.
    pub fn is_forgotten(&self) -> bool {
        self.title == FORGOTTEN_TITLE && self.tools.is_empty() && self.answer.is_empty()
    }

    /// Says that something of the exchange was forgotten, if what is left gives it no title.
    pub fn note_forgotten(&mut self) {
        if self.title.is_empty() {
            FORGOTTEN_TITLE.clone_into(&mut self.title);
        }
    }

    /// The same with secrets redacted.
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

    /// Whether `speaker` has spoken, and another one since.
    fn has_passed_to_another(&self, speaker: Option<&str>) -> bool {
        let place = self
            .speakers
            .iter()
            .position(|known| Some(known.as_str()) == speaker);
        place.is_some_and(|place| place + 1 < self.speakers.len())
    }

    /// What was asked, with which tools, how often they failed, what was answered; see [`Exchange::digest`].
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
    fn a_digest_says_what_was_asked_done_and_answered() {
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
    fn a_digest_says_how_often_tools_failed_and_calls_no_programs_words_the_users() {
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
    fn a_digest_says_that_its_exchange_was_interrupted() {
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
