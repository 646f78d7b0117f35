//! PostgreSQL's migrations, compiled in.

/// Version, name and SQL of each migration, in order.
pub(crate) const MIGRATIONS: [(i64, &str, &str); 24] = [
    (1, "schema", include_str!("../../migrations/postgres/0001_schema.sql")),
    (2, "direct sql", include_str!("../../migrations/postgres/0002_direct_sql.sql")),
    (3, "notices", include_str!("../../migrations/postgres/0003_notices.sql")),
    (4, "fairness", include_str!("../../migrations/postgres/0004_fairness.sql")),
    (5, "queue pauses", include_str!("../../migrations/postgres/0005_queue_pauses.sql")),
    (6, "item ranges", include_str!("../../migrations/postgres/0006_item_ranges.sql")),
    (7, "access tokens", include_str!("../../migrations/postgres/0007_access_tokens.sql")),
    (8, "idempotency keys", include_str!("../../migrations/postgres/0008_idempotency.sql")),
    (9, "firings", include_str!("../../migrations/postgres/0009_firings.sql")),
    (10, "batch tokens", include_str!("../../migrations/postgres/0010_batch_tokens.sql")),
    (11, "pending exchanges", include_str!("../../migrations/postgres/0011_pending.sql")),
    (12, "digests", include_str!("../../migrations/postgres/0012_digest.sql")),
    (13, "eviction reach", include_str!("../../migrations/postgres/0013_eviction_reach.sql")),
    (14, "legs", include_str!("../../migrations/postgres/0014_legs.sql")),
    (15, "facts", include_str!("../../migrations/postgres/0015_facts.sql")),
    (16, "definer", include_str!("../../migrations/postgres/0016_definer.sql")),
    (17, "audit", include_str!("../../migrations/postgres/0017_audit.sql")),
    (18, "pieces", include_str!("../../migrations/postgres/0018_pieces.sql")),
    (19, "seals", include_str!("../../migrations/postgres/0019_seals.sql")),
    (20, "recall words", include_str!("../../migrations/postgres/0020_recall_words.sql")),
    (21, "notes", include_str!("../../migrations/postgres/0021_notes.sql")),
    (22, "recall vectors", include_str!("../../migrations/postgres/0022_recall_vectors.sql")),
    (24, "withdrawals", include_str!("../../migrations/postgres/0024_withdrawals.sql")),
    (25, "proxy traffic", include_str!("../../migrations/postgres/0025_proxy_traffic.sql")),
];
