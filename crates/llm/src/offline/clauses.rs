//! The clauses of an exchange, each with a prior: how likely it is important, judged by its speaker and its position.

use super::{
    coordinate,
    cues::{
        ANSWERS, CONDITIONS, COURTESY, FAILURES, FIRST_PERSON, GREETINGS, OFFERS, OFFERS_FIRST,
        REQUEST_FORMULAS, demands, mentions,
    },
    cuts::negates,
    patches,
    sentences::{Sentence, paragraphs},
    weigh::{Term, Vocabulary, WordShape},
};
use recapd_core::domain::text::floor_cut;

/// Later sentences of a user's text count half, because the beginning represents a pasted log or list.
const PASTE_SENTENCES: usize = 8;
/// With fewer words, prose can't be distinguished from code: a name and a number may be what the user asked for.
const CODE_WORDS_MIN: usize = 6;
/// A sentence of up to this many words that begins as a greeting is only a greeting.
const GREETING_WORDS: usize = 5;
/// An opening is removed only if this many letters and digits follow.
const OPENING_REST_CHARS_MIN: usize = 12;
/// The first person is searched in this many words, because it comes early in sentences about oneself.
const PERSON_WORDS: usize = 6;
/// Limits the sentences that are read of one text: two thirds from its beginning, one third from its end.
const SENTENCES_MAX: usize = 240;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClauseSource {
    User,
    /// The model, or the second speaker.
    Model,
    /// A tool that reports a failure.
    Failure,
}

#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub(super) source: ClauseSource,
    /// The speaker's name; empty if unknown.
    pub(super) speaker: String,
    pub(super) text: String,
    pub(super) terms: Vec<Term>,
    /// How likely the clause is important by its position and form, around 1.
    pub(super) prior: f64,
    /// The clause's line in the transcript.
    pub(super) line: usize,
}

/// The role a text plays in its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextRole {
    /// A speaker in a conversation of people.
    Talk,
    Request,
    /// The model's text before a tool call.
    Narration,
    Answer,
}

/// Returns the sentences of a text with their priors. `continues_code` is true if the same voice's previous text ended within a
/// block of code.
pub(super) fn rated_sentences(text: &str, role: TextRole, continues_code: bool) -> Vec<(String, f64)> {
    let paragraphs = paragraphs(text, continues_code);
    let last = paragraphs.len().saturating_sub(1);
    let mut clauses: Vec<(String, f64)> = paragraphs
        .into_iter()
        .enumerate()
        .flat_map(|(index, sentences)| sentences.into_iter().map(move |sentence| (index, sentence)))
        .flat_map(|(index, sentence)| {
            parts(sentence, role).into_iter().map(move |sentence| (index, sentence))
        })
        .enumerate()
        .map(|(index, (paragraph, sentence))| {
            let prior = position_factor(role, index, paragraph == last) * form_factor(role, &sentence);
            // A model agrees with what it quotes; a user quotes other people.
            let is_foreign = sentence.is_quoted && matches!(role, TextRole::Request | TextRole::Talk);
            let text = without_opening(sentence.text, role);
            let text = if is_foreign { format!("‘{text}’") } else { text };
            (text, prior)
        })
        .collect();
    if clauses.len() > SENTENCES_MAX {
        clauses.drain(SENTENCES_MAX * 2 / 3..clauses.len() - SENTENCES_MAX / 3);
    }
    clauses
}

/// Splits a sentence of talk into clauses, because each fact counts separately. Keeps a request or an answer whole.
fn parts(sentence: Sentence, role: TextRole) -> Vec<Sentence> {
    if role != TextRole::Talk {
        return vec![sentence];
    }
    let part = |text: &str| Sentence { text: text.to_owned(), ..sentence };
    coordinate::clauses(&sentence.text).into_iter().map(part).collect()
}

fn position_factor(role: TextRole, index: usize, is_last_paragraph: bool) -> f64 {
    match role {
        TextRole::Talk => 1.0,
        TextRole::Request if index == 0 => 1.5,
        TextRole::Request if index < PASTE_SENTENCES => 1.2,
        TextRole::Request => 0.5,
        TextRole::Narration => 0.45,
        TextRole::Answer if index == 0 || is_last_paragraph => 1.1,
        TextRole::Answer => 0.8,
    }
}

fn form_factor(role: TextRole, sentence: &Sentence) -> f64 {
    let text = sentence.text.as_str();
    let form = match role {
        _ if greets(text) && text.split_whitespace().count() <= GREETING_WORDS => 0.25,
        TextRole::Talk if asks(text) => 0.45,
        TextRole::Talk => person_factor(text),
        TextRole::Request => request_factor(text),
        TextRole::Narration | TextRole::Answer => answer_factor(sentence),
    };
    if is_code(text) { form * 0.2 } else { form }
}

