use proptest::prelude::*;

use super::{
    words::{Word, words},
    *,
};
use crate::domain::message::Kind;

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
fn an_invalid_query_has_a_reason() {
    assert_eq!(Query::parse(" \"\" * -- "), Err(QueryError::Empty));
    let many: Vec<String> = (0..17).map(|number| format!("w{number}")).collect();
    assert_eq!(Query::parse(&many.join(" ")), Err(QueryError::TooManyTerms(17)));
    assert_eq!(Query::parse(&"x".repeat(1_001)), Err(QueryError::TooLong(1_001)));
}

#[test]
fn words_match_by_prefix_and_phrases_exactly() {
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
fn accents_make_no_difference_in_any_encoding() {
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
fn an_excerpt_shows_the_part_with_the_most_terms() {
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
    let mut message = Message::new(
        Kind::ToolCall,
        vec![
            Part::Thinking("secret".to_owned().into()),
            Part::ToolCall {
                id: None,
                name: "bash".to_owned(),
                arguments: "{\"cmd\":\"ls\"}".to_owned(),
            },
            Part::Text("x".repeat(20_000)),
        ],
    );
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
    fn any_text_is_a_query_or_an_error(text in "\\PC{0,60}") {
        if let Ok(query) = Query::parse(&text) {
            prop_assert!(query.terms().iter().all(|term| !term.words().is_empty()));
        }
    }
}
