//! The audit: passes events from requests to the log and the database.
//!
//! ```text
//! request answered ─► note: log, slot in the channel? ─► writer: gathers for a second ─► database ─► deletes the oldest rows
//!                              └ none: dropped, counted
//! ```
//!
//! Invariant: no request waits for the audit or fails because of it.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use recapd_store::{
    StoreError, StoreResult,
    audit::{AuditEvent, AuditKind, AuditStore},
};
use recapd_telemetry::{AUDIT_TARGET, metrics::Metrics};

/// Limits how many events wait for the writer.
const WAITING_MAX: usize = 4_096;
/// Slots that are reserved for changes and sign-ins. Refusals and appends can't use them, since strangers and busy
/// agents cause any number of both.
const RESERVED: usize = 1_024;
/// The writer gathers events for this long into one write. A crash loses at most these events.
const GATHER: Duration = Duration::from_secs(1);
/// Limits how many events one write has.
const BATCH_MAX: usize = 256;
/// The writer waits this long before it repeats a failed write.
const RETRY: Duration = Duration::from_secs(2);
/// When it stops, the writer waits this long for the events of the last requests.
const LINGER: Duration = Duration::from_millis(200);
/// The writer deletes rows beyond the limit after this many events.
const PRUNED_AFTER: usize = 1_000;
/// Limits how many rows one statement deletes.
const PRUNED_MAX: i64 = 1_000;

/// The sender of events. Clones share the channel to the writer.
#[derive(Clone)]
pub struct Audit {
    /// `None` if events are only logged.
    sender: Option<Sender<AuditEvent>>,
    metrics: Metrics,
}

pub struct AuditWriter {
    receiver: Receiver<AuditEvent>,
    metrics: Metrics,
    rows_max: i64,
}

impl Audit {
    /// Creates an audit that only logs.
    pub fn of_log(metrics: Metrics) -> Self {
        Self { sender: None, metrics }
    }

    /// Creates an audit whose writer keeps the newest `rows_max` events of each kind. With 0 it only logs.
    pub fn with_writer(metrics: Metrics, rows_max: i64) -> (Self, AuditWriter) {
        let (sender, receiver) = channel(WAITING_MAX);
        let writer = AuditWriter { receiver, metrics: metrics.clone(), rows_max };
        let sender = (rows_max > 0).then_some(sender);
        (Self { sender, metrics }, writer)
    }

    /// Logs an event and queues it for the writer, or drops it if the queue is full.
    pub fn note(&self, event: AuditEvent) {
        log(&event);
        let Some(sender) = &self.sender else {
            return;
        };
        let is_many = matches!(event.kind, AuditKind::Append | AuditKind::Refusal);
        let has_place = !is_many || sender.capacity() > RESERVED;
        if !has_place || sender.try_send(event).is_err() {
            self.metrics.service.audit_dropped(1);
        }
    }
}

/// Logs an event. Appends are logged at level `debug`, because they are many and say little.
fn log(event: &AuditEvent) {
    macro_rules! logged {
        ($level:ident) => {
            tracing::$level!(
                target: AUDIT_TARGET,
                kind = event.kind.name(),
                token = event.token.as_deref(),
                peer = event.peer,
                http.method = event.method,
                http.route = event.route,
                agent_id = event.agent_id.as_ref().map(|agent| agent.as_str()),
                request_id = event.request_id,
                http.status = event.status,
                outcome = event.outcome,
                "audit"
            )
        };
    }
    if event.kind == AuditKind::Append {
        logged!(debug);
    } else {
        logged!(info);
    }
}

impl AuditWriter {
    /// Writes events until `stop`, then writes those that still wait.
    pub async fn run(mut self, store: Arc<dyn AuditStore>, stop: CancellationToken) {
        // Prunes at once, because a former configuration may have allowed more rows.
        let mut unpruned = PRUNED_AFTER;
        loop {
            if unpruned >= PRUNED_AFTER {
                self.prune(store.as_ref()).await;
                unpruned = 0;
            }
            let Some(events) = self.gather(&stop).await else {
                return;
            };
            unpruned += events.len();
            self.write(store.as_ref(), events, &stop).await;
        }
    }

    /// Returns the next events to write together; `None` when there will be no more.
    async fn gather(&mut self, stop: &CancellationToken) -> Option<Vec<AuditEvent>> {
        let first = match stop.run_until_cancelled(self.receiver.recv()).await {
            Some(first) => first?,
            None => timeout(LINGER, self.receiver.recv()).await.ok()??,
        };
        let (mut events, until) = (vec![first], Instant::now() + GATHER);
        while events.len() < BATCH_MAX {
            let next = timeout_at(until, self.receiver.recv());
            match stop.run_until_cancelled(next).await {
                Some(Ok(Some(event))) => events.push(event),
                Some(Ok(None) | Err(_)) => break,
                None => match self.receiver.try_recv() {
                    Ok(event) => events.push(event),
                    Err(_) => break,
                },
            }
        }
        Some(events)
    }

