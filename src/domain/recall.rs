//! Recall: finding what was said in an archive, by words.
//!
//! A text is a row of words: runs of letters and digits, in lower case and without accents on Latin letters; of scripts
//! that don't separate words, each character is one. A query is a row of terms, and a term is one word or several that
//! follow each other. The same words are used for an index, for what isn't indexed yet, and for excerpts, so that all
//! three agree.

use std::ops::Range;

use unicode_normalization::char::{compose, decompose_canonical};

use super::{
    message::{Message, Part},
    text::{ceil_cut, floor_cut, one_line},
};

/// The longest query, in characters.
pub const QUERY_CHARS_MAX: usize = 1_000;
/// The most terms of a query.
pub const TERMS_MAX: usize = 16;
/// A word of a query of at least so many characters finds every word that begins with it.
pub const OPEN_CHARS_MIN: usize = 3;
/// What is searched of one text of a message, in bytes: half of it from the head, half from the tail.
pub const SEARCHED_BYTES_MAX: usize = 16_384;
/// The longest excerpt, in characters.
pub const EXCERPT_CHARS_MAX: usize = 240;
/// Characters of an excerpt before the first word that was found.
const LEAD_CHARS: usize = 60;

/// Why a query can't be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It holds no word.
    #[error("the query holds no word to look for: give words, or a \"phrase\" in quotation marks")]
    Empty,
    /// It is too long.
    #[error("the query has {0} characters: at most {QUERY_CHARS_MAX} are allowed")]
    TooLong(usize),
    /// It has too many terms.
    #[error("the query has {0} words and phrases: at most {TERMS_MAX} are allowed")]
    TooManyTerms(usize),
}

/// Words that are looked for next to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    words: Vec<String>,
    is_open: bool,
}

impl Term {
    /// Its words, in order; never empty.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether the last word also stands for every word that begins with it.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// How it is shown to people.
    pub fn label(&self) -> String {
        self.words.join(" ")
    }

    fn of(text: &str, is_quoted: bool) -> Option<Self> {
        let words: Vec<String> = words(text).map(|word| word.folded).collect();
        let last = words.last()?;
        let is_long = last.chars().count() >= OPEN_CHARS_MIN;
        let is_open = !is_quoted && is_long;
        Some(Self { words, is_open })
    }

    /// Whether `found` begins with the words of this term.
    fn begins(&self, found: &[Word]) -> bool {
        let Some((last, first)) = self.words.split_last() else {
            return false;
        };
        let ends = |word: &Word| {
            if self.is_open {
                word.folded.starts_with(last)
            } else {
                word.folded == *last
            }
        };
        first.len() < found.len()
            && first.iter().zip(found).all(|(word, found)| *word == found.folded)
            && found.get(first.len()).is_some_and(ends)
    }
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    terms: Vec<Term>,
}

impl Query {
    /// Reads a query: words, and phrases in quotation marks. Nothing else has a meaning, so no text is wrong, but one
    /// without a word.
    ///
    /// # Errors
    /// When it holds no word, is too long or has too many terms.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let chars = text.chars().count();
        if chars > QUERY_CHARS_MAX {
            return Err(QueryError::TooLong(chars));
        }
        let mut terms: Vec<Term> = Vec::new();
        // Every second piece between quotation marks is quoted; one that isn't closed ends with the text.
        for (place, piece) in text.split(['"', '“', '”', '„']).enumerate() {
            if place % 2 == 1 {
                terms.extend(Term::of(piece, true));
            } else {
                terms.extend(piece.split_whitespace().filter_map(|word| Term::of(word, false)));
            }
        }
        let mut unique: Vec<Term> = Vec::new();
        for term in terms {
            if !unique.contains(&term) {
                unique.push(term);
            }
        }
        match unique.len() {
            0 => Err(QueryError::Empty),
            1..=TERMS_MAX => Ok(Self { terms: unique }),
            many => Err(QueryError::TooManyTerms(many)),
        }
    }

    /// What each hit is searched for; never empty.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Which terms `text` holds, by their places in the query.
    pub fn found_in(&self, text: &str) -> Vec<bool> {
        let mut found = vec![false; self.terms.len()];
        for (term, _) in self.spans(text) {
            if let Some(found) = found.get_mut(term) {
                *found = true;
            }
        }
        found
    }

    /// The part of `text` that holds most terms, as one clean line of at most [`EXCERPT_CHARS_MAX`] characters. Where
    /// none is found, its beginning.
    pub fn excerpt(&self, text: &str) -> String {
        let spans = self.spans(text);
        let within = |start: usize| {
            let mut seen = vec![false; self.terms.len()];
            let end = start + EXCERPT_CHARS_MAX - LEAD_CHARS;
            for (term, span) in &spans {
                if let Some(seen) = seen
                    .get_mut(*term)
                    .filter(|_| span.start >= start && span.end <= end)
                {
                    *seen = true;
                }
            }
            seen.into_iter().filter(|seen| *seen).count()
        };
        let starts = spans.iter().map(|(_, span)| span.start);
        // Of equally good places the first.
        let best = starts.rev().max_by_key(|&start| within(start)).unwrap_or(0);
        around(text, best)
    }

    /// Where terms stand in `text`: the term's place in the query, and bytes.
    fn spans(&self, text: &str) -> Vec<(usize, Range<usize>)> {
        let words: Vec<Word> = words(text).collect();
        let mut spans = Vec::new();
        for (place, word) in words.iter().enumerate() {
            let rest = words.get(place..).unwrap_or_default();
            for (number, term) in self.terms.iter().enumerate() {
                if term.begins(rest) {
                    let last = rest.get(term.words.len() - 1);
                    let end = last.map_or(word.span.end, |last| last.span.end);
                    spans.push((number, word.span.start..end));
                }
            }
        }
        spans
    }
}

