//! What the compiler and clippy can't check: layers, sizes, words, labels of SQL statements, links.
//!
//! Every rule is a function from one file to its findings (`file:line: what`), so that a test can check that it does
//! find something.

#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/names.rs"]
mod names;

use std::{fs, path::Path};

const FILE_LINES_MAX: usize = 600;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["util", "utils", "helper", "helpers", "manager", "common", "misc"];
/// Verbs that begin a statement without a label.
const SQL_VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
/// Folders that are not searched.
const SKIPPED: [&str; 2] = [".git", "target"];

struct Source {
    /// Relative to the repository, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    fn is_rust_in(&self, folders: &[&str]) -> bool {
        is_rust(&self.path) && folders.iter().any(|folder| self.path.starts_with(folder))
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    fn finding(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }

    /// Returns the file with comments and test modules blanked, so that line numbers stay.
    fn code(&self) -> String {
        if self.path.ends_with("/tests.rs") || self.path.contains("/tests/") {
            return String::new();
        }
        let mut code = String::new();
        let mut in_tests = false;
        for line in self.text.lines() {
            in_tests |= line.starts_with("#[cfg(test)]");
            if !in_tests && !line.trim_start().starts_with("//") {
                code.push_str(line.split(" // ").next().unwrap_or_default());
            }
            code.push('\n');
            let module_elsewhere = line.starts_with("mod ") && line.ends_with(';');
            in_tests &= line != "}" && !module_elsewhere;
        }
        code
    }
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Reads all text files of the repository, sorted by path.
fn repository() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the repository is readable") {
            let entry = entry.expect("the repository is readable");
            let path = entry.path();
            if SKIPPED.iter().any(|&name| entry.file_name() == name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root).expect("it was found under the root");
                let path = path.to_string_lossy().replace('\\', "/");
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Asserts that `rule` finds nothing in the repository.
fn assert_tidy(rule: impl Fn(&Source) -> Vec<String>) {
    let sources = repository();
    assert!(sources.iter().any(|source| source.path == "src/lib.rs"));
    let findings: Vec<String> = sources.iter().flat_map(rule).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

fn sizes(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if source.is_rust_in(&["src/", "crates/", "tests/", "benches/"]) && lines > FILE_LINES_MAX {
        vec![source.finding(lines, &format!("more than {FILE_LINES_MAX} lines"))]
    } else {
        Vec::new()
    }
}

fn empty_names(source: &Source) -> Vec<String> {
    if !source.is_rust_in(&["src/", "crates/", "tests/", "benches/"]) {
        return Vec::new();
    }
    let declares = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        words.next() == Some("mod")
            && words.next().is_some_and(|name| EMPTY_NAMES.contains(&name.trim_end_matches([';', '{'])))
    };
    let found = source.lines().filter(|(_, line)| declares(line));
    found.map(|(line, text)| source.finding(line, text.trim())).collect()
}

/// True for labels such as `-- sqlite/queue.claim`.
fn is_label(line: &str) -> bool {
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    let name = ["-- sql/", "-- sqlite/", "-- postgres/"].iter().find_map(|prefix| line.strip_prefix(prefix));
    name.and_then(|name| name.trim_end().split_once('.'))
        .is_some_and(|(module, function)| is_name(module) && is_name(function))
}

fn unlabelled_sql(source: &Source) -> Vec<String> {
    if !source.is_rust_in(&["crates/store/src"]) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut line = 1;
    for (index, piece) in source.code().split('"').enumerate() {
        let text = piece.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
        let first_line = text.split(['\n', '\\']).next().unwrap_or_default();
        let is_statement = SQL_VERBS.iter().any(|verb| {
            text.strip_prefix(verb)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_whitespace() || c == '\\'))
        });
        let is_bad_label = text.starts_with("-- ") && !is_label(first_line);
        if index > 0 && (is_statement || is_bad_label) {
            findings.push(source.finding(line, "SQL without a label `-- sqlite/module.function`"));
        }
        line += piece.matches('\n').count();
    }
    findings
}

