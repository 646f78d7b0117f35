//! The parent of a trace: the `traceparent` header (W3C Trace Context, 3.2).

/// The numbers of hexadecimal digits in the header's parts: version, trace, span, flags.
const DIGITS: [usize; 4] = [2, 32, 16, 2];
/// The flag of a trace that the caller samples.
const SAMPLED: u8 = 1;

/// The trace and the span in a caller's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace: u128,
    pub span: u64,
    /// True if the caller records the trace. Then recapd records it, too.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Parses a header; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let is_hexadecimal = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let lengths = parts.iter().map(|part| part.len());
        if !lengths.eq(DIGITS) || !parts.iter().all(|part| is_hexadecimal(part)) {
            return None;
        }
        let &[version, trace, span, flags] = parts.as_slice() else {
            return None;
        };
        let parent = Self {
            trace: u128::from_str_radix(trace, 16).ok()?,
            span: u64::from_str_radix(span, 16).ok()?,
            is_sampled: u8::from_str_radix(flags, 16).ok()? & SAMPLED != 0,
        };
        (version != "ff" && parent.trace != 0 && parent.span != 0).then_some(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_header_is_accepted() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let is_sampled = |text: String| TraceParent::parse(&text).map(|parent| parent.is_sampled);
        for (header, expected) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), Some(true)),
            (format!("00-{trace}-00f067aa0ba902b7-00"), Some(false)),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), None),
            (format!("00-{trace}-00f067aa0ba902b7"), None),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), None),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            (format!("00-{trace}-0000000000000000-01"), None),
            ("hello".to_owned(), None),
        ] {
            assert_eq!(is_sampled(header.clone()), expected, "{header}");
        }
    }
}
