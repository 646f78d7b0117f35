//! What becomes of requests and copies in the proxy.

labels! {
    ProxyOutcome {
        /// It passed, and both sides are stored.
        Observed = "observed",
        /// It passed with the summary in place of what has left the window.
        Windowed = "windowed",
        /// It passed unread, or is no part of a conversation.
        Passed = "passed",
        /// The proxy answered a compaction.
        Answered = "answered",
        /// The proxy refused it.
        Refused = "refused",
        /// The provider gave no answer.
        Failed = "failed",
    }
}

labels! {
    Unstored {
        /// Too many copies wait.
        Full = "full",
        TooLong = "too_long",
        Unreadable = "unreadable",
        /// The daemon refused it.
        Refused = "refused",
        DaemonAway = "daemon_away",
    }
}

labels! {
    CompactionOutcome {
        Answered = "answered",
        /// A model answers it.
        Forwarded = "forwarded",
    }
}
