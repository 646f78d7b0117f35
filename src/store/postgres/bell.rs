//! Hears the notification that an insert into `messages` sends with its commit.

use async_trait::async_trait;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};

use super::super::{StoreResult, inbox::Bell};

/// What the view's trigger notifies.
const CHANNEL: &str = "recapd_inbox";

/// A bell over a connection of its own, which is made again when it is lost.
pub(super) struct Notification {
    listener: PgListener,
    _pool: PgPool,
}

impl Notification {
    /// Rings for commits from now on.
    pub(super) async fn listen(options: &PgConnectOptions) -> StoreResult<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect_with(options.clone())
            .await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        Ok(Self {
            listener,
            _pool: pool,
        })
    }
}

#[async_trait]
impl Bell for Notification {
    async fn rung(&mut self) -> StoreResult<()> {
        // None: the connection was lost, and with it perhaps a notification.
        self.listener.try_recv().await?;
        while self.listener.next_buffered().is_some() {}
        Ok(())
    }
}
