//! `recapd summary`: in full or shortened, and the same from the daemon and from the database.

use recapd_core::domain::summary::shared::SHARED_ARCHIVED;

use super::{
    code,
    place::{alike, ask, look, two_agents},
    stdout,
};
use crate::support::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_printed_in_the_length_asked_for() {
    let server = two_agents().await;
    let whole = alike(&server, &["summary", "coder"]);
    let content = whole["content"].as_str().unwrap();
    assert_eq!(whole["truncated"], false);
    assert_eq!(whole["sections"][0]["title"], "Just Left the Window");
    let some = alike(&server, &["summary", "coder", "--max-tokens", "100"]);
    assert_eq!(some["truncated"], true);
    assert!((1..=100).contains(&some["tokens"].as_i64().unwrap()), "{some}");
    let brief = alike(&server, &["summary", "coder", "--brief"]);
    let first = |text: &str| text.lines().nth(1).unwrap().to_owned();
    assert!(first(content).contains("#1)"), "{content}");
    let newest = first(brief["content"].as_str().unwrap());
    assert!(newest.contains("#6)") && brief["truncated"] == false, "{brief}");
    let shorter = alike(&server, &["summary", "coder", "--brief", "--max-tokens", "100"]);
    assert_eq!(first(shorter["content"].as_str().unwrap()), newest);
    assert_eq!(shorter["truncated"], true);

    let both =
        |args: &[&str]| [ask(&server, args), look(&server.database(), args)].map(|output| stdout(&output));
    for printed in both(&["summary", "coder", "--raw"]) {
        assert_eq!(printed, content);
    }
    for printed in both(&["summary", "coder", "planner"]) {
        let (_, planner) = printed.split_once("──── planner ────\n\n").unwrap();
        assert!(planner.starts_with("(nothing has left the window yet: "), "{planner}");
        assert!(planner.ends_with(" tokens; try --set window.budget_tokens=4000)\n"), "{planner}");
    }
    for printed in both(&["summary", "coder", "planner", "--raw"]) {
        assert_eq!(printed, content);
    }
    for args in [["--brief", "--project"], ["--max-tokens", "0"]] {
        let args = ["summary", args[0], args[1], "web"];
        assert_eq!(code(&ask(&server, &args)), Some(2), "{args:?}");
    }
    server.summarise().await;
    let first = alike(&server, &["summary", "coder", "--rev", "1"]);
    assert_eq!(first, alike(&server, &["versions", "coder", "1"]));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_has_aged_away_says_so() {
    let server = Server::quiet().await;
    let both =
        |args: &[&str]| [ask(&server, args), look(&server.database(), args)].map(|output| stdout(&output));
    for printed in both(&["summary", "coder"]) {
        assert!(printed.starts_with("*Older history, up to #"), "{printed}");
    }
    // If nothing fits, the output doesn't claim that nothing has left the window.
    for printed in both(&["summary", "coder", "--max-tokens", "5"]) {
        assert!(printed.starts_with("(no line of the summary fits: "), "{printed}");
    }
    for printed in both(&["history", "coder"]) {
        assert!(printed.contains("summarised since v"), "{printed}");
        assert!(printed.contains(", all archived\n"), "{printed}");
    }
    for printed in both(&["agents"]) {
        assert!(printed.contains(", archived  "), "{printed}");
    }
    let args = ["project", "join", "ikigai", "coder"];
    assert_eq!(code(&ask(&server, &args)), Some(0));
    for printed in both(&["summary", "--project", "ikigai"]) {
        assert_eq!(printed.trim_end(), SHARED_ARCHIVED);
    }
    server.end().await;
}
