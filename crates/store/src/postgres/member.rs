//! A daemon's membership among the daemons of one database: it holds the daemon's name, and receives the other daemons'
//! announcements.
//!
//! The name and the announcements use one separate connection. An advisory lock holds the name, and the server releases the lock
//! when the connection ends, however the daemon ends. So a restarted daemon gets its name and its leases back at once, and two
//! daemons with the same name can't take each other's leases. A daemon that reconnects and finds its name taken keeps trying:
//! after a network partition its own lost connection holds the name until the server notices the loss.
//!
//! While the connection is down, announcements are missed. When it is back, the daemon must check everything again.

use std::time::Duration;

use sqlx::{
    Row as _,
    postgres::{PgConnectOptions, PgListener},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    super::{StoreError, StoreResult},
    listener,
    timed::with_timeout,
};
use recapd_core::domain::agent::AgentId;

/// The channel that announces that a row of the queue can be claimed.
const QUEUE: &str = "recapd_queue";
/// The channel that announces that an agent has a changed summary for readers.
const AGENT: &str = "recapd_agent";
/// TCP settings by which the server notices within half a minute that a daemon's machine is gone: by unanswered probes or, if the
/// server has sent something, by the missing acknowledgement, for which it would otherwise wait a quarter of an hour.
const KEEPALIVES: [(&str, u64); 4] = [
    ("tcp_keepalives_idle", 10),
    ("tcp_keepalives_interval", 5),
    ("tcp_keepalives_count", 4),
    ("tcp_user_timeout", 15_000),
];
/// How often a silent connection is checked, and how long it may take to answer.
pub const PULSE: Duration = Duration::from_secs(5);
/// How long one attempt to take a name waits. The server may not have noticed yet that the previous holder is gone.
const NAME_PATIENCE: Duration = Duration::from_secs(3);
/// The pause between two tries within one attempt.
const NAME_TRY_EVERY: Duration = Duration::from_millis(50);
/// The wait before another attempt to take a name. It doubles each time.
const NAME_AGAIN_FIRST: Duration = Duration::from_secs(1);
/// Limits that wait. By then the server has noticed that a vanished holder is gone.
const NAME_AGAIN_MAX: Duration = Duration::from_secs(30);
/// The wait before reconnecting. It doubles each time.
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
/// Limits that wait, so that work resumes within seconds when the server is back.
const RECONNECT_MAX: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// A row of the queue can be claimed.
    Queue,
    /// This agent has a changed summary for readers.
    Agent(AgentId),
    /// The connection is lost, for this reason.
    Lost(String),
    /// The connection is restored. Announcements were missed.
    Back {
        /// False if another daemon has taken the name, or if the server still holds it for the lost connection.
        has_name: bool,
    },
    /// The daemon has its name again, after a reconnection without it.
    Named,
}

pub struct Member {
    options: PgConnectOptions,
    owner: String,
    listener: Option<PgListener>,
    /// The wait before the next attempt to reconnect, after one that failed.
    wait: Duration,
    /// The next attempt to take the name; `None` while the daemon has it.
    name_try: Option<NameTry>,
}

/// The next attempt to take a name that another connection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameTry {
    at: Instant,
    /// The wait before this attempt.
    wait: Duration,
}

impl NameTry {
    fn first(now: Instant) -> Self {
        Self::after(NAME_AGAIN_FIRST, now)
    }

    /// Returns the attempt after this one, which failed.
    fn next(self, now: Instant) -> Self {
        Self::after((self.wait * 2).min(NAME_AGAIN_MAX), now)
    }

    fn after(wait: Duration, now: Instant) -> Self {
        Self { at: now + wait, wait }
    }
}

impl Member {
    /// Takes the name `owner` and begins to listen for announcements.
    pub(super) async fn join(options: &PgConnectOptions, owner: &str) -> StoreResult<Self> {
        let options = options.clone().application_name("recapd member");
        let mut listener = listen(&options).await?;
        let naming = timeout(NAME_PATIENCE, async {
            while !take_name(&mut listener, owner).await? {
                sleep(NAME_TRY_EVERY).await;
            }
            Ok::<_, sqlx::Error>(())
        });
        match naming.await {
            Ok(result) => result?,
            Err(_) => return Err(StoreError::InUse(format!("the name `{owner}` (queue.owner)"))),
        }
        Ok(Self {
            options,
            owner: owner.to_owned(),
            listener: Some(listener),
            wait: RECONNECT_FIRST,
            name_try: None,
        })
    }

