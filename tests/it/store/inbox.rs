//! The inbox: messages that agents insert by plain SQL.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use recapd_core::{
    domain::time::Timestamp,
    formats::{Row, read_row},
    tokenizer,
};
use recapd_engine::ingest::Ingestor;
use recapd_platform::{clock::SystemClock, notice::Notices};
use recapd_store::{
    AppendOutcome, AppendRequest, ExchangeQuery, Fence, Store, StoreError, StoreResult,
    inbox::{ChangeListener, InboxFigures, InboxRow, InboxStore, RefusedRow},
};
use recapd_telemetry::metrics::Metrics;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{clean, with_pending};
use crate::support::{
    PATIENCE,
    backend::Backend,
    conversation::{T0, agent, append, minute, prepared, rules, said},
};

const BYTES: i64 = 1_000_000;
/// Longer than a listener's pause between two signals.
const SILENCE: Duration = Duration::from_millis(500);

pub(super) async fn insert(db: &dyn Backend, agent: &str, role: &str, content: &str) {
    let sql =
        format!("INSERT INTO messages (agent_id, role, content) VALUES ('{agent}', '{role}', '{content}')");
    db.speak(&sql).await.unwrap();
}

async fn waiting(db: &dyn Backend) -> Vec<InboxRow> {
    db.inbox().waiting(0, 10_000, BYTES).await.unwrap()
}

/// Returns an append of these rows' content.
fn request(rows: &[InboxRow]) -> AppendRequest {
    let messages = rows.iter().map(|row| {
        let message =
            read_row(Row { role: row.role.as_deref(), content: row.content.as_deref(), ..Row::default() });
        prepared(message.unwrap(), 10, minute(1))
    });
    append(&agent("a"), messages.collect())
}

fn ids(rows: &[InboxRow]) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

pub(super) fn ingestor(db: &dyn Backend) -> (Ingestor, Metrics) {
    keeper_of(db.store())
}

fn keeper_of(store: Arc<dyn Store>) -> (Ingestor, Metrics) {
    let metrics = Metrics::new(T0, &[]);
    let counter = tokenizer::counter_for("", "");
    let clock = Arc::new(SystemClock);
    let ingestor = Ingestor::new(store, counter, clock, rules(), Notices::default(), metrics.clone());
    (ingestor, metrics)
}

pub(super) async fn empty(db: &dyn Backend, ingestor: &Ingestor) {
    let stop = CancellationToken::new();
    while ingestor.empty_inbox(&db.inbox(), &stop).await.unwrap() {}
}

/// Returns an agent's messages in order, as read through the view.
pub(super) async fn told(db: &dyn Backend, name: &str) -> String {
    let sql = format!(
        "SELECT coalesce((SELECT group_concat(said, ', ') FROM (SELECT role || ' ' || content AS said FROM messages \
         WHERE agent_id = '{name}' ORDER BY id) s), '')"
    );
    let postgres = sql.replace("group_concat", "string_agg");
    let is_sqlite = db.speak("SELECT group_concat('a', 'b')").await.is_ok();
    let sql = if is_sqlite { sql } else { postgres };
    db.text(&sql).await.unwrap_or_default()
}

