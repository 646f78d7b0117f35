//! Fencing tokens, taken from the database in blocks.
//!
//! A block is durable before its first token is used, so no token comes twice, even if the server forgets a claim in a
//! crash. A sequence's next value is durable only with the commit that asked for it.

use sqlx::PgPool;
use tokio::sync::Mutex;

/// Tokens of a block; what is left of one when the process ends is never used.
const BLOCK: i64 = 10_000;

/// The tokens that are left of the current block.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<(i64, i64)>);

impl Tokens {
    /// The token before `count` tokens that are nobody else's.
    pub(crate) async fn take(&self, pool: &PgPool, count: i64) -> anyhow::Result<i64> {
        let mut block = self.0.lock().await;
        if block.1 - block.0 < count {
            let sql = "-- bench/tokens.block\nUPDATE counters SET value = value + $1 WHERE name = 'lease_token' \
                       RETURNING value";
            let end = sqlx::query_scalar(sql)
                .bind(BLOCK.max(count))
                .fetch_one(pool)
                .await?;
            *block = (end - BLOCK.max(count), end);
        }
        block.0 += count;
        Ok(block.0 - count)
    }
}
