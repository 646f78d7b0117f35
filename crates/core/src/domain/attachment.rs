//! Reads the size of an image or a document from its bytes. The tokens of an attachment follow from its size.
//!
//! The first bytes of a PNG or a JPEG hold its size in pixels. In a PDF, recapd counts the visible page objects: those that aren't
//! compressed. It reads only a bounded prefix, so a large attachment costs no more time than text.

/// This many bytes are enough to recognise the type and to read a PNG's size.
const HEAD_BYTES: usize = 24;
/// The first bytes of a JPEG, this many, usually contain its size.
const HEADER_BYTES: usize = 4 * 1_024;
/// If a JPEG contains a preview image, its size comes after the preview, but within this many bytes.
const HEADER_BYTES_MAX: usize = 256 * 1_024;
/// Searches this many bytes of a PDF for pages, and assumes that the rest is like them.
const PDF_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// A PDF without visible page objects has a page for each of this many bytes. Newer PDFs compress their page objects.
const PAGE_BYTES: usize = 100_000;
/// A page object has these two words, perhaps with white space between them.
const TYPE: &[u8] = b"/Type";
const PAGE: &[u8] = b"/Page";

/// The size of an image in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
}

impl ImageSize {
    /// Returns how many squares with sides of `edge` pixels cover the image.
    pub fn cells(self, edge: u32) -> i64 {
        i64::from(self.width.div_ceil(edge)).saturating_mul(i64::from(self.height.div_ceil(edge)))
    }
}

/// The size of an attachment, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The data is elsewhere, or its format is unknown.
    Unknown,
    /// The size of an image.
    Pixels(ImageSize),
    /// The number of pages of a document.
    Pages(u32),
}

impl Extent {
    /// Reads the size of an attachment in base64.
    pub fn of(base64: &str) -> Self {
        let head = decode(base64, HEAD_BYTES);
        if head.starts_with(b"%PDF-") {
            return Self::Pages(pdf_pages(base64));
        }
        let size = if head.starts_with(b"\xff\xd8") {
            let mut headers = [HEADER_BYTES, HEADER_BYTES_MAX].into_iter();
            headers.find_map(|bytes_max| jpeg_size(&decode(base64, bytes_max)))
        } else {
            png_size(&head)
        };
        size.map_or(Self::Unknown, Self::Pixels)
    }

    /// Reads the size of the attachment in a `data:` URL (RFC 2397).
    pub fn of_url(url: &str) -> Self {
        data_url(url).map_or(Self::Unknown, Self::of)
    }
}

/// Returns the base64 data of a `data:` URL (RFC 2397).
pub fn data_url(url: &str) -> Option<&str> {
    let (_, base64) = url.strip_prefix("data:")?.split_once("base64,")?;
    Some(base64)
}

fn png_size(bytes: &[u8]) -> Option<ImageSize> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let side = |start: usize| Some(u32::from_be_bytes(header.get(start..start + 4)?.try_into().ok()?));
    (header.get(4..8)? == b"IHDR").then_some(())?;
    Some(ImageSize { width: side(8)?, height: side(12)? })
}

fn jpeg_size(bytes: &[u8]) -> Option<ImageSize> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        let &[0xff, marker, high, low, ref body @ ..] = rest else {
            return None;
        };
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            let side = |start: usize| {
                Some(u32::from(u16::from_be_bytes(body.get(start..start + 2)?.try_into().ok()?)))
            };
            return Some(ImageSize { height: side(1)?, width: side(3)? });
        }
        // The length includes its own two bytes.
        rest = body.get(usize::from(u16::from_be_bytes([high, low])).checked_sub(2)?..)?;
    }
}

/// Counts the visible pages of a PDF. If none is visible, estimates their number from the PDF's length.
fn pdf_pages(base64: &str) -> u32 {
    let searched = decode(base64, PDF_BYTES_MAX);
    let all_bytes = base64.len() / 4 * 3;
    let begins_page = |&(start, &byte): &(usize, &u8)| byte == TYPE[0] && is_page(&searched[start..]);
    let visible = searched.iter().enumerate().filter(begins_page).count();
    let pages = if visible == 0 {
        all_bytes.div_ceil(PAGE_BYTES)
    } else {
        visible * all_bytes.max(searched.len()) / searched.len()
    };
    u32::try_from(pages).unwrap_or(u32::MAX)
}