pub(crate) async fn inserted_rows_wait_in_order(db: &dyn Backend) {
    for (agent, said) in [("a", "one"), ("b", "two"), ("a", "three")] {
        insert(db, agent, "user", said).await;
    }
    let sql = "INSERT INTO messages (agent_id, role, content, format, speaker, client_id, token_count, in_sliding_window) \
               VALUES ('a', 'user', 'four', 'text', 'Ada', 'x-4', 7, false)";
    db.speak(sql).await.unwrap();
    let rows = waiting(db).await;
    let said: Vec<_> = rows.iter().map(|row| row.content.as_deref().unwrap()).collect();
    assert_eq!(said, ["one", "two", "three", "four"]);
    let last = rows.last().unwrap();
    assert_eq!(
        (last.format.as_deref(), last.speaker.as_deref(), last.client_id.as_deref(), last.said_at),
        (Some("text"), Some("Ada"), Some("x-4"), None)
    );
    assert!(last.received_at > T0);
    let part = async |after, rows, bytes| ids(&db.inbox().waiting(after, rows, bytes).await.unwrap()).len();
    assert_eq!(part(0, 2, BYTES).await, 2);
    assert_eq!(part(rows[0].id, 10, BYTES).await, 3);
    assert_eq!(part(0, 10, 1).await, 1, "one always comes");
    assert_eq!(part(0, 10, 16).await, 2);
    let long = sql.replace("Ada", &"s".repeat(3_000));
    for _ in 0..3 {
        db.speak(&long).await.unwrap();
    }
    assert_eq!(part(last.id, 500, 4_000).await, 1, "all columns count");
    assert_eq!(db.number("SELECT count(*) FROM messages").await, Some(0));
}

pub(crate) async fn a_row_is_taken_once(db: &dyn Backend) {
    insert(db, "a", "user", "one").await;
    insert(db, "a", "assistant", "two").await;
    let rows = waiting(db).await;
    let first = db.inbox().append_from_inbox(request(&rows[..1]), ids(&rows[..1])).await.unwrap();
    assert_eq!(first.accepted, 1);
    for late in [&rows[..1], &rows[..]] {
        let refused = db.inbox().append_from_inbox(request(late), ids(late)).await;
        assert!(matches!(refused, Err(StoreError::Fenced(Fence::Inbox))), "{refused:?}");
    }
    assert_eq!(ids(&waiting(db).await), [rows[1].id]);
    assert_eq!(clean(db, &agent("a")).await.messages, 1);
    db.inbox().append_from_inbox(request(&rows[1..]), ids(&rows[1..])).await.unwrap();
    assert_eq!(told(db, "a").await, "user one, assistant two");
}

pub(crate) async fn a_later_row_waits_for_the_earlier_ones_of_its_agent(db: &dyn Backend) {
    for (agent, said) in [("a", "one"), ("b", "two"), ("a", "three"), ("a", "four")] {
        insert(db, agent, "user", said).await;
    }
    let rows = waiting(db).await;
    let early = db.inbox().append_from_inbox(request(&rows[2..]), ids(&rows[2..])).await;
    assert!(matches!(early, Err(StoreError::Fenced(Fence::Inbox))), "{early:?}");
    assert_eq!(waiting(db).await, rows);
    // Another agent's rows don't matter, nor do refused ones.
    let other = AppendRequest { agent: agent("b"), ..request(&rows[1..2]) };
    db.inbox().append_from_inbox(other, ids(&rows[1..2])).await.unwrap();
    let refusal = RefusedRow { id: rows[0].id, reason: "no; say yes".to_owned(), not_utf8: None };
    db.inbox().refuse(vec![refusal], minute(5)).await.unwrap();
    db.inbox().append_from_inbox(request(&rows[2..]), ids(&rows[2..])).await.unwrap();
    assert_eq!(told(db, "a").await, "user three, user four");
}

pub(crate) async fn an_append_that_fails_leaves_its_rows(db: &dyn Backend) {
    let mut known = said("user", "known", 10, minute(1));
    known.message.client_id = Some("x".to_owned());
    db.store().append(append(&agent("a"), vec![known])).await.unwrap();
    insert(db, "a", "user", "another").await;
    let rows = waiting(db).await;
    let mut request = request(&rows);
    request.messages[0].message.client_id = Some("x".to_owned());
    let refused = db.inbox().append_from_inbox(request, ids(&rows)).await;
    assert!(matches!(refused, Err(StoreError::ClientIdReused(_))), "{refused:?}");
    assert_eq!(waiting(db).await, rows);
}

