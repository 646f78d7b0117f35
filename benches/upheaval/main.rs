//! The time that other agents' appends wait while an operation changes a whole large agent: exchanges are forgotten,
//! its summary is rolled back or rebuilt, its tokens are recounted, it is deleted.
//!
//! Appends arrive at a rate far below the database's capacity. Each is timed from its due time, including queueing.
//! There are two large agents: `told`, whose history the built-in summariser has summarised, and `wide`, whose window
//! holds its whole history. They are created once; each operation runs on a copy of that database.
//!
//! `cargo bench --bench upheaval -- MESSAGES FORGOTTEN WORD…` (default: 100,000 messages, 1,000 exchanges, all operations;
//! with words, only the operations whose names contain one of them). The bench runs on SQLite, where it also shows the
//! longest commit, and on PostgreSQL if `RECAPD_TEST_POSTGRES` names a server (`scripts/with-postgres --durable`).

mod database;
mod holds;
#[path = "../measure/mod.rs"]
#[expect(dead_code, reason = "nothing is compared side by side")]
mod measure;
#[path = "../measure/texts.rs"]
#[expect(dead_code, reason = "people say prose")]
mod texts;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use database::{Model, OpenDatabase};
use measure::{Sample, Table, show, size};
use recapd_core::{
    domain::{
        agent::AgentId,
        message::{Format, Message},
        settings::SettingsPatch,
    },
    formats,
};
use recapd_engine::assembly::Parts;
use recapd_store::Forgettable;
use serde_json::json;
use texts::Texts;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

/// The messages of each large agent.
const MESSAGES: u32 = 100_000;
/// The number of exchanges to forget, evenly spread.
const FORGOTTEN: u32 = 1_000;
/// Messages per append while the agents are created.
const AT_ONCE: u32 = 1_000;
const OTHERS: u32 = 20;
const TURNS_PER_SECOND: u32 = 100;
/// How long the other agents append before, during and after the operation, which may leave work to be done later.
const REST: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_mins(10);

#[derive(Clone, Copy, Debug)]
enum Upheaval {
    Nothing,
    Forget(&'static str),
    RollBack,
    Rebuild,
    RebuildAndBack,
    OtherModel,
    Delete(&'static str),
}

impl Upheaval {
    fn name(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Forget(agent) => format!("forget, {agent}"),
            Self::RollBack => "roll back, told".to_owned(),
            Self::Rebuild => "rebuild, told".to_owned(),
            Self::RebuildAndBack => "rebuild and roll back, told".to_owned(),
            Self::OtherModel => "another model, wide".to_owned(),
            Self::Delete(agent) => format!("delete, {agent}"),
        }
    }
}

const ALL: [Upheaval; 9] = [
    Upheaval::Nothing,
    Upheaval::Forget("told"),
    Upheaval::Forget("wide"),
    Upheaval::RollBack,
    Upheaval::Rebuild,
    Upheaval::RebuildAndBack,
    Upheaval::OtherModel,
    Upheaval::Delete("told"),
    Upheaval::Delete("wide"),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given: Vec<u32> = std::env::args().filter_map(|given| given.parse().ok()).collect();
    let messages = size(given.first().copied().unwrap_or(MESSAGES)).max(400);
    let forgotten = size(given.get(1).copied().unwrap_or(FORGOTTEN));
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|given| !given.starts_with('-') && given.parse::<u32>().is_err())
        .collect();
    let is_chosen = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let title = format!("{messages} messages, {forgotten} exchanges forgotten");
    let columns = ["took", "appends: p50", "p99", "slowest", "longest commit"];
    holds::observe();
    for model in database::models()? {
        let mut table = Table::new(&format!("{title}, {}", model.name()), &columns);
        let opened = model.begin().await?;
        create_agents(&opened.parts, messages).await?;
        opened.close().await?;
        for upheaval in ALL.into_iter().filter(|upheaval| is_chosen(&upheaval.name())) {
            let figures = time_operation(&model, upheaval, forgotten).await;
            let figures = figures.or_else(|error| anyhow::Ok(vec![format!("{error:#}")]))?;
            table.row(&upheaval.name(), &figures);
        }
        model.remove().await?;
        table.print();
    }
    Ok(())
}

