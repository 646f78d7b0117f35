//! The batches line of `recapd status`.

use crate::cli::terminal::figures::span;
use recapd_core::domain::{number::count, time::Timestamp};
use recapd_store::batch::BatchFigures;

/// Formats the numbers of open batches and of waiting questions; `None` if there are neither.
pub(super) fn line(figures: &BatchFigures, now: Timestamp) -> Option<String> {
    let open = figures.intents + figures.submitted;
    if open + figures.waiting == 0 {
        return None;
    }
    let oldest =
        figures.oldest_at.map_or(String::new(), |at| format!(", the oldest for {}", span(now.since_ms(at))));
    Some(format!(
        "batches      {open} open with {}{oldest}; {} waiting for a batch",
        count(figures.out, "question"),
        count(figures.waiting, "question")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_batches_there_is_no_line() {
        let now = Timestamp(3_600_000);
        assert_eq!(line(&BatchFigures::default(), now), None);
        let figures =
            BatchFigures { intents: 1, submitted: 2, waiting: 4, out: 30, oldest_at: Some(Timestamp(0)) };
        assert_eq!(
            line(&figures, now).unwrap(),
            "batches      3 open with 30 questions, the oldest for 1h 0m; 4 questions waiting for a batch"
        );
    }
}