    /// Writes events. Retries while the database is unavailable.
    async fn write(&self, store: &dyn AuditStore, events: Vec<AuditEvent>, stop: &CancellationToken) {
        let mut has_failed = false;
        loop {
            let Err(error) = store.record_audit(events.clone()).await else {
                return;
            };
            if !has_failed {
                warn!(%error, "audit.unwritten");
            }
            has_failed = true;
            let can_retry = !matches!(error, StoreError::Refused(_));
            if !can_retry || stop.run_until_cancelled(sleep(RETRY)).await.is_none() {
                self.metrics.service.audit_dropped(events.len());
                return;
            }
        }
    }

    async fn prune(&self, store: &dyn AuditStore) {
        for kind in AuditKind::ALL {
            if let Err(error) = self.prune_kind(store, kind).await {
                warn!(%error, kind = kind.name(), "audit.unpruned");
            }
        }
    }

    async fn prune_kind(&self, store: &dyn AuditStore, kind: AuditKind) -> StoreResult<()> {
        while store.prune_audit(kind, self.rows_max, PRUNED_MAX).await? > 0 {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    };

    use async_trait::async_trait;
    use tokio_util::task::TaskTracker;

    use super::*;
    use recapd_core::domain::time::Timestamp;
    use recapd_store::audit::{AuditQuery, AuditRow};

    /// A database that can be unavailable.
    #[derive(Default)]
    struct Shelf {
        is_away: AtomicBool,
        events: Mutex<Vec<AuditEvent>>,
    }

    #[async_trait]
    impl AuditStore for Shelf {
        async fn record_audit(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
            if self.is_away.load(Ordering::SeqCst) {
                return Err(StoreError::Contended("away".to_owned()));
            }
            self.events.lock().unwrap().extend(events);
            Ok(())
        }

        async fn prune_audit(&self, _: AuditKind, _: i64, _: i64) -> StoreResult<u64> {
            Ok(0)
        }

        async fn audit(&self, _: AuditQuery) -> StoreResult<Vec<AuditRow>> {
            Ok(Vec::new())
        }
    }

    fn event(kind: AuditKind, number: usize) -> AuditEvent {
        AuditEvent {
            at: Timestamp(0),
            kind,
            token: None,
            peer: String::new(),
            method: "POST".to_owned(),
            route: "/v1/age".to_owned(),
            agent_id: None,
            request_id: number.to_string(),
            status: 200,
            outcome: "done".to_owned(),
        }
    }

    fn dropped(metrics: &Metrics) -> String {
        let (_, text) = metrics.encode(None);
        let line = text.lines().find(|line| line.starts_with("recapd_audit_dropped_total "));
        line.unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn an_unavailable_database_delays_no_request_and_gets_the_queued_events_later() {
        let metrics = Metrics::new(Timestamp(0), &[]);
        let (audit, writer) = Audit::with_writer(metrics.clone(), 10);
        let (shelf, stop) = (Arc::new(Shelf::default()), CancellationToken::new());
        shelf.is_away.store(true, Ordering::SeqCst);
        let tasks = TaskTracker::new();
        let writing = tasks.spawn(writer.run(Arc::clone(&shelf) as _, stop.clone()));
        // `note` never waits. After a flood of refusals, a change still gets a reserved slot.
        for number in 0..2 * WAITING_MAX {
            audit.note(event(AuditKind::Refusal, number));
        }
        audit.note(event(AuditKind::Change, 0));
        let kept = WAITING_MAX - RESERVED;
        let lost = 2 * WAITING_MAX - kept;
        assert_eq!(dropped(&metrics), format!("recapd_audit_dropped_total {lost}"));
        sleep(10 * RETRY).await;
        shelf.is_away.store(false, Ordering::SeqCst);
        sleep(10 * RETRY).await;
        stop.cancel();
        writing.await.unwrap();
        let events = shelf.events.lock().unwrap();
        assert_eq!(events.len(), kept + 1);
        assert_eq!(events.last().map(|event| event.kind), Some(AuditKind::Change));
    }

    #[tokio::test(start_paused = true)]
    async fn the_writer_writes_all_queued_events_before_it_stops() {
        let metrics = Metrics::new(Timestamp(0), &[]);
        let (audit, writer) = Audit::with_writer(metrics, 10);
        let (shelf, stop) = (Arc::new(Shelf::default()), CancellationToken::new());
        for number in 0..2 * BATCH_MAX {
            audit.note(event(AuditKind::Change, number));
        }
        stop.cancel();
        writer.run(Arc::clone(&shelf) as _, stop).await;
        assert_eq!(shelf.events.lock().unwrap().len(), 2 * BATCH_MAX);
    }
}
