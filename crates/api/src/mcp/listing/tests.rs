//! What the list costs, and that it is found beside other tools.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use recapd_core::tokenizer;

const LIST_TOKENS_MAX: i64 = 600;
/// How people and models ask for what this server does.
const PHRASES: [&str; 9] = [
    "memory",
    "conversation history",
    "previous session",
    "remember",
    "what did we decide",
    "earlier in this conversation",
    "search past messages",
    "recall context",
    "notes from last time",
];
/// Tools of servers for files, git, browsers, databases and issues, and a few others, as they describe themselves: name and description.
const OTHERS: [(&str, &str); 32] = [
    ("filesystem read_text_file", "Read the complete contents of a file from the file system as text."),
    ("filesystem write_file", "Create a new file or completely overwrite an existing file with new content."),
    (
        "filesystem edit_file",
        "Make line-based edits to a text file. Returns a git-style diff showing what changed.",
    ),
    ("filesystem list_directory", "Get a detailed listing of all files and directories in this path."),
    ("filesystem search_files", "Recursively search for files and directories matching a pattern."),
    ("filesystem get_file_info", "Get size, creation time, last modified time and permissions of a file."),
    ("filesystem move_file", "Move or rename files and directories."),
    ("git git_status", "Shows the working tree status"),
    ("git git_diff", "Shows differences between branches or commits"),
    (
        "git git_log",
        "Shows the commit logs: the history of this branch, what did change and who changed it last",
    ),
    ("git git_commit", "Records changes to the repository with a message"),
    ("git git_checkout", "Switches branches"),
    ("git git_blame", "Shows which commit and author last changed each line, and the previous version"),
    ("browser browser_navigate", "Navigate to a URL in this browser session"),
    ("browser browser_navigate_back", "Go back to the previous page in the history"),
    ("browser browser_click", "Perform a click on an element of the page"),
    (
        "browser browser_snapshot",
        "Capture the accessibility snapshot of the current page; what the user would see in context",
    ),
    ("browser browser_console_messages", "Returns all console messages since this page was loaded"),
    ("browser browser_tabs", "List, create, close or select a tab of the session"),
    ("database query", "Run a read-only SQL query on the database and return the rows"),
    ("database list_tables", "List all tables in this schema, with columns and types"),
    ("database describe_table", "Get the columns, keys and indexes of a table"),
    ("database server_stats", "Shows connections, memory and time that each session and query use"),
    ("github search_code", "Search for code across repositories"),
    ("github create_issue", "Create a new issue in a repository"),
    ("github list_pull_requests", "List pull requests, and what reviewers did decide about each"),
    ("slack slack_post_message", "Post a new message to a channel"),
    ("slack slack_get_channel_history", "Get recent messages from a channel"),
    ("slack slack_list_channels", "List channels of a workspace, with members and recent messages"),
    ("github add_issue_comment", "Add a comment to an issue; notes for reviewers go here, too"),
    ("docs search_docs", "Search the documentation of a library, with context around each match"),
    ("time get_current_time", "Get the current time in a time zone"),
];

struct SearchedTool {
    is_ours: bool,
    name: String,
    hint: String,
    description: String,
}

fn searched() -> Vec<SearchedTool> {
    let ours = list(&[]).into_iter().map(|tool| SearchedTool {
        is_ours: true,
        name: format!("recapd {}", tool.name),
        hint: tool
            .meta
            .and_then(|meta| meta.0.get("anthropic/searchHint")?.as_str().map(str::to_owned))
            .unwrap_or_default(),
        description: tool.description.unwrap().into_owned(),
    });
    let others = OTHERS.iter().map(|(name, description)| SearchedTool {
        is_ours: false,
        name: (*name).to_owned(),
        hint: String::new(),
        description: (*description).to_owned(),
    });
    ours.chain(others).collect()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Scores by BM25 (k1 1.2, b 0.75) over names and descriptions, without stemming and stop words.
fn bm25(tools: &[SearchedTool], phrase: &str) -> Vec<f64> {
    let texts: Vec<Vec<String>> =
        tools.iter().map(|tool| words(&format!("{} {}", tool.name, tool.description))).collect();
    let count = |length: usize| f64::from(u32::try_from(length).unwrap());
    let average = count(texts.iter().map(Vec::len).sum()) / count(texts.len());
    let mut holding: BTreeMap<&str, usize> = BTreeMap::new();
    for text in &texts {
        for word in text.iter().map(String::as_str).collect::<BTreeSet<_>>() {
            *holding.entry(word).or_default() += 1;
        }
    }
    let scored = texts.iter().map(|text| {
        let scores = words(phrase).into_iter().map(|word| {
            let held = count(holding.get(word.as_str()).copied().unwrap_or_default());
            let rarity = (1.0 + (count(texts.len()) - held + 0.5) / (held + 0.5)).ln();
            let times = count(text.iter().filter(|other| **other == word).count());
            let length = 0.25 + 0.75 * count(text.len()) / average;
            rarity * times * 2.2 / (times + 1.2 * length)
        });
        scores.sum()
    });
    scored.collect()
}

/// Scores like Claude Code: a word of the name counts most, then one of the hint, then one of the description.
fn claude_code_scores(tools: &[SearchedTool], phrase: &str) -> Vec<f64> {
    let score = |tool: &SearchedTool, word: &String| {
        let (name, hint) = (words(&tool.name.replace('_', " ")), words(&tool.hint));
        let in_name = if name.contains(word) {
            12.0
        } else if name.iter().any(|part| part.contains(word.as_str())) {
            6.0
        } else {
            0.0
        };
        let in_hint = if hint.contains(word) { 4.0 } else { 0.0 };
        let in_description = if words(&tool.description).contains(word) { 2.0 } else { 0.0 };
        in_name + in_hint + in_description
    };
    let scored = tools.iter().map(|tool| words(phrase).iter().map(|word| score(tool, word)).sum());
    scored.collect()
}

fn first<'a>(tools: &'a [SearchedTool], scores: &[f64]) -> &'a SearchedTool {
    let best = scores.iter().copied().fold(0.0, f64::max);
    // Of equals, the one that isn't ours.
    let mut equals = tools.iter().zip(scores).filter(|(_, score)| **score >= best);
    let (mut found, _) = equals.next().unwrap();
    for (tool, _) in equals {
        if !tool.is_ours {
            found = tool;
        }
    }
    found
}

#[test]
fn the_list_costs_few_tokens() {
    let text = serde_json::to_string(&json!({ "tools": list(&[]) })).unwrap();
    let tokens = tokenizer::ceiling_counter().count(&text);
    assert!(tokens <= LIST_TOKENS_MAX, "{tokens} tokens: {text}");
}

#[test]
fn each_phrase_for_memory_finds_these_tools_first() {
    let tools = searched();
    for phrase in PHRASES {
        let scores = bm25(&tools, phrase);
        let found = first(&tools, &scores);
        assert!(found.is_ours, "`{phrase}` finds {}: {scores:?}", found.name);
    }
}

#[test]
fn claude_code_finds_these_tools_first_where_it_searches_them() {
    let tools = searched();
    for phrase in [
        "memory",
        "previous session",
        "remember",
        "what did we decide",
        "earlier in this conversation",
        "recall context",
    ] {
        let scores = claude_code_scores(&tools, phrase);
        let found = first(&tools, &scores);
        assert!(found.is_ours, "`{phrase}` finds {}: {scores:?}", found.name);
    }
}
