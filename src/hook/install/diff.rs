//! A line-by-line diff.

/// A change is shown with this many unchanged lines before and after it.
const CONTEXT_LINES: usize = 2;

/// Formats a diff: `-` for lines that only `before` has, `+` for lines that only `after` has, and a few lines around
/// them. The algorithm is simple: between the first and the last change, a moved line counts as removed and added.
pub fn diff(before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let common_head = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let (old, new) =
        (before.get(common_head..).unwrap_or_default(), after.get(common_head..).unwrap_or_default());
    let common_tail = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old, tail) = old.split_at(old.len() - common_tail);
    let (new, _) = new.split_at(new.len() - common_tail);
    if old.is_empty() && new.is_empty() {
        return String::new();
    }
    let head = before.get(common_head.saturating_sub(CONTEXT_LINES)..common_head).unwrap_or_default();
    let mut text = String::new();
    put(&mut text, " ", head);
    middle(old, new, &mut text);
    put(&mut text, " ", tail.get(..CONTEXT_LINES).unwrap_or(tail));
    text
}

/// Diffs the middle part greedily: matches each old line with the next equal new line.
fn middle(old: &[&str], new: &[&str], text: &mut String) {
    let mut rest = new;
    for line in old {
        match rest.iter().position(|other| other == line) {
            Some(index) => {
                let (added, after) = rest.split_at(index);
                put(text, "+", added);
                put(text, " ", &[line]);
                rest = after.get(1..).unwrap_or_default();
            }
            None => put(text, "-", &[line]),
        }
    }
    put(text, "+", rest);
}

fn put(text: &mut String, mark: &str, lines: &[&str]) {
    for line in lines {
        text.extend([mark, line, "\n"]);
    }
}
