//! Decides which of the available formats a client prefers (RFC 9110, 12.5.1), and whether it already has the document (13.1.2).

use axum::http::{
    HeaderMap,
    header::{ACCEPT, ACCEPT_ENCODING, IF_NONE_MATCH},
};

/// Ends the tag of a compressed document, inside the quotes.
pub(super) const GZIP_MARK: &str = ".gz";

/// Returns the offer that the client prefers; among equals, the one that the client names. Returns the first offer if
/// the client has no preference or accepts none.
pub(crate) fn preferred(headers: &HeaderMap, offers: &[&'static str]) -> &'static str {
    let mut best = (offers.first().copied().unwrap_or_default(), (0.0, false));
    for offer in offers {
        let quality = quality(headers, offer);
        if quality.0 > 0.0 && quality > best.1 {
            best = (offer, quality);
        }
    }
    best.0
}

/// Checks that the client accepts gzip, and doesn't prefer the uncompressed document.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let weight = |name: &str| {
        let mut ranges = values(headers, ACCEPT_ENCODING.as_str()).filter_map(range);
        ranges.find(|(coding, _)| coding.eq_ignore_ascii_case(name)).map(|(_, weight)| weight)
    };
    let gzip = weight("gzip").or_else(|| weight("x-gzip")).or_else(|| weight("*"));
    gzip.is_some_and(|gzip| gzip > 0.0 && gzip >= weight("identity").unwrap_or(0.0))
}

/// Checks that the client has the compressed form of the document of `etag`.
pub(super) fn knows_gzip(headers: &HeaderMap, etag: &str) -> bool {
    values(headers, IF_NONE_MATCH.as_str())
        .find(|tag| opaque(tag) == opaque(etag))
        .is_some_and(|tag| tag_content(tag).ends_with(GZIP_MARK))
}

/// Checks that the client already has the document of `etag`, compressed or not.
pub(crate) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    values(headers, IF_NONE_MATCH.as_str()).any(|tag| tag == "*" || (opaque(tag) == opaque(etag)))
}

/// Returns the members of a list header, from all of its lines.
fn values<'h>(headers: &'h HeaderMap, name: &'static str) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|value| !value.is_empty())
}

/// Splits `text/*;q=0.5` into the range and its weight.
fn range(text: &str) -> Option<(&str, f32)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next()?;
    let weight = parts.find_map(|parameter| parameter.strip_prefix("q="));
    Some((range, weight.map_or(Ok(1.0), str::parse).unwrap_or(1.0)))
}

/// Returns the client's weight for `offer` by the most specific range. Also returns whether that range is more specific
/// than `*/*`, which clients add for anything else.
fn quality(headers: &HeaderMap, offer: &str) -> (f32, bool) {
    let kind = offer.split('/').next().unwrap_or_default();
    let is_of_kind =
        |range: &str| range.strip_suffix("/*").is_some_and(|prefix| prefix.eq_ignore_ascii_case(kind));
    let weight = |is_wanted: &dyn Fn(&str) -> bool| {
        let mut ranges = values(headers, ACCEPT.as_str()).filter_map(range);
        ranges.find(|(range, _)| is_wanted(range)).map(|(_, weight)| weight)
    };
    let named_weight = weight(&|range| range.eq_ignore_ascii_case(offer)).or_else(|| weight(&is_of_kind));
    let any_weight = || weight(&|range| range == "*/*").unwrap_or(0.0);
    (named_weight.unwrap_or_else(any_weight), named_weight.is_some())
}

/// Returns a tag without weakness mark, quotes and compression mark. None of them decides whether the client has the
/// document.
fn opaque(etag: &str) -> Option<&str> {
    let is_quoted = etag.ends_with('"') && etag.strip_prefix("W/").unwrap_or(etag).starts_with('"');
    is_quoted.then(|| tag_content(etag).strip_suffix(GZIP_MARK).unwrap_or_else(|| tag_content(etag)))
}

fn tag_content(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
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
    fn the_preferred_offer_wins_and_the_first_of_equals() {
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
            ("application/json, text/plain, */*", "application/json"),
            ("application/json, */*", "application/json"),
            ("text/markdown;q=lots, application/json;q=0.9", "text/markdown"),
        ];
        for (accept, expected) in cases {
            let offers = ["text/markdown", "application/json"];
            assert_eq!(preferred(&headers("accept", accept), &offers), expected, "{accept}");
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
            (r#""4.12.gz""#, true),
            ("4.12", false),
            ("", false),
        ];
        for (known, expected) in cases {
            for etag in [r#""4.12""#, r#"W/"4.12""#] {
                assert_eq!(is_known(&headers("if-none-match", known), etag), expected, "{known}");
            }
        }
    }

    #[test]
    fn gzip_is_sent_only_on_request() {
        let cases = [
            ("", false),
            ("gzip", true),
            ("br, GZip;q=0.5", true),
            ("*", true),
            ("x-gzip", true),
            ("gzip;q=0", false),
            ("gzip;q=0, *", false),
            ("identity, gzip;q=0.5", false),
            ("identity;q=0.5, gzip", true),
            ("br, zstd", false),
        ];
        for (accepted, expected) in cases {
            assert_eq!(takes_gzip(&headers("accept-encoding", accepted)), expected, "{accepted}");
        }
    }

    #[test]
    fn the_tag_says_whether_the_compressed_document_is_known() {
        for (known, expected) in [(r#""4.12.gz""#, true), (r#""4.12""#, false), ("*", false)] {
            assert_eq!(knows_gzip(&headers("if-none-match", known), r#""4.12""#), expected, "{known}");
        }
    }
}
