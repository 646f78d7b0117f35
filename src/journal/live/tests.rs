//! Names, torn lines, and lanes.

use std::collections::HashSet;

use super::*;
use crate::{
    domain::{journal::Head, message::Format, time::Timestamp},
    store::{
        StoreError, StoreResult,
        archive::{RecordRange, Restore, Restored},
    },
};

/// Knows no agent: what is appended stands alone.
struct Empty;

#[async_trait::async_trait]
impl Archive for Empty {
    async fn head(&self, _: &AgentId) -> Result<Option<Head>, ArchiveError> {
        Ok(None)
    }

    async fn records(&self, _: &AgentId, _: RecordRange) -> StoreResult<Vec<MessageRecord>> {
        Ok(Vec::new())
    }

    async fn known_client_ids(&self, _: &AgentId, _: &[&str]) -> StoreResult<HashSet<String>> {
        Ok(HashSet::new())
    }

    async fn restore(&self, _: Restore) -> Result<Restored, ArchiveError> {
        Ok(Restored::default())
    }
}

/// A journal on a disk that may take its time: the machine may be busy with other tests.
fn open(folder: &Path) -> Journal {
    let journal = Journal::open(folder, Arc::new(Empty)).unwrap();
    journal.waiting(Duration::from_mins(1))
}

fn record(agent: &str, seq: i64) -> MessageRecord {
    MessageRecord {
        agent_id: agent.parse().unwrap(),
        seq,
        exchange: 1,
        session: 1,
        kind: "user".to_owned(),
        format: Format::Native,
        tokens: 1,
        count_method: "test".to_owned(),
        client_id: None,
        said_at: Timestamp(0),
        received_at: Timestamp(0),
        payload: "{}".to_owned(),
    }
}

#[tokio::test]
async fn each_agent_has_a_file_that_does_not_tell_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(&folder.path().join("deep/down"));
    for agent in ["team:secret", "other"] {
        let id = agent.parse().unwrap();
        journal.append(&id, vec![record(agent, 1)]).await.unwrap();
        let path = journal.path(&id);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(!name.contains("secret") && name.len() == 32 + 6, "{name}");
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            record(agent, 1).line() + "\n"
        );
    }
}

#[tokio::test]
async fn a_torn_line_stays_alone() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    let id = "a".parse().unwrap();
    std::fs::write(journal.path(&id), "{\"agent_id\":\"a\",\"se").unwrap();
    journal.append(&id, vec![record("a", 2)]).await.unwrap();
    let text = std::fs::read_to_string(journal.path(&id)).unwrap();
    assert_eq!(
        text,
        format!("{{\"agent_id\":\"a\",\"se\n{}\n", record("a", 2).line())
    );
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    let id = "a".parse().unwrap();
    journal.append(&id, vec![record("a", 1)]).await.unwrap();
    let mode = journal.path(&id).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_folder_that_went_away_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    drop(folder);
    assert!(
        journal
            .append(&"a".parse().unwrap(), vec![record("a", 1)])
            .await
            .is_err()
    );
}

/// Knows how an agent began, and of two chunks of what it said only the first.
struct Failing;

#[async_trait::async_trait]
impl Archive for Failing {
    async fn head(&self, agent: &AgentId) -> Result<Option<Head>, ArchiveError> {
        let head = format!(
            r#"{{"journal": 1, "agent_id": "{agent}", "settings": {{}}, "created_at": "2026-11-01T09:00:00Z", "as_of": null,
                "budget_tokens": 0, "last_seq": 2, "last_exchange": 1, "first_exchange": 1, "sessions": [],
                "evictions": [], "marks": []}}"#
        );
        Ok(Some(serde_json::from_str(&head).unwrap()))
    }

    async fn records(&self, agent: &AgentId, range: RecordRange) -> StoreResult<Vec<MessageRecord>> {
        match range.after_seq {
            0 => Ok(vec![record(agent.as_str(), 1)]),
            _ => Err(StoreError::Unavailable("a test".to_owned())),
        }
    }

    async fn known_client_ids(&self, _: &AgentId, _: &[&str]) -> StoreResult<HashSet<String>> {
        Ok(HashSet::new())
    }

    async fn restore(&self, _: Restore) -> Result<Restored, ArchiveError> {
        Ok(Restored::default())
    }
}

#[tokio::test]
async fn of_a_file_that_never_became_whole_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path(), Arc::new(Failing)).unwrap();
    let journal = journal.waiting(Duration::from_mins(1));
    let id = "a".parse().unwrap();
    let failed = journal.append(&id, vec![record("a", 2)]).await.unwrap_err();
    assert!(failed.to_string().contains("a test"), "{failed}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    // What a process left that was killed meanwhile.
    let begun = journal.path(&id).with_extension(BEGUN);
    for forgets in [true, false] {
        std::fs::write(&begun, record("a", 1).line()).unwrap();
        let gone = if forgets {
            journal.rewrite(&id).await
        } else {
            journal.remove(&id).await
        };
        gone.unwrap();
        assert!(!begun.exists(), "forgets: {forgets}");
    }
}
