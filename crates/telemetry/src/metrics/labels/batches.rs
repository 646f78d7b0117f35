//! Batches at a provider, and the questions in them.

labels! {
    /// What became of a batch.
    BatchOutcome {
        /// The provider has it.
        Submitted = "submitted",
        /// It was refused, or never came back.
        Lost = "lost",
    }
}

labels! {
    /// What became of a question for a batch.
    QuestionOutcome {
        /// It waits.
        Deferred = "deferred",
        /// Its answer is used.
        Answered = "answered",
        /// It has none, and is asked directly.
        Failed = "failed",
        /// Its answer came too late.
        Late = "late",
        /// It was asked directly before it was sent.
        Withdrawn = "withdrawn",
    }
}

labels! {
    /// How far an open batch is.
    BatchStage {
        /// Written down; the provider may not know it.
        Intent = "intent",
        /// The provider works on it.
        Submitted = "submitted",
    }
}

labels! {
    /// Where a question without an answer is.
    QuestionStage {
        /// In no batch yet.
        Waiting = "waiting",
        /// In an open batch.
        Out = "out",
    }
}
