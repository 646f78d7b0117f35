//! `recapd history`: colours, and the same from the daemon and from the database.

use super::{
    Printing, code,
    place::{alike, ask, look, two_agents},
    stderr, stdout,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_history_looks_the_same_from_daemon_and_database() {
    let server = two_agents().await;
    let view = alike(&server, &["history", "coder"]);
    assert_eq!(view["boundary"]["after_exchange"], 6, "{view}");
    for exchange in view["exchanges"].as_array().unwrap() {
        let is_archived = exchange["state"] == "archived";
        assert_eq!(exchange["evicted_at"].is_string(), is_archived, "{exchange}");
        assert!(exchange.get("evicted_at").is_some(), "{exchange}");
    }
    let args = ["history", "coder", "--color", "always"];
    let [asked, looked] =
        [ask(&server, &args), look(&server.database(), &args)].map(|output| stdout(&output));
    for text in [&asked, &looked] {
        assert!(text.contains("\u{1b}[1m──────── the model sees from here"), "{text}");
        assert!(text.contains("\u{1b}[2m  #6"), "{text}");
    }
    let plain = stdout(&ask(&server, &["history", "coder"]));
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let never = stdout(&ask(&server, &["history", "coder", "--color", "never"]));
    assert_eq!(plain, never);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_exchange_is_shown_line_by_line_with_what_it_costs() {
    let server = two_agents().await;
    for number in ["2", "9"] {
        let view = alike(&server, &["history", "coder", "--exchange", number, "--tokens"]);
        let [exchange] = &view["exchanges"].as_array().unwrap()[..] else {
            panic!("{view}");
        };
        let tokens = exchange["messages"].as_array().unwrap().iter();
        let tokens = tokens.filter_map(|line| line["tokens"].as_i64()).sum::<i64>();
        assert_eq!(exchange["n"].to_string(), number);
        assert_eq!(exchange["tokens"], tokens, "{exchange}");
    }
    let without = alike(&server, &["history", "coder", "--exchange", "2"]);
    assert!(without["exchanges"][0]["messages"][0].get("tokens").is_none(), "{without}");
    let counted = alike(&server, &["history", "coder", "--tokens"]);
    let newest = counted["exchanges"].as_array().unwrap().last().unwrap();
    assert!(newest["messages"][0]["tokens"].is_i64(), "{newest}");
    let args = ["history", "coder", "--exchange", "2", "--tokens"];
    let [asked, looked] =
        [ask(&server, &args), look(&server.database(), &args)].map(|output| stdout(&output));
    for text in [asked, looked] {
        assert!(text.contains("1 of 6 shown, --all"), "{text}");
        assert!(text.contains("  Fix bug 2 in parser.rs") && !text.contains("Fix bug 3"), "{text}");
        assert!(!text.contains("(empty)"), "{text}");
    }
    let args = ["history", "coder", "--exchange", "99"];
    for output in [ask(&server, &args), look(&server.database(), &args)] {
        assert_eq!(code(&output), Some(3));
        assert!(stderr(&output).contains("has no exchange"), "{}", stderr(&output));
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_can_be_followed() {
    let server = two_agents().await;
    let mut following = std::process::Command::new(assert_cmd::cargo::cargo_bin("recapd"));
    following
        .env_clear()
        .args(["history", "coder", "--follow", "--server"])
        .arg(format!("http://{}", server.address));
    let following = Printing::by(&mut following);
    following.until("#9 ");
    server.converse("coder", 10..=10).await;
    following.until("#10 ");
    drop(following);
    server.end().await;
}
