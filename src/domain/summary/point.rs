//! Points: a text of an item may have several lines, one for each thing that it tells.

/// The most points of a text.
const POINTS_MAX: usize = 40;
/// A point isn't begun in less room than this, in characters.
const ROOM_CHARS_MIN: usize = 24;

/// The points of `text`, each cleaned by `clean`, which gets a line and the most characters that it may have. Together they
/// have at most `chars_max` characters; empty if nothing is left.
pub(in crate::domain) fn points(
    text: &str,
    chars_max: usize,
    clean: impl Fn(&str, usize) -> String,
) -> Vec<String> {
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
