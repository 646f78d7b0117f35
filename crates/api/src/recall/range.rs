//! Parses ranges of exchanges, as they are written in a summary.

/// Limits how many exchanges a range can name.
pub const RANGE_MAX: i64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: i64,
    last: i64,
}

impl Range {
    /// Parses `38`, `#38`, `12-14` or `#12–#14`.
    ///
    /// # Errors
    /// If `text` names no exchange, or more than [`RANGE_MAX`]. The error says what is allowed.
    pub fn read(text: &str) -> Result<Self, String> {
        let no_exchange = || format!("`{text}` names no exchange: give 38, '#38', or '#12–#14'");
        let number = |text: &str| text.trim().trim_start_matches('#').parse::<i64>().ok().filter(|n| *n >= 0);
        let (first, last) = text.split_once(['-', '–']).unwrap_or((text, text));
        let (first, last) = (number(first).ok_or_else(no_exchange)?, number(last).ok_or_else(no_exchange)?);
        if last < first || last - first >= RANGE_MAX {
            return Err(format!("`{text}` must ascend and name at most {RANGE_MAX} exchanges"));
        }
        Ok(Self { first, last })
    }

    /// Returns the numbers in ascending order.
    pub fn numbers(self) -> impl Iterator<Item = i64> {
        self.first..=self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_named_as_summaries_name_them() {
        for (text, first, last) in [("38", 38, 38), ("#38", 38, 38), ("12-14", 12, 14), ("#12–#14", 12, 14)]
        {
            assert_eq!(Range::read(text), Ok(Range { first, last }));
        }
        for text in ["", "#", "x", "14-12", "1-101", "-3", "1-2-3"] {
            assert!(Range::read(text).is_err(), "{text}");
        }
    }
}
