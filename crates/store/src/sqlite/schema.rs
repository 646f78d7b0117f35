//! SQLite's migrations, compiled in.

/// Version, name and SQL of each migration, in order.
pub(crate) const MIGRATIONS: [(i64, &str, &str); 30] = [
    (
        1,
        "schema",
        include_str!("../../migrations/sqlite/0001_schema.sql"),
    ),
    (
        2,
        "lineage",
        include_str!("../../migrations/sqlite/0002_lineage.sql"),
    ),
    (3, "pins", include_str!("../../migrations/sqlite/0003_pins.sql")),
    (
        4,
        "counts",
        include_str!("../../migrations/sqlite/0004_counts.sql"),
    ),
    (5, "forks", include_str!("../../migrations/sqlite/0005_forks.sql")),
    (7, "spend", include_str!("../../migrations/sqlite/0007_spend.sql")),
    (
        8,
        "versions",
        include_str!("../../migrations/sqlite/0008_versions.sql"),
    ),
    (
        9,
        "recall",
        include_str!("../../migrations/sqlite/0009_recall.sql"),
    ),
    (
        10,
        "batches",
        include_str!("../../migrations/sqlite/0010_batches.sql"),
    ),
    (
        11,
        "direct sql",
        include_str!("../../migrations/sqlite/0011_direct_sql.sql"),
    ),
    (
        12,
        "fairness",
        include_str!("../../migrations/sqlite/0012_fairness.sql"),
    ),
    (
        13,
        "queue pauses",
        include_str!("../../migrations/sqlite/0013_queue_pauses.sql"),
    ),
    (
        14,
        "access tokens",
        include_str!("../../migrations/sqlite/0014_access_tokens.sql"),
    ),
    (
        15,
        "idempotency keys",
        include_str!("../../migrations/sqlite/0015_idempotency.sql"),
    ),
    (
        16,
        "firings",
        include_str!("../../migrations/sqlite/0016_firings.sql"),
    ),
    (
        17,
        "batch tokens",
        include_str!("../../migrations/sqlite/0017_batch_tokens.sql"),
    ),
    (
        18,
        "pending exchanges",
        include_str!("../../migrations/sqlite/0018_pending.sql"),
    ),
    (
        19,
        "half an emoji",
        include_str!("../../migrations/sqlite/0019_half_emoji.sql"),
    ),
    (
        20,
        "digests",
        include_str!("../../migrations/sqlite/0020_digest.sql"),
    ),
    (
        21,
        "eviction reach",
        include_str!("../../migrations/sqlite/0021_eviction_reach.sql"),
    ),
    (22, "legs", include_str!("../../migrations/sqlite/0022_legs.sql")),
    (
        23,
        "facts",
        include_str!("../../migrations/sqlite/0023_facts.sql"),
    ),
    (
        24,
        "audit",
        include_str!("../../migrations/sqlite/0024_audit.sql"),
    ),
    (
        25,
        "pieces",
        include_str!("../../migrations/sqlite/0025_pieces.sql"),
    ),
    (
        26,
        "seals",
        include_str!("../../migrations/sqlite/0026_seals.sql"),
    ),
    (
        27,
        "recall words",
        include_str!("../../migrations/sqlite/0027_recall_words.sql"),
    ),
    (
        28,
        "notes",
        include_str!("../../migrations/sqlite/0028_notes.sql"),
    ),
    (
        29,
        "recall vectors",
        include_str!("../../migrations/sqlite/0029_recall_vectors.sql"),
    ),
    (
        31,
        "withdrawals",
        include_str!("../../migrations/sqlite/0031_withdrawals.sql"),
    ),
    (
        32,
        "proxy traffic",
        include_str!("../../migrations/sqlite/0032_proxy_traffic.sql"),
    ),
];
