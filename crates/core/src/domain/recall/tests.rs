use proptest::prelude::*;

use super::{
    words::{Word, words},
    *,
};
use crate::domain::{
    message::Kind,
    time::{DAY_MS, Timestamp},
};

fn labels(query: &str) -> Vec<String> {
    let query = Query::parse(query).unwrap();
    let quoted = |term: &Term| if term.is_phrase() { "\"" } else { "" };
    query.terms().iter().map(|term| format!("{}{}", term.label(), quoted(term))).collect()
}

#[test]
fn a_query_is_words_and_phrases() {
    for (query, terms) in [
        ("JWT auth", &["jwt", "auth"][..]),
        ("\"open the door\" now", &["open the door\"", "now"]),
        ("src/parser.rs", &["src parser rs\""]),
        ("a of", &["a", "of"]),
        ("auth AUTH auths", &["auth"]),
        ("NEAR(a b) OR -x:y*", &["near a\"", "b", "x y\""]),
        ("“left open", &["left open\""]),
        ("日本語", &["日 本 語\""]),
        ("über'", &["uber"]),
        ("Zoë ZOE\u{308}", &["zoe"]),
        ("What did Ann's well-being do to the l'oréal deal?", &["ann", "well", "oreal", "deal"]),
        ("Why don't we?", &["why", "don", "we"]),
    ] {
        let terms: Vec<String> = terms.iter().map(|&term| term.to_owned()).collect();
        let mut found = labels(query);
        found.retain(|term| term != "or");
        assert_eq!(found, terms, "{query}");
    }
}

#[test]
fn an_invalid_query_has_a_reason() {
    assert_eq!(Query::parse(" \"\" * -- "), Err(QueryError::Empty));
    assert_eq!(Query::parse(&"x".repeat(1_001)), Err(QueryError::TooLong(1_001)));
}

#[test]
fn words_match_in_all_forms_and_phrases_exactly() {
    let text = "The Authentication uses RS256; 日本語で話す, parser.rs:12";
    for (query, expected) in [
        ("auth", true),
        ("use", true),
        ("authentications", true),
        ("\"auth\"", false),
        ("\"uses rs256\"", true),
        ("\"rs256 uses\"", false),
        ("本語", true),
        ("語本", false),
        ("parser.rs", true),
        ("th", false),
    ] {
        assert_eq!(Query::parse(query).unwrap().find_terms(text), [expected], "{query}");
    }
}

#[test]
fn words_lose_their_accents() {
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
        assert_eq!(folded_name(word), expected, "{word}");
    }
}

#[test]
fn accents_make_no_difference_in_any_encoding() {
    let far = "x ".repeat(300);
    for name in ["Zoë", "Zoe\u{308}", "zoe"] {
        let text = format!("{far}Ask {name} first");
        for query in ["Zoe", "zoë", "ZOE\u{308}", "\"ask Zoë\""] {
            let query = Query::parse(query).unwrap();
            assert_eq!(query.find_terms(&text), [true], "{query:?} in {name}");
            let excerpt = query.excerpt(&text);
            assert!(excerpt.ends_with(&format!("Ask {name} first")), "{excerpt}");
        }
    }
}

#[test]
fn an_excerpt_shows_the_part_with_the_most_terms() {
    let text = format!("token {} the JWT\ntoken expired {}", "x ".repeat(300), "y ".repeat(300));
    let excerpt = Query::parse("jwt token").unwrap().excerpt(&text);
    assert!(excerpt.contains("the JWT token expired y"), "{excerpt}");
    assert!(excerpt.starts_with('…') && excerpt.ends_with('…'), "{excerpt}");
    assert_eq!(Query::parse("none").unwrap().excerpt("Short."), "Short.");
}

#[test]
fn thinking_and_metadata_are_not_searched() {
    let mut message = Message::new(
        Kind::ToolCall,
        vec![
            Part::Thinking("secret".to_owned().into()),
            Part::ToolCall { id: None, name: "bash".to_owned(), arguments: "{\"cmd\":\"ls\"}".to_owned() },
            Part::Text("x".repeat(20_000)),
        ],
    );
    let text = searchable(&message);
    assert!(text.starts_with("bash\n{\"cmd\"") && text.len() < 17_000, "{}", text.len());
    message.kind = Kind::from_name("usage");
    assert_eq!(searchable(&message), "");
}

