//! `recapd history`: colours, and the same from the daemon and from the database.

use super::{
    place::{alike, ask, look, two_agents},
    stdout,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_history_is_drawn_alike_and_in_colour_where_it_is_wanted() {
    let server = two_agents().await;
    let view = alike(&server, &["history", "coder"]);
    assert_eq!(view["boundary"]["after_exchange"], 6, "{view}");
    let args = ["history", "coder", "--color", "always"];
    let [asked, looked] =
        [ask(&server, &args), look(&server.database(), &args)].map(|output| stdout(&output));
    for text in [&asked, &looked] {
        assert!(
            text.contains("\u{1b}[1m──────── the model sees from here"),
            "{text}"
        );
        assert!(text.contains("\u{1b}[2m  #6"), "{text}");
    }
    let plain = stdout(&ask(&server, &["history", "coder"]));
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let never = stdout(&ask(&server, &["history", "coder", "--color", "never"]));
    assert_eq!(plain, never);
    server.end().await;
}
