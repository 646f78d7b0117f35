//! Tests of file names, torn lines and missing lines.

use std::fs::File;

use super::*;
use recapd_core::domain::{
    journal::{Head, JournalLine},
    message::Format,
    time::Timestamp,
};
use recapd_store::{
    StoreError, StoreResult,
    archive::{Restore, RestoreOutcome},
};

/// When agents were created by default. The messages that [`record`] makes were received later.
const SINCE: Timestamp = Timestamp(-1_000_000);

/// A database with one agent. [`record`] makes its messages.
struct FixtureDatabase {
    has_heads: bool,
    last_seq: i64,
    /// Messages after this one can't be read.
    readable: i64,
    /// True if no query for messages ever returns.
    hangs: bool,
}

/// Knows no agent, so files hold appended messages alone.
const EMPTY: FixtureDatabase =
    FixtureDatabase { has_heads: false, last_seq: 0, readable: i64::MAX, hangs: false };

/// Knows an agent with a history of more than two chunks.
const LONG: FixtureDatabase = FixtureDatabase { has_heads: true, last_seq: 600, ..EMPTY };

#[async_trait::async_trait]
impl Archive for FixtureDatabase {
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
        if self.hangs {
            std::future::pending::<()>().await;
        }
        if range.after_seq >= self.readable {
            return Err(StoreError::Unavailable("a test".into()));
        }
        let through = range.through_seq.min(self.last_seq).min(self.readable);
        let found = (range.after_seq + 1..=through).map(|seq| record(agent.as_str(), seq));
        Ok(found.take(usize::try_from(range.messages_max).unwrap()).collect())
    }

    async fn restore(&self, _: Restore) -> Result<RestoreOutcome, ArchiveError> {
        Ok(RestoreOutcome::default())
    }
}

/// A journal that waits long for the disk, since the machine may be busy with other tests.
fn open(folder: &Path) -> Journal {
    journal_of(folder, EMPTY)
}

fn journal_of(folder: &Path, database: FixtureDatabase) -> Journal {
    let journal = Journal::open(folder, Arc::new(database)).unwrap();
    journal.waiting(Duration::from_mins(1))
}

/// A journal of an agent with messages up to `last_seq`, whose file ends with `line`.
fn behind(folder: &Path, last_seq: i64, line: &MessageRecord) -> (Journal, AgentId) {
    let journal = journal_of(folder, FixtureDatabase { last_seq, ..EMPTY });
    std::fs::write(journal.path(&line.agent_id), line.line() + "\n").unwrap();
    (journal, line.agent_id.clone())
}

fn numbers(journal: &Journal, agent: &AgentId) -> Vec<i64> {
    let text = std::fs::read_to_string(journal.path(agent)).unwrap();
    text.lines().map(number).collect()
}

fn number(line: &str) -> i64 {
    match JournalLine::parse(line).unwrap() {
        JournalLine::Message(record) => record.seq,
        JournalLine::Head(head) => panic!("{head:?}"),
    }
}

/// Checks that an agent's file has a head, and all messages up to `last_seq`.
#[track_caller]
fn assert_whole(journal: &Journal, agent: &AgentId, last_seq: i64) {
    let text = std::fs::read_to_string(journal.path(agent)).unwrap();
    let (head, messages) = text.split_once('\n').unwrap();
    assert!(matches!(JournalLine::parse(head), Ok(JournalLine::Head(_))), "{head}");
    let numbers: Vec<i64> = messages.lines().map(number).collect();
    assert_eq!(numbers, (1..=last_seq).collect::<Vec<i64>>());
}

/// Mends an agent's file until nothing is missing. Returns how many lines each call copied.
async fn mended(journal: &Journal, agent: &AgentId) -> Vec<usize> {
    let mut copied = Vec::new();
    loop {
        match journal.mend(agent).await.unwrap() {
            0 => return copied,
            lines => copied.push(lines),
        }
    }
}

