//! Links in Markdown must lead to existing files, and to existing headings in them.

use std::{collections::BTreeSet, fs, path::Path};

use super::{Source, assert_tidy, is_rust};

/// The lines of a Markdown document outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        (!in_block && !is_fence).then_some((index + 1, line))
    })
}

/// The targets of a document's links, with their lines.
fn links(source: &Source) -> Vec<(usize, &str)> {
    let targets = |line| str::split(line, "](").skip(1).filter_map(|rest| rest.split(')').next());
    let lines = prose(&source.text);
    lines.flat_map(|(number, line)| targets(line).map(move |target| (number, target))).collect()
}

/// The anchors of a document's headings, as GitHub and most others make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
        let anchor = kept.collect::<String>().replace(' ', "-");
        let mut name = anchor.clone();
        let mut times = 0;
        while !anchors.insert(name) {
            times += 1;
            name = format!("{anchor}-{times}");
        }
    }
    anchors
}

fn is_markdown(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// Finds links of `source` that lead nowhere. `read` returns the text of a file of the repository, empty for folders
/// and images; `None` if there is no such file.
fn dead_links(source: &Source, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    if !is_markdown(&source.path) {
        return Vec::new();
    }
    let folder = source.path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let elsewhere = |target: &str| target.contains("://") || target.starts_with("mailto:");
    let mut findings = Vec::new();
    for (line, target) in links(source).into_iter().filter(|(_, target)| !elsewhere(target)) {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let text = match file {
            "" => Some(source.text.clone()),
            file => read(&format!("{folder}{file}")),
        };
        match text {
            None => findings.push(source.finding(line, &format!("no file {target}"))),
            Some(text) if !anchor.is_empty() && !anchors(&text).contains(anchor) => {
                findings.push(source.finding(line, &format!("no heading {target}")));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Finds rows such as `` | … | `src/hook.rs`, `HookCall::run` | `` whose file doesn't exist or doesn't have the name.
fn dead_places(source: &Source, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    if !is_markdown(&source.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, row) in prose(&source.text) {
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let &[file, item] = quoted.as_slice() else { continue };
        if !row.starts_with('|') || !is_rust(file) {
            continue;
        }
        let name = item.rsplit("::").next().unwrap_or(item);
        if !read(file).is_some_and(|text| text.contains(name)) {
            findings.push(source.finding(line, &format!("no {item} in {file}")));
        }
    }
    findings
}

fn in_repository(path: &str) -> Option<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    file.exists().then(|| fs::read_to_string(file).unwrap_or_default())
}

#[test]
fn links_have_targets() {
    assert_tidy(|source| dead_links(source, in_repository));
}

#[test]
fn places_exist() {
    assert_tidy(|source| dead_places(source, in_repository));
}

#[test]
fn dead_places_are_found() {
    let text = "| a | `src/a.rs`, `A::run` |\n| b | `src/a.rs`, `B::stop` |\n| c | `src/c.rs`, `run` |\n`src/c.rs`, `x`\n";
    let read = |path: &str| (path == "src/a.rs").then(|| "impl A { fn run() {} }".to_owned());
    assert_eq!(
        dead_places(&Source::new("a.md", text), read),
        ["a.md:2: no B::stop in src/a.rs", "a.md:3: no run in src/c.rs"]
    );
}

#[test]
fn dead_links_are_found() {
    let text = "# Here\n[a](there.md#a-part-1) [b](https://a.b/c)\n[c](gone.md)\n```\n[d](code.md)\n```\n[e](#here) [f](#part)\n\
                [g](there.md#b)\n";
    let read =
        |path: &str| (path == "docs/there.md").then(|| "# `A` part\n## A/ part\n```\n# b\n```\n".to_owned());
    assert_eq!(
        dead_links(&Source::new("docs/a.md", text), read),
        [
            "docs/a.md:3: no file gone.md",
            "docs/a.md:7: no heading #part",
            "docs/a.md:8: no heading there.md#b"
        ]
    );
}
