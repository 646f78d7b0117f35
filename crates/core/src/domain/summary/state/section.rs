//! Writes the first section of the document: the facts that hold, as far as there is room.

use std::cmp::Reverse;

use crate::domain::{
    neutralize::QUOTE_MARK,
    summary::{
        fact::{FACT_CHARS_MAX, Fact, FactKind},
        line::{clean, plain},
        render::heading_text,
    },
    tokens::TokenCounter,
    transcript::Voice,
};

/// The section's heading, without the Markdown mark.
pub const HEADING: &str = "Where Things Stand";
/// Limits the section to this many tokens.
pub const STATE_TOKENS_MAX: i64 = 1_200;
/// The section gets at most 1/`CEILING_PART` of the document's ceiling, but see [`SMALL_TOKENS_MAX`]. Minor facts never get more.
const CEILING_PART: i64 = 8;
/// In a small document the section gets this many tokens, up to a third of the ceiling. Otherwise no fact would fit.
const SMALL_TOKENS_MAX: i64 = 150;
const SPEAKER_CHARS_MAX: usize = 40;

/// Writes the section about the facts that hold, with an empty line at its end. It has at most [`STATE_TOKENS_MAX`] tokens and an eighth
/// of the document's `ceiling`, or a third if the document is small. Its last line counts the facts that don't fit. Returns an empty text
/// if no fact holds or fits.
pub fn section(facts: &[Fact], ceiling: i64, counter: &dyn TokenCounter) -> String {
    let mut page = FactLines::of(facts);
    page.fit(ceiling, counter);
    page.text()
}

/// Returns how many tokens the section may have in a document with that ceiling.
pub(super) fn room(ceiling: i64) -> i64 {
    let small = SMALL_TOKENS_MAX.min(ceiling / 3);
    STATE_TOKENS_MAX.min(ceiling / CEILING_PART).max(small)
}

struct FactLines<'a> {
    /// In the document's order.
    lines: Vec<(&'a Fact, String)>,
    /// Indices of the shown lines. The last one is dropped first.
    shown_indices: Vec<usize>,
}

impl<'a> FactLines<'a> {
    fn of(facts: &'a [Fact]) -> Self {
        let mut facts: Vec<&Fact> = facts.iter().collect();
        facts.sort_by_key(|fact| (fact.kind, age(fact)));
        let lines: Vec<(&Fact, String)> = facts.into_iter().map(|fact| (fact, line(fact))).collect();
        let mut shown_indices: Vec<usize> = (0..lines.len()).collect();
        shown_indices
            .sort_by_key(|&index| Reverse((rank(lines[index].0), age(lines[index].0), Reverse(index))));
        Self { lines, shown_indices }
    }

    /// Drops lines, lower ranks first, until the text has the room that a document with this `ceiling` gives it. A minor list that
    /// doesn't fit loses its folders, and then its beginning, since its end is the newest.
    fn fit(&mut self, ceiling: i64, counter: &dyn TokenCounter) {
        let room = room(ceiling);
        if counter.count(&self.text()) <= room.min(ceiling / CEILING_PART) {
            return;
        }
        let (mut remaining, mut minor_remaining) = (room, ceiling / CEILING_PART);
        let lines = &mut self.lines;
        self.shown_indices.retain(|&index| {
            let (fact, line) = &mut lines[index];
            let is_minor = !fact.pinned && fact.kind.is_minor();
            let has_room = |line: &str| {
                let room = if is_minor { remaining.min(minor_remaining) } else { remaining };
                counter.count(line) <= room
            };
            if is_minor && !has_room(line) {
                *line = shorten_list(fact, has_room).unwrap_or_default();
            }
            let fits = !line.is_empty() && has_room(line);
            let cost = if fits { counter.count(line) } else { 0 };
            remaining -= cost;
            minor_remaining -= if is_minor { cost } else { 0 };
            fits
        });
        // A sum of parts is only an estimate, so the whole text is counted.
        while !self.shown_indices.is_empty() && counter.count(&self.text()) > room {
            self.shown_indices.pop();
        }
    }

    fn text(&self) -> String {
        if self.shown_indices.is_empty() {
            return String::new();
        }
        let lines = (0..).zip(&self.lines).filter(|(index, _)| self.shown_indices.contains(index));
        let mut text = heading_text(HEADING);
        text.extend(lines.map(|(_, (_, line))| line.as_str()));
        let dropped = self.lines.len() - self.shown_indices.len();
        if dropped > 0 {
            let more = format!("- (not shown: {dropped} more, which `recapd facts` lists)\n");
            text.push_str(&more);
        }
        text.push('\n');
        text
    }
}

/// Returns the rank of a fact. Lower ranks are dropped first.
fn rank(fact: &Fact) -> (bool, u8) {
    let is_result =
        matches!(fact.voice, Some(Voice::Result | Voice::FailedResult | Voice::Call | Voice::Program));
    let rank = match fact.kind {
        FactKind::DeadEnd => 0,
        FactKind::State if is_result => 1,
        FactKind::Person => 2,
        FactKind::State if is_check(fact) => 3,
        FactKind::State => 4,
        FactKind::Open => 5,
        FactKind::Decision => 6,
        FactKind::Goal => 7,
        FactKind::Demand => 8,
    };
    (fact.pinned, rank)
}

