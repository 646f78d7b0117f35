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
    /// The state of a pooled connection.
    ConnectionState {
        Idle = "idle",
        InUse = "in_use",
    }
}

labels! {
    /// The class of a database error.
    DbErrorClass {
        /// Locked by someone else for too long.
        Busy = "busy",
        /// A constraint was violated: a defect.
        Constraint = "constraint",
        /// Stored data is invalid.
        Corrupt = "corrupt",
        /// The disk is full.
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
    /// The outcome of a trace's span.
    SpanOutcome {
        /// The collector accepted it.
        Sent = "sent",
        /// The collector refused it, or the queue was full.
        Lost = "lost",
    }
}
