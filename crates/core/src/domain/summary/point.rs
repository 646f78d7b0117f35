//! Points: the lines of an item's text, one for each thing that happened.

use serde::Serialize;

/// Limits a text to this many points.
pub(super) const POINTS_MAX: usize = 40;
/// Leaves out a further point if there is room for fewer characters than this.
const ROOM_CHARS_MIN: usize = 24;

/// The shown points of a text, as a bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice(u64);

const _: () = assert!(POINTS_MAX < u64::BITS as usize);

impl Choice {
    /// All points, however many there are.
    pub const ALL: Self = Self(u64::MAX);
    /// Only the first point.
    pub const FIRST: Self = Self(1);

    /// Adds the point with this index.
    #[must_use]
    pub fn with(self, index: usize) -> Self {
        Self(self.0 | bit(index))
    }

    /// Returns true if the point with this index is shown.
    pub fn has(self, index: usize) -> bool {
        self.0 & bit(index) != 0
    }
}

/// Returns the bit of an index. Indices from [`POINTS_MAX`] on don't occur; they share one bit.
fn bit(index: usize) -> u64 {
    1 << index.min(POINTS_MAX)
}

/// Splits `text` into points, which together have at most `chars_max` characters. `clean` is called with a line and with how many
/// characters its point may have.
pub(crate) fn points(text: &str, chars_max: usize, clean: impl Fn(&str, usize) -> String) -> Vec<String> {
    let mut points: Vec<String> = Vec::new();
    let mut remaining = chars_max;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if points.len() == POINTS_MAX || (!points.is_empty() && remaining < ROOM_CHARS_MIN) {
            break;
        }
        let point = clean(line, remaining);
        if !point.is_empty() {
            // The line feed counts as well.
            remaining = remaining.saturating_sub(point.chars().count() + 1);
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
        let split = |text: &str, chars_max| points(text, chars_max, |line, room| cut(line.trim(), room));
        assert_eq!(split("one\n\n  two \n", 80), ["one", "two"]);
        assert_eq!(split("a rather long first line\nno room is left", 30), ["a rather long first line"]);
        assert_eq!(split("a long line", 6), ["a lon…"]);
        assert_eq!(split(&"x\n".repeat(POINTS_MAX + 1), 1_000).len(), POINTS_MAX);
        assert!(split(" \n", 80).is_empty());
    }
}
