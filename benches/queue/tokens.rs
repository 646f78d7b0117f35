//! Fencing tokens, reserved in the database in blocks.
//!
//! A block is on disk before its first token is used, so no token repeats, even if a crash of the server loses a claim.
//! The next value of a sequence would be on disk only with the commit that took it.

use sqlx::PgPool;
use tokio::sync::Mutex;

/// The tokens of a block; when the process ends, the rest of its block stays unused.
const BLOCK: i64 = 10_000;

/// The unused tokens of the current block.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<(i64, i64)>);

impl Tokens {
    /// Reserves `count` tokens. Returns the number before the first of them.
    pub(crate) async fn take(&self, pool: &PgPool, count: i64) -> anyhow::Result<i64> {
        let mut block = self.0.lock().await;
        if block.1 - block.0 < count {
            let sql = "-- bench/tokens.block\nUPDATE counters SET value = value + $1 WHERE name = 'lease_token' \
                       RETURNING value";
            let end = sqlx::query_scalar(sql).bind(BLOCK.max(count)).fetch_one(pool).await?;
            *block = (end - BLOCK.max(count), end);
        }
        block.0 += count;
        Ok(block.0 - count)
    }
}