async fn create_agents(parts: &Parts, messages: u32) -> anyhow::Result<()> {
    let mut texts = Texts::new(1);
    for name in ["wide", "told"] {
        let agent: AgentId = name.parse()?;
        parts.ingestor.append(&agent, turn(&mut texts)?).await?;
        if name == "wide" {
            let patch = SettingsPatch::parse(json!({"budget_tokens": 0}))?;
            parts.ingestor.change_settings(&agent, &patch).await?;
        }
        for _ in 0..messages / AT_ONCE.min(messages) {
            let mut some = Vec::new();
            while some.len() < AT_ONCE.min(messages) as usize {
                some.extend(turn(&mut texts)?);
            }
            parts.ingestor.append(&agent, some).await?;
        }
        parts.ingestor.end_session(&agent).await?;
        parts.worker.drain().await?;
    }
    while parts.store.index_messages(1_000).await? > 0 {}
    Ok(())
}

fn turn(texts: &mut Texts) -> anyhow::Result<Vec<Message>> {
    let said = |role: &str, content: String| {
        let payload = json!({"role": role, "content": content});
        formats::parse(Format::OpenAiChat, &payload.to_string())
    };
    Ok(vec![said("user", texts.prose(100))?, said("assistant", texts.prose(200))?])
}

/// Runs the operation while other agents append. Returns its duration, and the durations of the appends.
async fn time_operation(model: &Model, upheaval: Upheaval, forgotten: u32) -> anyhow::Result<Vec<String>> {
    let opened = model.copy().await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    tasks.spawn(append_for_others(opened.parts.clone(), Arc::clone(&is_over)));
    tokio::time::sleep(REST).await;
    holds::take_longest();
    let start = Instant::now();
    let happened = timeout(PATIENCE, perform(&opened, upheaval, forgotten)).await;
    let took = start.elapsed();
    tokio::time::sleep(REST).await;
    is_over.store(true, Ordering::Relaxed);
    let mut waited = tasks.join_next().await.context("the others append")???;
    opened.close().await?;
    let took = match happened {
        Ok(Ok(())) => show(took),
        Ok(Err(error)) => format!("{} ({error:#})", show(took)),
        Err(_) => "given up".to_owned(),
    };
    let waits = [waited.p50(), waited.percentile(99), waited.percentile(100), holds::take_longest()];
    Ok(std::iter::once(took).chain(waits.map(show)).collect())
}

async fn perform(opened: &OpenDatabase, upheaval: Upheaval, forgotten: u32) -> anyhow::Result<()> {
    let (ingestor, store) = (&opened.parts.ingestor, &opened.parts.store);
    let told: AgentId = "told".parse()?;
    match upheaval {
        Upheaval::Nothing => tokio::time::sleep(REST * 3).await,
        Upheaval::Forget(name) => {
            let agent: AgentId = name.parse()?;
            let last = store.agent(&agent).await?.map_or(0, |row| row.ledger.last_exchange);
            let numbers = (0..i64::from(forgotten)).map(|place| 1 + place * last / i64::from(forgotten));
            ingestor.forget(&agent, Forgettable::Exchanges(numbers.collect())).await?;
        }
        Upheaval::RollBack => {
            let version = store.summary(&told).await?.map_or(0, |summary| summary.version);
            ingestor.roll_back(&told, (version / 2).max(1)).await?;
        }
        Upheaval::Rebuild => drop(ingestor.rebuild(&told).await?),
        Upheaval::RebuildAndBack => {
            let rebuilt = ingestor.rebuild(&told).await?.version;
            ingestor.roll_back(&told, rebuilt - 1).await?;
        }
        Upheaval::OtherModel => {
            let patch = SettingsPatch::parse(json!({"provider": "openai", "model": "gpt-5"}))?;
            ingestor.change_settings(&"wide".parse()?, &patch).await?;
        }
        Upheaval::Delete(name) => drop(ingestor.delete(&name.parse()?).await?),
    }
    Ok(())
}

/// Appends for other agents until the operation is over.
async fn append_for_others(parts: Parts, is_over: Arc<AtomicBool>) -> anyhow::Result<Sample> {
    let mut texts = Texts::new(2);
    let mut under_way: JoinSet<anyhow::Result<Duration>> = JoinSet::new();
    let (mut took, start) = (Sample::default(), Instant::now());
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let due = start + Duration::from_secs(1) * number / TURNS_PER_SECOND;
        sleep_until(due).await;
        let (ingestor, turn) = (parts.ingestor.clone(), turn(&mut texts)?);
        let agent: AgentId = format!("other-{}", number % OTHERS).parse()?;
        under_way.spawn(async move {
            ingestor.append(&agent, turn).await?;
            Ok(due.elapsed())
        });
        while let Some(ended) = under_way.try_join_next() {
            took.add(ended??);
        }
    }
    while let Some(ended) = under_way.join_next().await {
        took.add(ended??);
    }
    Ok(took)
}
