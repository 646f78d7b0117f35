//! Loads that go on whether or not a reader still waits for them, one at a time for each document ("single flight").
//!
//! A reader with a copy waits for a moment only. Were its load given up then, a document that takes longer would never be read anew,
//! and each reader would ask the database once more.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::task::TaskTracker;

use super::{
    Lookup,
    ttl::{CachedRead, late},
};
use recapd_store::{StoreError, StoreResult};

/// The most loads that ask the database at the same time; others wait in line.
const LOADS_MAX: usize = 8;
/// The most loads that are under way or in line; beyond it a reader isn't given one.
const FLIGHTS_MAX: usize = 10_000;
/// A load that takes longer is given up: the store's own patience ends before it by default (`database.statement_timeout_ms`).
const LOAD_TIME_MAX: Duration = Duration::from_secs(45);

/// What a load came to: the document, if there is one, or why it can't be had.
type LoadOutcome<T> = Result<Option<T>, Arc<StoreError>>;
type Flight<T> = Shared<BoxFuture<'static, LoadOutcome<T>>>;
type Flights<K, T> = Arc<Mutex<HashMap<K, Flight<T>>>>;

/// The loads under way; clones share them.
#[derive(Clone)]
pub(super) struct SingleFlight<K, T> {
    all: Flights<K, T>,
    turns: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl<K, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self {
            all: Arc::default(),
            turns: Arc::new(Semaphore::new(LOADS_MAX)),
            tasks: TaskTracker::new(),
        }
    }
}

/// The load that a reader waits for.
enum LoadTicket<T> {
    /// It was begun for this reader, so it sees all that was written before.
    Own(Flight<T>),
    /// It was under way.
    Others(Flight<T>),
    /// Too many are in line.
    None,
}

impl<K, S> SingleFlight<K, Arc<S>>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// The document of `key` by a load that begins now or is as good as one. `cached` is what the copy gives a reader without a wait.
    ///
    /// # Errors
    /// That of the load; [`StoreError::Unavailable`] where too many are in line.
    pub(super) async fn read<F>(
        &self,
        key: &K,
        load: impl Fn() -> F + Send,
        cached: impl Fn() -> Option<CachedRead<S>> + Send,
    ) -> StoreResult<Option<Lookup<S>>>
    where
        F: Future<Output = StoreResult<Option<Arc<S>>>> + Send + 'static,
    {
        loop {
            match self.board(key, &load) {
                LoadTicket::Own(flight) => {
                    let landed = flight.await.map_err(|error| of_all(&error))?;
                    return Ok(landed.map(Lookup::fresh));
                }
                // It may have looked before a change that this reader knows of: then its copy is marked.
                LoadTicket::Others(flight) => {
                    drop(flight.await);
                    if let Some(CachedRead::Reading(reading)) = cached() {
                        return Ok(Some(reading));
                    }
                }
                LoadTicket::None => return Err(late()),
            }
        }
    }
}

impl<K, T> SingleFlight<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// The load of `key` that is under way; else `load`, which begins now.
    fn board<F>(&self, key: &K, load: impl FnOnce() -> F) -> LoadTicket<T>
    where
        F: Future<Output = StoreResult<Option<T>>> + Send + 'static,
    {
        let mut all = locked(&self.all);
        if let Some(flight) = all.get(key) {
            return LoadTicket::Others(flight.clone());
        }
        if all.len() >= FLIGHTS_MAX {
            return LoadTicket::None;
        }
        let flight = self.begin(key.clone(), load());
        all.insert(key.clone(), flight.clone());
        LoadTicket::Own(flight)
    }

    fn begin<F>(&self, key: K, load: F) -> Flight<T>
    where
        F: Future<Output = StoreResult<Option<T>>> + Send + 'static,
    {
        let turns = Arc::clone(&self.turns);
        let under_way = UnderWay {
            key,
            all: Arc::clone(&self.all),
        };
        let task = self.tasks.spawn(async move {
            let loaded = timeout(LOAD_TIME_MAX, async {
                let _turn = turns.acquire().await;
                load.await
            });
            let loaded = loaded.await.unwrap_or_else(|_| Err(late()));
            drop(under_way);
            loaded.map_err(Arc::new)
        });
        let broken = |_| StoreError::Unavailable("the load was broken off".into());
        let landed = async move { task.await.unwrap_or_else(|error| Err(Arc::new(broken(error)))) };
        landed.boxed().shared()
    }
}

/// Takes a load out of those under way when it ends, also by a panic.
struct UnderWay<K: Eq + Hash, T> {
    key: K,
    all: Flights<K, T>,
}

impl<K: Eq + Hash, T> Drop for UnderWay<K, T> {
    fn drop(&mut self) {
        locked(&self.all).remove(&self.key);
    }
}

fn locked<K, T>(all: &Mutex<HashMap<K, Flight<T>>>) -> MutexGuard<'_, HashMap<K, Flight<T>>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of a load, for one of those who waited for it.
fn of_all(error: &StoreError) -> StoreError {
    match error {
        StoreError::Panicked(panicked) => StoreError::Panicked(*panicked),
        StoreError::Unavailable(outage) => StoreError::Unavailable(outage.clone()),
        StoreError::Contended(reason) => StoreError::Contended(reason.clone()),
        StoreError::Schema(reason) => StoreError::Schema(reason.clone()),
        StoreError::Inconsistent {
            table,
            row,
            column,
            value,
        } => StoreError::Inconsistent {
            table,
            row: row.clone(),
            column,
            value: value.clone(),
        },
        // What reading never fails with.
        other => StoreError::Refused(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    async fn landed(boarded: LoadTicket<u8>) -> Option<u8> {
        match boarded {
            LoadTicket::Own(flight) | LoadTicket::Others(flight) => flight.await.unwrap(),
            LoadTicket::None => panic!("there is room"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_load_is_for_all_who_wait_and_goes_on_without_them() {
        let loads = SingleFlight::default();
        let (answer, asked) = tokio::sync::oneshot::channel::<u8>();
        let load = async { Ok(asked.await.ok()) };
        drop(loads.board(&1, || load));
        let joined = loads.board(&1, || ready(Ok(Some(2))));
        assert!(matches!(joined, LoadTicket::Others(_)));
        let other = loads.board(&2, || ready(Ok(Some(3))));
        assert_eq!(landed(other).await, Some(3));
        answer.send(1).unwrap();
        assert_eq!(landed(joined).await, Some(1));
        let next = loads.board(&1, || ready(Ok(Some(2))));
        assert!(matches!(next, LoadTicket::Own(_)));
        assert_eq!(landed(next).await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_that_never_ends_is_given_up() {
        let loads: SingleFlight<u8, u8> = SingleFlight::default();
        let LoadTicket::Own(never) = loads.board(&1, pending) else {
            panic!("nothing is under way");
        };
        assert!(matches!(*never.await.unwrap_err(), StoreError::Unavailable(_)));
        assert!(locked(&loads.all).is_empty());
    }
}