    /// Waits for the next announcement. Cancelling the call loses nothing.
    pub async fn hear(&mut self) -> PeerMessage {
        loop {
            let Some(listener) = &mut self.listener else {
                return self.reconnect_or_wait().await;
            };
            let now = Instant::now();
            let message = match self.name_try.filter(|due| due.at <= now) {
                // The name comes first. Otherwise it would never be tried while announcements come without a pause.
                Some(due) => {
                    let is_taken = take_name(listener, &self.owner).await;
                    is_taken.map_err(|error| error.to_string()).map(|has_name| {
                        self.name_try = (!has_name).then(|| due.next(Instant::now()));
                        has_name.then_some(PeerMessage::Named)
                    })
                }
                None => hear_for(listening_time(self.name_try, now), listener).await,
            };
            match message {
                Ok(Some(message)) => return message,
                Ok(None) => {}
                Err(lost) => {
                    self.listener = None;
                    self.wait = RECONNECT_FIRST;
                    return PeerMessage::Lost(lost);
                }
            }
        }
    }

    async fn reconnect_or_wait(&mut self) -> PeerMessage {
        match self.reconnect().await {
            Ok(has_name) => PeerMessage::Back { has_name },
            Err(error) => {
                let wait = self.wait;
                self.wait = (wait * 2).min(RECONNECT_MAX);
                sleep(wait).await;
                PeerMessage::Lost(error.to_string())
            }
        }
    }

    async fn reconnect(&mut self) -> Result<bool, sqlx::Error> {
        let mut listener = listen(&self.options).await?;
        let patience = Instant::now() + NAME_PATIENCE;
        let mut has_name = take_name(&mut listener, &self.owner).await?;
        // The server may hold the name for the lost connection for a moment.
        while !has_name && Instant::now() < patience {
            sleep(NAME_TRY_EVERY).await;
            has_name = take_name(&mut listener, &self.owner).await?;
        }
        self.listener = Some(listener);
        self.name_try = (!has_name).then(|| NameTry::first(Instant::now()));
        Ok(has_name)
    }
}

/// Opens a connection that receives the other daemons' announcements.
async fn listen(options: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let mut listener = listener(options, &KEEPALIVES, &[QUEUE, AGENT]).await?;
    // If the connection is lost, the caller must know that announcements were missed.
    listener.eager_reconnect(false);
    Ok(listener)
}

/// Returns how long to listen: until the next attempt to take the name or the next check of the connection.
fn listening_time(name_try: Option<NameTry>, now: Instant) -> Duration {
    name_try.map_or(PULSE, |due| due.at.saturating_duration_since(now).min(PULSE))
}

/// Listens for up to `time`. An error states why the connection was lost.
async fn hear_for(time: Duration, listener: &mut PgListener) -> Result<Option<PeerMessage>, String> {
    match timeout(time, listener.try_recv()).await {
        Ok(Ok(Some(notice))) => Ok(read(notice.channel(), notice.payload())),
        Ok(Ok(None)) => Err("the connection was closed".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        // The attempt to take the name comes next, and it also shows whether the connection is alive.
        Err(_) if time < PULSE => Ok(None),
        Err(_) => {
            let is_alive = check_alive(listener).await;
            is_alive.map(|()| None).map_err(|error| error.to_string())
        }
    }
}

async fn take_name(listener: &mut PgListener, owner: &str) -> Result<bool, sqlx::Error> {
    let sql =
        "-- postgres/member.take_name\nSELECT pg_try_advisory_lock(hashtextextended('recapd ' || $1, 0))";
    let attempt = sqlx::query(sql).bind(owner).fetch_one(listener);
    with_timeout(PULSE, attempt).await?.try_get(0)
}

pub(super) async fn check_alive(listener: &mut PgListener) -> Result<(), sqlx::Error> {
    let check = sqlx::query("-- postgres/member.is_alive\nSELECT 1").execute(listener);
    with_timeout(PULSE, check).await.map(drop)
}

/// Reads an announcement; `None` if it isn't one of recapd's.
fn read(channel: &str, payload: &str) -> Option<PeerMessage> {
    match channel {
        QUEUE => Some(PeerMessage::Queue),
        AGENT => payload.parse().ok().map(PeerMessage::Agent),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_retried_with_growing_pauses_for_ever() {
        let start = Instant::now();
        let mut due = NameTry::first(start);
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push(due.wait.as_secs());
            due = due.next(due.at);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(due.at, start + Duration::from_secs(121 + 30));
    }

    #[test]
    fn a_member_with_its_name_only_wakes_at_each_pulse() {
        let now = Instant::now();
        assert_eq!(listening_time(None, now), PULSE);
        let due = NameTry::first(now);
        assert_eq!(listening_time(Some(due), now), NAME_AGAIN_FIRST);
        assert_eq!(listening_time(Some(due), due.at + PULSE), Duration::ZERO);
        let late = NameTry::after(NAME_AGAIN_MAX, now);
        assert_eq!(
            listening_time(Some(late), now),
            PULSE,
            "checks of the connection come before the attempt"
        );
    }
}
