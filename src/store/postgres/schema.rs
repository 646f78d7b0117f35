//! The migrations.

/// The schema this recapd writes, one entry per migration.
pub(in crate::store) const MIGRATIONS: [(i64, &str, &str); 2] = [
    (
        1,
        "schema",
        include_str!("../../../migrations/postgres/0001_schema.sql"),
    ),
    (
        3,
        "notices",
        include_str!("../../../migrations/postgres/0003_notices.sql"),
    ),
];
