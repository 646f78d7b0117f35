//! Which top-level module of `src` may use which.

use super::{Source, assert_tidy};

/// A top-level module and what it may use.
struct Layer {
    module: &'static str,
    /// Other top-level modules that it may use.
    may_use: &'static [&'static str],
    /// Words it must not hold, mostly names of crates.
    banned: &'static [&'static str],
}

/// No IO, no async, no clock.
const IMPURE: &[&str] = &[
    "sqlx::",
    "reqwest::",
    "axum::",
    "tokio::",
    "hyper::",
    "SystemTime",
    "Utc::now",
    "std::fs",
    "std::net",
    "std::env",
    "async fn",
];
/// No database, no network.
const OUTSIDE: &[&str] = &["sqlx::", "reqwest::", "axum::", "hyper::"];

/// `domain <- {formats, tokenizer} <- {store, llm} <- {keeper, worker, schedule, snapshot} <- assembly <- mcp <- {http,
/// cli} <- main`, and the surroundings. A new top-level module needs a row.
#[rustfmt::skip]
const LAYERS: &[Layer] = &[
    Layer { module: "domain", may_use: &[], banned: IMPURE },
    Layer { module: "digest", may_use: &["domain"], banned: IMPURE },
    Layer { module: "formats", may_use: &["domain"], banned: IMPURE },
    Layer { module: "tokenizer", may_use: &["domain"], banned: IMPURE },
    // It checks what the others build, so it knows none of them.
    Layer { module: "validator", may_use: &[], banned: IMPURE },
    Layer { module: "randomness", may_use: &[], banned: OUTSIDE },
    Layer { module: "wire", may_use: &[], banned: &["sqlx::", "axum::", "hyper::"] },
    Layer { module: "client", may_use: &["domain", "formats", "randomness", "wire"], banned: &["sqlx::", "axum::", "hyper::"] },
    Layer { module: "clock", may_use: &["domain"], banned: OUTSIDE },
    Layer { module: "crontab", may_use: &["domain"], banned: &["sqlx::", "reqwest::", "axum::", "tokio::"] },
    Layer { module: "notice", may_use: &["domain"], banned: OUTSIDE },
    Layer { module: "config", may_use: &["domain", "crontab"], banned: OUTSIDE },
    Layer { module: "telemetry", may_use: &["domain", "clock", "config", "wire"], banned: OUTSIDE },
    Layer { module: "threads", may_use: &[], banned: OUTSIDE },
    Layer { module: "background", may_use: &["threads"], banned: OUTSIDE },
    Layer { module: "lifecycle", may_use: &["background"], banned: OUTSIDE },
    Layer { module: "store", may_use: &["domain", "digest", "randomness", "formats", "tokenizer", "background", "threads"], banned: &["reqwest::", "axum::", "hyper::"] },
    Layer { module: "llm", may_use: &["domain", "tokenizer", "clock", "wire"], banned: &["sqlx::", "axum::"] },
    Layer { module: "journal", may_use: &["domain", "clock", "store", "threads"], banned: OUTSIDE },
    Layer {
        module: "keeper",
        may_use: &["domain", "formats", "clock", "notice", "telemetry", "store", "journal", "threads"],
        banned: OUTSIDE,
    },
    Layer {
        module: "worker",
        may_use: &["domain", "clock", "notice", "telemetry", "store", "llm"],
        banned: OUTSIDE,
    },
    Layer {
        module: "schedule",
        may_use: &["domain", "clock", "crontab", "notice", "telemetry", "store"],
        banned: OUTSIDE,
    },
    Layer { module: "snapshot", may_use: &["domain", "tokenizer", "clock", "notice", "store", "threads"], banned: OUTSIDE },
    Layer { module: "fleet", may_use: &["clock", "notice", "store"], banned: OUTSIDE },
    Layer {
        module: "context",
        may_use: &["domain", "formats", "tokenizer", "store", "snapshot"],
        banned: &["sqlx::", "reqwest::", "axum::", "tokio::"],
    },
    Layer { module: "history", may_use: &["domain", "store", "keeper"], banned: &["sqlx::", "reqwest::", "axum::", "tokio::"] },
    Layer {
        module: "recall",
        may_use: &["domain", "formats", "tokenizer", "store"],
        banned: &["sqlx::", "reqwest::", "axum::", "tokio::"],
    },
    Layer {
        module: "selftest",
        may_use: &[
            "domain", "formats", "validator", "clock", "crontab", "notice", "telemetry", "store", "llm", "keeper", "worker",
            "schedule",
        ],
        banned: OUTSIDE,
    },
    // It drives the daemon from outside, and looks at what is left through the store.
    Layer {
        module: "faults",
        may_use: &["domain", "clock", "store", "llm", "selftest"],
        banned: &["sqlx::"],
    },
    Layer { module: "access", may_use: &["domain", "clock", "store", "telemetry", "threads"], banned: OUTSIDE },
    Layer {
        module: "assembly",
        may_use: &[
            "domain", "tokenizer", "clock", "config", "telemetry", "notice", "store", "llm", "journal", "keeper",
            "worker", "schedule", "snapshot", "fleet",
        ],
        banned: OUTSIDE,
    },
    Layer {
        module: "mcp",
        may_use: &["domain", "tokenizer", "clock", "wire", "client", "store", "snapshot", "history", "recall", "access", "threads"],
        banned: &["sqlx::"],
    },
    // Pages are made of what others have read.
    Layer {
        module: "dashboard",
        may_use: &["domain", "telemetry", "store", "recall"],
        banned: &["sqlx::", "reqwest::", "axum::", "hyper::", "tokio::", "async fn"],
    },
    // Of the assembly it takes the parts, in one place.
    Layer {
        module: "http",
        may_use: &[
            "assembly", "domain", "formats", "clock", "config", "telemetry", "store", "keeper", "snapshot", "history", "context",
            "recall", "access", "mcp", "notice", "dashboard", "client", "randomness", "threads",
        ],
        banned: &["sqlx::", "reqwest::"],
    },
    // It is a client of the daemon, and knows nothing of what is behind HTTP.
    Layer {
        module: "hook",
        may_use: &["domain", "digest", "formats", "clock", "config", "wire", "client"],
        banned: &["sqlx::", "axum::", "hyper::"],
    },
    Layer {
        module: "cli",
        may_use: &[
            "domain", "digest", "formats", "tokenizer", "validator", "clock", "config", "telemetry", "lifecycle", "store", "llm",
            "journal", "keeper", "snapshot", "history", "context", "recall", "selftest", "faults", "access", "assembly", "mcp", "http", "background", "threads",
            "dashboard", "hook", "wire", "client", "randomness",
        ],
        banned: &["sqlx::", "axum::"],
    },
];

