//! Waits for an unreachable database server while a daemon starts.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use recapd_config::DatabaseConfig;
use recapd_store::StoreError;

/// A start waits this long for the server. Then it fails, and whoever started the daemon decides.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);
/// The wait before the first retry. It doubles with each retry.
const SERVER_WAIT_FIRST: Duration = Duration::from_millis(100);
const SERVER_WAIT_MAX: Duration = Duration::from_secs(2);

/// Runs `attempt`. Retries it while the database server is unreachable: the server may be starting, too, or may have
/// broken connections by a restart.
pub(super) async fn patiently<T, F>(
    config: &DatabaseConfig,
    mut attempt: impl FnMut() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let deadline = Instant::now() + SERVER_PATIENCE;
    let mut wait = SERVER_WAIT_FIRST;
    loop {
        match attempt().await {
            Err(StoreError::Unavailable(outage))
                if config.is_postgres() && Instant::now() + wait < deadline =>
            {
                warn!(database = %config.url, reason = %outage, "database.away");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(SERVER_WAIT_MAX);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Starts with a server that answers from the try `answers_from` on. Returns the number of the successful try, and the
    /// time.
    async fn start(url: &str, answers_from: u32) -> (Result<u32, StoreError>, Duration) {
        let (begun, tries) = (Instant::now(), AtomicU32::new(0));
        let config = DatabaseConfig { url: url.to_owned(), ..recapd_config::Config::default().database };
        let done = patiently(&config, || async {
            let number = tries.fetch_add(1, Ordering::Relaxed) + 1;
            if number < answers_from {
                return Err(StoreError::Unavailable("the connection was reset".into()));
            }
            Ok(number)
        });
        (done.await, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_retried_for_a_limited_time_and_a_file_is_not() {
        let server = "postgres://recapd@db/recapd";
        let (done, after) = start(server, 4).await;
        assert_eq!((done.unwrap(), after), (4, Duration::from_millis(700)));
        let (failed, after) = start(server, u32::MAX).await;
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
        assert!(after <= SERVER_PATIENCE && SERVER_PATIENCE <= after + SERVER_WAIT_MAX, "{after:?}");
        let (failed, after) = start("sqlite:a.db", 2).await;
        assert!(failed.is_err() && after.is_zero());
    }
}
