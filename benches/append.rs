//! The time of an append: of one durable turn (alone, among concurrent agents, after a long history), of one round of
//! a long exchange, and of messages in bulk. The bare disk and bare SQLite are timed alongside for comparison. The
//! same on PostgreSQL if there is a server: `scripts/with-postgres --durable cargo bench --bench append`.

mod measure;
#[path = "measure/messages.rs"]
mod messages;
#[path = "measure/place.rs"]
mod place;
#[path = "measure/rounds.rs"]
mod rounds;
#[path = "measure/server.rs"]
mod server;
#[path = "measure/texts.rs"]
mod texts;

use std::{fs::File, os::unix::fs::FileExt as _, path::Path, str::FromStr as _, sync::Arc, time::Duration};

use measure::{Sample, Table, ratio, show, size};
use messages::Messages;
use recapd_config::{Config, Synchronous};
use recapd_core::{
    domain::{
        agent::AgentId,
        exchange::LedgerEntry,
        message::Message,
        redaction::Redactor,
        time::Timestamp,
        tokens::{TokenCounter, count_message},
    },
    tokenizer,
};
use recapd_engine::ingest::Ingestor;
use recapd_store::{AppendRequest, PreparedMessage};
use rounds::{Rounds, said};
use sqlx::{
    Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::{task::JoinSet, time::Instant};

/// Samples of everything that is timed singly.
const ROUNDS: u32 = 1_500;
const AGENTS: u32 = 50;
const CHUNK: usize = 256;
const HISTORY: u32 = 1_000_000;
/// Messages per append while the history is created.
const HISTORY_CHUNK: usize = 4_000;
const LONG_EXCHANGE: u32 = 30_000;
const SHORT_EXCHANGE: u32 = 100;
/// Short exchanges, each of which gets `ROUNDS_ADDED` rounds: few, so that they stay short.
const SHORT_EXCHANGES: u32 = 75;
const ROUNDS_ADDED: u32 = 20;
const BULK_AGENTS: u32 = 4;
/// Chunks that each agent appends.
const BULK_CHUNKS: u32 = 120;
/// What one bare write writes.
const PAGE: [u8; 4_096] = [7; 4_096];
/// The size of the file to which bare writes go in a cycle, as to a write-ahead log.
const PAGES: u32 = 1_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    turns().await?;
    turns_on_postgres().await?;
    histories().await?;
    exchanges().await?;
    Box::pin(bulk()).await
}

/// Times turns, bare disk writes and bare commits alternately; then turns of concurrent agents.
async fn turns() -> anyhow::Result<()> {
    let place = place::open(place::disk(), Synchronous::Full, |_| {}).await?;
    let ingestor = &place.parts.ingestor;
    let file = create_pages(&place.folder.path().join("pages"))?;
    let mut bare = open_bare(&place.folder.path().join("bare.db")).await?;
    let agent = "one".parse()?;
    let mut source = Messages::new(1);
    let (mut fsyncs, mut commits, mut appends) = (Sample::default(), Sample::default(), Sample::default());
    for round in 0..size(ROUNDS) {
        let turn = source.turn()?;
        let start = Instant::now();
        file.write_all_at(&PAGE, u64::from(round % PAGES) * 4_096)?;
        file.sync_data()?;
        fsyncs.add(start.elapsed());
        let start = Instant::now();
        commit_one(&mut bare, &turn).await?;
        commits.add(start.elapsed());
        let start = Instant::now();
        ingestor.append(&agent, turn).await?;
        appends.add(start.elapsed());
    }
    let (mut together, wall) = concurrent(ingestor).await?;
    let one = commits.p50();
    let alone = [
        ("fsync of 4 KiB", &mut fsyncs),
        ("bare SQLite commit of one row", &mut commits),
        ("append, one agent", &mut appends),
    ];
    let title = "durable append of a 2-message turn (synchronous = full)";
    print_turns(title, one, alone, (&mut together, wall));
    Ok(())
}

/// Prints the turns of one agent and of concurrent agents; `one` is the time of a bare commit.
fn print_turns<const N: usize>(
    title: &str,
    one: Duration,
    alone: [(&str, &mut Sample); N],
    (together, wall): (&mut Sample, Duration),
) {
    let columns = ["p50", "p99", "per second", "× bare commit (p50)"];
    let mut table = Table::new(title, &columns);
    for (name, sample) in alone {
        let rate = 1.0 / sample.p50().as_secs_f64();
        table.row(name, &figures(sample, rate, one));
    }
    let turns = f64::from(AGENTS * size(ROUNDS / 5));
    let name = format!("append, {AGENTS} agents at once");
    table.row(&name, &figures(together, turns / wall.as_secs_f64(), one));
    table.print();
}

