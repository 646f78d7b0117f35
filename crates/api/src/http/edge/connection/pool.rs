//! Places for connections: a limit for all, and one for each peer. If all are taken, the connection that has been idle
//! longest is closed for a new one. A busy connection never is.

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
    doing::ConnectionState,
    peer::{PeerSlot, Peers},
    proxy::{PeerOrigin, TrustedProxies},
};

/// How often an idle connection is looked for while a new one waits for a place.
const IDLE_LOOK: Duration = Duration::from_millis(100);

pub(super) struct Pool {
    places: Arc<Semaphore>,
    peers: Arc<Peers>,
    proxies: TrustedProxies,
    open: Mutex<HashMap<u64, Arc<ConnectionState>>>,
    accepted: AtomicU64,
    /// The number of times that connections became idle.
    pub(super) idled: Arc<AtomicU64>,
}

pub(super) struct ConnectionSlot {
    pub(super) doing: Arc<ConnectionState>,
    pool: Arc<Pool>,
    number: u64,
    _permit: Option<OwnedSemaphorePermit>,
    _place: Option<PeerSlot>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.pool.held().remove(&self.number);
    }
}

impl Pool {
    pub(super) fn new(connections_max: usize, per_peer_max: usize, proxies: TrustedProxies) -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS))),
            peers: Arc::new(Peers::of_at_most(per_peer_max)),
            proxies,
            open: Mutex::default(),
            accepted: AtomicU64::new(0),
            idled: Arc::default(),
        })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionState>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place for a connection from `origin`; `None` if its peer has too many. Trusted proxies aren't limited,
    /// since their connections serve many clients.
    pub(super) async fn admit(self: &Arc<Self>, origin: PeerOrigin) -> Option<ConnectionSlot> {
        let place = if self.proxies.trusts(origin) {
            None
        } else {
            Some(Peers::take(&self.peers, origin.peer())?)
        };
        let permit = self.permit().await;
        let doing = Arc::new(ConnectionState::default());
        let idle_since = self.idled.fetch_add(1, Ordering::Relaxed) + 1;
        doing.idle_since.store(idle_since, Ordering::Relaxed);
        let number = self.accepted.fetch_add(1, Ordering::Relaxed);
        self.held().insert(number, Arc::clone(&doing));
        Some(ConnectionSlot {
            doing,
            pool: Arc::clone(self),
            number,
            _permit: permit,
            _place: place,
        })
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            self.make_room();
            let waiting = timeout(IDLE_LOOK, Arc::clone(&self.places).acquire_owned());
            if let Ok(permit) = waiting.await {
                // The semaphore is never closed, so there is always a permit.
                return permit.ok();
            }
        }
    }

    /// Closes the connection that has been idle longest, unless none is idle or one is already about to end.
    fn make_room(&self) {
        let open = self.held();
        let idle = || open.values().filter(|doing| doing.is_idle());
        if idle().any(|doing| doing.give_way.is_cancelled()) {
            return;
        }
        if let Some(oldest) = idle().min_by_key(|doing| doing.idle_since.load(Ordering::Relaxed)) {
            oldest.give_way.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(ip: &str) -> PeerOrigin {
        PeerOrigin {
            ip: Some(ip.parse().unwrap()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_is_closed_and_a_busy_one_never() {
        let pool = Pool::new(2, 2, TrustedProxies::default());
        let old = pool.admit(from("192.0.2.1")).await.unwrap();
        let new = pool.admit(from("192.0.2.2")).await.unwrap();
        old.doing.begin();
        let next = timeout(10 * IDLE_LOOK, pool.admit(from("192.0.2.3")));
        assert!(next.await.is_err(), "nobody has left yet");
        assert!(!old.doing.give_way.is_cancelled() && new.doing.give_way.is_cancelled());
        drop(new);
        let next = pool.admit(from("192.0.2.3")).await.unwrap();
        next.doing.begin();
        let waiting = timeout(10 * IDLE_LOOK, pool.admit(from("192.0.2.4")));
        assert!(waiting.await.is_err());
        assert!(!next.doing.give_way.is_cancelled());
    }

    #[tokio::test]
    async fn a_trusted_proxy_may_have_all_places() {
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
