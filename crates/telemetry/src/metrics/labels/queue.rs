//! The queue: polls, rows, leases, and the state of agents.

labels! {
    /// The result of a poll of the queue.
    ClaimResult {
        Found = "found",
        Empty = "empty",
        /// The database failed.
        Failed = "failed",
    }
}

labels! {
    QueueState {
        /// Can be claimed.
        Ready = "ready",
        /// Due later.
        Scheduled = "scheduled",
        /// Claimed.
        Running = "running",
        /// Failed too often.
        Parked = "parked",
    }
}

labels! {
    /// The result of a lease's renewal.
    RenewalResult {
        Renewed = "renewed",
        /// Another claim had taken the row.
        Lost = "lost",
        /// The database failed.
        Failed = "failed",
    }
}

labels! {
    AgentState {
        /// Has recent messages.
        Active = "active",
        /// Has no recent messages.
        Idle = "idle",
        /// Its updates wait for the next day, because a spending limit is used up.
        Paused = "paused",
        /// Its queue row is parked.
        Parked = "parked",
    }
}
