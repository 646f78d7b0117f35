//! The queue: polls, rows, leases, and the state of agents.

labels! {
    ClaimResult {
        Found = "found",
        Empty = "empty",
        Failed = "failed",
    }
}

labels! {
    QueueState {
        Ready = "ready",
        Scheduled = "scheduled",
        Running = "running",
        /// Failed too often.
        Parked = "parked",
    }
}

labels! {
    RenewalResult {
        Renewed = "renewed",
        /// Another claim had taken the row.
        Lost = "lost",
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
        Parked = "parked",
    }
}
