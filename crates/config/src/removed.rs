//! Keys of earlier versions, and what holds now.

const REMOVED: [(&str, &str); 14] = [
    ("batch.bytes_max", "a batch has at most 16 MB"),
    ("convergence.window_messages", "the last 10 messages are compared"),
    ("database.group_commit_max", "at most 256 write requests share a commit"),
    ("http.stall_timeout_ms", "a client that reads nothing for 30 s is disconnected"),
    ("model.anthropic_version", "the version is 2023-06-01"),
    ("model.connect_timeout_ms", "connecting may take 5 s, and never longer than model.timeout_ms"),
    ("proxy.answer_bytes_max", "answers of up to 4 MiB are copied"),
    ("queue.project_spacing_ms", "each waiting update of a project delays the next one by 10 s"),
    ("schedule.journal_keep_hours", "a model's answer is kept for 24 hours"),
    ("summary.append_below", "new items are appended below 80 % of summary.max_tokens"),
    ("summary.merge_below", "items take at most 95 % of summary.max_tokens"),
    ("trace.timeout_ms", "a call to the collector may take 10 s"),
    ("worker.said_chars_max", "a model sees 6,000 characters of a message"),
    ("worker.tool_chars_max", "a model sees 1,200 characters of a tool's arguments or result"),
];

/// Returns the error for a removed key; `None` for another key.
pub(super) fn explained(key: &str) -> Option<String> {
    let (_, now) = REMOVED.iter().find(|(name, _)| *name == key)?;
    Some(format!("{key} is no longer a key: {now}; remove it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;

    #[test]
    fn no_removed_key_exists() {
        for (key, _) in REMOVED {
            assert!(Keys::new().names().all(|name| name != key), "{key}");
        }
    }
}
