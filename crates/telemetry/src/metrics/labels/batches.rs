//! Batches at a provider, and the questions in them.

labels! {
    /// The outcome of a batch.
    BatchOutcome {
        /// The provider accepted it.
        Submitted = "submitted",
        /// It was refused, or never returned.
        Lost = "lost",
    }
}

labels! {
    /// The outcome of a question for a batch.
    QuestionOutcome {
        /// It waits for a batch.
        Deferred = "deferred",
        Answered = "answered",
        /// It has no answer, and is asked directly.
        Failed = "failed",
        Late = "late",
        /// It was asked directly before its batch was sent.
        Withdrawn = "withdrawn",
    }
}

labels! {
    /// The stage of an open batch.
    BatchStage {
        /// Recorded; the provider may not know it.
        Intent = "intent",
        /// The provider is working on it.
        Submitted = "submitted",
    }
}

labels! {
    /// The stage of an unanswered question.
    QuestionStage {
        /// In no batch yet.
        Waiting = "waiting",
        /// In an open batch.
        Out = "out",
    }
}
