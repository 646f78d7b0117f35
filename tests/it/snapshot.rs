//! Summaries at hand, where nobody tells of changes.

use std::{sync::Arc, time::Duration};

use recapd::{
    clock::SystemClock,
    domain::{agent::AgentId, redaction::Redactor},
    snapshot::{self, Snapshots},
    store::SummaryRow,
    tokenizer,
};

use crate::support::{
    backend::{Backend as _, SqliteBackend},
    conversation::{agent, append, turns},
};

/// As long as a copy is believed.
const BELIEVED: Duration = Duration::from_mins(1);

fn snapshots(db: &SqliteBackend) -> Snapshots {
    Snapshots::new(
        db.store(),
        tokenizer::ceiling_counter(),
        Arc::new(SystemClock),
        10_000,
    )
}

async fn pending(snapshots: &Snapshots, agent: &AgentId) -> Option<i64> {
    let reading = snapshots.get(agent).await.unwrap()?;
    Some(reading.snapshot.pending_exchanges)
}

/// As [`pending`], after as long as a copy is believed; after as long again where the database wasn't in time.
async fn pending_later(snapshots: &Snapshots, agent: &AgentId) -> Option<i64> {
    loop {
        // The database is asked in time that passes by itself.
        tokio::time::pause();
        tokio::time::advance(BELIEVED).await;
        tokio::time::resume();
        let reading = snapshots.get(agent).await.unwrap()?;
        if reading.stale_since.is_none() {
            return Some(reading.snapshot.pending_exchanges);
        }
    }
}

#[tokio::test]
async fn a_change_that_nobody_told_of_is_seen_by_who_asks_later() {
    let db = SqliteBackend::fresh().await;
    let (snapshots, agent) = (snapshots(&db), agent("a"));
    db.store().append(append(&agent, turns(1..=3))).await.unwrap();
    assert_eq!(pending(&snapshots, &agent).await, Some(2));
    db.store().append(append(&agent, turns(4..=4))).await.unwrap();
    assert_eq!(pending(&snapshots, &agent).await, Some(2), "it is believed");
    assert_eq!(pending_later(&snapshots, &agent).await, Some(3));

    db.store().delete_agent(&agent).await.unwrap();
    assert_eq!(pending_later(&snapshots, &agent).await, None);
    assert_eq!(pending(&snapshots, &agent).await, None, "nothing is left of it");
}

#[tokio::test]
async fn the_tag_changes_whenever_the_document_does() {
    let db = SqliteBackend::fresh().await;
    let agent = agent("a");
    db.store().append(append(&agent, turns(1..=3))).await.unwrap();
    let row = db.store().summary(&agent).await.unwrap().unwrap();
    let counter = tokenizer::ceiling_counter();
    let render =
        |row: &SummaryRow, redactor: &Redactor| snapshot::render(row, 10_000, counter.as_ref(), redactor);
    let redactor = Redactor::standard();
    let before = render(&row, &redactor);
    assert_eq!(render(&row, &redactor).etag, before.etag);

    let mut recounted = row.clone();
    for exchange in &mut recounted.pending {
        exchange.tokens += 7;
    }
    let stricter = redactor.clone().with_patterns(&["Question"]).unwrap();
    for after in [render(&recounted, &redactor), render(&row, &stricter)] {
        assert_ne!(after.markdown, before.markdown);
        assert_ne!(after.etag, before.etag);
    }
}