/// A piece of `text` around byte `at`, as one clean line, with an ellipsis where it was cut.
fn around(text: &str, at: usize) -> String {
    let (before, behind) = text.split_at(text.floor_char_boundary(at));
    let lead_at = before
        .char_indices()
        .rev()
        .nth(LEAD_CHARS - 1)
        .map_or(0, |(at, _)| at);
    let tail_chars = EXCERPT_CHARS_MAX - LEAD_CHARS;
    let tail_at = behind
        .char_indices()
        .nth(tail_chars)
        .map_or(behind.len(), |(at, _)| at);
    let mut excerpt = String::new();
    if lead_at > 0 {
        excerpt.push('…');
    }
    let lead = before.get(lead_at..).unwrap_or_default();
    let tail = behind.get(..tail_at).unwrap_or_default();
    excerpt.push_str(&one_line(&format!("{lead}{tail}")));
    if tail_at < behind.len() {
        excerpt.push('…');
    }
    excerpt
}

/// What is searched of a message: its texts, the tools it calls with their arguments, and what tools returned. Not its
/// thinking, and nothing of metadata.
pub fn searchable(message: &Message) -> String {
    if !message.kind.is_conversation() {
        return String::new();
    }
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text(said) => push(&mut text, said),
            Part::ToolCall { name, arguments, .. } => {
                push(&mut text, name);
                push(&mut text, arguments);
            }
            Part::ToolResult { text: result, .. } => push(&mut text, result),
            Part::Thinking(_) | Part::Attachment(_) => {}
        }
    }
    text
}

fn push(text: &mut String, piece: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    if piece.len() <= SEARCHED_BYTES_MAX {
        text.push_str(piece);
    } else {
        text.push_str(floor_cut(piece, SEARCHED_BYTES_MAX / 2));
        text.push_str("\n…\n");
        text.push_str(ceil_cut(piece, SEARCHED_BYTES_MAX / 2));
    }
}

/// The words of `text` as an index takes them: separated by blanks.
pub fn indexed(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in words(text) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word.folded);
    }
    line
}

/// A word and where it stands, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    span: Range<usize>,
    folded: String,
}

fn words(text: &str) -> impl Iterator<Item = Word> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.find(|&(_, c)| begins_word(c))?;
        let goes_on = |c: char| is_mark(c) || (begins_word(c) && !stands_alone(first) && !stands_alone(c));
        let mut end = start + first.len_utf8();
        while let Some((at, c)) = chars.next_if(|&(_, c)| goes_on(c)) {
            end = at + c.len_utf8();
        }
        Some(Word {
            span: start..end,
            folded: folded(text.get(start..end).unwrap_or_default()),
        })
    })
}

fn begins_word(c: char) -> bool {
    c.is_alphanumeric() && !is_mark(c)
}

/// Whether it belongs to the letter before it: accents, and the voicing marks of Japanese. Names of files on macOS are
/// written with such.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{3099}' | '\u{309a}')
}

/// The word in lower case, without accents on Latin letters, as FTS5's `remove_diacritics 2` has it. Other letters keep
/// theirs, joined to one character, so that both ways to write them are the same.
fn folded(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    for c in word.to_lowercase().chars() {
        if is_mark(c) {
            let last = folded.pop();
            folded.extend(last.map(|last| compose(last, c).map_or(last, without_accent)));
        } else {
            folded.push(without_accent(c));
        }
    }
    folded
}

fn without_accent(c: char) -> char {
    let mut base = None;
    decompose_canonical(c, |part| {
        base.get_or_insert(part);
    });
    base.filter(char::is_ascii_alphabetic).unwrap_or(c)
}

