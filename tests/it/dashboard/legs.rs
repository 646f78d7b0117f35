//! A long exchange in the dashboard.

use super::{links, page};
use crate::support::server::Server;

#[tokio::test]
async fn a_leg_leads_to_the_others_of_its_exchange() {
    let server = Server::in_legs().await;
    let body = page(&server, "/ui/agents/coder/exchanges/4").await;
    let legs = body.split("id=\"legs\">").nth(1).unwrap().split("</p>").next().unwrap();
    insta::assert_snapshot!(legs, @r#"Continues <a href="/ui/agents/coder/exchanges/2">#2</a> · #2–#5, one exchange in four legs · previous leg <a href="/ui/agents/coder/exchanges/3">#3</a> · next leg <a href="/ui/agents/coder/exchanges/5">#5</a>"#);
    for number in [2, 3, 5] {
        assert!(links(&body).contains(&format!("/ui/agents/coder/exchanges/{number}")), "{number}");
    }
    let alone = page(&server, "/ui/agents/coder/exchanges/1").await;
    assert!(!alone.contains("id=\"legs\""), "{alone}");
}

#[tokio::test]
async fn lists_say_what_a_leg_continues() {
    let server = Server::in_legs().await;
    let found = page(&server, "/ui/agents/coder/search?q=file").await;
    assert!(found.contains("#4 continues #2</a>"), "{found}");
    for path in ["/ui/agents/coder", "/ui/agents/coder/exchanges"] {
        let body = page(&server, path).await;
        assert_eq!(body.matches("continues #2").count(), 3, "{path}: {body}");
        assert!(body.contains("I look at file"), "{path}");
    }
}
