//! What happens to requests and copies in the proxy.

labels! {
    ProxyOutcome as "outcome" {
        /// The request passed, and both sides are stored.
        Observed = "observed",
        /// The request passed, with the summary in place of what has left the window.
        Windowed = "windowed",
        /// The request passed unread, or isn't part of a conversation.
        Passed = "passed",
        /// The proxy answered a compaction.
        Answered = "answered",
        /// The proxy refused the request.
        Refused = "refused",
        /// The provider gave no answer.
        Failed = "failed",
    }
}

labels! {
    Unstored as "reason" {
        /// Too many copies wait.
        Full = "full",
        TooLong = "too_long",
        Unreadable = "unreadable",
        /// The daemon refused the copy.
        Refused = "refused",
        DaemonAway = "daemon_away",
    }
}

labels! {
    CompactionOutcome as "outcome" {
        Answered = "answered",
        /// A model answers the compaction.
        Forwarded = "forwarded",
    }
}
