//! Reads from a standby if the result may be slightly stale. If the standby fails or doesn't have what is asked for, the caller
//! asks the primary. After a failure the standby isn't used for a while, so that not every reader waits for a standby that is
//! down.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};
use tracing::warn;

use super::{Clock, PostgresSettings, SNAPSHOT, options, pool_options, timed::TimedPool};
use crate::{
    StoreError, StoreResult,
    sql::{Connection, query, sql},
};

/// How long a read waits until the standby has begun a transaction for it.
pub const READ_PATIENCE_MS: u64 = 1_000;
/// How long a read on the standby may take, whatever other limits statements have.
const READ_MAX: Duration = Duration::from_secs(10);
/// How long the standby isn't used after a failure.
const REST: Duration = Duration::from_secs(5);

pub(crate) struct Replica {
    pool: TimedPool,
    lag_ms_max: u64,
    patience: Duration,
    clock: Clock,
    rest: Rest,
}

impl Replica {
    /// Connects only when it is first used, so that nobody waits for a standby to start.
    pub(super) fn of(settings: &PostgresSettings, url: &str) -> StoreResult<Self> {
        let patience = Duration::from_millis(settings.read_patience_ms);
        let pool = pool_options(settings, patience).connect_lazy_with(options(url)?);
        Ok(Self {
            pool: TimedPool::over(pool, settings.statement_timeout_ms),
            lag_ms_max: settings.read_lag_ms_max,
            patience,
            clock: settings.clock,
            rest: Rest::default(),
        })
    }

    /// Returns the standby's answer. Returns `None` while the standby rests after a failure, or if it isn't fit to answer.
    pub(crate) async fn read<T, F>(&self, read: impl FnOnce(Connection) -> F + Send) -> Option<T>
    where
        F: Future<Output = StoreResult<T>> + Send,
        T: Send,
    {
        if !self.rest.is_over(Instant::now()) {
            return None;
        }
        match self.try_read(read).await {
            Ok(answer) => return Some(answer),
            Err(Unfit::Unaware) => {}
            Err(unfit) => {
                warn!(reason = %unfit, "replica.away");
                self.rest.begin(Instant::now());
            }
        }
        None
    }

    async fn try_read<T, F>(&self, read: impl FnOnce(Connection) -> F + Send) -> Result<T, Unfit>
    where
        F: Future<Output = StoreResult<T>> + Send,
        T: Send,
    {
        let tx = timeout(self.patience, self.snapshot()).await??;
        timeout(READ_MAX, read(tx)).await?.map_err(|error| match error {
            StoreError::Unavailable(_) | StoreError::Contended(_) | StoreError::Schema(_) => {
                Unfit::Failing(error)
            }
            _ => Unfit::Unaware,
        })
    }

    /// Begins a reading transaction, if the standby follows closely enough.
    async fn snapshot(&self) -> Result<Connection, Unfit> {
        let tx = self.pool.begin(SNAPSHOT).await.map_err(StoreError::from)?;
        let mut tx = Connection::from(tx).with_clock(self.clock);
        let state = ReplicaState::of(&mut tx).await?;
        state.judge(self.lag_ms_max)?;
        Ok(tx)
    }

    pub(super) async fn close(self) {
        self.pool.close().await;
    }
}

/// How closely the standby follows the primary.
#[derive(Clone, Copy, Debug)]
struct ReplicaState {
    /// True if the server is a standby and receives the primary's log.
    follows: bool,
    /// How far the standby is behind what it has received; `None` if unknown.
    lag_ms: Option<i64>,
}

impl ReplicaState {
    /// Reads the state. A standby that has replayed everything it received isn't behind, even if that was long ago: nothing was
    /// written since.
    async fn of(tx: &mut Connection) -> StoreResult<Self> {
        let sql = sql!(
            "-- postgres/replica.state\nSELECT pg_is_in_recovery() AND EXISTS (SELECT 1 FROM pg_stat_wal_receiver), \
             CASE WHEN pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() THEN 0 ELSE \
             CAST(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000 AS bigint) END"
        );
        let row = query(sql).fetch_one(tx).await?;
        Ok(Self { follows: row.try_get(0)?, lag_ms: row.try_get(1)? })
    }

    fn judge(self, lag_ms_max: u64) -> Result<(), Unfit> {
        if !self.follows {
            return Err(Unfit::OnItsOwn);
        }
        // The clocks of two servers may differ, so a recent write may seem to be in the future.
        let lag_ms = self.lag_ms.map(|lag_ms| u64::try_from(lag_ms).unwrap_or_default());
        match lag_ms {
            Some(lag_ms) if lag_ms <= lag_ms_max => Ok(()),
            _ => Err(Unfit::Late(lag_ms)),
        }
    }
}

/// Why the standby can't answer.
#[derive(Debug)]
enum Unfit {
    /// It doesn't have what was asked for. The primary may have it.
    Unaware,
    /// It is no longer a standby, or receives nothing from the primary.
    OnItsOwn,
    /// It is this many milliseconds behind; `None` if unknown.
    Late(Option<u64>),
    /// It can't be reached, or it cancels reads in favour of its replay.
    Failing(StoreError),
    /// It doesn't answer in time.
    Slow,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unaware => f.write_str("it doesn't know what was asked for"),
            Self::OnItsOwn => f.write_str("it is no standby, or receives nothing from the other server"),
            Self::Late(Some(lag_ms)) => write!(f, "it is {lag_ms} ms behind (database.read_lag_ms_max)"),
            Self::Late(None) => f.write_str("it has replayed nothing of what it received"),
            Self::Failing(error) => error.fmt(f),
            Self::Slow => f.write_str("it doesn't answer in time"),
        }
    }
}

impl From<StoreError> for Unfit {
    fn from(error: StoreError) -> Self {
        Self::Failing(error)
    }
}

impl From<tokio::time::error::Elapsed> for Unfit {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Slow
    }
}

/// Until when the standby isn't used; `None` if it has never failed.
#[derive(Debug, Default)]
struct Rest(Mutex<Option<Instant>>);

impl Rest {
    fn begin(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now + REST);
    }

    fn is_over(&self, now: Instant) -> bool {
        let until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_none_or(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_standby_rests_for_a_while() {
        let (rest, now) = (Rest::default(), Instant::now());
        assert!(rest.is_over(now));
        rest.begin(now);
        assert!(!rest.is_over(now));
        assert!(!rest.is_over(now + REST / 2));
        assert!(rest.is_over(now + REST));
    }

    #[test]
    fn only_a_standby_that_follows_closely_is_used() {
        let judge = |follows, lag_ms| {
            let judged = ReplicaState { follows, lag_ms }.judge(1_000);
            judged.map_err(|unfit| unfit.to_string())
        };
        assert_eq!(judge(true, Some(0)), Ok(()));
        assert_eq!(judge(true, Some(1_000)), Ok(()));
        assert_eq!(judge(true, Some(-50)), Ok(()));
        for (follows, lag_ms, reason) in [
            (false, Some(0), "it is no standby, or receives nothing from the other server"),
            (true, Some(1_001), "it is 1001 ms behind (database.read_lag_ms_max)"),
            (true, None, "it has replayed nothing of what it received"),
        ] {
            assert_eq!(judge(follows, lag_ms), Err(reason.to_owned()));
        }
    }
}
