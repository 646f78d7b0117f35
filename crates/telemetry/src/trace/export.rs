//! Sends spans to the collector in batches.

use std::{
    convert::Infallible,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::Value as Json;
use tokio::{
    sync::mpsc::Receiver,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{info, warn};

use super::{TraceSettings, layer::FinishedSpan, otlp};
use crate::metrics::{Metrics, labels::SpanOutcome};
use recapd_core::domain::number::usize_or_max;
use recapd_platform::http_client::{Endpoint, HttpClientError};

/// Limits the spans of one call. This is OpenTelemetry's default.
const BATCH_MAX: usize = 512;
const ATTEMPTS_MAX: u32 = 4;
/// The wait before the first retry. It doubles before each further retry.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// Limits the time to send the last spans when the daemon ends.
const FLUSH: Duration = Duration::from_secs(2);
/// The statuses after which a retry may help.
const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// Sends the spans that [`super::Spans`] recorded.
pub struct Exporter {
    endpoint: Endpoint,
    spans: Receiver<FinishedSpan>,
    batch: Vec<FinishedSpan>,
    lost_count: Arc<AtomicU64>,
    resource: Json,
    gather: Duration,
    is_failing: bool,
}

/// Why the collector didn't accept spans.
enum ExportRefusal {
    /// A retry may help.
    Retryable(String),
    /// A retry doesn't help.
    Final(String),
}

impl Exporter {
    pub(super) fn new(
        endpoint: Endpoint,
        spans: Receiver<FinishedSpan>,
        lost_count: Arc<AtomicU64>,
        settings: &TraceSettings,
    ) -> Self {
        Self {
            endpoint,
            spans,
            batch: Vec::new(),
            lost_count,
            resource: otlp::resource(settings),
            gather: Duration::from_millis(settings.gather_ms),
            is_failing: false,
        }
    }

    /// Sends spans as long as it is polled.
    pub async fn run(&mut self, metrics: &Metrics) -> Infallible {
        loop {
            self.gather().await;
            self.send(metrics).await;
        }
    }

    /// Sends the remaining spans within [`FLUSH`].
    pub async fn flush(mut self, metrics: &Metrics) {
        self.spans.close();
        let rest = async {
            loop {
                while self.batch.len() < BATCH_MAX {
                    match self.spans.recv().await {
                        Some(span) => self.batch.push(span),
                        None => break,
                    }
                }
                if self.batch.is_empty() {
                    return;
                }
                self.send(metrics).await;
            }
        };
        if timeout(FLUSH, rest).await.is_err() {
            warn!(spans = self.batch.len() + self.spans.len(), "trace.unsent");
        }
    }

    /// Waits for a span, and then a limited time for others, until the batch is full.
    async fn gather(&mut self) {
        while self.batch.is_empty() {
            match self.spans.recv().await {
                Some(span) => self.batch.push(span),
                // The layer is gone, so no further span comes.
                None => std::future::pending().await,
            }
        }
        let until = Instant::now() + self.gather;
        while self.batch.len() < BATCH_MAX {
            match timeout_at(until, self.spans.recv()).await {
                Ok(Some(span)) => self.batch.push(span),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Sends the batch. Its spans are lost if the collector refuses it for good, or [`ATTEMPTS_MAX`] times.
    async fn send(&mut self, metrics: &Metrics) {
        let mut wait = WAIT_FIRST;
        for attempt in 1..=ATTEMPTS_MAX {
            let reason = match self.post().await {
                Ok(()) => {
                    self.record_sent(metrics);
                    return;
                }
                Err(ExportRefusal::Retryable(why)) if attempt < ATTEMPTS_MAX => why,
                Err(ExportRefusal::Retryable(why) | ExportRefusal::Final(why)) => {
                    self.record_lost(&why, metrics);
                    return;
                }
            };
            self.log_failure(&reason);
            sleep(wait).await;
            wait *= 2;
        }
    }

    async fn post(&self) -> Result<(), ExportRefusal> {
        let body = otlp::body(&self.resource, &self.batch);
        let reply = self.endpoint.post(body).await.map_err(|error| match error {
            HttpClientError::Unsendable(why) | HttpClientError::Untrusted(why) => ExportRefusal::Final(why),
            other => ExportRefusal::Retryable(other.to_string()),
        })?;
        let status = reply.status.as_u16();
        match status {
            200..=299 => Ok(()),
            _ if RETRYABLE.contains(&status) => {
                Err(ExportRefusal::Retryable(format!("the collector answers {status}")))
            }
            _ => Err(ExportRefusal::Final(format!("the collector answers {status}"))),
        }
    }

    fn record_sent(&mut self, metrics: &Metrics) {
        metrics.service.spans(SpanOutcome::Sent, self.batch.len());
        self.batch.clear();
        self.count_lost(metrics);
        if std::mem::take(&mut self.is_failing) {
            info!("trace.export_recovered");
        }
    }

    fn record_lost(&mut self, why: &str, metrics: &Metrics) {
        self.log_failure(why);
        metrics.service.spans(SpanOutcome::Lost, self.batch.len());
        self.batch.clear();
        self.count_lost(metrics);
    }

    fn count_lost(&self, metrics: &Metrics) {
        let lost_count = usize_or_max(self.lost_count.swap(0, Relaxed));
        metrics.service.spans(SpanOutcome::Lost, lost_count);
    }

    /// Logs a failure once, until sending works again.
    fn log_failure(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            warn!(error = why, "trace.export_failed");
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}
