//! Writes an account as lines: a point for each label, and for each paragraph of text.

use super::{
    super::sentences::ends_sentence,
    part::{AccountPart, is_quoted},
};
use recapd_core::domain::{summary::label::PointLabel, text::one_line};

/// Limits a point of more than one part, in characters.
const POINT_CHARS: usize = 240;

pub(super) fn text(parts: &[AccountPart]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for point in points(parts) {
        let Some(label) = point.first().map(|part| part.place.1) else {
            continue;
        };
        let words = one_line(&joined(point));
        lines.push(if is_quoted(label) {
            format!("{}“{}”", label.text(), words.replace('“', "‘").replace('”', "’"))
        } else {
            format!("{}{words}", label.text())
        });
    }
    lines.join("\n")
}

/// Joins sentences with blanks, and the entries of a list, which have no full stop, with semicolons.
fn joined(point: &[AccountPart]) -> String {
    let mut words = String::new();
    for part in point {
        if !words.is_empty() {
            words.push_str(if ends_sentence(&words) { " " } else { "; " });
        }
        words.push_str(&part.text);
    }
    words
}

/// Groups neighbouring parts of one exchange and label into points of limited length. Each answer is a separate point.
fn points(parts: &[AccountPart]) -> Vec<&[AccountPart]> {
    let mut chars = 0;
    let mut points = Vec::new();
    let mut from = 0;
    for (at, part) in parts.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| parts.get(before));
        let is_alone = matches!(part.place.1, PointLabel::Decision);
        let joins =
            before.is_some_and(|before| (before.place.0, before.place.1) == (part.place.0, part.place.1));
        let length = part.text.chars().count();
        if at > 0 && (!joins || is_alone || chars + length > POINT_CHARS) {
            points.extend(parts.get(from..at));
            (from, chars) = (at, 0);
        }
        chars += length + 1;
    }
    points.extend(parts.get(from..).filter(|rest| !rest.is_empty()));
    points
}
