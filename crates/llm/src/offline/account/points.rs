//! Writes an account as lines: a point for each label, and for each paragraph of text.

use super::{super::sentences::ends_sentence, part::AccountPart};
use recapd_core::domain::{summary::label::PointLabel, text::one_line};

/// Limits a point of more than one part, in characters.
const POINT_CHARS: usize = 240;

pub(super) fn text(parts: &[AccountPart]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for point in points(parts) {
        let Some(label) = point.first().map(|part| part.position.label) else {
            continue;
        };
        let text = one_line(&joined(point));
        lines.push(if label.is_quoted() {
            format!("{}“{}”", label.text(), text.replace('“', "‘").replace('”', "’"))
        } else {
            format!("{}{text}", label.text())
        });
    }
    lines.join("\n")
}

/// Joins sentences with blanks, and the entries of a list, which have no full stop, with semicolons.
fn joined(point: &[AccountPart]) -> String {
    let mut text = String::new();
    for part in point {
        if !text.is_empty() {
            text.push_str(if ends_sentence(&text) { " " } else { "; " });
        }
        text.push_str(&part.text);
    }
    text
}

/// Groups neighbouring parts of one exchange and label into points of limited length. Each answer is a separate point.
fn points(parts: &[AccountPart]) -> Vec<&[AccountPart]> {
    let mut chars = 0;
    let mut points = Vec::new();
    let mut from = 0;
    for (index, part) in parts.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|previous| parts.get(previous));
        let is_alone = part.position.label == PointLabel::Decision;
        let is_same_label = previous.is_some_and(|previous| previous.position.is_beside(part.position));
        let length = part.text.chars().count();
        if index > 0 && (!is_same_label || is_alone || chars + length > POINT_CHARS) {
            // A heading stands with what follows it.
            let takes_heading =
                is_same_label && index > from + 1 && previous.is_some_and(|part| part.text.ends_with(':'));
            let end = if takes_heading { index - 1 } else { index };
            points.extend(parts.get(from..end));
            (from, chars) = (end, 0);
        }
        chars += length + 1;
    }
    points.extend(parts.get(from..).filter(|rest| !rest.is_empty()));
    points
}
