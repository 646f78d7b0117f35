//! The queue: polls, rows, leases, and the state of agents.

labels! {
    ClaimResult as "result" {
        Found = "found",
        Empty = "empty",
        Failed = "failed",
    }
}

labels! {
    QueueState as "state" {
        Ready = "ready",
        Scheduled = "scheduled",
        Running = "running",
        /// The row failed too often.
        Parked = "parked",
    }
}

labels! {
    RenewalResult as "result" {
        Renewed = "renewed",
        /// Another claim had taken the row.
        Lost = "lost",
        Failed = "failed",
    }
}

labels! {
    AgentState as "state" {
        /// The agent has recent messages.
        Active = "active",
        /// The agent has no recent messages.
        Idle = "idle",
        /// The agent's updates wait for the next day, because a spending limit is used up.
        Paused = "paused",
        Parked = "parked",
    }
}
