//! `recapd summary`: all of it or less, and the same from the daemon and from the database.

use super::{
    code,
    place::{alike, ask, look, two_agents},
    stdout,
};

#[tokio::test(flavor = "multi_thread")]
async fn as_much_of_a_summary_is_printed_as_is_asked_for() {
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
    assert!(first(content).contains("#1,"), "{content}");
    let newest = first(brief["content"].as_str().unwrap());
    assert!(newest.contains("#6,") && brief["truncated"] == false, "{brief}");
    let shorter = alike(&server, &["summary", "coder", "--brief", "--max-tokens", "100"]);
    assert_eq!(first(shorter["content"].as_str().unwrap()), newest);
    assert_eq!(shorter["truncated"], true);

    let both =
        |args: &[&str]| [ask(&server, args), look(&server.database(), args)].map(|output| stdout(&output));
    for printed in both(&["summary", "coder", "--raw"]) {
        assert_eq!(printed, content);
    }
    for printed in both(&["summary", "coder", "planner"]) {
        let expected = "──── planner ────\n\n(no summary yet: nothing has left the window)\n";
        assert!(printed.ends_with(expected), "{printed}");
    }
    for printed in both(&["summary", "coder", "planner", "--raw"]) {
        assert_eq!(printed, content);
    }
    for args in [["--brief", "--project"], ["--max-tokens", "0"]] {
        let args = ["summary", args[0], args[1], "web"];
        assert_eq!(code(&ask(&server, &args)), Some(2), "{args:?}");
    }
    server.end().await;
}
