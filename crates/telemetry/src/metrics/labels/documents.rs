//! Summaries: changes of items, reads, outcomes of cron jobs.

labels! {
    /// A change of a summary's item.
    ItemAction as "action" {
        Added = "added",
        Merged = "merged",
        /// Shown in a shorter text.
        Condensed = "condensed",
        Moved = "moved",
        Dropped = "dropped",
    }
}

labels! {
    ReadVia {
        Http = "http",
        Mcp = "mcp",
        Hook = "hook",
        Cli = "cli",
    }
}

labels! {
    ReadResult {
        Hit = "hit",
        NotModified = "not_modified",
        Empty = "empty",
        /// The last copy, because the database is unavailable.
        Stale = "stale",
        /// Nothing, because the database is unavailable.
        Unavailable = "unavailable",
    }
}

labels! {
    RunOutcome as "outcome" {
        Completed = "completed",
        Failed = "failed",
    }
}
