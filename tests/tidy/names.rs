//! Names of types must be nouns that say what they are, and be unique enough to search for.

use std::collections::BTreeMap;

use super::{Source, assert_tidy, repository};

const SAME_NAME_MAX: usize = 2;
/// Names that every layer may use.
const SHARED_NAMES: [&str; 3] = ["Error", "Settings", "Row"];
/// Participles that don't end in `ed`.
const IRREGULAR_PARTICIPLES: [&str; 32] = [
    "Begun", "Chosen", "Cut", "Done", "Drawn", "Found", "Given", "Gone", "Heard", "Held", "Kept", "Known",
    "Left", "Lost", "Made", "Meant", "Met", "Paid", "Put", "Ran", "Read", "Said", "Seen", "Sent", "Shown",
    "Spent", "Standing", "Taken", "Told", "Unsent", "Waiting", "Written",
];
/// Nouns that end like a participle.
const NOUNS: [&str; 4] = ["Feed", "Need", "Seed", "Speed"];

/// Former names of modules and types, and the field's words for them; see `docs/glossary.md`.
const FIELD_WORDS: [(&str, &str); 18] = [
    ("keeper", "ingest"),
    ("courier", "batch_poller"),
    ("crew", "supervisor"),
    ("portion", "failure_memory"),
    ("beyond", "quarantine"),
    ("pieces", "bisect"),
    ("fleet", "peers"),
    ("bell", "change_listener"),
    ("stock", "database_totals"),
    ("shortcut", "fast_path"),
    ("lamp", "health"),
    ("strata", "agent"),
    ("elide", "truncate_results"),
    ("own_words", "user_text"),
    ("inert", "neutralize"),
    ("spell", "failure_streak"),
    ("examiner", "health_checker"),
    ("hands", "updates"),
];

/// Lists the types of a file by line: structs, enums and traits, and aliases outside of `impl`.
fn types(source: &Source) -> Vec<(usize, String)> {
    if !source.is_rust_in(&["src/", "crates/"]) {
        return Vec::new();
    }
    let code = source.code();
    let named = code.lines().enumerate().filter_map(|(index, line)| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        let mut word = words.next()?;
        // In `pub(in crate::http) struct` the path is a separate word.
        if word.ends_with(')') {
            word = words.next()?;
        }
        let is_type = match word {
            "struct" | "enum" | "trait" => true,
            "type" => !line.starts_with(' '),
            _ => false,
        };
        let name: String = words.next()?.chars().take_while(|c| c.is_alphanumeric()).collect();
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase());
        (is_type && is_name).then_some((index + 1, name))
    });
    named.collect()
}

fn is_participle(name: &str) -> bool {
    let is_one_word = !name.chars().skip(1).any(char::is_uppercase);
    is_one_word && !NOUNS.contains(&name) && (name.ends_with("ed") || IRREGULAR_PARTICIPLES.contains(&name))
}

fn participles(source: &Source) -> Vec<String> {
    let types = types(source).into_iter();
    types
        .filter(|(_, name)| is_participle(name))
        .map(|(line, name)| source.finding(line, &format!("`{name}` is a participle; name the thing")))
        .collect()
}

/// Finds a module of the product that has a former name.
fn private_words(source: &Source) -> Vec<String> {
    if !source.is_rust_in(&["src/", "crates/"]) || source.code().is_empty() {
        return Vec::new();
    }
    let module = source.path.rsplit('/').next().unwrap_or_default();
    let module = module.trim_end_matches(".rs");
    let found = FIELD_WORDS.iter().filter(|(old, _)| *old == module);
    found.map(|(old, new)| source.finding(1, &format!("`{old}`: the field says `{new}`"))).collect()
}

/// Lists the names that too many types share, with their places.
fn shared_names(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        for (line, name) in types(source) {
            let place = source.finding(line, "");
            places.entry(name).or_default().push(place);
        }
    }
    places.retain(|name, places| places.len() > SAME_NAME_MAX && !SHARED_NAMES.contains(&name.as_str()));
    places
        .into_iter()
        .map(|(name, places)| format!("`{name}` names {} types: {}", places.len(), places.join(" ")))
        .collect()
}

#[test]
fn no_type_is_named_by_a_participle() {
    assert_tidy(participles);
}

#[test]
fn modules_have_the_words_of_the_field() {
    assert_tidy(private_words);
}

#[test]
fn few_types_share_a_name() {
    assert_eq!(shared_names(&repository()), Vec::<String>::new());
}

#[test]
fn bad_names_are_found() {
    let text = "struct Told;\npub(in crate::http) enum Evicted {}\ntype Kept = u8;\npub struct Run;\nstruct AppendReply;\n";
    let source = Source::new("src/a.rs", text);
    let lines: Vec<String> = participles(&source)
        .iter()
        .map(|finding| finding.split(' ').nth(1).unwrap_or_default().to_owned())
        .collect();
    assert_eq!(lines, ["`Told`", "`Evicted`", "`Kept`"]);
    let module = Source::new("crates/engine/src/worker/courier.rs", text);
    assert_eq!(
        private_words(&module),
        ["crates/engine/src/worker/courier.rs:1: `courier`: the field says `batch_poller`"]
    );
    assert_eq!(private_words(&source), Vec::<String>::new());
    let three =
        ["src/a.rs", "src/b.rs", "src/c.rs"].map(|path| Source::new(path, "    struct Page;\nstruct Row;\n"));
    let found = shared_names(&three);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("`Page` names 3 types: src/a.rs:1"), "{found:?}");
    assert_eq!(shared_names(&three[..2]), Vec::<String>::new());
}
