//! The live journal: a second copy of accepted messages, never a condition for accepting them.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use recapd_core::domain::journal::Head;
use recapd_engine::journal::live::Journal;
use recapd_store::{Forgettable, StoreError};
use tokio_util::sync::CancellationToken;

use super::{exported, imported, rehearsed};
use crate::support::{
    PATIENCE,
    backend::{Backend as _, SqliteBackend, assert_same},
    conversation::{T0, agent, native},
    rig::{Rig, config},
};

/// Opens a journal that may be on a slow disk: a daemon waits for it for a second, and then continues without.
fn open(folder: &Path, rig: &Rig) -> Arc<Journal> {
    let journal = Journal::open(folder, rig.db.target()).unwrap();
    Arc::new(journal.waiting(PATIENCE))
}

async fn with_journal(folder: &Path) -> (Rig, Arc<Journal>) {
    let mut rig = Rig::new(&config()).await;
    let journal = open(folder, &rig);
    rig.parts = rig.parts.with_journal(Some(Arc::clone(&journal)));
    (rig, journal)
}

#[tokio::test]
async fn accepted_messages_can_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, journal) = with_journal(folder.path()).await;
    rig.append(vec![native("system", "Be brief")]).await;
    rig.say(5).await;
    let text = std::fs::read_to_string(journal.path(&rig.agent)).unwrap();
    // The same lines as in an export, with a head from the time of the first.
    let lines = exported(&rig.db, &rig.agent).await;
    let (_, messages) = lines.split_once('\n').unwrap();
    let (head, told) = text.split_once('\n').unwrap();
    assert_eq!(told, messages);
    assert!(head.contains("\"journal\":1") && head.contains("\"last_seq\":1,"), "{head}");

    let other = SqliteBackend::fresh().await;
    let (outcome, refusals) = imported(&other, &text).await;
    assert_eq!((outcome.refused, refusals), (0, vec![]));
    for table in ["message_log", "exchange_log", "sessions"] {
        assert_same(&rig.db.dump(&[table]).await, &other.dump(&[table]).await, table);
    }
    assert_eq!(other.store().verify(&rig.agent).await.unwrap().breaches, []);
}

#[tokio::test]
async fn duplicates_are_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, journal) = with_journal(folder.path()).await;
    let once = recapd_core::formats::parse(
        recapd_core::domain::message::Format::Native,
        r#"{"kind":"user","content":"Hello","id":"1"}"#,
    )
    .unwrap();
    rig.append(vec![once.clone()]).await;
    rig.append(vec![once, native("assistant", "Hi")]).await;
    let text = std::fs::read_to_string(journal.path(&rig.agent)).unwrap();
    assert_eq!(text.lines().count(), 3, "a head and two messages: {text}");
}

#[tokio::test]
async fn concurrent_appends_are_written_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, journal) = with_journal(folder.path()).await;
    let appends = (0..20).map(|number| {
        let message = native("user", &format!("Question {number}"));
        rig.parts.ingestor.append(&rig.agent, vec![message])
    });
    for outcome in futures::future::join_all(appends).await {
        outcome.unwrap();
    }
    let text = std::fs::read_to_string(journal.path(&rig.agent)).unwrap();
    let (outcome, _) = imported(&SqliteBackend::fresh().await, &text).await;
    assert_eq!((outcome.accepted, outcome.refused), (20, 0));
}

