//! Batches at a provider, and the questions in them.

labels! {
    BatchOutcome {
        Submitted = "submitted",
        /// It was refused, or never returned.
        Lost = "lost",
    }
}

labels! {
    QuestionOutcome {
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
    BatchStage {
        /// Recorded; the provider may not know it.
        Intent = "intent",
        /// The provider is working on it.
        Submitted = "submitted",
    }
}

labels! {
    QuestionStage {
        Waiting = "waiting",
        Out = "out",
    }
}
