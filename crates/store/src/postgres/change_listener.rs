//! Listens for the notification that an insert into `messages` sends when it commits.

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener};
use tokio::time::timeout;

use super::{
    super::{StoreError, StoreResult, inbox::ChangeListener},
    listener,
    member::{PULSE, check_alive},
};

/// The channel to which the view's trigger sends notifications.
const CHANNEL: &str = "recapd_inbox";

pub(super) struct Notification(PgListener);

impl Notification {
    /// Listens for commits from now on.
    pub(super) async fn listen(options: &PgConnectOptions) -> StoreResult<Self> {
        let mut listener = listener(options, &[], &[CHANNEL]).await?;
        // If the connection is lost, the caller must know that notifications were missed.
        listener.eager_reconnect(false);
        Ok(Self(listener))
    }
}

#[async_trait]
impl ChangeListener for Notification {
    async fn wait_for_change(&mut self) -> StoreResult<()> {
        // Without these checks, a firewall might silently drop an idle connection.
        let notice = loop {
            match timeout(PULSE, self.0.try_recv()).await {
                Ok(notice) => break notice,
                Err(_) => check_alive(&mut self.0).await?,
            }
        };
        let lost = || StoreError::Unavailable("the connection that hears of inserts was lost".into());
        notice?.ok_or_else(lost)?;
        while self.0.next_buffered().is_some() {}
        Ok(())
    }
}