#[tokio::test]
async fn a_failing_journal_is_counted_and_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, _) = with_journal(&folder.path().join("gone")).await;
    drop(folder);
    rig.append(vec![native("user", "Hello"), native("assistant", "Hi")]).await;
    assert_eq!(rig.db.store().verify(&agent("a")).await.unwrap().messages, 2);
    let (_, metrics) = rig.parts.metrics.encode(None);
    for line in ["recapd_journal_failed_messages_total 2", "recapd_journal_messages_total 0"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_fork_and_an_agent_with_a_past_have_complete_files() {
    let (early, late) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut rig, journal) = with_journal(early.path()).await;
    rig.say(3).await;
    let child = agent("child");
    rig.db.store().fork(&rig.agent, &child, T0).await.unwrap();
    let say = async |rig: &Rig| {
        let said = vec![native("user", "And?"), native("assistant", "So.")];
        rig.parts.ingestor.append(&child, said).await.unwrap();
    };
    say(&rig).await;
    say(&rig).await;
    // From now on in another folder, which also gets the earlier messages.
    let later = open(late.path(), &rig);
    rig.parts = rig.parts.with_journal(Some(Arc::clone(&later)));
    say(&rig).await;
    rig.say(1).await;
    let read = |path| std::fs::read_to_string(path).unwrap();
    let in_time = read(journal.path(&rig.agent)) + &read(journal.path(&child));
    let caught_up = read(later.path(&rig.agent)) + &read(later.path(&child));
    let stored = rig.db.number("SELECT count(*) FROM message_log").await;
    assert_eq!(i64::try_from(caught_up.lines().count() - 2).ok(), stored);
    for text in [in_time, caught_up] {
        let other = SqliteBackend::fresh().await;
        let (outcome, refusals) = imported(&other, &text).await;
        let messages = i64::try_from(text.lines().count() - 2).unwrap();
        assert_eq!((outcome.accepted, refusals), (messages, vec![]));
        for id in [&rig.agent, &child] {
            assert_eq!(other.store().verify(id).await.unwrap().breaches, []);
        }
        assert_eq!(other.dump(&["forks"]).await, rig.db.dump(&["forks"]).await);
    }
}

/// Creates an agent whose file begins after a past, in which exchanges left the window and a session was ended explicitly. Returns also
/// the head of the file, and the file's text.
async fn with_past(folder: &Path) -> (Rig, Head, String) {
    let mut rig = Rig::new(&config()).await;
    rig.say(4).await;
    rig.parts.ingestor.end_session(&rig.agent).await.unwrap();
    let journal = open(folder, &rig);
    rig.parts = rig.parts.with_journal(Some(Arc::clone(&journal)));
    rig.say(1).await;
    let head = rig.db.archive().head(&rig.agent).await.unwrap().unwrap();
    rig.say(2).await;
    let text = std::fs::read_to_string(journal.path(&rig.agent)).unwrap();
    assert!(text.starts_with(&head.line()), "{text}");
    assert!(!head.evictions.is_empty() && head.sessions.len() == 2, "{head:?}");
    (rig, head, text)
}

/// What only the head tells is set after the last message that it counts, and the agent continues from there.
#[tokio::test]
async fn a_past_is_restored_with_the_file_that_continues_it() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, head, text) = with_past(folder.path()).await;
    let other = SqliteBackend::fresh().await;
    let (outcome, _) = rehearsed(&other, &text).await;
    assert_eq!(outcome.unfinished, BTreeSet::new());
    for _ in 0..2 {
        let (outcome, refusals) = imported(&other, &text).await;
        assert_eq!((outcome.unfinished, refusals), (BTreeSet::new(), vec![]));
        let there = other.archive().head(&rig.agent).await.unwrap().unwrap();
        assert_eq!(there.last_seq, rig.row().await.ledger.last_seq);
        assert_eq!(there.first_exchange, head.first_exchange);
        assert_eq!((there.evictions, there.sessions), (head.evictions.clone(), head.sessions.clone()));
    }
    let queued = "SELECT count(*) FROM summary_update_queue";
    assert_eq!(other.number(queued).await, Some(1), "what had left the window");
    assert_eq!(other.store().verify(&rig.agent).await.unwrap().breaches, []);
}

/// The head is set if exactly the messages that it counts exist. An agent that went on without it isn't in the state that it describes.
#[tokio::test]
async fn an_agent_that_went_on_without_its_past_is_reported_to_lack_it() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, head, text) = with_past(folder.path()).await;
    let messages: Vec<&str> = text.split_inclusive('\n').skip(1).collect();
    let counted = usize::try_from(head.last_seq).unwrap();
    let lacking = BTreeSet::from([rig.agent.clone()]);
    for (there, unfinished) in [(counted, BTreeSet::new()), (counted + 1, lacking)] {
        let other = SqliteBackend::fresh().await;
        imported(&other, &messages[..there].concat()).await;
        for (outcome, refusals) in [rehearsed(&other, &text).await, imported(&other, &text).await] {
            assert_eq!((outcome.unfinished, refusals), (unfinished.clone(), vec![]), "{there}");
        }
        let evictions = other.archive().head(&rig.agent).await.unwrap().unwrap().evictions;
        assert_eq!(evictions == head.evictions, unfinished.is_empty(), "{there}");
        assert_eq!(other.store().verify(&rig.agent).await.unwrap().breaches, []);
    }
}

