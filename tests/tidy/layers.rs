//! The modules that each module of a crate may use, and what the pure ones must not contain. The compiler checks
//! dependencies between crates.

use super::{Source, assert_tidy};

struct Layer {
    /// The folder of the crate below `crates/`; empty for the program.
    of: &'static str,
    module: &'static str,
    /// Other modules of the crate that it may use.
    may_use: &'static [&'static str],
    banned: &'static [&'static str],
}

/// No IO, no async, no clock.
const IMPURE: &[&str] = &["SystemTime", "Utc::now", "std::fs", "std::net", "std::env", "async fn"];
/// Pages are built from what others have read.
const READING: &[&str] = &["reqwest::", "axum::", "hyper::", "tokio::", "async fn"];

/// Every module of these crates needs a row.
#[rustfmt::skip]
const LAYERS: &[Layer] = &[
    Layer { of: "core", module: "domain", may_use: &[], banned: IMPURE },
    Layer { of: "core", module: "hash", may_use: &["domain"], banned: IMPURE },
    Layer { of: "core", module: "formats", may_use: &["domain"], banned: IMPURE },
    Layer { of: "core", module: "tokenizer", may_use: &["domain"], banned: IMPURE },
    // It checks what the others build, so it uses none of them.
    Layer { of: "core", module: "validator", may_use: &[], banned: IMPURE },
    Layer { of: "engine", module: "journal", may_use: &[], banned: &[] },
    Layer { of: "engine", module: "ingest", may_use: &["journal"], banned: &[] },
    Layer { of: "engine", module: "conversations", may_use: &["ingest"], banned: &[] },
    Layer { of: "engine", module: "embedder", may_use: &[], banned: &[] },
    Layer { of: "engine", module: "call_log", may_use: &[], banned: IMPURE },
    Layer { of: "engine", module: "worker", may_use: &["call_log"], banned: &[] },
    Layer { of: "engine", module: "schedule", may_use: &[], banned: &[] },
    Layer { of: "engine", module: "snapshot", may_use: &[], banned: &[] },
    Layer { of: "engine", module: "peers", may_use: &[], banned: &[] },
    Layer {
        of: "engine", module: "assembly",
        may_use: &["journal", "ingest", "embedder", "call_log", "worker", "schedule", "snapshot", "peers"], banned: &[],
    },
    Layer { of: "api", module: "history", may_use: &[], banned: &["axum::", "tokio::"] },
    Layer { of: "api", module: "context", may_use: &[], banned: &["axum::", "tokio::"] },
    Layer { of: "api", module: "recall", may_use: &[], banned: &["axum::", "tokio::"] },
    Layer { of: "api", module: "access", may_use: &[], banned: &["axum::"] },
    Layer { of: "api", module: "dashboard", may_use: &["recall", "context"], banned: READING },
    Layer { of: "api", module: "mcp", may_use: &["history", "recall", "access"], banned: &[] },
    Layer {
        of: "api", module: "http",
        may_use: &["history", "context", "recall", "access", "mcp", "dashboard"], banned: &[],
    },
    Layer { of: "", module: "hook", may_use: &[], banned: &[] },
    Layer { of: "", module: "cli", may_use: &["hook"], banned: &["axum::"] },
    Layer { of: "selftest", module: "selftest", may_use: &[], banned: &[] },
    // It drives the daemon from outside, and reads the data through the store.
    Layer { of: "selftest", module: "faults", may_use: &["selftest"], banned: &[] },
    Layer { of: "selftest", module: "command", may_use: &["selftest", "faults"], banned: &[] },
];

impl Layer {
    fn may_not_use(&self, module: &str) -> bool {
        module != self.module
            && !self.may_use.contains(&module)
            && LAYERS.iter().any(|layer| layer.of == self.of && layer.module == module)
    }
}

/// True if `line` contains `word` other than as part of a longer name.
fn holds_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, rest) = line.split_at(start);
        let after = rest.strip_prefix(word).unwrap_or_default();
        !before.ends_with(is_name) && (word.ends_with("::") || !after.starts_with(is_name))
    })
}