impl Layer {
    fn may_not_use(&self, module: &str) -> bool {
        module != self.module
            && !self.may_use.contains(&module)
            && LAYERS.iter().any(|layer| layer.module == module)
    }
}

/// Whether `line` holds `word`, not as part of a longer name.
fn holds_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, rest) = line.split_at(start);
        let after = rest.strip_prefix(word).unwrap_or_default();
        !before.ends_with(is_name) && (word.ends_with("::") || !after.starts_with(is_name))
    })
}

/// The names that follow each `prefix::` in `code`, with their lines; of a group `prefix::{a::b, c}` all first names.
fn names_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let name_of = |text: &str| {
        text.chars()
            .take_while(|&c| c.is_alphanumeric() || c == '_')
            .collect::<String>()
    };
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

fn layering(source: &Source) -> Vec<String> {
    let Some(inside) = source
        .path
        .strip_prefix("src/")
        .and_then(|path| path.strip_suffix(".rs"))
    else {
        return Vec::new();
    };
    let (module, depth) = (
        inside.split('/').next().unwrap_or_default(),
        inside.split('/').count(),
    );
    if ["lib", "main"].contains(&module) {
        return Vec::new();
    }
    let Some(layer) = LAYERS.iter().find(|layer| layer.module == module) else {
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
    findings
        .iter()
        .map(|(line, what)| source.finding(*line, what))
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    assert_tidy(layering);
}

#[test]
fn forbidden_uses_are_found_with_their_lines() {
    let domain = Source::new(
        "src/domain/summary/item.rs",
        "//! sqlx in a comment\nuse crate::{\n    domain::time::{self, SECOND_MS},\n    store::Store,\n};\n\
         fn f() { my_tokio::x(); log(\"tokio=warn\"); tokio::spawn(g); }\nuse super::super::super::llm::X;\n\
         use super::super::worker_like;\n#[cfg(test)]\nmod tests {\n    use sqlx::X;\n}\nuse axum::Router;\n",
    );
    assert_eq!(
        layering(&domain),
        [
            "src/domain/summary/item.rs:4: crate::store",
            "src/domain/summary/item.rs:6: tokio::",
            "src/domain/summary/item.rs:7: crate::llm",
            "src/domain/summary/item.rs:13: axum::",
        ]
    );
    let http = Source::new(
        "src/http.rs",
        "use crate::{keeper::Keeper, worker};\nuse super::worker::X;\n",
    );
    assert_eq!(
        layering(&http),
        ["src/http.rs:1: crate::worker", "src/http.rs:2: crate::worker"]
    );
    let keeper = Source::new(
        "src/keeper/append.rs",
        "use crate::store::Store; // not crate::llm\n",
    );
    assert!(layering(&keeper).is_empty());
    assert_eq!(
        layering(&Source::new("src/brandnew.rs", "")),
        ["src/brandnew.rs:1: `brandnew` has no row in LAYERS"]
    );
}

#[test]
fn the_table_names_modules_of_its_own() {
    for layer in LAYERS {
        for used in layer.may_use {
            assert!(LAYERS.iter().any(|other| other.module == *used), "{used}");
        }
    }
}