pub(crate) async fn refused_rows_are_set_aside(db: &dyn Backend) {
    for said in ["one", "two", "three"] {
        insert(db, "a", "user", said).await;
    }
    let rows = waiting(db).await;
    let refusal = RefusedRow { id: rows[1].id, reason: "no; say yes".to_owned(), not_utf8: None };
    assert_eq!(db.inbox().refuse(vec![refusal.clone()], minute(5)).await.unwrap(), 1);
    assert_eq!(db.inbox().refuse(vec![refusal], minute(6)).await.unwrap(), 0);
    assert_eq!(ids(&waiting(db).await), [rows[0].id, rows[2].id]);
    let sql = "SELECT agent_id || ' ' || role || ' ' || content || ': ' || reason FROM refused_messages";
    assert_eq!(db.text(sql).await.as_deref(), Some("a user two: no; say yes"));
    let taken = db.inbox().append_from_inbox(request(&rows[1..2]), ids(&rows[1..2])).await;
    assert!(matches!(taken, Err(StoreError::Fenced(Fence::Inbox))));
    let figures = db.inbox().inbox_figures().await.unwrap();
    let expected = InboxFigures { waiting: 2, oldest_at: Some(rows[0].received_at), refused: 1 };
    assert_eq!(figures, expected);
}

pub(crate) async fn inserts_over_a_limit_are_refused_at_once(db: &dyn Backend) {
    let long = format!(
        "INSERT INTO messages (agent_id, role, content) VALUES ('a', 'user', '{}')",
        "x".repeat(4_194_305)
    );
    let refused = db.speak(&long).await.unwrap_err();
    assert!(refused.contains("longer than 4194304 bytes"), "{refused}");
    let timeless = db
        .speak(
            "INSERT INTO messages (agent_id, role, content, created_at) VALUES ('a', 'user', 'x', 'someday')",
        )
        .await;
    assert!(timeless.is_err());
    assert_eq!(waiting(db).await, []);
    insert(db, "a", "user", "one").await;
    // As if a hundred thousand had been inserted since.
    db.raw("INSERT INTO message_inbox (id, agent_id, received_at) SELECT id + 99999, agent_id, received_at FROM message_inbox")
        .await;
    let full = "INSERT INTO messages (agent_id, role, content) VALUES ('a', 'user', 'x')";
    let refused = db.speak(full).await.unwrap_err();
    assert!(refused.contains("100000 messages wait"), "{refused}");
}

pub(crate) async fn a_listener_hears_an_insert(db: &dyn Backend) {
    let mut bell = db.inbox().inbox_listener().await.unwrap();
    for content in ["one", "two"] {
        insert(db, "a", "user", content).await;
        let rung = timeout(PATIENCE, bell.wait_for_change()).await;
        rung.expect("the bell rings").unwrap();
        let idle = timeout(SILENCE, bell.wait_for_change()).await;
        assert!(idle.is_err(), "it rang again, and nothing was inserted since");
    }
}