/// Times turns on PostgreSQL, where each turn is one transaction.
async fn turns_on_postgres() -> anyhow::Result<()> {
    let Some(mut served) = server::open().await? else {
        return Ok(());
    };
    let create =
        "CREATE TABLE turns (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text NOT NULL)";
    sqlx::query(create).execute(&mut served.bare).await?;
    let agent = "one".parse()?;
    let mut source = Messages::new(1);
    let (mut commits, mut appends) = (Sample::default(), Sample::default());
    for _ in 0..size(ROUNDS) {
        let turn = source.turn()?;
        let start = Instant::now();
        sqlx::query("INSERT INTO turns (payload) VALUES ($1)")
            .bind(payload(&turn))
            .execute(&mut served.bare)
            .await?;
        commits.add(start.elapsed());
        let start = Instant::now();
        served.parts.ingestor.append(&agent, turn).await?;
        appends.add(start.elapsed());
    }
    let (mut together, wall) = concurrent(&served.parts.ingestor).await?;
    let one = commits.p50();
    let alone = [("bare PostgreSQL commit of one row", &mut commits), ("append, one agent", &mut appends)];
    let title = "append of a 2-message turn, PostgreSQL";
    print_turns(title, one, alone, (&mut together, wall));
    served.remove().await
}

fn payload(turn: &[Message]) -> String {
    turn.iter().map(|message| message.payload.as_str()).collect()
}

fn figures(sample: &mut Sample, rate: f64, unit: Duration) -> [String; 4] {
    [
        show(sample.p50()),
        show(sample.percentile(99)),
        format!("{rate:.0}"),
        format!("{:.2}", ratio(sample.p50(), unit)),
    ]
}

fn create_pages(path: &Path) -> anyhow::Result<File> {
    let file = File::create(path)?;
    for page in 0..PAGES {
        file.write_all_at(&PAGE, u64::from(page) * 4_096)?;
    }
    file.sync_all()?;
    Ok(file)
}

async fn open_bare(path: &Path) -> anyhow::Result<SqliteConnection> {
    let options = SqliteConnectOptions::from_str(&format!("sqlite:{}", path.display()))?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    sqlx::query("CREATE TABLE turns (id INTEGER PRIMARY KEY, payload TEXT NOT NULL) STRICT")
        .execute(&mut connection)
        .await?;
    Ok(connection)
}

async fn commit_one(connection: &mut SqliteConnection, turn: &[Message]) -> anyhow::Result<()> {
    sqlx::query("INSERT INTO turns (payload) VALUES (?1)").bind(payload(turn)).execute(connection).await?;
    Ok(())
}

/// Times appends of concurrent agents; each agent waits for its commit, which may contain other agents' appends.
async fn concurrent(ingestor: &Ingestor) -> anyhow::Result<(Sample, Duration)> {
    let mut agents = JoinSet::new();
    let start = Instant::now();
    for number in 0..AGENTS {
        let ingestor = ingestor.clone();
        agents.spawn(async move {
            let agent: AgentId = format!("agent-{number}").parse()?;
            let turn = Messages::new(u64::from(number)).turn()?;
            let mut took = Vec::new();
            for _ in 0..size(ROUNDS / 5) {
                let start = Instant::now();
                ingestor.append(&agent, turn.clone()).await?;
                took.push(start.elapsed());
            }
            anyhow::Ok(took)
        });
    }
    let mut sample = Sample::default();
    while let Some(took) = agents.join_next().await {
        took??.into_iter().for_each(|took| sample.add(took));
    }
    Ok((sample, start.elapsed()))
}