/// Lists the names after each `prefix::` in `code`, with their lines; for a group `prefix::{a::b, c}` all first names.
fn names_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let name_of =
        |text: &str| text.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect::<String>();
    let mut names = Vec::new();
    let mut line = 1;
    let mut pieces = code.split(prefix);
    line += pieces.next().unwrap_or_default().matches('\n').count();
    for piece in pieces {
        let mut depth = 0;
        let mut expects_name = true;
        let mut line_of_name = line;
        for (index, c) in piece.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => expects_name = true,
                '\n' => line_of_name += 1,
                _ if expects_name && !c.is_whitespace() => {
                    let (_, rest) = piece.split_at(index);
                    names.push((line_of_name, name_of(rest)));
                    expects_name = false;
                }
                _ => {}
            }
            if depth == 0 && !expects_name {
                break;
            }
        }
        line += piece.matches('\n').count();
    }
    names
}

/// Returns the crate and the path inside of it, if this is a source of one.
fn place(source: &Source) -> Option<(&str, &str)> {
    let path = source.path.strip_suffix(".rs")?;
    match path.strip_prefix("crates/") {
        Some(path) => path.split_once("/src/"),
        None => path.strip_prefix("src/").map(|inside| ("", inside)),
    }
}

fn layering(source: &Source) -> Vec<String> {
    let Some((of, inside)) = place(source).filter(|(of, _)| LAYERS.iter().any(|layer| layer.of == *of))
    else {
        return Vec::new();
    };
    let (module, depth) = (inside.split('/').next().unwrap_or_default(), inside.split('/').count());
    if ["lib", "main"].contains(&module) {
        return Vec::new();
    }
    let row = LAYERS.iter().find(|layer| layer.of == of && layer.module == module);
    let Some(layer) = row else {
        return vec![source.finding(1, &format!("`{module}` has no row in LAYERS"))];
    };
    let code = source.code();
    let mut findings: Vec<(usize, String)> = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let words = layer.banned.iter().filter(|word| holds_word(line, word));
        findings.extend(words.map(|&word| (index + 1, word.to_owned())));
    }
    for prefix in ["crate::".to_owned(), "super::".repeat(depth)] {
        let names = names_after(&code, &prefix).into_iter();
        let banned = names.filter(|(_, name)| layer.may_not_use(name));
        findings.extend(banned.map(|(line, name)| (line, format!("crate::{name}"))));
    }
    findings.sort();
    findings.iter().map(|(line, what)| source.finding(*line, what)).collect()
}

#[test]
fn dependencies_point_one_way() {
    assert_tidy(layering);
}

#[test]
fn forbidden_uses_are_found_with_their_lines() {
    let domain = Source::new(
        "crates/core/src/domain/summary/item.rs",
        "//! std::fs in a comment\nuse crate::{\n    domain::time::{self, SECOND_MS},\n    formats::Store,\n};\n\
         fn f() { my_std::fs::x(); log(\"std=warn\"); std::fs::read(g); }\nuse super::super::super::tokenizer::X;\n\
         use super::super::formats_like;\n#[cfg(test)]\nmod tests {\n    use std::env::X;\n}\nuse std::net::X;\n",
    );
    assert_eq!(
        layering(&domain),
        [
            "crates/core/src/domain/summary/item.rs:4: crate::formats",
            "crates/core/src/domain/summary/item.rs:6: std::fs",
            "crates/core/src/domain/summary/item.rs:7: crate::tokenizer",
            "crates/core/src/domain/summary/item.rs:13: std::net",
        ]
    );
    let ingestor = Source::new(
        "crates/engine/src/ingest.rs",
        "use crate::{journal::Journal, worker};\nuse super::worker::X;\n",
    );
    assert_eq!(
        layering(&ingestor),
        ["crates/engine/src/ingest.rs:1: crate::worker", "crates/engine/src/ingest.rs:2: crate::worker"]
    );
    let append = Source::new(
        "crates/engine/src/ingest/append.rs",
        "use crate::journal::Journal; // not crate::worker\n",
    );
    assert!(layering(&append).is_empty());
    assert_eq!(
        layering(&Source::new("crates/api/src/brandnew.rs", "")),
        ["crates/api/src/brandnew.rs:1: `brandnew` has no row in LAYERS"]
    );
    assert!(layering(&Source::new("crates/store/src/brandnew.rs", "")).is_empty());
}

#[test]
fn the_table_names_modules_of_its_own() {
    for layer in LAYERS {
        for used in layer.may_use {
            let is_of_it = |other: &Layer| other.of == layer.of && other.module == *used;
            assert!(LAYERS.iter().any(is_of_it), "{used}");
        }
    }
}