/// Rates a user's sentence. Demands and errors count more. Single words (`/clear`, `yes`), stage directions and announcements
/// count less.
fn request_factor(text: &str) -> f64 {
    let is_single_word = !text.contains(char::is_whitespace) && text.is_ascii() && !is_path(text);
    if is_single_word || is_aside(text) || announces(text) {
        0.15
    } else if demands(text) {
        1.8
    } else if reports_fault(text) {
        1.4
    } else {
        1.0
    }
}

/// Rates a model's sentence. A path alone, which is usually a changed file, counts more. Offers, questions, fragments and list
/// points count less.
fn answer_factor(sentence: &Sentence) -> f64 {
    let text = sentence.text.as_str();
    if is_path(text) {
        if text.contains('/') { 2.5 } else { 1.2 }
    } else if asks(text) {
        0.25
    } else if sentence.is_listed || is_fragment(text) || offers(text) {
        0.45
    } else {
        1.0
    }
}

fn asks(text: &str) -> bool {
    text.ends_with(['?', '？', '؟'])
}

fn announces(text: &str) -> bool {
    text.ends_with([':', '：'])
}

/// Returns true for text that nobody says: `*sighs*`, `[Request interrupted]`.
fn is_aside(text: &str) -> bool {
    (text.starts_with('*') && text.ends_with('*')) || (text.starts_with('[') && text.ends_with(']'))
}

fn is_path(text: &str) -> bool {
    const PATH_BYTES_MAX: usize = 100;
    let file = text.rsplit('/').next().unwrap_or_default();
    let has_ending = file.rsplit_once('.').is_some_and(|(name, ending)| {
        !name.is_empty() && !ending.is_empty() && ending.chars().all(char::is_alphanumeric)
    });
    text.len() <= PATH_BYTES_MAX && !text.contains(char::is_whitespace) && has_ending
}

/// Returns true for a title, a label or an announcement: it is short, or lacks the end of a sentence.
fn is_fragment(text: &str) -> bool {
    const FRAGMENT_WORDS: usize = 6;
    let ends = text.ends_with(['.', '!', '…', ')', '"', '”', '。', '！', '।']);
    text.ends_with([':', '：'])
        || (!ends && text.is_ascii() && text.split_whitespace().count() < FRAGMENT_WORDS)
}

/// Rates a sentence of talk. People tell facts about themselves in the first person.
fn person_factor(text: &str) -> f64 {
    let mut words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    if words.by_ref().take(PERSON_WORDS).any(|word| FIRST_PERSON.contains(&word.as_str())) {
        1.25
    } else {
        1.0
    }
}

/// Returns true if the model offers or asks for something, instead of reporting an outcome.
fn offers(text: &str) -> bool {
    let lower = text.to_lowercase();
    OFFERS_FIRST.iter().any(|cue| lower.starts_with(cue)) || OFFERS.iter().any(|cue| lower.contains(cue))
}

fn reports_fault(text: &str) -> bool {
    mentions(text, &FAILURES)
}

/// Returns true for code, a patch or a log: many symbols and few words, mostly tokens that aren't words, or mostly lines and
/// bars.
pub(super) fn is_code(text: &str) -> bool {
    let signs = text.chars().filter(|c| "()[]{}=<>;\"'\\|_+^~".contains(*c)).count();
    let visible = text.chars().filter(|c| !c.is_whitespace()).count();
    let all = text.split_whitespace().count();
    let words = text.split_whitespace().filter(|word| is_word(word)).count();
    let is_symbolic = signs * 10 >= visible && words < 5;
    is_symbolic
        || (all >= CODE_WORDS_MIN && words * 2 < all)
        || is_rule_or_table(text, visible)
        || text.starts_with(patches::FIRST_HEADER)
}

/// Returns true for letters that may be surrounded by punctuation.
fn is_word(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| ",.:!?()“”‘’\"'…".contains(c));
    let is_letter = |c: char| c.is_alphabetic() || !c.is_ascii() || "'-/".contains(c);
    bare.contains(char::is_alphabetic) && bare.chars().all(is_letter)
}

/// Returns true for bars, lines and pixels: less than half of the characters are letters or digits.
fn is_rule_or_table(text: &str, visible: usize) -> bool {
    let alphanumerics = text.chars().filter(|c| c.is_alphanumeric()).count();
    visible > 40 && alphanumerics * 2 < visible
}

/// Removes the polite opening of a sentence, and the formula of a request: `Sure, I'd like to leave` becomes `leave`.
fn without_opening(text: String, role: TextRole) -> String {
    let rest = without_courtesy(&text);
    let rest = if role == TextRole::Request { without_formula(rest) } else { rest };
    let has_content = rest.chars().filter(|c| c.is_alphanumeric()).count() >= OPENING_REST_CHARS_MIN;
    if has_content && rest.len() < text.len() { rest.to_owned() } else { text }
}