#[tokio::test]
async fn a_journal_with_forgotten_messages_is_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, journal) = with_journal(folder.path()).await;
    let gone = "xylocopa";
    rig.say(1).await;
    rig.append(vec![native("user", gone), native("assistant", "Yes.")]).await;
    rig.say(1).await;
    let child = agent("child");
    rig.db.store().fork(&rig.agent, &child, T0).await.unwrap();
    let said = vec![native("user", "And?"), native("assistant", "So.")];
    rig.parts.ingestor.append(&child, said).await.unwrap();
    let read = |id| std::fs::read_to_string(journal.path(id)).unwrap();
    let before = read(&rig.agent);
    assert!(before.contains(gone) && read(&child).contains(gone), "{before}");
    let what = Forgettable::Exchanges(vec![2]);
    let reply = rig.parts.ingestor.forget(&child, what).await.unwrap();
    assert_eq!((reply.agents.len(), reply.journals_left), (2, vec![]));
    let after = read(&rig.agent) + &read(&child);
    assert!(!after.contains(gone), "{gone} in {after}");
    assert_eq!(after.lines().count(), before.lines().count() + 3);
    rig.say(1).await;
    // The rest can be imported, and verifies.
    let other = SqliteBackend::fresh().await;
    let (_, refusals) = imported(&other, &(read(&rig.agent) + &read(&child))).await;
    assert_eq!(refusals, Vec::<String>::new());
    for id in [&rig.agent, &child] {
        assert_eq!(other.store().verify(id).await.unwrap().breaches, []);
    }
    let headlines = "SELECT headline FROM exchange_log WHERE agent_id = 'a' ORDER BY exchange";
    let told = other.column(headlines).await;
    assert_eq!(told, rig.db.column(headlines).await);
    assert!(told[1].as_ref().unwrap().contains("(forgotten)"), "{told:?}");
    assert_eq!(
        other.number("SELECT count(*) FROM message_log WHERE forgotten_at IS NOT NULL").await,
        Some(2)
    );
    rig.parts.ingestor.delete(&child).await.unwrap();
    assert!(!journal.path(&child).exists());
}

/// Opens a journal in a folder that can go away for a while, like a failing disk.
async fn on_a_failing_disk(folder: &Path) -> (Rig, Arc<Journal>, impl Fn()) {
    let (place, away) = (folder.join("journal"), folder.join("away"));
    let (rig, journal) = with_journal(&place).await;
    let switch = move || {
        let is_here = place.exists();
        let (from, to) = if is_here { (&place, &away) } else { (&away, &place) };
        std::fs::rename(from, to).unwrap();
    };
    (rig, journal, switch)
}

/// Checks that a file has the same lines after its head as an export.
async fn assert_whole(rig: &Rig, journal: &Journal) {
    let text = std::fs::read_to_string(journal.path(&rig.agent)).unwrap();
    let lines = exported(&rig.db, &rig.agent).await;
    let messages = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(messages(&text), messages(&lines));
}

#[tokio::test]
async fn messages_that_the_disk_missed_are_copied_later() {
    for goes_on in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (rig, journal, switch) = on_a_failing_disk(folder.path()).await;
        rig.say(1).await;
        switch();
        rig.say(2).await;
        switch();
        assert_eq!(journal.incomplete(), vec![rig.agent.clone()]);
        if goes_on {
            rig.say(1).await;
        } else {
            rig.parts.ingestor.mend_journal().await;
            assert!(journal.incomplete().is_empty());
        }
        assert_whole(&rig, &journal).await;
        let (_, metrics) = rig.parts.metrics.encode(None);
        let stored = rig.row().await.ledger.last_seq;
        let line = format!("recapd_journal_messages_total {stored}\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

/// Both in the file and in its gap.
#[tokio::test]
async fn forgotten_messages_do_not_come_back_with_missed_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, journal, switch) = on_a_failing_disk(folder.path()).await;
    let gone = "xylocopa";
    for is_away in [false, true] {
        if is_away {
            switch();
        }
        rig.append(vec![native("user", gone), native("assistant", "Yes.")]).await;
    }
    rig.say(1).await;
    switch();
    let what = Forgettable::Exchanges(vec![1, 2]);
    let reply = rig.parts.ingestor.forget(&rig.agent, what).await.unwrap();
    assert!(reply.journals_left.is_empty());
    rig.parts.ingestor.mend_journal().await;
    rig.say(1).await;
    let text = std::fs::read_to_string(journal.path(&rig.agent)).unwrap();
    assert!(!text.contains(gone), "{text}");
    assert_whole(&rig, &journal).await;
}

