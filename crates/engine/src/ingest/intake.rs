//! Moves messages that agents inserted by SQL from the inbox to the archive, in order.
//!
//! The transaction that appends a row also removes it from the inbox. A row that can't be appended now waits, and so do all later
//! rows of its agent. A row that can never be appended is moved aside as refused, so that the other rows can continue.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{AppendSource, Ingestor};
use recapd_core::{
    domain::{agent::AgentId, message::Message},
    formats::{self, Row},
};
use recapd_platform::threads;
use recapd_store::{
    StoreError, StoreResult,
    inbox::{ChangeListener, InboxFigures, InboxRow, InboxStore, RefusedRow},
};
use recapd_telemetry::metrics::{InboxSample, labels::InboxRefusal};

/// How often the inbox is read without a listener, as on SQLite, which doesn't notify of inserts.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How often the inbox is read beside a listener, because a notice of an insert may be lost.
const LISTENER_POLL_INTERVAL: Duration = Duration::from_mins(1);
/// Limits the rows that are read at once.
const ROWS_MAX: i64 = 500;
/// Limits the bytes of texts that are read at once. The first row is read whatever its size.
const BYTES_MAX: i64 = 4_000_000;
const CLIENT_ID_BYTES_MAX: usize = 256;

impl Ingestor {
    /// Appends the messages of the inbox until `stop`.
    pub async fn ingest_inbox(&self, inbox: Arc<dyn InboxStore>, stop: CancellationToken) {
        let mut listener = None;
        loop {
            // Listens before it reads, so that it misses no insert in between.
            if listener.is_none() {
                listener = listener_or_warn(inbox.inbox_listener().await);
            }
            match self.empty_inbox(&inbox, &stop).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => warn!(%error, "inbox.not_taken"),
            }
            let interval = if listener.is_some() { LISTENER_POLL_INTERVAL } else { POLL_INTERVAL };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
                is_lost = wait_for_insert(&mut listener) => if is_lost { listener = None },
            }
        }
    }

    /// Appends the rows that wait now. A row that can't be appended waits, and so do all later rows of its agent. Returns true if
    /// the caller should call again at once, because another daemon took a row, or a row with a lower number was committed after
    /// its page was read.
    ///
    /// # Errors
    /// When the inbox can't be read, or the database is unavailable for two agents in succession. What was appended before stays.
    pub async fn empty_inbox(
        &self,
        inbox: &Arc<dyn InboxStore>,
        stop: &CancellationToken,
    ) -> StoreResult<bool> {
        let pass = self.pass(inbox, stop).await;
        // Samples after a failed pass, too, so that the metrics show what still waits.
        let sampled = self.sample_inbox(inbox).await;
        let must_repeat = pass?;
        sampled?;
        Ok(must_repeat && !stop.is_cancelled())
    }

    /// Reads all waiting rows once and appends them. Returns true as [`Self::empty_inbox`] does.
    async fn pass(&self, inbox: &Arc<dyn InboxStore>, stop: &CancellationToken) -> StoreResult<bool> {
        let (mut after, mut must_repeat) = (0, false);
        // If a row can't be appended, the later rows of the same agent wait.
        let mut waiting_agents = HashSet::new();
        let mut was_unavailable = false;
        while !stop.is_cancelled() {
            let rows = inbox.waiting(after, ROWS_MAX, BYTES_MAX).await;
            let rows = rows.inspect_err(|error| self.metrics.service.db_failed(error.class()))?;
            let Some(newest) = rows.last() else { break };
            after = newest.id;
            for (name, rows) in group_by_agent(rows) {
                if stop.is_cancelled() || waiting_agents.contains(&name) {
                    continue;
                }
                match self.take_rows(inbox, &name, rows).await {
                    Ok(()) => was_unavailable = false,
                    // After two such failures in succession the whole database is unavailable. One may concern this agent alone.
                    Err(error @ StoreError::Unavailable(_)) if was_unavailable => return Err(error),
                    Err(error) => {
                        was_unavailable = matches!(error, StoreError::Unavailable(_));
                        must_repeat |= matches!(error, StoreError::Fenced(_));
                        log_waiting_rows(&name, &error);
                        waiting_agents.insert(name);
                    }
                }
            }
        }
        Ok(must_repeat)
    }

    async fn sample_inbox(&self, inbox: &Arc<dyn InboxStore>) -> StoreResult<()> {
        let InboxFigures { waiting, oldest_at, refused } = inbox.inbox_figures().await?;
        let sample = InboxSample { waiting, oldest_at, refused };
        self.metrics.inbox.sampled(&sample);
        Ok(())
    }

    /// Appends the rows of one agent. Moves aside those that can never be appended.
    async fn take_rows(
        &self,
        inbox: &Arc<dyn InboxStore>,
        name: &str,
        rows: Vec<InboxRow>,
    ) -> StoreResult<()> {
        let agent: AgentId = match name.parse() {
            Ok(agent) => agent,
            Err(error) => {
                let refused = rows.iter().map(|row| refused_row(row, error.to_string()));
                let refused = refused.collect();
                return self.move_aside(inbox, InboxRefusal::Agent, refused).await;
            }
        };
        let (mut good, mut bad, mut defects) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            match threads::computed_here("reading a message", || message(&row)) {
                Ok(Ok(message)) => good.push((row.id, message)),
                Ok(Err(reason)) => bad.push(refused_row(&row, reason)),
                Err(panicked) => defects.push(refused_row(&row, panicked.to_string())),
            }
        }
        self.move_aside(inbox, InboxRefusal::Message, bad).await?;
        self.move_aside(inbox, InboxRefusal::Defect, defects).await?;
        if good.is_empty() {
            return Ok(());
        }
        match self.take(inbox, &agent, &good).await {
            Err(error) if refusal(&error).is_some() => self.take_one_by_one(inbox, &agent, good).await,
            result => result,
        }
    }

    /// Appends the rows one by one, after one of them made the whole append fail.
    async fn take_one_by_one(
        &self,
        inbox: &Arc<dyn InboxStore>,
        agent: &AgentId,
        rows: Vec<(i64, Message)>,
    ) -> StoreResult<()> {
        for row in rows {
            let id = row.0;
            if let Err(error) = self.take(inbox, agent, &[row]).await {
                let Some(reason) = refusal(&error) else {
                    return Err(error);
                };
                let refused = RefusedRow { id, reason: error.to_string(), not_utf8: None };
                self.move_aside(inbox, reason, vec![refused]).await?;
            }
        }
        Ok(())
    }

    async fn take(
        &self,
        inbox: &Arc<dyn InboxStore>,
        agent: &AgentId,
        rows: &[(i64, Message)],
    ) -> StoreResult<()> {
        let messages = rows.iter().map(|(_, message)| message.clone()).collect();
        let request = self.count_request(agent, messages, false).await?;
        let ids = rows.iter().map(|(id, _)| *id).collect();
        let source = AppendSource::Inbox(Arc::clone(inbox), ids);
        self.append_counted(request, source).await?;
        self.metrics.inbox.taken(rows.len());
        Ok(())
    }

    async fn move_aside(
        &self,
        inbox: &Arc<dyn InboxStore>,
        reason: InboxRefusal,
        rows: Vec<RefusedRow>,
    ) -> StoreResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        for RefusedRow { id, reason, .. } in &rows {
            info!(row = id, reason, "inbox.refused");
        }
        let refused = inbox.refuse(rows, self.clock.now()).await?;
        self.metrics.inbox.refused(reason, refused);
        Ok(())
    }
}

