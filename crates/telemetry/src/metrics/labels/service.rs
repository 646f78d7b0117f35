//! The daemon itself: requests, database, log, traces.

labels! {
    Method {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
        Other = "other",
    }
}

labels! {
    ConnectionState {
        Idle = "idle",
        InUse = "in_use",
    }
}

labels! {
    DbErrorClass {
        /// Locked by someone else for too long.
        Busy = "busy",
        /// A constraint was violated: a defect.
        Constraint = "constraint",
        Corrupt = "corrupt",
        Full = "full",
        /// Input or output failed, or the connection.
        Io = "io",
        Other = "other",
    }
}

labels! {
    /// The severity of a logged event.
    LogLevel {
        /// Something is wrong, but doesn't stop the work.
        Warn = "warn",
        Error = "error",
        /// An operator must act.
        Alert = "alert",
    }
}

labels! {
    SpanOutcome {
        Sent = "sent",
        /// The collector refused it, or the queue was full.
        Lost = "lost",
    }
}