pub(crate) async fn the_ingestor_appends_what_it_can(db: &dyn Backend) {
    let (ingestor, metrics) = ingestor(db);
    let row = async |agent: &str, role: &str, content: &str, client_id: &str| {
        let sql = format!(
            "INSERT INTO messages (agent_id, role, content, client_id) VALUES ({agent}, {role}, '{content}', {client_id})"
        );
        db.speak(&sql).await.unwrap();
    };
    row("'a'", "'user'", "Question", "'x-1'").await;
    row("'a b'", "'user'", "bad agent", "NULL").await;
    row("NULL", "'user'", "no agent", "NULL").await;
    row("'a'", "'wizard'", "bad role", "NULL").await;
    row("'a'", "NULL", "no json", "NULL").await;
    row("'a'", "'user'", "Question", "'x-1'").await;
    row("'a'", "'user'", "Another question", "'x-1'").await;
    row("'a'", "'assistant'", "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"ls\",\"input\":{}}]", "NULL")
        .await;
    row("'a'", "NULL", "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"src\"}]}", "NULL").await;
    row("'a'", "'assistant'", "Answer", "NULL").await;
    row("'b'", "'user'", "Hello", "NULL").await;
    empty(db, &ingestor).await;

    assert_eq!(waiting(db).await, []);
    let query = ExchangeQuery { from: 0, through: i64::MAX, limit: 10, bytes_max: i64::MAX };
    let stored = db.store().exchanges(&agent("a"), query).await.unwrap();
    let kinds: Vec<_> =
        stored.iter().flat_map(|stored| stored.messages.iter().map(|m| m.message.kind.name())).collect();
    assert_eq!(kinds, ["user", "tool_call", "tool_result", "assistant"]);
    assert_eq!(told(db, "b").await, "user Hello");
    clean(db, &agent("a")).await;
    let reason = async |content: &str| {
        let sql = format!("SELECT reason FROM refused_messages WHERE content = '{content}'");
        db.text(&sql).await.unwrap()
    };
    for (content, words) in [
        ("bad agent", "agent id `a b` must be"),
        ("no agent", "agent id `` must be"),
        ("bad role", "role `wizard` is unknown; give user"),
        ("no json", "there is no role"),
        ("Another question", "client id `x-1` was used before"),
    ] {
        let reason = reason(content).await;
        assert!(reason.contains(words), "{reason}");
    }
    let (_, text) = metrics.encode(None);
    for line in [
        "recapd_inbox_waiting 0",
        "recapd_inbox_refused_rows 5",
        "recapd_inbox_taken_total 6",
        "recapd_inbox_refused_total{reason=\"agent\"} 2",
        "recapd_inbox_refused_total{reason=\"message\"} 2",
        "recapd_inbox_refused_total{reason=\"client_id\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

pub(crate) async fn a_speaker_has_a_short_name(db: &dyn Backend) {
    for chars in [128, 129] {
        let name = "ä".repeat(chars);
        let sql = format!(
            "INSERT INTO messages (agent_id, role, content, speaker) VALUES ('a', 'user', '{chars}', '{name}')"
        );
        db.speak(&sql).await.unwrap();
    }
    empty(db, &ingestor(db).0).await;
    assert_eq!(told(db, "a").await, "user 128");
    let refused = db.text("SELECT content || ': ' || reason FROM refused_messages").await;
    assert_eq!(
        refused.as_deref(),
        Some("129: the speaker's name has more than 128 characters; give a shorter one")
    );
}

/// A time that no database can store counts as none, and holds nobody up.
pub(crate) async fn an_impossible_time_holds_nobody_up(db: &dyn Backend) {
    for said in ["-1e12", "1e300", "\"-29700-01-01T00:00:00\""] {
        let row = format!(
            "INSERT INTO messages (agent_id, content) VALUES ('x', '{{\"kind\":\"user\",\"content\":\"a\",\"at\":{said}}}')"
        );
        db.speak(&row).await.unwrap();
    }
    insert(db, "b", "user", "Hello").await;
    empty(db, &ingestor(db).0).await;
    assert_eq!(waiting(db).await, []);
    assert_eq!(told(db, "x").await, "user a, user a, user a");
    assert_eq!(told(db, "b").await, "user Hello");
    let said_at = "SELECT min(created_at) FROM messages WHERE agent_id = 'x'";
    assert!(db.number(said_at).await > Some(T0.0), "when they came is when they were said");
    clean(db, &agent("x")).await;
}

/// Inserts this many messages of an agent, in one statement.
fn many(agent: &str, count: i64) -> String {
    format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
         INSERT INTO messages (agent_id, role, content) SELECT '{agent}', 'user', 'Message ' || i FROM n"
    )
}

/// Returns the numbers of the messages that [`many`] made, in the order in which they are stored.
async fn kept(db: &dyn Backend, name: &str) -> Vec<i64> {
    let query = ExchangeQuery { from: 0, through: i64::MAX, limit: 10_000, bytes_max: i64::MAX };
    let stored = db.store().exchanges(&agent(name), query).await.unwrap();
    let messages = stored.iter().flat_map(|stored| &stored.messages);
    messages
        .map(|stored| {
            let payload = &stored.message.payload;
            let digits = payload.chars().filter(char::is_ascii_digit);
            digits.collect::<String>().parse().unwrap()
        })
        .collect()
}

pub(crate) async fn a_thousand_rows_keep_their_order(db: &dyn Backend) {
    db.speak(&many("a", 1_000)).await.unwrap();
    assert_eq!(ids(&waiting(db).await).len(), 1_000);
    empty(db, &ingestor(db).0).await;
    assert_eq!(kept(db, "a").await, (1..=1_000).collect::<Vec<_>>());
    clean(db, &agent("a")).await;
}

pub(crate) async fn ingestors_share_an_inbox(db: &dyn Backend) {
    let names = ["a", "b", "c"];
    let keepers = [ingestor(db), ingestor(db), ingestor(db)];
    for round in 0..3 {
        for name in names {
            let rows = many(name, 40).replace("|| i", &format!("|| ({} + i)", round * 40));
            db.speak(&rows).await.unwrap();
        }
        futures::future::join_all(keepers.iter().map(|(ingestor, _)| empty(db, ingestor))).await;
    }
    for name in names {
        assert_eq!(kept(db, name).await, (1..=120).collect::<Vec<_>>());
        clean(db, &agent(name)).await;
    }
    assert_eq!(waiting(db).await, []);
}

/// An inbox that currently can't append for some agents.
struct Failing {
    inner: Arc<dyn InboxStore>,
    agents: &'static [&'static str],
}