/// Returns true if `bytes` begins with the type `/Page`, not `/Pages`.
fn is_page(bytes: &[u8]) -> bool {
    let kind = bytes.strip_prefix(TYPE).map(<[u8]>::trim_ascii_start);
    let rest = kind.and_then(|kind| kind.strip_prefix(PAGE));
    rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
}

/// Decodes up to `bytes_max` bytes of a base64 text. Stops at the first character that isn't base64.
fn decode(base64: &str, bytes_max: usize) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes_max.min(base64.len() / 4 * 3 + 3));
    decoded.extend(bytes(base64).take(bytes_max));
    decoded
}

fn bytes(base64: &str) -> impl Iterator<Item = u8> {
    let mut sextets = base64.bytes().map_while(sextet);
    let (mut bits, mut bit_count) = (0_u32, 0_u32);
    std::iter::from_fn(move || {
        while bit_count < 8 {
            bits = (bits << 6) | u32::from(sextets.next()?);
            bit_count += 6;
        }
        bit_count -= 8;
        u8::try_from((bits >> bit_count) & 0xff).ok()
    })
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first 24 bytes of a PNG of 1,000 × 500 pixels.
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAA+gAAAH0";
    /// A JPEG's marker, a comment of four bytes, and a frame of 640 × 480 pixels.
    const JPEG: &str = "/9j//gAEAAD/wAARCAHgAoADASIA";
    /// `%PDF-1.4 <</Type /Pages>> <</Type/Page>> <</Type /Page /Parent 1 0 R>> <</Type /PageLabel>> `
    const PDF: &str = "JVBERi0xLjQgPDwvVHlwZSAvUGFnZXM+PiA8PC9UeXBlL1BhZ2U+PiA8PC9UeXBlIC9QYWdlIC9QYXJlbnQgMSAwIFI+PiA8PC9UeXBlIC9QYWdlTGFiZWw+PiAg";

    #[test]
    fn an_extent_is_read_from_the_bytes() {
        let pixels = |width, height| Extent::Pixels(ImageSize { width, height });
        let cases = [
            (PNG, pixels(1_000, 500)),
            (JPEG, pixels(640, 480)),
            (PDF, Extent::Pages(2)),
            // `%PDF-1.5` and no page object.
            ("JVBERi0xLjUg", Extent::Pages(1)),
            ("", Extent::Unknown),
            ("iVBORw0KGgo", Extent::Unknown),
            ("/9j//gAB", Extent::Unknown),
            ("R0lGODlhAQABAIAAAAUEBA", Extent::Unknown),
            ("!", Extent::Unknown),
        ];
        for (base64, extent) in cases {
            assert_eq!(Extent::of(base64), extent, "{base64}");
        }
        assert_eq!(Extent::of_url(&format!("data:image/png;base64,{PNG}")), pixels(1_000, 500));
        assert_eq!(Extent::of_url("https://x.example/a.png"), Extent::Unknown);
        assert_eq!(data_url("data:image/png;charset=x;base64,AAAA"), Some("AAAA"));
        assert_eq!(data_url("data:,AAAA"), None);
    }

    #[test]
    fn pages_of_a_long_document_are_extrapolated() {
        let times = 2 * PDF_BYTES_MAX / (PDF.len() / 4 * 3);
        let Extent::Pages(pages) = Extent::of(&PDF.repeat(times)) else {
            panic!("no pages");
        };
        let expected = u32::try_from(2 * times).unwrap();
        assert!(pages.abs_diff(expected) <= 8, "{pages} of {expected}");
        let opaque = format!("JVBERi0xLjUg{}", "A".repeat(4_000_000));
        assert_eq!(Extent::of(&opaque), Extent::Pages(31));
    }
}
