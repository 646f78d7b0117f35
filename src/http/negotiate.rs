//! Which of the forms on offer a client wants (RFC 9110, 12.5.1), and whether it has it already (13.1.2).

use axum::http::{
    HeaderMap,
    header::{ACCEPT, IF_NONE_MATCH},
};

/// The offer that the client likes best; of several alike, and where it says nothing or wants none of them, the first.
pub(super) fn preferred(headers: &HeaderMap, offers: &[&'static str]) -> &'static str {
    let ranges: Vec<(&str, f32)> = values(headers, ACCEPT.as_str()).filter_map(range).collect();
    let mut best = (offers.first().copied().unwrap_or_default(), 0.0);
    for offer in offers {
        let quality = quality(&ranges, offer);
        if quality > best.1 {
            best = (offer, quality);
        }
    }
    best.0
}

/// Whether the client already has what `etag` names.
pub(super) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    values(headers, IF_NONE_MATCH.as_str()).any(|known| known == "*" || opaque(known) == opaque(etag))
}

/// The members of a header that is a list, in however many lines it comes.
fn values<'h>(headers: &'h HeaderMap, name: &'static str) -> impl Iterator<Item = &'h str> {
    let lines = headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

/// `text/*;q=0.5`: the range and its weight.
fn range(text: &str) -> Option<(&str, f32)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next()?;
    let weight = parts.find_map(|parameter| parameter.strip_prefix("q="));
    Some((range, weight.map_or(Ok(1.0), str::parse).unwrap_or(1.0)))
}

/// How much the client wants `offer`: the most specific range counts.
fn quality(ranges: &[(&str, f32)], offer: &str) -> f32 {
    let kind = offer.split('/').next().unwrap_or_default();
    let of = |wanted: &str| {
        ranges
            .iter()
            .find(|(range, _)| range.eq_ignore_ascii_case(wanted))
    };
    let found = of(offer)
        .or_else(|| of(&format!("{kind}/*")))
        .or_else(|| of("*/*"));
    found.map_or(0.0, |(_, weight)| *weight)
}

/// A tag without its mark of weakness, which doesn't matter to a reader.
fn opaque(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn the_best_liked_offer_wins_and_the_first_of_equals() {
        let cases = [
            ("", "text/markdown"),
            ("*/*", "text/markdown"),
            ("application/json", "application/json"),
            ("Application/JSON", "application/json"),
            ("text/*;q=0.3, application/json;q=0.4", "application/json"),
            ("text/*, application/json", "text/markdown"),
            ("text/html, */*;q=0.1", "text/markdown"),
            ("text/markdown;q=0, */*;q=0.5", "application/json"),
            ("text/html", "text/markdown"),
            ("text/markdown;q=lots, application/json;q=0.9", "text/markdown"),
        ];
        for (accept, expected) in cases {
            let offers = ["text/markdown", "application/json"];
            assert_eq!(
                preferred(&headers("accept", accept), &offers),
                expected,
                "{accept}"
            );
        }
    }

    #[test]
    fn tags_are_compared_weakly() {
        let cases = [
            (r#""4.12""#, true),
            (r#"W/"4.12""#, true),
            (r#""3.1", "4.12""#, true),
            ("*", true),
            (r#""4.1""#, false),
            ("4.12", false),
            ("", false),
        ];
        for (known, expected) in cases {
            for etag in [r#""4.12""#, r#"W/"4.12""#] {
                assert_eq!(
                    is_known(&headers("if-none-match", known), etag),
                    expected,
                    "{known}"
                );
            }
        }
    }
}