fn draft_path(journal: &Journal, agent: &AgentId) -> PathBuf {
    journal.path(agent).with_extension(DRAFT_EXTENSION)
}

async fn say(journal: &Journal, agent: &AgentId, seq: i64) -> io::Result<usize> {
    journal.append(agent, SINCE, vec![record(agent.as_str(), seq)]).await
}

fn record(agent: &str, seq: i64) -> MessageRecord {
    MessageRecord {
        agent_id: agent.parse().unwrap(),
        seq,
        exchange: 1,
        session: 1,
        begins_leg: false,
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
async fn file_names_hide_the_agents_ids() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(&folder.path().join("deep/down"));
    for agent in ["team:secret", "other"] {
        let id = agent.parse().unwrap();
        say(&journal, &id, 1).await.unwrap();
        let path = journal.path(&id);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(!name.contains("secret") && name.len() == 32 + 6, "{name}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), record(agent, 1).line() + "\n");
    }
}

/// A crash or a full disk may leave part of a line, which the whole line replaces.
#[tokio::test]
async fn a_torn_line_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 3, &record("a", 1));
    let whole = std::fs::read_to_string(journal.path(&id)).unwrap();
    std::fs::write(journal.path(&id), whole + "{\"agent_id\":\"a\",\"se").unwrap();
    say(&journal, &id, 3).await.unwrap();
    assert_eq!(numbers(&journal, &id), [1, 2, 3]);
    std::fs::write(journal.path(&id), "{\"agent_id\":\"a\",\"se").unwrap();
    say(&journal, &id, 2).await.unwrap();
    assert_eq!(numbers(&journal, &id), [2]);
}

/// An append copies at most a chunk of what is missing before it. The rest is copied later, in order.
#[tokio::test]
async fn missing_lines_are_copied_first_in_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 600, &record("a", 1));
    let copied = say(&journal, &id, 600).await.unwrap();
    assert_eq!((copied, journal.incomplete()), (256, vec![id.clone()]));
    for lines in [256, 87, 0] {
        assert_eq!(journal.mend(&id).await.unwrap(), lines);
    }
    assert!(journal.incomplete().is_empty());
    assert_eq!(numbers(&journal, &id), (1..=600).collect::<Vec<i64>>());
}

/// The last line may be longer than the part of the file's end that is read first.
#[tokio::test]
async fn the_last_line_may_be_long() {
    let folder = tempfile::tempdir().unwrap();
    let mut long = record("a", 1);
    long.payload = format!("\"{}\"", "x".repeat(300_000));
    let (journal, id) = behind(folder.path(), 3, &long);
    say(&journal, &id, 3).await.unwrap();
    assert_eq!(numbers(&journal, &id), [1, 2, 3]);
}

/// Two processes may share a folder, or a write that timed out may still be running.
#[tokio::test]
async fn concurrent_writers_write_each_line_once() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 4, &record("a", 1));
    let other = journal_of(folder.path(), FixtureDatabase { last_seq: 4, ..EMPTY });
    let held = File::options().append(true).open(journal.path(&id)).unwrap();
    held.lock().unwrap();
    assert!(say(&journal, &id, 2).await.is_err());
    drop(held);
    assert_eq!(say(&other, &id, 4).await.unwrap(), 3);
    assert_eq!(say(&journal, &id, 3).await.unwrap(), 0);
    assert_eq!(journal.mend(&id).await.unwrap(), 0);
    assert_eq!(numbers(&journal, &id), [1, 2, 3, 4]);
}

/// The database may be an earlier state that was restored: the file keeps what it has, and nothing is invented for the gap.
#[tokio::test]
async fn a_file_from_before_a_restore_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let mut earlier = record("a", 2);
    earlier.received_at = Timestamp(-1_000);
    let (journal, id) = behind(folder.path(), 5, &earlier);
    for seq in [4, 5] {
        say(&journal, &id, seq).await.unwrap();
    }
    assert_eq!(numbers(&journal, &id), [2, 4, 5]);
}

