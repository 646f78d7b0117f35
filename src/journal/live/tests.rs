//! Names, torn lines, and what is missing before a line.

use std::collections::HashSet;

use super::*;
use crate::{
    domain::{
        journal::{Head, Line},
        message::Format,
        time::Timestamp,
    },
    store::{
        StoreError, StoreResult,
        archive::{Restore, Restored},
    },
};

/// What an agent said, `record`s of its name.
struct Database {
    has_heads: bool,
    last_seq: i64,
    /// Behind this message nothing can be read.
    readable: i64,
}

/// Knows no agent: what is appended stands alone.
const EMPTY: Database = Database {
    has_heads: false,
    last_seq: 0,
    readable: i64::MAX,
};

#[async_trait::async_trait]
impl Archive for Database {
    async fn head(&self, agent: &AgentId) -> Result<Option<Head>, ArchiveError> {
        let head = format!(
            r#"{{"journal": 1, "agent_id": "{agent}", "settings": {{}}, "created_at": "2026-11-01T09:00:00Z", "as_of": null,
                "budget_tokens": 0, "last_seq": {}, "last_exchange": 1, "first_exchange": 1, "sessions": [],
                "evictions": [], "marks": []}}"#,
            self.last_seq
        );
        Ok(self.has_heads.then(|| serde_json::from_str(&head).unwrap()))
    }

    async fn records(&self, agent: &AgentId, range: RecordRange) -> StoreResult<Vec<MessageRecord>> {
        if range.after_seq >= self.readable {
            return Err(StoreError::Unavailable("a test".to_owned()));
        }
        let through = range.through_seq.min(self.last_seq).min(self.readable);
        let found = (range.after_seq + 1..=through).map(|seq| record(agent.as_str(), seq));
        Ok(found.take(usize::try_from(range.messages_max).unwrap()).collect())
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
    over(folder, EMPTY)
}

fn over(folder: &Path, database: Database) -> Journal {
    let journal = Journal::open(folder, Arc::new(database)).unwrap();
    journal.waiting(Duration::from_mins(1))
}

/// A journal of an agent that has said so much, and whose file ends with this line.
fn behind(folder: &Path, last_seq: i64, line: &MessageRecord) -> (Journal, AgentId) {
    let journal = over(folder, Database { last_seq, ..EMPTY });
    std::fs::write(journal.path(&line.agent_id), line.line() + "\n").unwrap();
    (journal, line.agent_id.clone())
}

/// The numbers of an agent's messages in its file.
fn numbers(journal: &Journal, agent: &AgentId) -> Vec<i64> {
    let text = std::fs::read_to_string(journal.path(agent)).unwrap();
    let number = |line| match Line::parse(line).unwrap() {
        Line::Message(record) => record.seq,
        Line::Head(head) => panic!("{head:?}"),
    };
    text.lines().map(number).collect()
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

/// A crash or a full disk may leave a piece of a line: it gives way to the whole one.
#[tokio::test]
async fn a_torn_line_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 3, &record("a", 1));
    let whole = std::fs::read_to_string(journal.path(&id)).unwrap();
    std::fs::write(journal.path(&id), whole + "{\"agent_id\":\"a\",\"se").unwrap();
    journal.append(&id, vec![record("a", 3)]).await.unwrap();
    assert_eq!(numbers(&journal, &id), [1, 2, 3]);
    std::fs::write(journal.path(&id), "{\"agent_id\":\"a\",\"se").unwrap();
    journal.append(&id, vec![record("a", 2)]).await.unwrap();
    assert_eq!(numbers(&journal, &id), [2]);
}

/// An append copies a chunk at most of what is missing before it. The rest is copied later, and the order is kept.
#[tokio::test]
async fn what_is_missing_comes_first_a_chunk_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 600, &record("a", 1));
    let copied = journal.append(&id, vec![record("a", 600)]).await.unwrap();
    assert_eq!((copied, journal.lacking()), (256, vec![id.clone()]));
    for lines in [256, 87, 0] {
        assert_eq!(journal.mend(&id).await.unwrap(), lines);
    }
    assert!(journal.lacking().is_empty());
    assert_eq!(numbers(&journal, &id), (1..=600).collect::<Vec<i64>>());
}

