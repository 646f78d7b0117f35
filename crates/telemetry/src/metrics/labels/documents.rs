//! Summaries: what happens to their items, how they are read, how the jobs end that age them.

labels! {
    /// What happened to items of a summary.
    ItemAction {
        /// New.
        Added = "added",
        /// Joined with others.
        Merged = "merged",
        /// Shown by a shorter text.
        Condensed = "condensed",
        /// Moved to an older section.
        Moved = "moved",
        /// Left the summary.
        Dropped = "dropped",
    }
}

labels! {
    /// By which way a summary was read.
    ReadVia {
        Http = "http",
        /// Model context protocol.
        Mcp = "mcp",
        /// A hook of an agent.
        Hook = "hook",
        /// The command line.
        Cli = "cli",
    }
}

labels! {
    /// What a reader of a summary got.
    ReadResult {
        /// The summary.
        Hit = "hit",
        /// Nothing new.
        NotModified = "not_modified",
        /// There is none yet.
        Empty = "empty",
        /// The last copy; the database is down.
        Stale = "stale",
        /// Nothing; the database is down.
        Unavailable = "unavailable",
    }
}

labels! {
    /// How a run of a cron job ended.
    RunOutcome {
        /// Done.
        Completed = "completed",
        /// Not done.
        Failed = "failed",
    }
}