fn without_courtesy(text: &str) -> &str {
    const OPENING_BYTES_MAX: usize = 24;
    let head = floor_cut(text, OPENING_BYTES_MAX);
    let Some((opening, _)) = head.split_once([',', '!']) else {
        return text;
    };
    let rest = text.get(opening.len() + 1..).unwrap_or_default().trim_start();
    if is_courtesy(opening) { rest } else { text }
}

/// Returns true if an opening can be removed without changing the meaning.
fn is_courtesy(opening: &str) -> bool {
    let lower = opening.to_lowercase();
    let words = lower.split_whitespace();
    let is_polite =
        || words.clone().all(WordShape::is_empty_talk) && words.clone().any(|word| COURTESY.contains(word));
    ANSWERS.contains(lower.trim())
        || ((greets(opening) || is_polite())
            && !words.clone().any(|word| CONDITIONS.contains(word) || negates(word)))
}

fn without_formula(text: &str) -> &str {
    let head = floor_cut(text, 32).to_lowercase().replace('’', "'");
    let is_prefix = |formula: &&&str| head.strip_prefix(**formula).is_some_and(|rest| rest.starts_with(' '));
    // Counts characters, because a curly apostrophe has more bytes than a straight one.
    let chars = REQUEST_FORMULAS.iter().find(is_prefix).map_or(0, |formula| formula.chars().count() + 1);
    text.char_indices().nth(chars).and_then(|(index, _)| text.get(index..)).unwrap_or(text)
}

pub(super) fn greets(text: &str) -> bool {
    let head = floor_cut(text.trim_start(), 32).to_lowercase();
    GREETINGS.iter().any(|greeting| {
        head.strip_prefix(greeting)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphabetic() && c.is_ascii()))
    })
}

impl Clause {
    /// Reads the words of `text` from exchange number `exchange` of the batch.
    pub(super) fn read(
        vocabulary: &mut Vocabulary,
        exchange: usize,
        source: ClauseSource,
        (text, prior): (String, f64),
        (speaker, line): (&str, usize),
    ) -> Self {
        Self {
            source,
            speaker: speaker.to_owned(),
            terms: vocabulary.read(&text, exchange),
            text,
            prior,
            line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_are_left_out_where_something_follows() {
        let cases = [
            ("Sure, my id is kim_9 and more.", "my id is kim_9 and more."),
            ("Hi, I’d like to change my flight.", "change my flight."),
            ("Could you please look at it again?", "look at it again?"),
            ("I need to go.", "I need to go."),
            ("Thanks!", "Thanks!"),
            ("Yes, please.", "Yes, please."),
            ("Yes, delete the branch.", "delete the branch."),
            ("Thank you so much, the branch is gone.", "the branch is gone."),
            ("Hi if all is good, delete it.", "Hi if all is good, delete it."),
            ("I don't know, the port may be free.", "I don't know, the port may be free."),
            ("If not, delete the staging database.", "If not, delete the staging database."),
            ("If all is good, delete it at nine.", "If all is good, delete it at nine."),
            ("Other than this, all tests pass.", "Other than this, all tests pass."),
            ("Wenn nicht, bitte alles löschen.", "Wenn nicht, bitte alles löschen."),
            ("Anna, the flight leaves at nine.", "Anna, the flight leaves at nine."),
        ];
        for (text, expected) in cases {
            assert_eq!(without_opening(text.to_owned(), TextRole::Request), expected);
        }
    }

    #[test]
    fn a_users_quotation_is_marked_as_somebody_elses() {
        let texts = |role| -> Vec<String> {
            let sentences = rated_sentences("> I deleted the tables.\nWho was that?", role, false);
            sentences.into_iter().map(|(text, _)| text).collect()
        };
        assert_eq!(texts(TextRole::Request), ["‘I deleted the tables.’", "Who was that?"]);
        assert_eq!(texts(TextRole::Answer), ["I deleted the tables.", "Who was that?"]);
    }

    #[test]
    fn greetings_open_in_many_languages() {
        for text in ["Hi! I need help", "Hello", "Guten Tag, ich", "你好，我", "  hey Nate"] {
            assert!(greets(text), "{text}");
        }
        for text in ["history of Rome", "Highway", "", "I said hi"] {
            assert!(!greets(text), "{text}");
        }
    }

    #[test]
    fn requests_and_answers_weigh_more_than_narration_and_questions() {
        let prior = |text: &str, role| rated_sentences(text, role, false)[0].1;
        assert!(prior("Cancel it.", TextRole::Request) > prior("It is cancelled.", TextRole::Answer));
        assert!(prior("It is cancelled.", TextRole::Answer) > prior("I will look.", TextRole::Narration));
        assert!(prior("Shall I?", TextRole::Answer) < prior("I shall.", TextRole::Answer));
    }
}
