//! Queues the writes of one agent in the process, before they take connections. On the server they would wait for the agent's
//! row, and each would occupy a connection that reads and other agents' writes could use.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::{Lock, StoreError, StoreResult};
use recapd_core::domain::agent::AgentId;

/// Limits the writes of one agent in this process, running or waiting. Further writes are refused.
const WRITES_MAX: usize = 256;

/// What a write waits for: the writes of one agent take turns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Agent(AgentId),
    Batches,
    Calibrations,
}

impl Key {
    fn of(lock: &Lock) -> Option<Self> {
        match lock {
            Lock::Nothing => None,
            Lock::Agent(agent) | Lock::Family(agent) | Lock::Parent(agent) => {
                Some(Self::Agent(agent.clone()))
            }
            Lock::Batches => Some(Self::Batches),
            Lock::Calibrations => Some(Self::Calibrations),
        }
    }
}

/// The turns, by key.
#[derive(Debug, Default)]
pub(super) struct Admission(Arc<Mutex<HashMap<Key, Turns>>>);

#[derive(Debug)]
struct Turns {
    /// Admits one write at a time.
    gate: Arc<Semaphore>,
    /// The number of running and waiting writes.
    writes: usize,
}

/// A write's turn. Dropping it ends the turn.
#[derive(Debug)]
pub(super) struct WriteTurn {
    /// Dropped before the slot. The last slot removes the key and its gate, and a new gate would admit a write at once.
    _permit: OwnedSemaphorePermit,
    _slot: LineSlot,
}

/// A running or waiting write. Dropping it ends its count.
#[derive(Debug)]
struct LineSlot {
    key: Key,
    all: Arc<Mutex<HashMap<Key, Turns>>>,
}

impl Admission {
    /// Waits until `deadline` for the turn of a write that takes `lock`. Returns `None` at once if the write needs no turn.
    ///
    /// # Errors
    /// [`StoreError::Contended`] after the deadline, or if too many writes wait already.
    pub(super) async fn turn(&self, lock: &Lock, deadline: Instant) -> StoreResult<Option<WriteTurn>> {
        let Some(key) = Key::of(lock) else {
            return Ok(None);
        };
        let (slot, gate) = self.line_up(key)?;
        let too_late = || StoreError::Contended("earlier writes of the same agent take too long".to_owned());
        let permit = timeout_at(deadline, gate.acquire_owned())
            .await
            .map_err(|_| too_late())?
            .map_err(|_| too_late())?;
        Ok(Some(WriteTurn { _permit: permit, _slot: slot }))
    }

    /// Counts one more write for `key`. Returns its slot, which ends the count, and the gate.
    fn line_up(&self, key: Key) -> StoreResult<(LineSlot, Arc<Semaphore>)> {
        let mut all = locked(&self.0);
        let turns =
            all.entry(key.clone()).or_insert_with(|| Turns { gate: Arc::new(Semaphore::new(1)), writes: 0 });
        if turns.writes >= WRITES_MAX {
            let reason = format!("{WRITES_MAX} writes of the same agent wait already");
            return Err(StoreError::Contended(reason));
        }
        turns.writes += 1;
        let gate = Arc::clone(&turns.gate);
        let slot = LineSlot { key, all: Arc::clone(&self.0) };
        Ok((slot, gate))
    }
}

impl Drop for LineSlot {
    fn drop(&mut self) {
        let mut all = locked(&self.all);
        if let Some(turns) = all.get_mut(&self.key) {
            turns.writes -= 1;
            if turns.writes == 0 {
                all.remove(&self.key);
            }
        }
    }
}

fn locked(all: &Mutex<HashMap<Key, Turns>>) -> MutexGuard<'_, HashMap<Key, Turns>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    fn write(agent: &str) -> Lock {
        Lock::Agent(agent.parse().unwrap())
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn writes_of_one_agent_take_turns_and_hold_up_no_other_agent() {
        let admission = Admission::default();
        let first = admission.turn(&write("a"), soon()).await.unwrap();
        let fork = Lock::Parent("a".parse().unwrap());
        let mut second = Box::pin(admission.turn(&fork, soon()));
        assert!(second.as_mut().now_or_never().is_none());
        for other in [write("b"), Lock::Nothing, Lock::Batches] {
            admission.turn(&other, Instant::now()).await.unwrap();
        }
        drop(first);
        assert!(second.await.unwrap().is_some());
        assert!(locked(&admission.0).is_empty(), "nobody is left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_waits_too_long_or_behind_too_many_writes_is_refused() {
        let admission = Admission::default();
        let _first = admission.turn(&write("a"), soon()).await.unwrap();
        let late = admission.turn(&write("a"), soon()).await.unwrap_err();
        assert!(matches!(late, StoreError::Contended(_)), "{late}");
        let lock = write("a");
        let mut waiting: Vec<_> = (1..WRITES_MAX).map(|_| Box::pin(admission.turn(&lock, soon()))).collect();
        for wait in &mut waiting {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        let full = admission.turn(&lock, soon()).now_or_never().unwrap().unwrap_err();
        assert!(full.to_string().contains("wait already"), "{full}");
        drop(waiting);
        assert_eq!(locked(&admission.0).values().next().unwrap().writes, 1);
    }
}
