//! A long exchange on a terminal: its legs are shown as parts of one exchange.

use super::{
    code,
    place::{alike, ask, look},
    stderr, stdout,
};
use crate::support::server::Server;

/// Returns a command's output, which must be the same through the daemon and from the database.
fn printed(server: &Server, args: &[&str]) -> String {
    let [asked, looked] = [ask(server, args), look(&server.database(), args)].map(|output| {
        assert_eq!(code(&output), Some(0), "{args:?} {}", stderr(&output));
        stdout(&output)
    });
    assert_eq!(asked, looked, "{args:?}");
    asked
}

fn heads(text: &str) -> String {
    let heads = text.lines().filter(|line| line.trim_start().starts_with('#') || line.contains("legs"));
    heads.collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn legs_are_listed_below_their_exchange() {
    let server = Server::in_legs().await;
    for args in
        [&["history", "coder"][..], &["expand", "coder", "#2–#5"], &["window", "coder"], &["status", "coder"]]
    {
        alike(&server, args);
    }
    insta::assert_snapshot!(heads(&printed(&server, &["expand", "coder", "#1–#5"])), @r"
    #1 of coder  2026-11-20 08:40 to 2026-11-20 08:40  58 tokens, waiting for the next summary
    #2–#5  one exchange in four legs
    #2 of coder  2026-11-20 08:40 to 2026-11-20 08:40  103 tokens, waiting for the next summary
    #3 of coder  2026-11-20 08:40 to 2026-11-20 08:40  90 tokens, waiting for the next summary
    #4 of coder  2026-11-20 08:40 to 2026-11-20 08:40  90 tokens, in the window
    #5 of coder  2026-11-20 08:40 to 2026-11-20 08:40  90 tokens, in the window
    ");
    insta::assert_snapshot!(heads(&printed(&server, &["expand", "coder", "#3–#4"])), @r"
    #3–#4  two legs of exchange #2 · goes on with #5
    #3 of coder  2026-11-20 08:40 to 2026-11-20 08:40  90 tokens, waiting for the next summary
    #4 of coder  2026-11-20 08:40 to 2026-11-20 08:40  90 tokens, in the window
    ");
    insta::assert_snapshot!(heads(&printed(&server, &["expand", "coder", "4"])), @r"
    #4 of coder  2026-11-20 08:40 to 2026-11-20 08:40  90 tokens, in the window
    continues #2 · #2–#5, one exchange in four legs · goes on with #5
    ");
    insta::assert_snapshot!(heads(&printed(&server, &["window", "coder"])), @r"
    #4–#5  two legs of exchange #2
    #4  90 tokens
    #5  90 tokens
    ");
    insta::assert_snapshot!(heads(&printed(&server, &["window", "coder", "--limit", "1"])), @"#5  continues #2  90 tokens");
    let status = printed(&server, &["status", "coder"]);
    assert!(
        status.contains("19 messages in 5 exchanges (#5, which continues #2, is open), window"),
        "{status}"
    );
    let brief = printed(&server, &["summary", "coder", "--brief"]);
    assert!(brief.starts_with("Running: exchange #2 since 08:40, in its fourth leg: "), "{brief}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_a_leg_says_how_to_forget_the_others() {
    let server = Server::in_legs().await;
    let output = ask(&server, &["forget", "coder", "3"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let told = stdout(&output);
    insta::assert_snapshot!(told.lines().skip(1).collect::<Vec<_>>().join("\n"), @r"
    #2, #4–#5 of the same exchange are left, which began with #2; to forget them, too:
      recapd forget coder '#2' '#4–#5'
    ");
    let output = ask(&server, &["forget", "coder", "#2", "#4–#5"]);
    assert!(!stdout(&output).contains("same exchange"), "{}", stdout(&output));
    server.end().await;
}
