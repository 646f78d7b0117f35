//! Hears the notification that an insert into `messages` sends with its commit.

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener};

use super::{
    super::{StoreResult, inbox::Bell},
    listener,
};

/// What the view's trigger notifies.
const CHANNEL: &str = "recapd_inbox";

/// A bell over a connection of its own, which is made again when it is lost.
pub(super) struct Notification(PgListener);

impl Notification {
    /// Rings for commits from now on.
    pub(super) async fn listen(options: &PgConnectOptions) -> StoreResult<Self> {
        Ok(Self(listener(options, &[CHANNEL]).await?))
    }
}

#[async_trait]
impl Bell for Notification {
    async fn rung(&mut self) -> StoreResult<()> {
        // None: the connection was lost, and with it perhaps a notification.
        self.0.try_recv().await?;
        while self.0.next_buffered().is_some() {}
        Ok(())
    }
}
