//! Everything at the same time.

use std::{collections::BTreeSet, sync::Arc};

use recapd_core::domain::{
    agent::AgentId,
    batch::BatchState,
    lineage::Step,
    redaction::Redactor,
    time::{HOUR_MS, Timestamp},
    work::Reason,
};
use recapd_store::{
    AttemptError, Failure, Forget, Forgettable, Material, Prune, Resume, Settle, SqlStore, Store as _,
    StoreError,
    batch::{BatchEnd, BatchLine, BatchMove, BatchQuestion, BatchReply, BatchStore as _, Gather},
};
use tokio::task::JoinSet;

use super::lineage::step;
use crate::support::conversation::{
    ALL, LEASE_MS, T0, agent, append, claim, items, minute, numbers, patch, rules, run, turns,
};

/// Runs appends, marks and rewinds, enqueues, claims, completions, failures, renewals, batches from question to answer, forgetting, and
/// the scheduled jobs at the same time, on few agents: there are no deadlocks, and the result is sound. The seed determines what each
/// task does, but not the order.
pub(super) async fn hammer(store: Arc<SqlStore>) {
    let parent = agent("agent-1");
    store.append(append(&parent, turns(1..=6))).await.unwrap();
    // Relatives whose order is neither that of their names nor of their births.
    for child in ["agent-2", "agent-0"] {
        store.fork(&parent, &agent(child), T0).await.unwrap();
    }
    let mut lives = JoinSet::new();
    for seed in 0..8 {
        let store = Arc::clone(&store);
        lives.spawn(async move { live(store.as_ref(), seed).await });
    }
    let wrong: BTreeSet<String> = lives.join_all().await.into_iter().flatten().collect();
    assert_eq!(wrong, BTreeSet::new());
    for number in 0..4 {
        let agent = agent(&format!("agent-{number}"));
        if store.agent(&agent).await.unwrap().is_some() {
            assert_eq!(store.verify(&agent).await.unwrap().breaches, [], "{agent}");
        }
    }
}

/// Returns unexpected errors.
async fn live(store: &SqlStore, seed: u64) -> BTreeSet<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut wrong = BTreeSet::new();
    for step in 0..40 {
        let agent = agent(&format!("agent-{}", random.u8(0..4)));
        let outcome = live_once(store, &agent, &mut random, minute(step)).await;
        if let Err(error) = outcome
            && !is_expected(&error)
        {
            wrong.insert(error.to_string());
        }
    }
    wrong
}

fn is_expected(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Fenced(_)
            | StoreError::UnknownAgent(_)
            | StoreError::UnknownExchange(_)
            | StoreError::UnknownMark(_)
    )
}

async fn live_once(
    store: &SqlStore,
    agent: &AgentId,
    random: &mut fastrand::Rng,
    now: Timestamp,
) -> Result<(), StoreError> {
    match random.u8(0..17) {
        0..=2 => drop(store.append(append(agent, turns(1..=2))).await?),
        3 => drop(store.enqueue(agent, Reason::Manual, 0, now).await?),
        4 => {
            for lease in store.claim(claim("daemon", 10, now)).await? {
                let material = store.material(&lease, ALL).await?;
                store.defer(&lease, question(&material), now, now).await?;
            }
        }
        5 => work(store, now).await?,
        6 => {
            store.reconcile(now, now).await?;
        }
        7 => {
            store.enqueue_ageing(now.plus_ms(400 * HOUR_MS), 100).await?;
        }
        8 => {
            store.reclaim("daemon", now).await?;
            store.resume(Resume::Refused, now).await?;
            store.probe_parked(now, 5, now).await?;
            store.enqueue_revisits(now, 100).await?;
        }
        9 => round(store, now).await?,
        10 => drop(store.end_session(agent, now).await?),
        11 => {
            let mark = step(&Step::Mark(None), 0);
            drop(store.append(append(agent, vec![mark])).await?);
        }
        12 => {
            let rewind = step(&Step::Rewind(None), 0);
            drop(store.rewind(append(agent, vec![rewind])).await?);
        }
        13 | 14 => {
            for lease in store.claim(claim("daemon", 10, now)).await? {
                store.fail(&lease, failure(random.bool(), now)).await?;
            }
        }
        15 => {
            let what = Forgettable::Exchanges(vec![random.i64(1..=6)]);
            let wish =
                Forget { agent: agent.clone(), what, rules: rules(), redactor: Redactor::standard(), now };
            drop(store.forget(wish).await?);
        }
        _ => {
            let prune = Prune { runs_before: now, answers_before: now, versions_keep: 1, limit: 10 };
            store.prune(prune).await?;
        }
    }
    Ok(())
}

/// Claims, renews, and does the due work.
async fn work(store: &SqlStore, now: Timestamp) -> Result<(), StoreError> {
    let leases = store.claim(claim("daemon", 10, now)).await?;
    drop(store.renew(&leases, now, LEASE_MS).await?);
    for lease in &leases {
        let material = store.material(lease, ALL).await?;
        if material.exchanges.is_empty() {
            let (lo, hi) = (material.lo, material.hi);
            store.settle(lease, Settle { lo, hi, now }).await?;
        } else {
            store.complete(lease, patch(&material, items(&material), now)).await?;
        }
    }
    Ok(())
}

fn failure(park: bool, now: Timestamp) -> Failure {
    Failure {
        error: AttemptError { class: "x".to_owned(), message: String::new() },
        backoff_ms: 0,
        park,
        run: run(now),
    }
}

fn question(material: &Material) -> BatchQuestion {
    BatchQuestion {
        key: format!("{:032x}", fastrand::u128(..)),
        version: material.version,
        lo: material.lo,
        hi: material.hi,
        exchanges: numbers(material),
        revisited: Vec::new(),
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        body: "{}".to_owned(),
        tokens: 1,
        cost_microusd: None,
    }
}

/// Gathers waiting questions, sends them and gets answers.
async fn round(store: &SqlStore, now: Timestamp) -> Result<(), StoreError> {
    let gather = Gather {
        name: format!("{:032x}", fastrand::u128(..)),
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        requests_max: 10,
        bytes_max: 1_000,
        open_max: 100,
        waiting_before: minute(1_000),
        now,
        next_at: now,
    };
    if store.withdraw_outdated(now).await? > 0 {
        store.resume(Resume::Paused, now).await?;
    }
    let Some(open) = store.gather(gather).await? else {
        return Ok(());
    };
    let step = BatchMove {
        from: BatchState::Intent,
        held_until: now,
        submitted_as: Some(open.identity.name),
        next_at: now,
    };
    store.move_batch(open.batch, step).await?;
    let lines = store.batch_lines(open.batch).await?;
    let end =
        BatchEnd { results: lines.into_iter().map(reply).collect(), otherwise: "expired".to_owned(), now };
    store.close_batch(open.batch, end).await?;
    Ok(())
}

fn reply(line: BatchLine) -> BatchReply {
    BatchReply {
        key: line.key,
        answer: Ok("{}".to_owned()),
        input_tokens: 1,
        output_tokens: 1,
        cost_microusd: None,
    }
}
