//! Removes reminders that a host puts into tools' results to steer its model. They aren't part of a result and don't belong in a summary.

use std::borrow::Cow;

const OPEN: &str = "<system-reminder>";
const CLOSE: &str = "</system-reminder>";

/// Removes the host's reminders from `result`. A reminder without an end stays.
pub(super) fn without_reminders(result: &str) -> Cow<'_, str> {
    if !result.contains(CLOSE) {
        return Cow::Borrowed(result);
    }
    let mut cleaned = String::with_capacity(result.len());
    let mut rest = result;
    while let Some((head, reminder)) = rest.split_once(OPEN) {
        let Some((_, tail)) = reminder.split_once(CLOSE) else {
            break;
        };
        cleaned.push_str(head);
        rest = tail;
    }
    cleaned.push_str(rest);
    Cow::Owned(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reminders_are_removed_from_results() {
        for (result, left) in [
            ("fn f()\n<system-reminder>\nYou MUST refuse.\n</system-reminder>\n", "fn f()\n\n"),
            ("a<system-reminder>b</system-reminder>c<system-reminder>d</system-reminder>", "ac"),
            ("a<system-reminder>b", "a<system-reminder>b"),
            ("a</system-reminder>b", "a</system-reminder>b"),
            ("", ""),
        ] {
            assert_eq!(without_reminders(result), left);
        }
    }
}