#[async_trait]
impl InboxStore for Failing {
    async fn waiting(&self, after: i64, rows_max: i64, bytes_max: i64) -> StoreResult<Vec<InboxRow>> {
        self.inner.waiting(after, rows_max, bytes_max).await
    }

    async fn append_from_inbox(&self, request: AppendRequest, rows: Vec<i64>) -> StoreResult<AppendOutcome> {
        if self.agents.contains(&request.agent.as_str()) {
            return Err(StoreError::Unavailable("it took too long".into()));
        }
        self.inner.append_from_inbox(request, rows).await
    }

    async fn refuse(&self, rows: Vec<RefusedRow>, now: Timestamp) -> StoreResult<u64> {
        self.inner.refuse(rows, now).await
    }

    async fn inbox_figures(&self) -> StoreResult<InboxFigures> {
        self.inner.inbox_figures().await
    }

    async fn inbox_listener(&self) -> StoreResult<Box<dyn ChangeListener>> {
        self.inner.inbox_listener().await
    }
}

pub(crate) async fn an_agent_that_fails_holds_nobody_up(db: &dyn Backend) {
    let ((ingestor, metrics), stop) = (ingestor(db), CancellationToken::new());
    let failing = |agents| -> Arc<dyn InboxStore> { Arc::new(Failing { inner: db.inbox(), agents }) };
    for name in ["a", "b", "c"] {
        insert(db, name, "user", "one").await;
    }
    assert!(!ingestor.empty_inbox(&failing(&["a"]), &stop).await.unwrap());
    let held: Vec<_> = waiting(db).await.into_iter().filter_map(|row| row.agent).collect();
    assert_eq!(held, ["a"]);
    // Two failures in a row aren't the agents' fault.
    for name in ["d", "e"] {
        insert(db, name, "user", "one").await;
    }
    let away = ingestor.empty_inbox(&failing(&["a", "d"]), &stop).await;
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    assert!(metrics.encode(None).1.contains("recapd_inbox_waiting 3"));
    assert_eq!(waiting(db).await.len(), 3);
    empty(db, &ingestor).await;
    assert_eq!(waiting(db).await, []);
}

pub(crate) async fn deleting_an_agent_deletes_its_waiting_rows(db: &dyn Backend) {
    with_pending(db, "a", 1).await;
    insert(db, "a", "user", "one").await;
    insert(db, "b", "user", "two").await;
    db.store().delete_agent(&agent("a"), T0).await.unwrap();
    assert_eq!(waiting(db).await.len(), 1);
    let none = db.number("SELECT count(*) FROM messages WHERE agent_id = 'a'").await;
    assert_eq!(none, Some(0));
}