proptest! {
    #[test]
    fn every_word_of_a_text_finds_it(text in "\\PC{0,80}", place in 0_usize..20) {
        let all: Vec<Word> = words(&text).collect();
        if let Some(word) = all.get(place) {
            let query = Query::parse(text.get(word.span.clone()).unwrap()).unwrap();
            prop_assert!(query.find_terms(&text).iter().all(|found| *found), "{:?}", word);
            prop_assert!(query.excerpt(&text).chars().count() <= EXCERPT_CHARS_MAX + 2);
        }
    }

    #[test]
    fn any_text_is_a_query_or_an_error(text in "\\PC{0,60}") {
        if let Ok(query) = Query::parse(&text) {
            prop_assert!(query.terms().iter().all(|term| !term.stems().is_empty()));
        }
    }
}

/// An archive of one user's message per exchange, from number 1 on.
fn archive(texts: &[&str]) -> Candidates {
    let messages: Vec<Message> =
        texts.iter().map(|text| Message::new(Kind::User, vec![Part::Text((*text).to_owned())])).collect();
    let sources = messages.iter().zip(1_i64..).map(|(message, seq)| IndexSource {
        seq,
        exchange: seq,
        said_at: Timestamp(seq * DAY_MS),
        message,
    });
    let parts = IndexPart::of(sources);
    let mut totals = IndexTotals::default();
    for part in &parts {
        totals += part.totals();
    }
    Candidates { totals, parts, ..Candidates::default() }
}

fn ranked(archive: &Candidates, search: &ArchiveSearch) -> Vec<i64> {
    archive.rank(search).iter().map(|found| found.exchange).collect()
}

fn asked(words: &str) -> ArchiveSearch {
    ArchiveSearch::new(Query::parse(words).unwrap(), 10)
}

#[test]
fn rare_words_count_more_than_common_ones() {
    let archive =
        archive(&["a plan for the parser", "other", "a plan for tests", "x", "the token plan", "x"]);
    assert_eq!(ranked(&archive, &asked("Which token is in the plans?")), [5, 3, 1]);
    assert_eq!(ranked(&archive, &asked("tok")), [5], "words that begin with it");
    assert_eq!(ranked(&archive, &asked("nowhere")), [0_i64; 0]);
}

#[test]
fn an_exchange_counts_for_its_neighbours() {
    let archive = archive(&["the deploy", "x", "x", "the deploy", "failed tests", "x", "x", "x"]);
    assert_eq!(ranked(&archive, &asked("deploy failing")), [5, 4, 1]);
}

#[test]
fn a_phrase_is_found_where_it_is_verified() {
    let mut archive = archive(&["the open door", "the door is open"]);
    let search = asked("\"open door\"");
    let term = &search.query.terms()[0];
    assert_eq!(archive.find_phrase(term, &search.filter, 10), [2, 1]);
    archive.verified.insert(0, [1].into());
    assert_eq!(ranked(&archive, &search), [1]);
}

#[test]
fn filters_leave_messages_out() {
    let archive = archive(&["door", "door", "door"]);
    let filtered = |filter: Filter| ranked(&archive, &ArchiveSearch { filter, ..asked("door") });
    let at = |day: i64| Some(Timestamp(day * DAY_MS));
    assert_eq!(filtered(Filter { since: at(2), ..Filter::default() }), [3, 2]);
    assert_eq!(filtered(Filter { until: at(2), ..Filter::default() }), [1]);
    assert_eq!(filtered(Filter { role: Some(Role::Tool), ..Filter::default() }), [0_i64; 0]);
    assert_eq!(filtered(Filter { tool: Some("bash".to_owned()), ..Filter::default() }), [0_i64; 0]);
    let everything = ArchiveSearch { query: Query::everything(), order: Order::Recent, ..asked("x") };
    assert_eq!(ranked(&archive, &everything), [3, 2, 1]);
}

#[test]
fn what_was_said_at_the_named_time_counts_more() {
    let archive = archive(&["a door", "x", "x", "x", "a door"]);
    let preferred = Some(TimeSpan { since: Timestamp(DAY_MS), until: Timestamp(2 * DAY_MS) });
    assert_eq!(ranked(&archive, &asked("door")), [5, 1]);
    assert_eq!(ranked(&archive, &ArchiveSearch { preferred, ..asked("door") }), [1, 5]);
}