/// Lines may be longer than what is read of a file's end at first.
#[tokio::test]
async fn the_last_line_may_be_long() {
    let folder = tempfile::tempdir().unwrap();
    let mut long = record("a", 1);
    long.payload = format!("\"{}\"", "x".repeat(300_000));
    let (journal, id) = behind(folder.path(), 3, &long);
    journal.append(&id, vec![record("a", 3)]).await.unwrap();
    assert_eq!(numbers(&journal, &id), [1, 2, 3]);
}

/// Two processes with one folder, or one that was thought to have given up.
#[tokio::test]
async fn nobody_writes_a_line_twice_or_beside_another() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 4, &record("a", 1));
    let other = over(folder.path(), Database { last_seq: 4, ..EMPTY });
    let held = File::options().append(true).open(journal.path(&id)).unwrap();
    held.lock().unwrap();
    assert!(journal.append(&id, vec![record("a", 2)]).await.is_err());
    drop(held);
    assert_eq!(other.append(&id, vec![record("a", 4)]).await.unwrap(), 3);
    assert_eq!(journal.append(&id, vec![record("a", 3)]).await.unwrap(), 0);
    assert_eq!(journal.mend(&id).await.unwrap(), 0);
    assert_eq!(numbers(&journal, &id), [1, 2, 3, 4]);
}

/// The database may be an earlier state that was restored: what the file tells of is kept, and nothing is made up between.
#[tokio::test]
async fn what_another_life_left_is_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let mut earlier = record("a", 2);
    earlier.received_at = Timestamp(-1_000);
    let (journal, id) = behind(folder.path(), 5, &earlier);
    for seq in [4, 5] {
        journal.append(&id, vec![record("a", seq)]).await.unwrap();
    }
    assert_eq!(numbers(&journal, &id), [2, 4, 5]);
}

/// Whoever looked, and wakes late, finds what has been written since.
#[test]
fn lines_of_another_life_stand_behind_the_line_that_was_judged() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 5, &record("a", 2));
    let path = journal.path(&id);
    let append = |seq| {
        file::append(
            &path,
            Place::Behind(Last::of(&record("a", seq))),
            &[record("a", 5)],
        )
    };
    assert_eq!(append(1).unwrap(), Written::Nothing(Last::of(&record("a", 2))));
    assert_eq!(append(2).unwrap(), Written::All);
    assert_eq!(numbers(&journal, &id), [2, 5]);
}

/// A power cut may leave that.
#[tokio::test]
async fn a_file_without_a_whole_line_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let id = "a".parse().unwrap();
    for (has_heads, lines) in [(true, 3), (false, 1)] {
        let database = Database {
            has_heads,
            last_seq: 2,
            ..EMPTY
        };
        let journal = over(folder.path(), database);
        for left in ["", "{\"jour"] {
            std::fs::write(journal.path(&id), left).unwrap();
            journal.append(&id, vec![record("a", 2)]).await.unwrap();
            let text = std::fs::read_to_string(journal.path(&id)).unwrap();
            assert_eq!(text.lines().count(), lines, "{text}");
        }
        std::fs::write(journal.path(&id), "").unwrap();
        journal.mend(&id).await.unwrap();
        let text = std::fs::read_to_string(journal.path(&id)).unwrap();
        assert_eq!(text.lines().count(), lines.max(2), "{text}");
    }
}

#[tokio::test]
async fn a_file_that_could_not_be_begun_is_begun_later() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("journal");
    let database = Database {
        has_heads: true,
        last_seq: 2,
        ..EMPTY
    };
    let journal = over(&place, database);
    let id = "a".parse().unwrap();
    std::fs::remove_dir(&place).unwrap();
    assert!(journal.append(&id, vec![record("a", 2)]).await.is_err());
    std::fs::create_dir(&place).unwrap();
    assert_eq!(journal.mend(&id).await.unwrap(), 0);
    assert!(journal.lacking().is_empty());
    let text = std::fs::read_to_string(journal.path(&id)).unwrap();
    assert_eq!(text.lines().count(), 3, "a head and two messages: {text}");
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

#[tokio::test]
async fn of_a_file_that_never_became_whole_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database {
        has_heads: true,
        last_seq: 2,
        readable: 1,
    };
    let journal = over(folder.path(), database);
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
