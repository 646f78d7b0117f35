//! The time to search an agent's archive of many messages, compared with FTS5's own ranking (`porter` stems, bm25) of
//! the same texts in the same file system. Questions have six words of falling frequency, as texts have, without stop
//! words. For recapd, the whole answer is timed, with titles and excerpts; FTS5 returns ten row ids.

mod measure;
#[path = "measure/place.rs"]
mod place;

use std::{path::Path, str::FromStr as _, time::Duration};

use measure::{Sample, Table, ratio, show, size};
use recapd_api::recall::{self, ArchiveQuestion};
use recapd_config::Synchronous;
use recapd_core::{
    domain::{
        agent::AgentId,
        message::{Format, Message},
        redaction::Redactor,
        time::Timestamp,
    },
    formats,
};
use sqlx::{
    Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use tokio::time::Instant;

const ARCHIVES: [u32; 2] = [10_000, 1_000_000];
const CHUNK: usize = 4_000;
const QUESTIONS: u32 = 300;
const QUESTION_WORDS: usize = 6;
/// The words of a message.
const WORDS: usize = 60;
const VOCABULARY: f64 = 60_000.0;
/// The number of the most frequent words, which questions leave out.
const STOP_WORDS: f64 = 60.0;

#[derive(Default)]
struct Measurements {
    /// The time to index the archive.
    indexed: Duration,
    ours: Sample,
    fts5: Sample,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let columns = ["indexing a message", "p50", "p95", "p99", "FTS5 p50", "FTS5 p95", "× FTS5 (p95)"];
    let mut table = Table::new("search in an archive of", &columns);
    for messages in ARCHIVES {
        let mut measured = archive(usize::try_from(size(messages))?).await?;
        let (ours, fts5) = (&mut measured.ours, &mut measured.fts5);
        let row = [
            show(measured.indexed / size(messages)),
            show(ours.p50()),
            show(ours.percentile(95)),
            show(ours.percentile(99)),
            show(fts5.p50()),
            show(fts5.percentile(95)),
            format!("{:.2}", ratio(ours.percentile(95), fts5.percentile(95))),
        ];
        table.row(&format!("{} messages", size(messages)), &row);
    }
    table.print();
    Ok(())
}

/// Fills an archive and an FTS5 table, and searches both alternately.
async fn archive(messages: usize) -> anyhow::Result<Measurements> {
    let place = place::open(place::disk(), Synchronous::Normal, |_| {}).await?;
    let agent: AgentId = "asked".parse()?;
    let mut fts5 = fts5(&place.folder.path().join("fts5.db")).await?;
    let mut random = fastrand::Rng::with_seed(7);
    for start in (0..messages).step_by(CHUNK) {
        let texts: Vec<String> =
            (start..messages.min(start + CHUNK)).map(|_| text(&mut random, WORDS, 1.0)).collect();
        fill(&mut fts5, &texts).await?;
        place
            .parts
            .ingestor
            .replay(&agent, texts.into_iter().enumerate().map(message).collect::<anyhow::Result<_>>()?)
            .await?;
    }
    let begun = Instant::now();
    place.parts.ingestor.index_all().await?;
    let mut measured = Measurements { indexed: begun.elapsed(), ..Measurements::default() };
    let redactor = Redactor::standard();
    for _ in 0..size(QUESTIONS) {
        let words = text(&mut random, QUESTION_WORDS, STOP_WORDS);
        let question =
            ArchiveQuestion::read(|name| (name == "q").then_some(words.as_str()), Timestamp::default())?;
        let start = Instant::now();
        let reply = recall::search(place.parts.store.as_ref(), &agent, &question, &redactor, None).await?;
        measured.ours.add(start.elapsed());
        anyhow::ensure!(reply.is_some(), "there is no archive");
        let start = Instant::now();
        ask(&mut fts5, &words).await?;
        measured.fts5.add(start.elapsed());
    }
    Ok(measured)
}

/// Returns a question for even places, an answer for odd ones.
fn message((place, text): (usize, String)) -> anyhow::Result<Message> {
    let kind = if place % 2 == 0 { "user" } else { "assistant" };
    let payload = serde_json::json!({ "kind": kind, "content": text }).to_string();
    Ok(formats::parse(Format::Native, &payload)?)
}

/// Returns words whose frequency falls with their rank, from rank `first` on.
fn text(random: &mut fastrand::Rng, words: usize, first: f64) -> String {
    let word = |_| {
        let rank = first * (VOCABULARY / first).powf(random.f64());
        format!("w{}", letters(rank))
    };
    (0..words).map(word).collect::<Vec<String>>().join(" ")
}

/// Returns a word of letters for a rank.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ranks are small and positive")]
fn letters(rank: f64) -> String {
    let mut left = rank as u32;
    let mut word = String::new();
    while left > 0 {
        word.extend(char::from_digit(10 + left % 16, 36));
        left /= 16;
    }
    word + "k"
}

async fn fts5(path: &Path) -> anyhow::Result<SqliteConnection> {
    let options = SqliteConnectOptions::from_str(&format!("sqlite:{}", path.display()))?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    sqlx::query("CREATE VIRTUAL TABLE texts USING fts5(text, content = '', tokenize = 'porter unicode61')")
        .execute(&mut connection)
        .await?;
    Ok(connection)
}

async fn fill(connection: &mut SqliteConnection, texts: &[String]) -> anyhow::Result<()> {
    sqlx::query("INSERT INTO texts (text) SELECT value FROM json_each(?1)")
        .bind(serde_json::to_string(texts)?)
        .execute(connection)
        .await?;
    Ok(())
}

async fn ask(connection: &mut SqliteConnection, words: &str) -> anyhow::Result<()> {
    sqlx::query("SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rank LIMIT 10")
        .bind(words.replace(' ', " OR "))
        .fetch_all(connection)
        .await?;
    Ok(())
}
