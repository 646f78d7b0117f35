//! Times appends from many agents at a given rate, while the offline model writes their summaries.
//!
//! Turns arrive whether or not earlier turns are answered: each turn has its due time, and its duration counts from
//! then, including queueing. A bench that sent a turn only after the previous answer would miss the very waits that
//! this one looks for (coordinated omission). Run `cargo bench --bench load`; the table's head shows the requested
//! rate, its rows the measured rates.
//!
//! The first row is the disk alone, with less load: if its latencies are long, those of the next rows are as well. The
//! last rows use memory instead of a disk, and show recapd's own share.

#[path = "measure/disk.rs"]
mod disk;
mod measure;
#[path = "measure/messages.rs"]
mod messages;
#[path = "measure/place.rs"]
mod place;
#[path = "measure/rounds.rs"]
mod rounds;
#[path = "measure/texts.rs"]
mod texts;

use std::{path::Path, sync::Arc, time::Duration};

use measure::{Sample, Table, ratio, show, size};
use messages::Messages;
use place::Place;
use recapd_config::Synchronous;
use recapd_core::domain::{agent::AgentId, message::Message};
use recapd_platform::background::Background;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// Turns per second, of two messages each.
const TURNS_PER_SECOND: u32 = 2_000;
/// Agents; they append in turn.
const AGENTS: u32 = 500;
const SECONDS: u32 = 30;
/// Different turns; they repeat.
const TURNS: u32 = 64;
/// Messages that each agent has at the start, so that its window is full.
const HISTORY_MESSAGES: usize = 24;
/// Small enough that summaries are written all the time.
const BUDGET_TOKENS: i64 = 4_000;
/// Linux's file system in memory.
const MEMORY: &str = "/dev/shm";
/// One in this many turns, at the start, fills caches and windows and isn't counted.
const WARMUP_SHARE: u32 = 5;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let title = format!("{TURNS_PER_SECOND} turns/s from {AGENTS} agents for {} s", size(SECONDS));
    let columns = ["p50", "p99", "× (p99)", "p99.9", "slowest", "turns/s", "summaries written"];
    let mut table = Table::new(&title, &columns);
    table.row("the disk alone", &time_disk()?);
    let mut first = None;
    for (parent, is_summarised, name) in [
        (place::disk(), false, "without summary updates"),
        (place::disk(), true, "with summary updates"),
        (Path::new(MEMORY), false, "in memory, without summary updates"),
        (Path::new(MEMORY), true, "in memory, with summary updates"),
    ] {
        let (mut took, [rate, summaries]) = match run_load_in(parent, is_summarised).await {
            Ok(figures) => figures,
            // In a container, this file system may be small or missing.
            Err(error) if parent == Path::new(MEMORY) => {
                table.row(&format!("{name} ({error:#})"), &[]);
                continue;
            }
            Err(error) => return Err(error),
        };
        let p99 = took.percentile(99);
        let times_first = format!("{:.2}", ratio(p99, *first.get_or_insert(p99)));
        let [p50, p99, p999, slowest] = times(&mut took);
        table.row(name, &[p50, p99, times_first, p999, slowest, rate, summaries]);
    }
    table.print();
    Ok(())
}

/// Times writes to the disk, with less than the load needs.
fn time_disk() -> anyhow::Result<[String; 7]> {
    let (mut took, rate) = disk::write_latency(Duration::from_secs(size(SECONDS).into()))?;
    let [p50, p99, p999, slowest] = times(&mut took);
    Ok([p50, p99, String::new(), p999, slowest, format!("{rate:.0}"), String::new()])
}

/// Returns the median, the percentiles 99 and 99.9, and the maximum.
fn times(took: &mut Sample) -> [String; 4] {
    [took.p50(), took.percentile(99), took.per_mille(999), took.percentile(100)].map(show)
}

/// Runs [`run_load`] over a new database within `parent`.
async fn run_load_in(parent: &Path, is_summarised: bool) -> anyhow::Result<(Sample, [String; 2])> {
    let place = place::open(parent, Synchronous::Full, |config| {
        config.window.budget_tokens = BUDGET_TOKENS;
    })
    .await?;
    let figures = run_load(&place, is_summarised).await?;
    place.folder.close()?;
    Ok(figures)
}

/// Returns the durations of appends, their rate per second, and the number of summaries written.
async fn run_load(place: &Place, is_summarised: bool) -> anyhow::Result<(Sample, [String; 2])> {
    let stop = CancellationToken::new();
    let mut background = JoinSet::new();
    let follower = place.parts.clone();
    background.spawn(follower.follow_changes(stop.clone()));
    // The daemon runs its worker on such threads too.
    let threads = Background::start(1)?;
    if is_summarised {
        let (parts, stop) = (place.parts.clone(), stop.clone());
        let worker = async move { parts.worker.run(stop.clone(), stop).await };
        background.spawn_on(worker, threads.handle());
    }
    let (took, rate) = append_turns(place).await?;
    stop.cancel();
    while let Some(ended) = background.join_next().await {
        ended?;
    }
    Ok((took, [format!("{rate:.0}"), count_summaries(place).await?.to_string()]))
}

/// Appends each turn at its due time. Returns the durations after the warm-up, and the answers per second.
async fn append_turns(place: &Place) -> anyhow::Result<(Sample, f64)> {
    let agents: Vec<AgentId> =
        (0..AGENTS).map(|number| format!("agent-{number}").parse()).collect::<Result<_, _>>()?;
    let mut source = Messages::new(1);
    let turns: Vec<Arc<Vec<Message>>> =
        (0..TURNS).map(|_| source.turn().map(Arc::new)).collect::<Result<_, _>>()?;
    for agent in &agents {
        place.parts.ingestor.append(agent, source.mix(HISTORY_MESSAGES)?).await?;
    }
    let (count, start) = (size(SECONDS) * TURNS_PER_SECOND, Instant::now());
    let mut under_way: JoinSet<anyhow::Result<Option<Duration>>> = JoinSet::new();
    let mut took = Sample::default();
    let (agents, turns) = (agents.iter().cycle(), turns.iter().cycle());
    for (number, (agent, turn)) in (0..count).zip(agents.zip(turns)) {
        let due = start + Duration::from_secs(1) * number / TURNS_PER_SECOND;
        sleep_until(due).await;
        let (ingestor, agent, turn) = (place.parts.ingestor.clone(), agent.clone(), Arc::clone(turn));
        under_way.spawn(async move {
            ingestor.append(&agent, turn.to_vec()).await?;
            Ok((number >= count / WARMUP_SHARE).then(|| due.elapsed()))
        });
        // Finished tasks keep their memory until they are joined; 60,000 of them would slow down the appends.
        while let Some(ended) = under_way.try_join_next() {
            ended??.into_iter().for_each(|one| took.add(one));
        }
    }
    while let Some(ended) = under_way.join_next().await {
        ended??.into_iter().for_each(|one| took.add(one));
    }
    Ok((took, f64::from(count) / start.elapsed().as_secs_f64()))
}

async fn count_summaries(place: &Place) -> anyhow::Result<i64> {
    let mut versions = 0;
    for number in 0..AGENTS {
        let agent: AgentId = format!("agent-{number}").parse()?;
        let summary = place.parts.store.summary(&agent).await?;
        versions += summary.map_or(0, |summary| summary.version);
    }
    Ok(versions)
}
