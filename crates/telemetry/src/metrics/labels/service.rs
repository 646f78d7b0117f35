//! The daemon itself: requests, its database, its log and its traces.

labels! {
    /// The method of an HTTP request.
    Method {
        /// GET
        Get = "GET",
        /// HEAD
        Head = "HEAD",
        /// POST
        Post = "POST",
        /// PUT
        Put = "PUT",
        /// PATCH
        Patch = "PATCH",
        /// DELETE
        Delete = "DELETE",
        Other = "other",
    }
}

labels! {
    /// What a connection of the pool is doing.
    ConnectionState {
        /// Waits.
        Idle = "idle",
        /// Works.
        InUse = "in_use",
    }
}

labels! {
    /// What went wrong in the database.
    DbErrorClass {
        /// Locked by another for too long.
        Busy = "busy",
        /// A constraint was violated: a defect.
        Constraint = "constraint",
        /// What was read makes no sense.
        Corrupt = "corrupt",
        /// The disk is full.
        Full = "full",
        /// Reading or writing failed, or the connection.
        Io = "io",
        /// Anything else.
        Other = "other",
    }
}

labels! {
    /// How grave an event is that was logged.
    LogLevel {
        /// Something is wrong, and goes on all the same.
        Warn = "warn",
        /// Something failed.
        Error = "error",
        /// Somebody has to act.
        Alert = "alert",
    }
}

labels! {
    /// What became of a span of a trace.
    SpanOutcome {
        /// The collector took it.
        Sent = "sent",
        /// The collector didn't, or there was no place to wait in.
        Lost = "lost",
    }
}
