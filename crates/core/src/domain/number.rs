//! Converts between number types, and writes numbers as text.

/// Converts to `i64`, or to its maximum if `number` doesn't fit.
pub fn i64_or_max(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Converts to `usize`, or to its maximum if `number` doesn't fit.
pub fn usize_or_max(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}

/// Writes `number` with commas between its thousands: `1,247`.
pub fn grouped(number: impl TryInto<i64>) -> String {
    let number = i64_or_max(number);
    let digits = number.unsigned_abs().to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if number < 0 { format!("-{grouped}") } else { grouped }
}

/// Writes a number with its noun in singular or plural: `1 exchange`, `2,000 summaries`.
pub fn count(number: impl TryInto<i64>, noun: &str) -> String {
    let number = i64_or_max(number);
    let noun = match noun.strip_suffix('y') {
        _ if number == 1 => noun.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    };
    format!("{} {noun}", grouped(number))
}

const CARDINALS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
const ORDINALS: [&str; 12] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
];

/// Writes `one` to `twelve`, then digits.
pub fn in_words(number: i64) -> String {
    word_of(&CARDINALS, number).map_or_else(|| grouped(number), str::to_owned)
}

/// Writes `first` to `twelfth`, then `13th`, `21st`.
pub fn ordinal(number: i64) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    word_of(&ORDINALS, number).map_or_else(|| grouped(number) + suffix, str::to_owned)
}

fn word_of(words: &[&'static str], number: i64) -> Option<&'static str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    words.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_words() {
        assert_eq!([1, 6, 12, 13, 0, 1_200].map(in_words), ["one", "six", "twelve", "13", "0", "1,200"]);
        assert_eq!(
            [1, 6, 12, 13, 21, 22, 103, 111].map(ordinal),
            ["first", "sixth", "twelfth", "13th", "21st", "22nd", "103rd", "111th"]
        );
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!(
            [0, 999, 1_247, 1_234_567, -1_000, -999].map(grouped),
            ["0", "999", "1,247", "1,234,567", "-1,000", "-999"]
        );
        assert_eq!(grouped(u64::MAX), grouped(i64::MAX));
    }

    #[test]
    fn a_noun_agrees_with_its_number() {
        for (number, noun, text) in [
            (0, "item", "0 items"),
            (1, "exchange", "1 exchange"),
            (2_000, "agent", "2,000 agents"),
            (1, "summary", "1 summary"),
            (2, "summary", "2 summaries"),
            (2, "key", "2 keys"),
        ] {
            assert_eq!(count(number, noun), text);
        }
    }
}
