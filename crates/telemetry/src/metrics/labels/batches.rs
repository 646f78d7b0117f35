//! Batches at a provider, and the questions in them.

labels! {
    BatchOutcome as "outcome" {
        Submitted = "submitted",
        /// The provider refused the batch, or it never returned.
        Lost = "lost",
    }
}

labels! {
    QuestionOutcome as "outcome" {
        Deferred = "deferred",
        Answered = "answered",
        /// The question has no answer and is asked directly.
        Failed = "failed",
        /// The answer came when it was no longer needed.
        Late = "late",
        /// The question was asked directly before its batch was sent.
        Withdrawn = "withdrawn",
    }
}

labels! {
    BatchStage as "state" {
        /// The batch is recorded; the provider may not know it.
        Intent = "intent",
        /// The provider is working on it.
        Submitted = "submitted",
    }
}

labels! {
    QuestionStage as "state" {
        /// The question waits to be put into a batch.
        Waiting = "waiting",
        /// The question is in a batch.
        Out = "out",
    }
}