/// Leaves a file with a message of the agent's earlier life. Returns its line.
fn leave_earlier_life(journal: &Journal, agent: &AgentId, seq: i64) -> String {
    let mut earlier = record(agent.as_str(), seq);
    earlier.received_at = Timestamp(-1);
    let line = earlier.line() + "\n";
    std::fs::write(journal.path(agent), &line).unwrap();
    line
}

/// The agent was deleted and created again elsewhere, or the database lost it. Its earlier life may have ended anywhere, even
/// right before the number of the appended message.
#[tokio::test]
async fn a_file_of_an_earlier_life_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let database = FixtureDatabase { last_seq: 5, ..LONG };
    let (journal, id) = (journal_of(folder.path(), database), "a".parse().unwrap());
    for (number, ended_at) in [(1, 2), (2, 4), (3, 9)] {
        let line = leave_earlier_life(&journal, &id, ended_at);
        let written = journal.append(&id, Timestamp(0), vec![record("a", 5)]).await;
        assert_eq!(written.unwrap(), 5);
        assert_whole(&journal, &id, 5);
        let aside = journal.path(&id).with_extension(PAST_EXTENSION);
        let aside = aside.join(format!("{number}.jsonl"));
        assert_eq!(std::fs::read_to_string(aside).unwrap(), line);
    }
    journal.remove(&id).await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn an_earlier_life_is_set_aside_later_if_the_disk_failed() {
    let folder = tempfile::tempdir().unwrap();
    let database = FixtureDatabase { last_seq: 5, ..LONG };
    let (journal, id) = (journal_of(folder.path(), database), "a".parse().unwrap());
    leave_earlier_life(&journal, &id, 4);
    let held = File::options().append(true).open(journal.path(&id)).unwrap();
    held.lock().unwrap();
    let failed = journal.append(&id, Timestamp(0), vec![record("a", 5)]).await;
    assert!(failed.is_err());
    drop(held);
    assert_eq!(mended(&journal, &id).await, [5]);
    assert_whole(&journal, &id, 5);
}

/// A message from before the agent's creation may come from a daemon whose clock is behind. The database says whether the message
/// belongs to the present life.
#[tokio::test]
async fn a_stored_message_belongs_to_the_present_life() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 4, &record("a", 2));
    for seq in [3, 4] {
        let said = journal.append(&id, Timestamp(1), vec![record("a", seq)]).await;
        assert_eq!(said.unwrap(), if seq == 3 { 2 } else { 0 });
    }
    assert_eq!(numbers(&journal, &id), [2, 3, 4]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A writer that was delayed after its look finds what has been written since.
#[test]
fn lines_are_written_only_after_the_line_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = behind(folder.path(), 5, &record("a", 2));
    let path = journal.path(&id);
    let append =
        |seq| file::append(&path, WritePosition::Behind(Last::of(&record("a", seq))), &[record("a", 5)]);
    assert_eq!(append(1).unwrap(), WriteOutcome::Nothing(Last::of(&record("a", 2))));
    assert_eq!(append(2).unwrap(), WriteOutcome::All);
    assert_eq!(numbers(&journal, &id), [2, 5]);
}