/// Logs why an agent's rows wait. If another daemon was faster, that is normal, and the log level is DEBUG.
fn log_waiting_rows(agent_id: &str, error: &StoreError) {
    if matches!(error, StoreError::Fenced(_)) {
        debug!(agent_id, %error, "inbox.held");
    } else {
        warn!(agent_id, %error, "inbox.held");
    }
}

fn listener_or_warn(listener: StoreResult<Box<dyn ChangeListener>>) -> Option<Box<dyn ChangeListener>> {
    listener.inspect_err(|error| warn!(%error, "inbox.no_bell")).ok()
}

/// Waits for a notice of an insert; without a listener, waits forever. Returns true if the listener is lost.
async fn wait_for_insert(listener: &mut Option<Box<dyn ChangeListener>>) -> bool {
    match listener {
        None => std::future::pending().await,
        Some(listener) => {
            listener.wait_for_change().await.inspect_err(|error| warn!(%error, "inbox.bell_lost")).is_err()
        }
    }
}

/// Groups the rows by agent. The groups keep the order of their rows and are in the order of their first rows.
fn group_by_agent(rows: Vec<InboxRow>) -> Vec<(String, Vec<InboxRow>)> {
    let mut agents: Vec<(String, Vec<InboxRow>)> = Vec::new();
    let mut indices = HashMap::new();
    for row in rows {
        let name = row.agent.clone().unwrap_or_default();
        let index = *indices.entry(name.clone()).or_insert(agents.len());
        match agents.get_mut(index) {
            Some((_, rows)) => rows.push(row),
            None => agents.push((name, vec![row])),
        }
    }
    agents
}