/// Times turns of a new agent and of an agent with a long history, alternately.
async fn histories() -> anyhow::Result<()> {
    let place = place::open(place::disk(), Synchronous::Full, |_| {}).await?;
    let ingestor = &place.parts.ingestor;
    let mut source = Messages::new(2);
    let mut histories = Vec::new();
    let mixed = source.mix(HISTORY_CHUNK)?;
    for messages in [0, size(HISTORY)] {
        let agent: AgentId = format!("history-{messages}").parse()?;
        for _ in 0..usize::try_from(messages)? / HISTORY_CHUNK {
            ingestor.replay(&agent, mixed.clone()).await?;
        }
        histories.push((messages, agent, Sample::default()));
    }
    for _ in 0..size(ROUNDS) {
        for (_, agent, sample) in &mut histories {
            let turn = source.turn()?;
            let start = Instant::now();
            ingestor.append(agent, turn).await?;
            sample.add(start.elapsed());
        }
    }
    let new = histories.first_mut().map(|(_, _, sample)| sample.p50()).unwrap_or_default();
    let columns = ["p50", "p99", "per second", "× the new one (p50)"];
    let mut table = Table::new("append of a turn after a history of", &columns);
    for (messages, _, sample) in &mut histories {
        let rate = 1.0 / sample.p50().as_secs_f64();
        table.row(&format!("{messages} messages"), &figures(sample, rate, new));
    }
    table.print();
    Ok(())
}

/// Times rounds of a long exchange and of short exchanges, alternately.
async fn exchanges() -> anyhow::Result<()> {
    let place = place::open(place::disk(), Synchronous::Full, |_| {}).await?;
    let ingestor = &place.parts.ingestor;
    let mut source = Rounds::new(4);
    let (short_rounds, long_rounds) = (size(SHORT_EXCHANGE), size(LONG_EXCHANGE));
    let long = create_exchange(ingestor, &mut source, "long", long_rounds).await?;
    let (mut of_short, mut of_long) = (Sample::default(), Sample::default());
    for number in 0..size(SHORT_EXCHANGES) {
        let short = create_exchange(ingestor, &mut source, &format!("short-{number}"), short_rounds).await?;
        for _ in 0..size(ROUNDS_ADDED) {
            for (agent, sample) in [(&short, &mut of_short), (&long, &mut of_long)] {
                let round = take_rounds(&mut source, 1)?;
                let start = Instant::now();
                ingestor.append(agent, round).await?;
                sample.add(start.elapsed());
            }
        }
    }
    let first = of_short.p50();
    let columns = ["p50", "p99", "per second", "× the short one (p50)"];
    let mut table = Table::new("append of a round to one exchange of", &columns);
    for (rounds, mut sample) in [(short_rounds, of_short), (long_rounds, of_long)] {
        let rate = 1.0 / sample.p50().as_secs_f64();
        table.row(&format!("{rounds} rounds"), &figures(&mut sample, rate, first));
    }
    table.print();
    Ok(())
}

/// Creates an agent with one exchange: a user message, then `rounds` rounds.
async fn create_exchange(
    ingestor: &Ingestor,
    source: &mut Rounds,
    name: &str,
    rounds: u32,
) -> anyhow::Result<AgentId> {
    let agent: AgentId = name.parse()?;
    ingestor.replay(&agent, vec![said("user", &source.texts.prose(400))?]).await?;
    let mut left = usize::try_from(rounds)?;
    while left > 0 {
        let count = left.min(HISTORY_CHUNK / 2);
        ingestor.replay(&agent, take_rounds(source, count)?).await?;
        left -= count;
    }
    Ok(agent)
}

fn take_rounds(source: &mut Rounds, count: usize) -> anyhow::Result<Vec<Message>> {
    let rounds: Vec<[Message; 2]> = source.take(count).collect::<Result<_, _>>()?;
    Ok(rounds.into_iter().flatten().collect())
}

/// Measures messages per second: of token counting alone, of the store alone, and of both together.
async fn bulk() -> anyhow::Result<()> {
    let mut source = Messages::new(3);
    let chunks: Vec<Vec<Message>> = (0..8).map(|_| source.mix(CHUNK)).collect::<Result<_, _>>()?;
    let bytes: usize = chunks.iter().flatten().map(|message| message.payload.len()).sum();
    let mean = u32::try_from(bytes / (chunks.len() * CHUNK))?;
    let chunks = Arc::new(chunks);
    let title = format!("bulk append in chunks of {CHUNK}, {mean} bytes a message");
    let mut table = Table::new(&title, &["messages/s", "MB/s"]);
    let mut row = |name: &str, rate: f64| {
        let megabytes = rate * f64::from(mean) / 1e6;
        table.row(name, &[format!("{rate:.0}"), format!("{megabytes:.1}")]);
    };
    row("counting alone, one thread", counting_rate(&chunks, 1));
    row("counting alone, two threads", counting_rate(&chunks, 2));
    row("store alone, one agent, counted before", store_rate(&chunks).await?);
    row("keeper, one agent", sqlite_rate(&chunks, 1, false).await?);
    row(&format!("keeper, {BULK_AGENTS} agents at once"), sqlite_rate(&chunks, BULK_AGENTS, false).await?);
    row("keeper, {BULK_AGENTS} agents, with client ids", sqlite_rate(&chunks, BULK_AGENTS, true).await?);
    for agents in [1, BULK_AGENTS] {
        if let Some(served) = server::open().await? {
            let rate = keeper_rate(&served.parts.ingestor, &chunks, agents, false).await?;
            row(&format!("keeper on PostgreSQL, {agents} at once"), rate);
            served.remove().await?;
        }
    }
    table.print();
    Ok(())
}