/// A power cut may leave a file without a complete line.
#[tokio::test]
async fn a_file_without_a_complete_line_is_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let id = "a".parse().unwrap();
    for (has_heads, lines) in [(true, 3), (false, 1)] {
        let database = FixtureDatabase { has_heads, last_seq: 2, ..EMPTY };
        let journal = journal_of(folder.path(), database);
        for left in ["", "{\"jour"] {
            std::fs::write(journal.path(&id), left).unwrap();
            say(&journal, &id, 2).await.unwrap();
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
async fn a_file_that_could_not_be_started_is_started_later() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("journal");
    let database = FixtureDatabase { has_heads: true, last_seq: 2, ..EMPTY };
    let journal = journal_of(&place, database);
    let id = "a".parse().unwrap();
    std::fs::remove_dir(&place).unwrap();
    assert!(say(&journal, &id, 2).await.is_err());
    std::fs::create_dir(&place).unwrap();
    assert_eq!(mended(&journal, &id).await, [2]);
    assert!(journal.incomplete().is_empty());
    assert_whole(&journal, &id, 2);
}

/// No append waits for a long history: each copies a chunk, and the file appears when it is complete.
#[tokio::test]
async fn a_long_history_is_copied_in_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = (journal_of(folder.path(), LONG), "a".parse().unwrap());
    for _ in 0..2 {
        let copied = say(&journal, &id, 600).await.unwrap();
        assert_eq!((copied, journal.incomplete()), (256, vec![id.clone()]));
        assert!(!journal.path(&id).exists() && draft_path(&journal, &id).exists());
    }
    assert_eq!(mended(&journal, &id).await, [88]);
    assert!(journal.incomplete().is_empty() && !draft_path(&journal, &id).exists());
    assert_whole(&journal, &id, 600);
}

/// If an append copied fewer lines than it brings, the file of an agent with large appends would never be complete.
#[tokio::test]
async fn an_append_copies_as_many_lines_as_it_brings() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = (journal_of(folder.path(), LONG), "a".parse().unwrap());
    let said = (1..=600).map(|seq| record("a", seq)).collect();
    assert_eq!(journal.append(&id, SINCE, said).await.unwrap(), 600);
    assert!(journal.incomplete().is_empty());
    assert_whole(&journal, &id, 600);
}

/// The last chunk may be full; only the next one shows that nothing follows.
#[tokio::test]
async fn a_history_of_full_chunks_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let database = FixtureDatabase { last_seq: 512, ..LONG };
    let (journal, id) = (journal_of(folder.path(), database), "a".parse().unwrap());
    assert_eq!(mended(&journal, &id).await, [256, 256]);
    assert_whole(&journal, &id, 512);
}

/// If the process is killed or the database fails, copied lines aren't copied again, unless they are of another life.
#[tokio::test]
async fn a_draft_continues_where_it_stopped() {
    let lines = |range: std::ops::RangeInclusive<i64>, received_at| {
        let line = |seq| {
            let mut record = record("a", seq);
            record.received_at = received_at;
            record.line() + "\n"
        };
        range.map(line).collect::<String>()
    };
    let head = serde_json::json!({"journal": 1, "agent_id": "a", "settings": {}, "created_at": 0, "as_of": null,
        "budget_tokens": 0, "last_seq": 600, "last_exchange": 1, "first_exchange": 1, "sessions": [], "evictions": [],
        "marks": []});
    let (own, other) = (lines(1..=300, Timestamp(0)), lines(1..=300, Timestamp(-1_000)));
    for (left, copied) in [
        (format!("{head}\n{own}"), vec![256, 44]),
        (format!("{head}\n{own}{{\"agent_id\":\"a\",\"se"), vec![256, 44]),
        (format!("{head}\n{other}"), vec![256, 256, 88]),
        (format!("{head}\n"), vec![256, 256, 88]),
        ("{\"jour".to_owned(), vec![256, 256, 88]),
        (String::new(), vec![256, 256, 88]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (journal, id) = (journal_of(folder.path(), LONG), "a".parse().unwrap());
        std::fs::write(draft_path(&journal, &id), left).unwrap();
        assert_eq!(mended(&journal, &id).await, copied);
        assert_whole(&journal, &id, 600);
    }
}

#[tokio::test]
async fn a_failing_database_keeps_the_draft() {
    let folder = tempfile::tempdir().unwrap();
    let failing = FixtureDatabase { readable: 256, ..LONG };
    let (journal, id) = (journal_of(folder.path(), failing), "a".parse().unwrap());
    assert_eq!(journal.mend(&id).await.unwrap(), 256);
    let failed = journal.mend(&id).await.unwrap_err();
    assert!(failed.to_string().contains("a test"), "{failed}");
    let journal = journal_of(folder.path(), LONG);
    assert_eq!(mended(&journal, &id).await, [256, 88]);
    assert_whole(&journal, &id, 600);
}

/// The append goes on without the journal, and the agent's lane is free.
#[tokio::test(start_paused = true)]
async fn copying_a_draft_times_out_like_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) =
        (journal_of(folder.path(), FixtureDatabase { hangs: true, ..LONG }), "a".parse().unwrap());
    let failed = say(&journal, &id, 600).await.unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    let failed = journal.mend(&id).await.unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    drop(journal.lane(&id).await);
    assert_eq!(journal.incomplete(), vec![id]);
}