fn refused_row(row: &InboxRow, reason: String) -> RefusedRow {
    RefusedRow { id: row.id, reason, not_utf8: row.not_utf8 }
}

fn message(row: &InboxRow) -> Result<Message, String> {
    if let Some(column) = row.not_utf8 {
        return Err(format!("{column} is no UTF-8; insert it anew as UTF-8 (kept here in hexadecimal)"));
    }
    if row.client_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > CLIENT_ID_BYTES_MAX) {
        return Err(format!(
            "client_id must have 1 to {CLIENT_ID_BYTES_MAX} bytes; shorten it, or give none"
        ));
    }
    // PostgreSQL refuses such a time at the insert. SQLite accepts any number that is as close to 1970 as the year 9999.
    if row.said_at.is_some_and(|at| at.in_calendar().is_none()) {
        let reason = "created_at is no time between the years 1 and 9999; say when it was said, or give none";
        return Err(reason.to_owned());
    }
    let read = formats::read_row(Row {
        role: row.role.as_deref(),
        content: row.content.as_deref(),
        format: row.format.as_deref(),
        speaker: row.speaker.as_deref(),
    });
    let message = read.map_err(|error| error.to_string())?;
    Ok(Message {
        client_id: row.client_id.clone().or_else(|| message.client_id.clone()),
        at: row.said_at.or(message.at).or(Some(row.received_at)),
        ..message
    })
}

/// Returns why a row can never be appended. Returns `None` for a temporary error, or one with another cause than the row.
fn refusal(error: &StoreError) -> Option<InboxRefusal> {
    match error {
        StoreError::ClientIdReused(_) => Some(InboxRefusal::ClientId),
        StoreError::WouldOverflow(_) => Some(InboxRefusal::Overflow),
        StoreError::PinsFull { .. } => Some(InboxRefusal::Pins),
        StoreError::NoteChanged { .. } | StoreError::NotesFull => Some(InboxRefusal::Notes),
        StoreError::Refused(_) => Some(InboxRefusal::Database),
        StoreError::Panicked(_) => Some(InboxRefusal::Defect),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::atomic::{AtomicBool, Ordering},
    };

    use tracing::Level;

    use super::*;
    use recapd_store::Fence;

    fn is_warning(error: &StoreError) -> bool {
        let is_logged = Arc::new(AtomicBool::new(false));
        let writer = {
            let is_logged = Arc::clone(&is_logged);
            move || {
                is_logged.store(true, Ordering::SeqCst);
                io::sink()
            }
        };
        let subscriber = tracing_subscriber::fmt().with_max_level(Level::WARN).with_writer(writer).finish();
        tracing::subscriber::with_default(subscriber, || log_waiting_rows("coder", error));
        is_logged.load(Ordering::SeqCst)
    }

    #[test]
    fn losing_a_row_to_a_faster_daemon_is_no_warning() {
        assert!(!is_warning(&StoreError::Fenced(Fence::Inbox)));
        assert!(is_warning(&StoreError::Unavailable("it took too long".into())));
    }
}
