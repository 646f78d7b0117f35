//! Slots for connections: limits all connections together, and those of each peer. If all slots are taken, a new
//! connection replaces the one that has been idle longest. A busy connection is never closed.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    peer::{PeerSlot, Peers},
    proxy::{PeerOrigin, TrustedProxies},
    state::ConnectionState,
};

/// How often a new connection that waits for a slot looks for an idle connection.
const IDLE_LOOK: Duration = Duration::from_millis(100);

pub(super) struct Pool {
    slots: Arc<Semaphore>,
    peers: Arc<Peers>,
    proxies: TrustedProxies,
    open: Mutex<HashMap<u64, Arc<ConnectionState>>>,
    accepted: AtomicU64,
    /// Counts how often connections became idle. [`ConnectionState::idle_since`] orders them by this count.
    pub(super) idled: Arc<AtomicU64>,
}

/// The slot of a connection. Returned when dropped.
pub(super) struct ConnectionSlot {
    pub(super) state: Arc<ConnectionState>,
    pool: Arc<Pool>,
    number: u64,
    _permit: Option<OwnedSemaphorePermit>,
    _peer_slot: Option<PeerSlot>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.pool.lock().remove(&self.number);
    }
}

impl Pool {
    pub(super) fn new(connections_max: usize, per_peer_max: usize, proxies: TrustedProxies) -> Arc<Self> {
        Arc::new(Self {
            slots: Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS))),
            peers: Arc::new(Peers::with_limit(per_peer_max)),
            proxies,
            open: Mutex::default(),
            accepted: AtomicU64::new(0),
            idled: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionState>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot for a connection from `origin`; `None` if its peer has too many. Trusted proxies have no limit
    /// of their own, because their connections serve many clients.
    pub(super) async fn admit(self: &Arc<Self>, origin: PeerOrigin) -> Option<ConnectionSlot> {
        let peer_slot =
            if self.proxies.trusts(origin) { None } else { Some(Peers::take(&self.peers, origin.peer())?) };
        let permit = self.permit().await;
        let state = Arc::new(ConnectionState::default());
        let idle_since = self.idled.fetch_add(1, Ordering::Relaxed) + 1;
        state.idle_since.store(idle_since, Ordering::Relaxed);
        let number = self.accepted.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, Arc::clone(&state));
        Some(ConnectionSlot { state, pool: Arc::clone(self), number, _permit: permit, _peer_slot: peer_slot })
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            self.make_room();
            let waiting = timeout(IDLE_LOOK, Arc::clone(&self.slots).acquire_owned());
            if let Ok(permit) = waiting.await {
                // The semaphore is never closed, so `permit` is always `Ok`.
                return permit.ok();
            }
        }
    }

    /// Closes the connection that has been idle longest. Does nothing if none is idle, or if an idle one is already
    /// closing.
    fn make_room(&self) {
        let open = self.lock();
        let idle = || open.values().filter(|state| state.is_idle());
        if idle().any(|state| state.give_way.is_cancelled()) {
            return;
        }
        if let Some(oldest) = idle().min_by_key(|state| state.idle_since.load(Ordering::Relaxed)) {
            oldest.give_way.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(ip: &str) -> PeerOrigin {
        PeerOrigin { ip: Some(ip.parse().unwrap()) }
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_is_closed_and_a_busy_one_never() {
        let pool = Pool::new(2, 2, TrustedProxies::default());
        let old = pool.admit(from("192.0.2.1")).await.unwrap();
        let new = pool.admit(from("192.0.2.2")).await.unwrap();
        old.state.begin();
        let next = timeout(10 * IDLE_LOOK, pool.admit(from("192.0.2.3")));
        assert!(next.await.is_err(), "no connection is closed yet");
        assert!(!old.state.give_way.is_cancelled() && new.state.give_way.is_cancelled());
        drop(new);
        let next = pool.admit(from("192.0.2.3")).await.unwrap();
        next.state.begin();
        let waiting = timeout(10 * IDLE_LOOK, pool.admit(from("192.0.2.4")));
        assert!(waiting.await.is_err());
        assert!(!next.state.give_way.is_cancelled());
    }

    #[tokio::test]
    async fn a_trusted_proxy_may_have_all_slots() {
        let proxies = TrustedProxies::new(vec!["192.0.2.1".parse().unwrap()]);
        let pool = Pool::new(10, 1, proxies);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(pool.admit(from("192.0.2.1")).await.unwrap());
        }
        held.push(pool.admit(from("192.0.2.2")).await.unwrap());
        assert!(pool.admit(from("192.0.2.2")).await.is_none());
    }
}
