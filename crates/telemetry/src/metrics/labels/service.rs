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
    ConnectionState as "state" {
        Idle = "idle",
        InUse = "in_use",
    }
}

labels! {
    DbErrorClass as "class" {
        /// Other connections held the locks for too long.
        Busy = "busy",
        /// A constraint was violated, which is a bug.
        Constraint = "constraint",
        Corrupt = "corrupt",
        Full = "full",
        /// Input or output failed, or the connection did.
        Io = "io",
        Other = "other",
    }
}

labels! {
    /// The severity of a logged event.
    LogLevel as "level" {
        /// Something is wrong, but the work continues.
        Warn = "warn",
        Error = "error",
        /// An operator must act.
        Alert = "alert",
    }
}

labels! {
    SpanOutcome as "outcome" {
        Sent = "sent",
        /// The collector refused the span, or the queue was full.
        Lost = "lost",
    }
}
