//! Points: a text of an item may have several lines, one for each thing that it tells.

use serde::Serialize;

/// The most points of a text.
pub(super) const POINTS_MAX: usize = 40;
/// A point isn't begun in less room than this, in characters.
const ROOM_CHARS_MIN: usize = 24;

/// Which points of a text are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice(u64);

const _: () = assert!(POINTS_MAX < u64::BITS as usize);

impl Choice {
    /// All of them, however many there are.
    pub const ALL: Self = Self(u64::MAX);
    /// The first one alone.
    pub const FIRST: Self = Self(1);

    /// These, and the one at that place.
    #[must_use]
    pub fn with(self, place: usize) -> Self {
        Self(self.0 | bit(place))
    }

    /// Whether the one at that place is shown.
    pub fn has(self, place: usize) -> bool {
        self.0 & bit(place) != 0
    }
}

/// A place has a bit of its own; places beyond the last bit, of which there are none, share it.
fn bit(place: usize) -> u64 {
    1 << place.min(POINTS_MAX)
}

/// The points of `text`, each cleaned by `clean`, which gets a line and the most characters that it may have. Together they
/// have at most `chars_max` characters; empty if nothing is left.
pub(crate) fn points(text: &str, chars_max: usize, clean: impl Fn(&str, usize) -> String) -> Vec<String> {
    let mut points: Vec<String> = Vec::new();
    let mut left = chars_max;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if points.len() == POINTS_MAX || (!points.is_empty() && left < ROOM_CHARS_MIN) {
            break;
        }
        let point = clean(line, left);
        if !point.is_empty() {
            // A line feed counts, too.
            left = left.saturating_sub(point.chars().count() + 1);
            points.push(point);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::text::cut;

    #[test]
    fn points_share_the_room_in_order() {
        let told = |text: &str, chars_max| points(text, chars_max, |line, room| cut(line.trim(), room));
        assert_eq!(told("one\n\n  two \n", 80), ["one", "two"]);
        assert_eq!(
            told("a rather long first line\nno room is left", 30),
            ["a rather long first line"]
        );
        assert_eq!(told("a long line", 6), ["a lon…"]);
        assert_eq!(told(&"x\n".repeat(POINTS_MAX + 1), 1_000).len(), POINTS_MAX);
        assert!(told(" \n", 80).is_empty());
    }
}
