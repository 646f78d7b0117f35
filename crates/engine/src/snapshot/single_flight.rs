//! Loads a document once for all readers that wait for it ("single flight"). A load continues even if no reader waits for it any
//! more.
//!
//! A reader with a copy waits only briefly. If the load were cancelled after that wait, a slow document would never be read
//! again, and each reader would query the database anew.

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

use super::{Lookup, read_timeout::timeout_error, ttl::CachedRead};
use recapd_store::{StoreError, StoreResult};

/// Limits how many loads query the database at once. Other loads queue.
const LOADS_MAX: usize = 8;
/// Limits the running and queued loads. Beyond it, readers get an error.
const FLIGHTS_MAX: usize = 10_000;
/// Limits the duration of a load. By default the store's own limit (`database.statement_timeout_ms`) is shorter.
const LOAD_TIME_MAX: Duration = Duration::from_secs(45);

/// The result of a load: the document, if it exists, or an error that all waiting readers share.
type LoadOutcome<T> = Result<Option<T>, Arc<StoreError>>;
type Flight<T> = Shared<BoxFuture<'static, LoadOutcome<T>>>;
type Flights<K, T> = Arc<Mutex<HashMap<K, Flight<T>>>>;

/// The running loads. Clones share them.
#[derive(Clone)]
pub(super) struct SingleFlight<K, T> {
    all: Flights<K, T>,
    turns: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl<K, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self { all: Arc::default(), turns: Arc::new(Semaphore::new(LOADS_MAX)), tasks: TaskTracker::new() }
    }
}

/// A reader's part in a load.
enum LoadTicket<T> {
    /// A load that began for this reader, so it sees everything written before.
    Own(Flight<T>),
    /// A load that was running already for another reader.
    Others(Flight<T>),
    /// There is no load, because too many are queued.
    QueueFull,
}

impl<K, S> SingleFlight<K, Arc<S>>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// Loads the document of `key`. The result is as current as that of a load that begins now. `cached` reads the copy without
    /// waiting.
    ///
    /// # Errors
    /// The load's error; [`StoreError::Unavailable`] if too many loads are queued.
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
            match self.join_or_begin(key, &load) {
                LoadTicket::Own(flight) => {
                    let value = flight.await.map_err(|error| shared_error(&error))?;
                    return Ok(value.map(Lookup::fresh));
                }
                // The other reader's load may have read the document before a change that this reader knows of. Then its copy is
                // marked as outdated, and this reader tries again.
                LoadTicket::Others(flight) => {
                    drop(flight.await);
                    if let Some(CachedRead::Hit(lookup)) = cached() {
                        return Ok(Some(lookup));
                    }
                }
                LoadTicket::QueueFull => return Err(timeout_error()),
            }
        }
    }
}

impl<K, T> SingleFlight<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Joins the running load of `key`, or begins `load`.
    fn join_or_begin<F>(&self, key: &K, load: impl FnOnce() -> F) -> LoadTicket<T>
    where
        F: Future<Output = StoreResult<Option<T>>> + Send + 'static,
    {
        let mut all = lock(&self.all);
        if let Some(flight) = all.get(key) {
            return LoadTicket::Others(flight.clone());
        }
        if all.len() >= FLIGHTS_MAX {
            return LoadTicket::QueueFull;
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
        let guard = LoadGuard { key, all: Arc::clone(&self.all) };
        let task = self.tasks.spawn(async move {
            let result = timeout(LOAD_TIME_MAX, async {
                let _turn = turns.acquire().await;
                load.await
            });
            let result = result.await.unwrap_or_else(|_| Err(timeout_error()));
            drop(guard);
            result.map_err(Arc::new)
        });
        let broken = |_| StoreError::Unavailable("the load was broken off".into());
        let load = async move { task.await.unwrap_or_else(|error| Err(Arc::new(broken(error)))) };
        load.boxed().shared()
    }
}

/// Removes a load from the running ones when it ends, also after a panic.
struct LoadGuard<K: Eq + Hash, T> {
    key: K,
    all: Flights<K, T>,
}

impl<K: Eq + Hash, T> Drop for LoadGuard<K, T> {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.key);
    }
}

fn lock<K, T>(all: &Mutex<HashMap<K, Flight<T>>>) -> MutexGuard<'_, HashMap<K, Flight<T>>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shared_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Panicked(panicked) => StoreError::Panicked(*panicked),
        StoreError::Unavailable(outage) => StoreError::Unavailable(outage.clone()),
        StoreError::Contended(reason) => StoreError::Contended(reason.clone()),
        StoreError::Schema(reason) => StoreError::Schema(reason.clone()),
        StoreError::Inconsistent { table, row, column, value } => {
            StoreError::Inconsistent { table, row: row.clone(), column, value: value.clone() }
        }
        // A load only reads, so it fails with none of the other errors.
        other => StoreError::Refused(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    async fn landed(ticket: LoadTicket<u8>) -> Option<u8> {
        match ticket {
            LoadTicket::Own(flight) | LoadTicket::Others(flight) => flight.await.unwrap(),
            LoadTicket::QueueFull => panic!("there is room"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_load_serves_all_readers_and_goes_on_without_them() {
        let loads = SingleFlight::default();
        let (answer, asked) = tokio::sync::oneshot::channel::<u8>();
        let load = async { Ok(asked.await.ok()) };
        drop(loads.join_or_begin(&1, || load));
        let joined = loads.join_or_begin(&1, || ready(Ok(Some(2))));
        assert!(matches!(joined, LoadTicket::Others(_)));
        let other = loads.join_or_begin(&2, || ready(Ok(Some(3))));
        assert_eq!(landed(other).await, Some(3));
        answer.send(1).unwrap();
        assert_eq!(landed(joined).await, Some(1));
        let next = loads.join_or_begin(&1, || ready(Ok(Some(2))));
        assert!(matches!(next, LoadTicket::Own(_)));
        assert_eq!(landed(next).await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_that_never_ends_times_out() {
        let loads: SingleFlight<u8, u8> = SingleFlight::default();
        let LoadTicket::Own(never) = loads.join_or_begin(&1, pending) else {
            panic!("nothing is under way");
        };
        assert!(matches!(*never.await.unwrap_err(), StoreError::Unavailable(_)));
        assert!(lock(&loads.all).is_empty());
    }
}
