//! Numbers of one type as those of another.

/// `number`, or the largest `i64` if it is none.
pub(crate) fn i64_or_max(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// `number`, or the largest `usize` if it is none.
pub(crate) fn usize_or_max(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}
