//! Recognises what the user pasted into a request: logs, stack traces, code. Of such text, the errors matter most.

use super::super::clauses::is_code;

/// Marks of build tools at the beginning of a line.
const LOG_OPENINGS: [&str; 9] = ["└", "├", "⨯", "✓", "✔", "▲", "⚠", "> ", "npm ERR!"];
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
/// A time or a date has at least this many characters.
const TIME_CHARS_MIN: usize = 8;
const FAILURES: [&str; 5] = ["error", "fail", "exception", "denied", "refused"];
/// A text with this many escapes of a URL is an address.
const ESCAPES_MIN: usize = 3;
/// The pasted texts of a request take at most this many characters.
const PASTED_CHARS_MAX: usize = 600;

/// Returns true for a sentence that a program wrote.
pub(super) fn is_pasted(sentence: &str) -> bool {
    (is_code(sentence) && !sentence.starts_with(char::is_uppercase))
        || LOG_OPENINGS.iter().any(|opening| sentence.starts_with(opening))
        || is_frame(sentence)
        || is_code_line(sentence)
        || begins_with_time(sentence)
        || is_prompt(sentence)
        || is_served_request(sentence)
        || escapes(sentence) >= ESCAPES_MIN
}

/// Returns true for a request in the log of a server: `POST /report 500 in 3 s`.
fn is_served_request(sentence: &str) -> bool {
    let mut words = sentence.split(' ');
    let is_method = words.next().is_some_and(|word| METHODS.contains(&word));
    let status = words.nth(1).unwrap_or_default();
    is_method && status.len() == "200".len() && status.bytes().all(|byte| byte.is_ascii_digit())
}

/// Counts the escaped characters of a URL: `%20`.
fn escapes(text: &str) -> usize {
    let is_escape = |rest: &&str| {
        let digits = rest.as_bytes().iter().take_while(|byte| byte.is_ascii_hexdigit());
        digits.count() >= "20".len()
    };
    text.split('%').skip(1).filter(is_escape).count()
}

/// Chooses the pasted sentences that fit: first those about failures, then the others. Returns their indices in order.
pub(super) fn choose(sentences: &[&String]) -> Vec<usize> {
    let reports_failure = |index: &usize| {
        let lower = sentences.get(*index).map(|sentence| sentence.to_lowercase()).unwrap_or_default();
        FAILURES.iter().any(|word| lower.contains(word))
    };
    let (failures, others): (Vec<usize>, Vec<usize>) = (0..sentences.len()).partition(reports_failure);
    let mut room = PASTED_CHARS_MAX;
    let mut chosen: Vec<usize> = Vec::new();
    for index in failures.into_iter().chain(others) {
        let Some(sentence) = sentences.get(index) else { continue };
        let is_new = !chosen.iter().any(|other| sentences.get(*other) == Some(sentence));
        let chars = sentence.chars().count();
        if is_new && chars <= room {
            room -= chars;
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// Returns true for a frame of a stack: `at query (src/db.ts:13:15)`.
fn is_frame(sentence: &str) -> bool {
    sentence.strip_prefix("at ").is_some_and(|rest| {
        let mut parts = rest.split(':').skip(1);
        parts.any(|part| part.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Returns true for a numbered line of code: `13 | const a = 1`.
fn is_code_line(sentence: &str) -> bool {
    let (number, _) = sentence.split_once(" | ").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true for a line that begins with a time: `2026/04/29 09:22:50 …`, `[09:22:50] …`.
fn begins_with_time(sentence: &str) -> bool {
    let is_made_of = |word: &str, signs: &[char]| {
        let word = word.trim_matches(['[', ']', '(', ')', ',']);
        word.len() >= TIME_CHARS_MIN
            && word.contains(signs)
            && word.chars().all(|c| c.is_ascii_digit() || signs.contains(&c))
    };
    let mut words = sentence.split(' ');
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    first.contains(':') && is_made_of(first, &[':', '.'])
        || (is_made_of(first, &['-', '/']) && is_made_of(second, &[':', '.']))
}

/// Returns true for a line after the prompt of a Windows shell: `C:\garden>npm test`.
fn is_prompt(sentence: &str) -> bool {
    let (path, _) = sentence.split_once('>').unwrap_or_default();
    path.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_told_from_words() {
        for pasted in [
            "at async query (src\\lib\\db.ts:13:15)",
            "POST /report 500 in 3.2s",
            "2026/04/29 09:22:50 Listening on 127.0.0.1:5432",
            "[09:22:50] Starting",
            "11 | export const query = async (text: string) => {",
            "C:\\Program Files (x86)\\Cloud SDK>node -e",
            "title=Turbopack%20Error%3A%20failed",
            "└ ƒ getPublicIncidents() in 428ms",
        ] {
            assert!(is_pasted(pasted), "{pasted}");
        }
        for said in [
            "Look at the log, at line 12: it fails.",
            "I get a 500 error when I post a report.",
            "100% of the 3% and 5% are paid.",
            "2026-04-29 is the deadline.",
            "Use port 5432 at 09:22.",
            "POST /orders creates an order.",
            "192.168.0.10 is the server.",
            "Use 5%,6%,7%.",
        ] {
            assert!(!is_pasted(said), "{said}");
        }
    }

    #[test]
    fn failures_are_told_first_and_once() {
        let lines =
            ["Ready in 4 s", "Error: read ECONNRESET", "Error: read ECONNRESET", "done"].map(str::to_owned);
        assert_eq!(choose(&lines.iter().collect::<Vec<_>>()), [0, 1, 3]);
        let long = ["x ".repeat(299), "a word more".to_owned(), "access denied".to_owned()];
        assert_eq!(choose(&long.iter().collect::<Vec<_>>()), [1, 2]);
    }
}