/// Finds words about the place where the code was written, which mean nothing to its readers.
fn outside_words(source: &Source) -> Vec<String> {
    // Written in two parts, so that this file passes.
    let beside = concat!("../", "shared");
    let absolute = concat!("/", "work/");
    let phrases = [concat!("helper", " agent"), concat!("helper", " session")];
    let is_path_start = |line: &str| {
        line.match_indices(absolute).any(|(start, _)| {
            let (before, _) = line.split_at(start);
            !before.ends_with(|c: char| c.is_alphanumeric() || "._-~/}*".contains(c))
        })
    };
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        if is_path_start(line) {
            findings.push(source.finding(number, absolute));
        }
        if line.contains(beside) && source.path != ".ci/run" {
            findings.push(source.finding(number, beside));
        }
        let lower = line.to_lowercase();
        let found = phrases.iter().filter(|&&phrase| lower.contains(phrase));
        findings.extend(found.map(|phrase| source.finding(number, phrase)));
    }
    findings
}

/// Finds ignored tests and unwritten functions.
fn unfinished(source: &Source) -> Vec<String> {
    if !is_rust(&source.path) {
        return Vec::new();
    }
    let marks = [
        concat!("#[", "ignore"),
        concat!("#[", "should_panic"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
    ];
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        let found = marks.iter().filter(|&&mark| line.contains(mark));
        findings.extend(found.map(|mark| source.finding(number, mark)));
    }
    findings
}

#[test]
fn no_file_is_too_long() {
    assert_tidy(sizes);
}

#[test]
fn no_module_has_an_empty_name() {
    assert_tidy(empty_names);
}

#[test]
fn every_sql_statement_has_a_label() {
    assert_tidy(unlabelled_sql);
}

#[test]
fn the_repository_does_not_mention_its_workshop() {
    assert_tidy(outside_words);
}

#[test]
fn no_test_is_ignored_and_nothing_is_a_stub() {
    assert_tidy(unfinished);
}

#[test]
fn long_files_are_found() {
    let lines = "\n".repeat(FILE_LINES_MAX);
    assert!(sizes(&Source::new("src/a.rs", &lines)).is_empty());
    assert_eq!(
        sizes(&Source::new("tests/it/a.rs", &format!("{lines}\n"))),
        ["tests/it/a.rs:601: more than 600 lines"]
    );
    assert!(sizes(&Source::new("examples/a.jsonl", &lines.repeat(2))).is_empty());
}

#[test]
fn empty_names_are_found() {
    let names = empty_names(&Source::new(
        "src/a.rs",
        "mod utils;\npub mod helper {\npub(crate) mod misc;\nmod utility;\n",
    ));
    assert_eq!(
        names,
        ["src/a.rs:1: mod utils;", "src/a.rs:2: pub mod helper {", "src/a.rs:3: pub(crate) mod misc;"]
    );
}

#[test]
fn statements_without_a_label_are_found() {
    let source = Source::new(
        "crates/store/src/sqlite/queue.rs",
        "const A: &str = \"-- sqlite/queue.claim\nSELECT 1\";\nconst B: &str = \"\\\n    UPDATE queue\";\n\
         const C: &str = r#\"DELETE FROM queue\"#;\nlet d = \"SELECTED\";\nlet e = \"-- queue\\nWITH x\";\n",
    );
    let what = "SQL without a label `-- sqlite/module.function`";
    assert_eq!(
        unlabelled_sql(&source),
        [3, 5, 7].map(|line| format!("crates/store/src/sqlite/queue.rs:{line}: {what}"))
    );
    assert!(unlabelled_sql(&Source::new("src/cli.rs", "\"SELECT 1\"")).is_empty());
}

#[test]
fn words_from_outside_are_found() {
    let text = concat!("see `/", "work/a`\nsrc/", "work/lease.rs\n../", "shared/x\nA Helper", " agent\n");
    assert_eq!(
        outside_words(&Source::new("README.md", text)),
        [
            concat!("README.md:1: /", "work/"),
            concat!("README.md:3: ../", "shared"),
            concat!("README.md:4: helper", " agent"),
        ]
    );
    assert_eq!(outside_words(&Source::new(".ci/run", text)).len(), 2);
}

#[test]
fn stubs_and_silent_tests_are_found() {
    let text = concat!("#[", "ignore = \"slow\"]\nfn a() { todo", "!() }\nfn b() {}\n");
    assert_eq!(
        unfinished(&Source::new("src/a.rs", text)),
        [concat!("src/a.rs:1: #[", "ignore"), concat!("src/a.rs:2: todo", "!(")]
    );
}
