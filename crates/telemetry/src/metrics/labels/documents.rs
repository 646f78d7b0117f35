//! Summaries: changes of items, reads, outcomes of cron jobs.

labels! {
    /// A change of a summary's item.
    ItemAction {
        Added = "added",
        Merged = "merged",
        /// Shown in a shorter text.
        Condensed = "condensed",
        /// Moved to an older section.
        Moved = "moved",
        /// Removed from the summary.
        Dropped = "dropped",
    }
}

labels! {
    /// The interface by which a summary was read.
    ReadVia {
        Http = "http",
        Mcp = "mcp",
        Hook = "hook",
        Cli = "cli",
    }
}

labels! {
    /// The result of a read.
    ReadResult {
        /// The summary.
        Hit = "hit",
        NotModified = "not_modified",
        /// There is no summary yet.
        Empty = "empty",
        /// The last copy; the database is down.
        Stale = "stale",
        /// Nothing; the database is down.
        Unavailable = "unavailable",
    }
}

labels! {
    /// The outcome of a cron job.
    RunOutcome {
        Completed = "completed",
        Failed = "failed",
    }
}
