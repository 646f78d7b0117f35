//! Facts: how an update applies the changes in an answer.

use recapd_core::domain::{summary::fact::FactKind, transcript::Voice};
use recapd_engine::worker::Outcome;
use recapd_store::FactQuery;

use crate::support::{
    backend::Backend as _,
    flaky_store::When,
    rig::{Rig, config},
    scripted::Reply,
};

async fn facts(rig: &Rig) -> Vec<String> {
    let query = FactQuery { after: 0, limit: 100, all: false };
    let rows = rig.db.store().facts(&rig.agent, query).await.unwrap();
    rows.iter().map(|row| row.fact.text.clone()).collect()
}

fn refused(rig: &Rig, reason: &str) -> bool {
    let metrics = rig.parts.metrics.encode(None).1;
    let line = format!("recapd_facts_refused_total{{reason=\"{reason}\"}} 1");
    metrics.lines().any(|found| found == line)
}

#[tokio::test]
async fn facts_come_with_the_items_of_an_answer() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig.model.plan([Reply::Stating]);
    assert_eq!(rig.drain().await, [Outcome::Completed]);
    rig.verify().await;
    assert!(rig.model.facts().is_empty());
    let last = rig.row().await.ledger.summarized_through;
    let open = format!("why exchange {last} failed");
    assert_eq!(facts(&rig).await, ["fix the next of the failing tests", &open]);
    assert!(refused(&rig, "not_the_user"));
    let document = rig.content().await;
    assert!(
        document.contains("- The user demands (#1): “fix the next of the failing tests”\n"),
        "{document}"
    );
    // The next question lists the present facts, and the user's demand only once.
    rig.say(4).await;
    rig.model.plan([Reply::Stating]);
    rig.drain_later().await;
    rig.verify().await;
    let shown = rig.model.facts();
    let shown: Vec<(FactKind, Option<Voice>)> = shown.iter().map(|fact| (fact.kind, fact.voice)).collect();
    assert_eq!(shown, [(FactKind::Demand, Some(Voice::User)), (FactKind::Open, None)]);
    let told = facts(&rig).await;
    assert_eq!(told.len(), 3, "{told:?}");
}

#[tokio::test]
async fn a_journalled_answer_keeps_its_facts() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig.model.plan([Reply::Stating]);
    rig.flaky.fail("complete", 1, When::Before);
    assert_eq!(rig.drain().await, [Outcome::Retried]);
    assert_eq!(facts(&rig).await, Vec::<String>::new());
    assert_eq!(rig.drain_later().await, [Outcome::Completed]);
    assert_eq!((rig.model.calls(), facts(&rig).await.len()), (1, 2));
    rig.verify().await;
}

#[tokio::test]
async fn digests_state_no_facts() {
    let rig = Rig::new(&config()).await;
    rig.say(6).await;
    rig.model.plan([Reply::Stating]);
    rig.drain().await;
    let before = facts(&rig).await;
    rig.say(6).await;
    rig.model.plan([Reply::Auth]);
    assert_eq!(rig.drain_later().await, [Outcome::Parked]);
    assert_eq!(facts(&rig).await, before);
    assert!(rig.content().await.contains("## Where Things Stand"));
    rig.verify().await;
}