/// Returns true for the result of a test or a build: `` `cargo test` passed ``. The next run makes it out of date.
fn is_check(fact: &Fact) -> bool {
    fact.text.starts_with('`')
}

/// A key that sorts facts by age, oldest first. A fact that isn't stored yet is the newest.
fn age(fact: &Fact) -> (i64, bool, i64) {
    (fact.since.0, fact.fact == 0, fact.fact)
}

/// Writes `- State (#38): the tests pass` and a line feed.
fn line(fact: &Fact) -> String {
    let (kind, source, text) = (subject(fact), source(fact), quote_text(fact));
    format!("- {kind} ({source}): {text}\n")
}

/// Writes the line with the names of the list's files, without their folders, and as much of the list's end as fits:
/// `Files changed: … b.rs, c.rs`.
fn shorten_list(fact: &Fact, has_room: impl Fn(&str) -> bool) -> Option<String> {
    let (label, list) = fact.text.split_once(": ")?;
    let names: Vec<&str> = list.split(", ").map(name_of_path).collect();
    let mut lines = (0..names.len()).map(|first_shown| {
        let mark = if first_shown > 0 { "… " } else { "" };
        let end = names.get(first_shown..).unwrap_or_default().join(", ");
        let text = format!("{label}: {mark}{end}");
        line(&Fact { text, ..fact.clone() })
    });
    lines.find(|line| has_room(line))
}

fn name_of_path(path: &str) -> &str {
    let name = path.rsplit('/').next().filter(|name| !name.is_empty());
    name.unwrap_or(path)
}

fn subject(fact: &Fact) -> String {
    match (fact.kind, speaker(fact)) {
        (FactKind::Demand, None) if is_from_user(fact) => "The user demands".to_owned(),
        (FactKind::Demand, Some(name)) if is_from_user(fact) => format!("The user {name} demands"),
        (FactKind::Demand, _) => "Demand".to_owned(),
        (FactKind::Goal, _) => "Goal".to_owned(),
        (FactKind::Decision, _) => "Decision".to_owned(),
        (FactKind::State, _) => "State".to_owned(),
        (FactKind::Open, _) => "Open".to_owned(),
        (FactKind::DeadEnd, _) => "Dead end".to_owned(),
        (FactKind::Person, _) => "Person".to_owned(),
    }
}

/// Writes `#38` and who wrote the fact's words, unless the kind implies the user.
fn source(fact: &Fact) -> String {
    let origin = if is_from_operator(fact) { "by hand".to_owned() } else { format!("#{}", fact.exchange) };
    let voice = match fact.voice {
        None => return origin,
        Some(Voice::User) if fact.kind == FactKind::Demand => return origin,
        Some(Voice::User) => in_words_of(fact, "the user"),
        Some(Voice::Assistant) => in_words_of(fact, "the assistant"),
        Some(Voice::Call) => "from a tool call".to_owned(),
        Some(Voice::Result) => "from a tool's result".to_owned(),
        Some(Voice::FailedResult) => "from a failed tool's result".to_owned(),
        Some(Voice::Program) => "from a program".to_owned(),
    };
    format!("{origin}, {voice}")
}

fn in_words_of(fact: &Fact, role: &str) -> String {
    let name = speaker(fact).map(|name| format!(" {name}"));
    format!("in the words of {role}{}", name.unwrap_or_default())
}

/// Returns the speaker's name. Returns none for a tool.
fn speaker(fact: &Fact) -> Option<String> {
    let is_person = matches!(fact.voice, Some(Voice::User | Voice::Assistant));
    let name = fact.speaker.trim();
    (is_person && !name.is_empty()).then(|| clean(name, SPEAKER_CHARS_MAX))
}

/// Writes the text. A user's demand stays as it is, because the user still wants it.
fn quote_text(fact: &Fact) -> String {
    if fact.kind == FactKind::Demand && (is_from_user(fact) || is_from_operator(fact)) {
        return in_quotation_marks(&plain(&fact.text, FACT_CHARS_MAX));
    }
    let text = clean(&fact.text, FACT_CHARS_MAX);
    if fact.voice.is_none() || text.starts_with(QUOTE_MARK) { text } else { in_quotation_marks(&text) }
}

fn is_from_user(fact: &Fact) -> bool {
    fact.voice == Some(Voice::User)
}

/// Returns true for an operator's fact. Its words have as much force as the user's.
fn is_from_operator(fact: &Fact) -> bool {
    fact.exchange == 0
}

/// Quotes a text. Replaces the marks in it that would end the quotation.
fn in_quotation_marks(text: &str) -> String {
    let text = text.replace(['“', '„', '«'], "‘").replace(['”', '»'], "’");
    format!("“{text}”")
}
