//! The queue: its rows, looks at it, leases, and what the agents behind it are doing.

labels! {
    /// What a look at the queue brought.
    ClaimResult {
        /// Work.
        Found = "found",
        /// Nothing is due.
        Empty = "empty",
        /// The database failed.
        Failed = "failed",
    }
}

labels! {
    /// In which state a queue row is.
    QueueState {
        /// Can be claimed.
        Ready = "ready",
        /// Waits for its time.
        Scheduled = "scheduled",
        /// Is claimed.
        Running = "running",
        /// Has failed too often.
        Parked = "parked",
    }
}

labels! {
    /// How the renewal of a lease ended.
    RenewalResult {
        Renewed = "renewed",
        /// The lease belonged to somebody else by then.
        Lost = "lost",
        /// The database failed.
        Failed = "failed",
    }
}

labels! {
    /// What an agent is doing.
    AgentState {
        /// Had messages of late.
        Active = "active",
        /// Had none.
        Idle = "idle",
        /// Its updates wait for the next day, because a limit of spending is used up.
        Paused = "paused",
        /// Its queue row is parked.
        Parked = "parked",
    }
}
