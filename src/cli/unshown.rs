//! Counts messages that are stored but never sent to a model. If nearly all of a file's messages are such messages, its
//! format was probably not recognised.

use std::collections::HashMap;

use serde::Serialize;

use recapd_core::domain::{
    message::Message,
    number::{count, grouped},
};

/// In a recognised format, a model gets at least one in this many messages.
const SHOWN_SHARE: u64 = 20;
/// With fewer messages, nothing is reported if a model gets at least one of them.
const MESSAGES_MIN: u64 = 20;
/// A report names at most this many kinds.
const KINDS_MAX: usize = 5;

/// Counts messages of kinds that no model gets.
#[derive(Debug, Default)]
pub(super) struct Unshown {
    /// All messages read.
    read: u64,
    /// Messages that no model gets.
    hidden: u64,
    by_kind: HashMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct UnshownCounts {
    /// Messages that no model gets.
    messages: u64,
    /// All messages read.
    of: u64,
    /// True if models get none, or nearly none, of the messages.
    pub(super) nearly_all: bool,
    /// The most frequent kinds, most frequent first.
    kinds: Vec<KindCount>,
}

#[derive(Debug, Serialize)]
struct KindCount {
    kind: String,
    messages: u64,
}

impl Unshown {
    pub(super) fn observe(&mut self, message: &Message) {
        self.read += 1;
        if !message.kind.is_conversation() {
            self.hidden += 1;
            *self.by_kind.entry(message.kind.name().to_owned()).or_default() += 1;
        }
    }

    /// True if all or nearly all messages are hidden: a model gets fewer than one in [`SHOWN_SHARE`].
    pub(super) fn are_nearly_all(&self) -> bool {
        let shown = self.read - self.hidden;
        self.hidden > 0 && (shown == 0 || self.is_much() && shown * SHOWN_SHARE < self.read)
    }

    /// True if so many messages were read that a model should get some of them.
    pub(super) fn is_much(&self) -> bool {
        self.read >= MESSAGES_MIN
    }

    /// Returns a report if nearly all messages are hidden, or more than half of [`MESSAGES_MIN`] or more. Transcripts
    /// normally have fewer hidden ones.
    pub(super) fn report(&self) -> Option<String> {
        let are_most = self.is_much() && self.hidden * 2 > self.read;
        let cure = match (self.are_nearly_all(), are_most) {
            (true, _) => {
                "; if this is a conversation, name its format with --format, or give its messages the roles user, \
                 assistant, system, developer or tool"
            }
            (false, true) => "",
            (false, false) => return None,
        };
        Some(format!(
            "{} of {} are of kinds that no model gets: {}{cure}",
            grouped(self.hidden),
            count(self.read, "message"),
            self.named_kinds()
        ))
    }

    fn named_kinds(&self) -> String {
        let kinds = self.kinds();
        let frequent = kinds.iter().take(KINDS_MAX);
        let mut names: Vec<String> = frequent
            .map(|KindCount { kind, messages }| format!("{} ({})", kind.escape_debug(), grouped(*messages)))
            .collect();
        let more = kinds.len().saturating_sub(KINDS_MAX);
        if more > 0 {
            names.push(format!("and {}", count(more, "more kind")));
        }
        names.join(", ")
    }

    pub(super) fn counts(&self) -> UnshownCounts {
        let mut kinds = self.kinds();
        kinds.truncate(KINDS_MAX);
        UnshownCounts { messages: self.hidden, of: self.read, nearly_all: self.are_nearly_all(), kinds }
    }

    fn kinds(&self) -> Vec<KindCount> {
        let kinds = self.by_kind.iter().map(|(kind, &messages)| KindCount { kind: kind.clone(), messages });
        let mut kinds: Vec<KindCount> = kinds.collect();
        kinds.sort_by(|one, other| {
            let by_count = other.messages.cmp(&one.messages);
            by_count.then_with(|| one.kind.cmp(&other.kind))
        });
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::message::Kind;

    fn unshown(kinds: &[(&str, u64)]) -> Unshown {
        let mut unshown = Unshown::default();
        for &(kind, messages) in kinds {
            for _ in 0..messages {
                unshown.observe(&Message::new(Kind::from_name(kind), Vec::new()));
            }
        }
        unshown
    }

    #[test]
    fn nearly_all_is_more_than_nineteen_in_twenty() {
        for (kinds, nearly_all, is_reported) in [
            ([("human", 0), ("user", 0)], false, false),
            ([("human", 0), ("user", 30)], false, false),
            ([("human", 1), ("user", 0)], true, true),
            ([("human", 18), ("user", 1)], false, false),
            ([("human", 19), ("user", 1)], false, true),
            ([("human", 20), ("user", 1)], true, true),
            ([("human", 50), ("user", 50)], false, false),
            ([("human", 95), ("user", 5)], false, true),
            ([("human", 96), ("user", 4)], true, true),
        ] {
            let unshown = unshown(&kinds);
            assert_eq!(unshown.are_nearly_all(), nearly_all, "{kinds:?}");
            let line = unshown.report();
            assert_eq!(line.is_some(), is_reported, "{kinds:?}");
            assert_eq!(line.is_some_and(|line| line.contains("--format")), nearly_all);
        }
    }

    #[test]
    fn the_most_frequent_kinds_are_named() {
        let kinds = [("a", 1), ("human", 2_000), ("b", 7), ("c", 7), ("d", 5), ("e", 1)];
        assert_eq!(
            unshown(&kinds).report().unwrap(),
            "2,021 of 2,021 messages are of kinds that no model gets: human (2,000), b (7), c (7), d (5), a (1), and 1 more \
             kind; if this is a conversation, name its format with --format, or give its messages the roles user, \
             assistant, system, developer or tool"
        );
    }
}