/// The draft links to a full disk.
#[tokio::test]
async fn a_draft_on_a_full_disk_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = (journal_of(folder.path(), LONG), "a".parse().unwrap());
    std::os::unix::fs::symlink("/dev/full", draft_path(&journal, &id)).unwrap();
    assert!(say(&journal, &id, 600).await.is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(mended(&journal, &id).await, [256, 256, 88]);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    let id = "a".parse().unwrap();
    say(&journal, &id, 1).await.unwrap();
    let mode = journal.path(&id).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_missing_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    drop(folder);
    assert!(journal.append(&"a".parse().unwrap(), SINCE, vec![record("a", 1)]).await.is_err());
}

/// Leaves an agent's file and a draft, as a killed process would; both hold what is forgotten.
fn leave_forgotten(journal: &Journal, agent: &AgentId) -> String {
    let mut gone = record(agent.as_str(), 1);
    gone.payload = "\"xylocopa\"".to_owned();
    let line = gone.line() + "\n";
    for left in [journal.path(agent), draft_path(journal, agent)] {
        std::fs::write(left, &line).unwrap();
    }
    line
}

#[tokio::test]
async fn a_rewrite_removes_forgotten_content_from_a_long_file() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = (journal_of(folder.path(), LONG), "a".parse().unwrap());
    leave_forgotten(&journal, &id);
    journal.rewrite(&id).await.unwrap();
    assert_whole(&journal, &id, 600);
    let text = std::fs::read_to_string(journal.path(&id)).unwrap();
    assert!(!text.contains("xylocopa"), "{text}");
    assert!(!draft_path(&journal, &id).exists());
}

/// Other agents of the lane don't wait for the whole rewrite.
#[tokio::test]
async fn a_rewrite_lets_others_in_between_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = (journal_of(folder.path(), LONG), "a".parse().unwrap());
    leave_forgotten(&journal, &id);
    let held = journal.lane(&id).await;
    let mut turns = 0;
    let sharing = async {
        loop {
            drop(journal.lane(&id).await);
            turns += 1;
        }
    };
    let releasing = async {
        drop(held);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = sharing => {}
        done = journal.rewrite(&id) => done.unwrap(),
        () = releasing => {}
    }
    // Once before the rewrite, and once before each of its three chunks.
    assert_eq!(turns, 4);
}

#[tokio::test]
async fn a_failed_rewrite_keeps_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let failing = FixtureDatabase { readable: 256, ..LONG };
    let (journal, id) = (journal_of(folder.path(), failing), "a".parse().unwrap());
    let line = leave_forgotten(&journal, &id);
    assert!(journal.rewrite(&id).await.is_err());
    assert_eq!(std::fs::read_to_string(journal.path(&id)).unwrap(), line);
    assert!(!draft_path(&journal, &id).exists());
}

#[tokio::test]
async fn drafts_are_deleted_with_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, id) = (journal_of(folder.path(), LONG), "a".parse().unwrap());
    for forgets in [true, false] {
        say(&journal, &id, 600).await.unwrap();
        let gone = if forgets { journal.rewrite(&id).await } else { journal.remove(&id).await };
        gone.unwrap();
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "forgets: {forgets}");
    }
}
