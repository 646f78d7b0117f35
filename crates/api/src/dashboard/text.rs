//! Renders what agents said so that no character is hidden.

use std::fmt::Write as _;

use maud::{Markup, html};

pub(super) use recapd_core::domain::number::{count, grouped};
use recapd_core::domain::{
    agent::AgentId,
    history::age,
    summary::line::rounded,
    text::one_line,
    time::{MINUTE_MS, SECOND_MS, Timestamp},
};

/// Returns at most `chars_max` characters of `text` with its line breaks, and whether characters were left out.
/// Replaces characters that hide or reorder text with a sign or their number.
pub(super) fn visible(text: &str, chars_max: usize) -> (String, bool) {
    let mut result = String::with_capacity(text.len().min(chars_max));
    let mut chars = text.chars();
    for c in chars.by_ref().take(chars_max) {
        match c {
            '\n' | '\t' => result.push(c),
            '\r' => {}
            // The visible signs for control characters have the same order, beginning with ␀.
            '\0'..='\u{1f}' => result.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => result.push('␡'),
            c if is_hidden(c) => result.extend(["⟨", &format!("U+{:04X}", u32::from(c)), "⟩"]),
            c => result.push(c),
        }
    }
    (result, chars.next().is_some())
}

/// True for invisible characters that change how others look: C1 controls, directional marks, tags, and the like. False
/// for joiners of emoji and scripts.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the text as one line; a placeholder if the text is empty.
pub(super) fn line(text: &str) -> String {
    let text = one_line(text);
    if text.is_empty() { "(no title)".to_owned() } else { text }
}

/// Shows how long ago a moment is. The tooltip has the exact time.
pub(super) fn moment(at: Timestamp, now: Timestamp) -> Markup {
    let exact = at.format("%Y-%m-%d %H:%M:%S UTC");
    html! { time datetime=(at.format("%Y-%m-%dT%H:%M:%SZ")) title=(exact) { (relative_time(at, now)) } }
}

/// Formats a moment as `in 5m`, `now`, `just now`, `30m ago`.
fn relative_time(at: Timestamp, now: Timestamp) -> String {
    match at.since_ms(now) {
        SECOND_MS.. => format!("in {}", span(at.since_ms(now))),
        0..SECOND_MS => "now".to_owned(),
        since_ms if since_ms > -MINUTE_MS => "just now".to_owned(),
        _ => age(at, now),
    }
}