/// Whether words of this character's script aren't separated by blanks: Chinese, Japanese, Thai, Lao, Khmer, Burmese.
fn stands_alone(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x323AF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::message::{Format, Kind};

    fn labels(query: &str) -> Vec<String> {
        let query = Query::parse(query).unwrap();
        let open = |term: &Term| if term.is_open() { "*" } else { "" };
        query
            .terms()
            .iter()
            .map(|term| format!("{}{}", term.label(), open(term)))
            .collect()
    }

    #[test]
    fn a_query_is_words_and_phrases() {
        for (query, terms) in [
            ("JWT auth", &["jwt*", "auth*"][..]),
            ("\"open the door\" now", &["open the door", "now*"]),
            ("src/parser.rs", &["src parser rs"]),
            ("parser.rust", &["parser rust*"]),
            ("a of", &["a", "of"]),
            ("auth AUTH", &["auth*"]),
            ("NEAR(a b) OR -x:y*", &["near a", "b", "x y"]),
            ("“left open", &["left open"]),
            ("日本語", &["日 本 語"]),
            ("über'", &["uber*"]),
            ("Zoë ZOE\u{308}", &["zoe*"]),
        ] {
            let terms: Vec<String> = terms.iter().map(|&term| term.to_owned()).collect();
            let mut found = labels(query);
            found.retain(|term| term != "or");
            assert_eq!(found, terms, "{query}");
        }
    }

    #[test]
    fn what_cannot_be_asked_says_why() {
        assert_eq!(Query::parse(" \"\" * -- "), Err(QueryError::Empty));
        let many: Vec<String> = (0..17).map(|number| format!("w{number}")).collect();
        assert_eq!(Query::parse(&many.join(" ")), Err(QueryError::TooManyTerms(17)));
        assert_eq!(Query::parse(&"x".repeat(1_001)), Err(QueryError::TooLong(1_001)));
    }

    #[test]
    fn words_are_found_from_their_beginning_and_phrases_as_they_are() {
        let text = "The Authentication uses RS256; 日本語で話す, parser.rs:12";
        for (query, expected) in [
            ("auth", true),
            ("\"auth\"", false),
            ("\"uses rs256\"", true),
            ("\"rs256 uses\"", false),
            ("本語", true),
            ("語本", false),
            ("parser.rs", true),
            ("th", false),
        ] {
            assert_eq!(Query::parse(query).unwrap().found_in(text), [expected], "{query}");
        }
    }

    #[test]
    fn words_lose_their_accents_as_on_sqlite() {
        for (word, expected) in [
            ("café", "cafe"),
            ("cafe\u{301}s", "cafes"),
            ("tiếng", "tieng"),
            ("tie\u{302}\u{301}ng", "tieng"),
            ("straße", "straße"),
            ("øre", "øre"),
            ("й", "й"),
            ("и\u{306}", "й"),
            ("が", "が"),
            ("か\u{3099}", "が"),
            ("한", "한"),
            ("İstanbul", "istanbul"),
            ("\u{345} \u{301}", ""),
        ] {
            assert_eq!(indexed(word), expected, "{word}");
        }
    }

    #[test]
    fn accents_make_no_difference_however_they_are_written() {
        let far = "x ".repeat(300);
        for name in ["Zoë", "Zoe\u{308}", "zoe"] {
            let text = format!("{far}Ask {name} first");
            for query in ["Zoe", "zoë", "ZOE\u{308}", "\"ask Zoë\""] {
                let query = Query::parse(query).unwrap();
                assert_eq!(query.found_in(&text), [true], "{query:?} in {name}");
                let excerpt = query.excerpt(&text);
                assert!(excerpt.ends_with(&format!("Ask {name} first")), "{excerpt}");
            }
        }
    }

    #[test]
    fn an_excerpt_shows_where_most_terms_stand() {
        let text = format!(
            "token {} the JWT\ntoken expired {}",
            "x ".repeat(300),
            "y ".repeat(300)
        );
        let excerpt = Query::parse("jwt token").unwrap().excerpt(&text);
        assert!(excerpt.contains("the JWT token expired y"), "{excerpt}");
        assert!(excerpt.starts_with('…') && excerpt.ends_with('…'), "{excerpt}");
        assert_eq!(Query::parse("none").unwrap().excerpt("Short."), "Short.");
    }

    #[test]
    fn thinking_and_metadata_are_not_searched() {
        let mut message = Message {
            kind: Kind::ToolCall,
            speaker: None,
            parts: vec![
                Part::Thinking("secret".to_owned()),
                Part::ToolCall {
                    id: None,
                    name: "bash".to_owned(),
                    arguments: "{\"cmd\":\"ls\"}".to_owned(),
                },
                Part::Text("x".repeat(20_000)),
            ],
            client_id: None,
            at: None,
            interrupts: false,
            important: false,
            format: Format::Native,
            payload: String::new(),
        };
        let text = searchable(&message);
        assert!(
            text.starts_with("bash\n{\"cmd\"") && text.len() < 17_000,
            "{}",
            text.len()
        );
        message.kind = Kind::from_name("usage");
        assert_eq!(searchable(&message), "");
    }

    proptest! {
        #[test]
        fn every_word_of_a_text_finds_it(text in "\\PC{0,80}", place in 0_usize..20) {
            let all: Vec<Word> = words(&text).collect();
            if let Some(word) = all.get(place) {
                let query = Query::parse(text.get(word.span.clone()).unwrap()).unwrap();
                prop_assert!(query.found_in(&text).iter().all(|found| *found), "{:?}", word);
                prop_assert!(query.excerpt(&text).chars().count() <= EXCERPT_CHARS_MAX + 2);
            }
        }

        #[test]
        fn any_text_is_a_query_or_says_why(text in "\\PC{0,60}") {
            if let Ok(query) = Query::parse(&text) {
                prop_assert!(query.terms().iter().all(|term| !term.words().is_empty()));
            }
        }
    }
}