/// A daemon that ends doesn't wait for a file with a gap; here somebody holds the agent's lane.
#[tokio::test]
async fn repairing_a_file_stops_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, journal, switch) = on_a_failing_disk(folder.path()).await;
    switch();
    rig.say(1).await;
    let _lane = journal.lane(&rig.agent).await;
    let stop = CancellationToken::new();
    tokio::time::pause();
    let asking = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        stop.cancel();
    };
    let tending = rig.parts.ingestor.tend_journal(stop.clone());
    let both = async { tokio::join!(tending, asking) };
    tokio::time::timeout(Duration::from_secs(31), both).await.unwrap();
    assert_eq!(journal.incomplete(), vec![rig.agent.clone()]);
}

/// Daemons that share a database have a journal each. The daemon that gets a request to forget rewrites its own, even if another daemon
/// got the request before.
#[tokio::test]
async fn each_daemon_forgets_in_its_own_journal() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (rig, own) = with_journal(here.path()).await;
    let others = open(there.path(), &rig);
    let other = rig.parts.clone().with_journal(Some(Arc::clone(&others)));
    rig.append(vec![native("user", "xylocopa"), native("assistant", "Yes.")]).await;
    let said = vec![native("user", "And?"), native("assistant", "So.")];
    other.ingestor.append(&rig.agent, said).await.unwrap();
    let holds = |journal: &Journal| {
        let text = std::fs::read_to_string(journal.path(&rig.agent)).unwrap();
        text.contains("xylocopa")
    };
    assert_eq!((holds(&own), holds(&others)), (true, true));
    let what = Forgettable::Exchanges(vec![1]);
    rig.parts.ingestor.forget(&rig.agent, what.clone()).await.unwrap();
    assert_eq!((holds(&own), holds(&others)), (false, true));
    other.ingestor.forget(&rig.agent, what).await.unwrap();
    assert!(!holds(&others));

    rig.parts.ingestor.delete(&rig.agent).await.unwrap();
    assert!(!own.path(&rig.agent).exists() && others.path(&rig.agent).exists());
    let gone = other.ingestor.delete(&rig.agent).await;
    assert!(matches!(gone, Err(StoreError::UnknownAgent(_))), "{gone:?}");
    assert!(!others.path(&rig.agent).exists());
}

/// One daemon deletes an agent, which is created again and says as much as before. Another daemon, which doesn't know that, keeps the two
/// lives apart.
#[tokio::test]
async fn an_agent_created_again_does_not_continue_its_old_file() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (rig, _) = with_journal(here.path()).await;
    let journal = open(there.path(), &rig);
    let other = rig.parts.clone().with_journal(Some(Arc::clone(&journal)));
    let turn = |question| vec![native("user", question), native("assistant", "Yes.")];
    other.ingestor.append(&rig.agent, turn("xylocopa")).await.unwrap();
    rig.clock.advance_ms(1_000);
    rig.parts.ingestor.delete(&rig.agent).await.unwrap();
    rig.append(turn("Hello")).await;
    other.ingestor.append(&rig.agent, turn("And?")).await.unwrap();
    assert_whole(&rig, &journal).await;
    let path = journal.path(&rig.agent);
    let before = path.with_extension("past").join("1.jsonl");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert!(read(&before).contains("xylocopa") && !read(&path).contains("xylocopa"));
    other.ingestor.delete(&rig.agent).await.unwrap();
    assert_eq!(std::fs::read_dir(there.path()).unwrap().count(), 0);
}