/// Formats a duration as `12s`, `3m 20s`, `4h 10m`, `2d 3h`.
pub(super) fn span(span_ms: i64) -> String {
    let seconds = (span_ms.max(0) + SECOND_MS / 2) / SECOND_MS;
    let two_units = |large: i64, large_name: &str, small: i64, small_name: &str| match small {
        0 => format!("{large}{large_name}"),
        small => format!("{large}{large_name} {small}{small_name}"),
    };
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => two_units(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two_units(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two_units(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Formats a short duration with tenths of seconds (`8.2s`), and a longer one like [`span`].
pub(super) fn duration(span_ms: i64) -> String {
    let span_ms = span_ms.max(0);
    match span_ms {
        ..SECOND_MS => format!("{span_ms}ms"),
        SECOND_MS..MINUTE_MS => format!("{}.{}s", span_ms / SECOND_MS, span_ms % SECOND_MS / 100),
        _ => span(span_ms),
    }
}

/// Formats tokens as `4.2k`.
pub(super) fn tokens(tokens: i64) -> String {
    rounded(tokens, true)
}

/// Formats an amount as `$1.92`, or as `$0.0034` below a cent.
pub(super) fn dollars(microusd: i64) -> String {
    let (dollars, rest) = (microusd / 1_000_000, microusd % 1_000_000);
    if microusd != 0 && microusd.abs() < 10_000 {
        format!("${dollars}.{:04}", rest.abs() / 100)
    } else {
        format!("${}.{:02}", grouped(dollars), rest.abs() / 10_000)
    }
}

/// Returns what percentage of `whole` `part` is. Below ten it has a decimal: `0.2%`, `18%`.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn percent(part: i64, total: i64) -> String {
    let share = if total == 0 { 0.0 } else { part as f64 * 100.0 / total as f64 };
    if share > 0.0 && share < 9.95 { format!("{share:.1}%") } else { format!("{share:.0}%") }
}

/// Percent-encodes `text` for a URL.
pub fn value(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'*' => {
                value.push(char::from(byte));
            }
            // Writing to a string can't fail.
            byte => write!(value, "%{byte:02X}").unwrap_or_default(),
        }
    }
    value
}

pub(super) fn agent_path(agent: &AgentId) -> String {
    format!("/ui/agents/{agent}")
}

pub(super) fn exchange_path(agent: &AgentId, exchange: i64) -> String {
    format!("/ui/agents/{agent}/exchanges/{exchange}")
}

/// Renders `text`. Each `#12` in it becomes a link to that exchange.
pub(super) fn with_links(agent: &AgentId, text: &str) -> Markup {
    let mut pieces = text.split('#');
    let prefix = pieces.next().unwrap_or_default();
    html! {
        (prefix)
        @for piece in pieces {
            @let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            @let (name, rest) = piece.split_at_checked(digits).unwrap_or(("", piece));
            @match name.parse::<i64>() {
                Ok(number) => { a href=(exchange_path(agent, number)) { "#" (name) } (rest) },
                Err(_) => { "#" (piece) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown() {
        for (text, shown) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("abc\u{202e}cba", "abc⟨U+202E⟩cba"),
            ("zero\u{200b}width\u{feff}", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
            ("a\r\nb\u{7f}\u{9b}", "a\nb␡⟨U+009B⟩"),
            ("👩\u{200d}🚀 سلام", "👩\u{200d}🚀 سلام"),
        ] {
            assert_eq!(visible(text, 100), (shown.to_owned(), false));
        }
        assert_eq!(visible("abcdef", 3), ("abc".to_owned(), true));
        assert_eq!(visible("abc", 3), ("abc".to_owned(), false));
    }

    #[test]
    fn figures_are_formatted_for_people() {
        assert_eq!(percent(3, 1_250), "0.2%");
        assert_eq!((percent(0, 0), percent(9, 50)), ("0%".to_owned(), "18%".to_owned()));
        for (microusd, told) in
            [(0, "$0.00"), (3_400, "$0.0034"), (1_920_000, "$1.92"), (1_234_560_000, "$1,234.56")]
        {
            assert_eq!(dollars(microusd), told);
        }
        for (span_ms, told) in
            [(400, "400ms"), (8_240, "8.2s"), (200_000, "3m 20s"), (7_200_000, "2h"), (187_200_000, "2d 4h")]
        {
            assert_eq!(duration(span_ms), told);
        }
    }

    #[test]
    fn the_future_is_never_just_now() {
        let now = Timestamp(1_795_000_000_000);
        for (ahead_ms, words) in [
            (90_000, "in 1m 30s"),
            (12_000, "in 12s"),
            (400, "now"),
            (-1, "just now"),
            (-59_000, "just now"),
            (-60_000, "1m ago"),
        ] {
            assert_eq!(relative_time(now.plus_ms(ahead_ms), now), words);
        }
    }

    #[test]
    fn a_value_is_safe_in_an_address() {
        assert_eq!(value("agent:a-* reason:x&y=<ü>"), "agent:a-*%20reason:x%26y%3D%3C%C3%BC%3E");
    }

    #[test]
    fn exchanges_are_links() {
        let agent: AgentId = "a".parse().unwrap();
        assert_eq!(
            with_links(&agent, "(#12–#14, <b>, # 5)").into_string(),
            "(<a href=\"/ui/agents/a/exchanges/12\">#12</a>–<a href=\"/ui/agents/a/exchanges/14\">#14</a>, &lt;b&gt;, # 5)"
        );
    }
}
