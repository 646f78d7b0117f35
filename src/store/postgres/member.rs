//! A daemon among others on one database: it holds its name, and hears what the others do.
//!
//! Both hang on one connection of its own. The name is held by an advisory lock, which the server lets go with the
//! connection, however the daemon ends: so a restarted daemon has its name, and with it its leases, at once, and two
//! daemons of one name can't take each other's. What is told while the connection is away is lost, and whoever hears has
//! to look again at everything.

use std::time::Duration;

use sqlx::{
    Row as _,
    postgres::{PgConnectOptions, PgListener},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    super::{StoreError, StoreResult},
    listener,
};
use crate::domain::agent::AgentId;

/// Tells that a row of the queue can be claimed.
const QUEUE: &str = "recapd_queue";
/// Tells that what readers of an agent's summary see has changed.
const AGENT: &str = "recapd_agent";
/// A silent connection is asked so often whether it is alive, and has as long to answer.
pub const PULSE: Duration = Duration::from_secs(5);
/// How long a daemon waits for its name: the server may not have heard yet that an earlier life ended, or a connection.
const NAME_PATIENCE: Duration = Duration::from_secs(3);
/// How often it tries meanwhile.
const NAME_TRY_EVERY: Duration = Duration::from_millis(50);
/// The first wait before a lost connection is tried again; each further one is twice as long.
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
/// No wait is longer: work begins again within seconds when the server is back.
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// What a daemon hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Something in the queue can be claimed.
    Queue,
    /// What readers of this agent's summary see has changed.
    Agent(AgentId),
    /// Nothing is heard any more, and why.
    Lost(String),
    /// It hears again, and has missed whatever was told meanwhile.
    Back {
        /// Whether it has its name again. If not, another daemon has taken it.
        has_name: bool,
    },
}

/// A daemon's place among the others.
pub struct Member {
    options: PgConnectOptions,
    owner: String,
    listener: Option<PgListener>,
    wait: Duration,
}

impl Member {
    /// Takes the name `owner`, and begins to hear.
    pub(super) async fn join(options: &PgConnectOptions, owner: &str) -> StoreResult<Self> {
        // The server finds out in half a minute that a machine is gone, and with it who held the name.
        let options = options.clone().application_name("recapd member").options([
            ("tcp_keepalives_idle", "10"),
            ("tcp_keepalives_interval", "5"),
            ("tcp_keepalives_count", "4"),
        ]);
        let mut listener = listen(&options).await?;
        let named = timeout(NAME_PATIENCE, async {
            while !take_name(&mut listener, owner).await? {
                sleep(NAME_TRY_EVERY).await;
            }
            Ok::<_, sqlx::Error>(())
        });
        match named.await {
            Ok(named) => named?,
            Err(_) => return Err(StoreError::InUse(format!("the name `{owner}` (queue.owner)"))),
        }
        Ok(Self {
            options,
            owner: owner.to_owned(),
            listener: Some(listener),
            wait: RECONNECT_FIRST,
        })
    }

    /// The next thing that is heard. A call may be given up; what it hasn't returned comes with the next one.
    pub async fn hear(&mut self) -> Heard {
        loop {
            let Some(listener) = &mut self.listener else {
                match self.reconnect().await {
                    Ok(has_name) => return Heard::Back { has_name },
                    Err(error) => {
                        let wait = self.wait;
                        self.wait = (wait * 2).min(RECONNECT_MAX);
                        sleep(wait).await;
                        return Heard::Lost(error.to_string());
                    }
                }
            };
            let lost = match timeout(PULSE, listener.try_recv()).await {
                Ok(Ok(Some(notice))) => match read(notice.channel(), notice.payload()) {
                    Some(heard) => return heard,
                    None => continue,
                },
                Ok(Ok(None)) => "the connection was closed".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => match timeout(PULSE, is_alive(listener)).await {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => format!("no answer within {} s", PULSE.as_secs()),
                },
            };
            self.listener = None;
            self.wait = RECONNECT_FIRST;
            return Heard::Lost(lost);
        }
    }

    async fn reconnect(&mut self) -> Result<bool, sqlx::Error> {
        let mut listener = listen(&self.options).await?;
        let patience = Instant::now() + NAME_PATIENCE;
        let mut has_name = take_name(&mut listener, &self.owner).await?;
        // The server may not be done with the connection that was lost, which has the name until then.
        while !has_name && Instant::now() < patience {
            sleep(NAME_TRY_EVERY).await;
            has_name = take_name(&mut listener, &self.owner).await?;
        }
        self.listener = Some(listener);
        Ok(has_name)
    }
}

/// A connection that hears what others do.
async fn listen(options: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let mut listener = listener(options, &[QUEUE, AGENT]).await?;
    // A gap has to be known.
    listener.eager_reconnect(false);
    Ok(listener)
}

async fn take_name(listener: &mut PgListener, owner: &str) -> Result<bool, sqlx::Error> {
    let sql =
        "-- postgres/member.take_name\nSELECT pg_try_advisory_lock(hashtextextended('recapd ' || $1, 0))";
    sqlx::query(sql).bind(owner).fetch_one(listener).await?.try_get(0)
}

async fn is_alive(listener: &mut PgListener) -> Result<(), sqlx::Error> {
    sqlx::query("-- postgres/member.is_alive\nSELECT 1")
        .execute(listener)
        .await
        .map(drop)
}

/// What a notice says; none if it isn't one of recapd's.
fn read(channel: &str, payload: &str) -> Option<Heard> {
    match channel {
        QUEUE => Some(Heard::Queue),
        AGENT => payload.parse().ok().map(Heard::Agent),
        _ => None,
    }
}