fn counting_rate(chunks: &[Vec<Message>], threads: u32) -> f64 {
    let counter = counter();
    drop(prepared(chunks, counter.as_ref()));
    let (passes, start) = (size(10), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..passes {
                    drop(prepared(chunks, counter.as_ref()));
                }
            });
        }
    });
    rate(f64::from(threads * passes) * messages_in(chunks), start)
}

async fn store_rate(chunks: &[Vec<Message>]) -> anyhow::Result<f64> {
    let place = place::open(place::disk(), Synchronous::Full, |_| {}).await?;
    let agent: AgentId = "bulk".parse()?;
    let counter = counter();
    let prepared = prepared(chunks, counter.as_ref());
    let (passes, start) = (size(BULK_CHUNKS / 8), Instant::now());
    for messages in (0..passes).flat_map(|_| &prepared) {
        let request = AppendRequest {
            agent: agent.clone(),
            messages: messages.clone(),
            key: None,
            count_method: counter.method().to_owned(),
            rules: *place.parts.ingestor.rules(),
            replayed: false,
            now: Timestamp(0),
        };
        place.parts.store.append(request).await?;
    }
    Ok(rate(f64::from(passes) * messages_in(chunks), start))
}

async fn sqlite_rate(chunks: &Arc<Vec<Vec<Message>>>, agents: u32, with_ids: bool) -> anyhow::Result<f64> {
    let place = place::open(place::disk(), Synchronous::Full, |_| {}).await?;
    keeper_rate(&place.parts.ingestor, chunks, agents, with_ids).await
}

async fn keeper_rate(
    ingestor: &Ingestor,
    chunks: &Arc<Vec<Vec<Message>>>,
    agents: u32,
    with_ids: bool,
) -> anyhow::Result<f64> {
    let mut tasks = JoinSet::new();
    let (passes, start) = (size(BULK_CHUNKS / 8), Instant::now());
    for number in 0..agents {
        let (ingestor, chunks) = (ingestor.clone(), Arc::clone(chunks));
        tasks.spawn(async move {
            let agent: AgentId = format!("bulk-{number}").parse()?;
            for pass in 0..passes {
                for (place, chunk) in chunks.iter().enumerate() {
                    let mut chunk = chunk.clone();
                    if with_ids {
                        identify(&mut chunk, &format!("{pass}-{place}"));
                    }
                    ingestor.append(&agent, chunk).await?;
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(rate(f64::from(agents * passes) * messages_in(chunks), start))
}

fn identify(messages: &mut [Message], prefix: &str) {
    for (place, message) in messages.iter_mut().enumerate() {
        message.client_id = Some(format!("msg-{prefix}-{place}"));
    }
}

fn counter() -> Arc<dyn TokenCounter> {
    let window = Config::default().window;
    tokenizer::counter_for(&window.provider, &window.model)
}

fn prepared(chunks: &[Vec<Message>], counter: &dyn TokenCounter) -> Vec<Vec<PreparedMessage>> {
    let prepare = |message: &Message| PreparedMessage {
        entry: LedgerEntry::new(
            message,
            count_message(counter, message),
            Timestamp(0),
            &Redactor::standard(),
        ),
        message: message.clone(),
    };
    chunks.iter().map(|chunk| chunk.iter().map(prepare).collect()).collect()
}

fn messages_in(chunks: &[Vec<Message>]) -> f64 {
    chunks.iter().map(|chunk| f64::from(u32::try_from(chunk.len()).unwrap_or(u32::MAX))).sum()
}

fn rate(count: f64, start: Instant) -> f64 {
    count / start.elapsed().as_secs_f64().max(1e-9)
}
