//! What an image costs, by its size in pixels, which stands in the first bytes of a PNG or a JPEG; without a size, the
//! most that the vendor takes for an image.
//!
//! Anthropic documents its rule; OpenAI's and Google's are as their documentation had them last and may have changed.

use super::vendor::{Vendor, bare};

/// Bytes of an image that are searched for its size: a JPEG may begin with a preview of itself.
const HEADER_BYTES_MAX: usize = 256 * 1_024;
/// Claude's patch: pixels of a side.
const CLAUDE_PATCH: u32 = 28;
/// Ollama's own guess.
const LOCAL_IMAGE_TOKENS: i64 = 768;
/// Gemini's tile, and the most tiles of an image.
const GEMINI_TILE_TOKENS: i64 = 258;
const GEMINI_TILES_MAX: i64 = 16;
/// OpenAI's patches: the most of an image.
const OPENAI_PATCHES_MAX: i64 = 1_536;
/// OpenAI's tiles: the most of an image, 2,048 × 768 pixels.
const OPENAI_TILES_MAX: i64 = 8;

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Tokens of an image of `size`, or of the largest one. `low_detail` is OpenAI's `detail: low`.
pub(super) fn tokens(vendor: Vendor, model: &str, size: Option<Size>, low_detail: bool) -> i64 {
    match vendor {
        Vendor::Anthropic { is_newer } => claude(is_newer, size),
        Vendor::Google => gemini(size),
        Vendor::OpenAi { .. } => openai(bare(model), size, low_detail),
        Vendor::Local => LOCAL_IMAGE_TOKENS,
    }
}

fn claude(is_newer: bool, size: Option<Size>) -> i64 {
    let (edge_max, tokens_max) = if is_newer { (2_576, 4_784) } else { (1_568, 1_568) };
    let Some(size) = size else { return tokens_max };
    let size = fit(size, edge_max, edge_max);
    cells(size, CLAUDE_PATCH).min(tokens_max)
}

fn gemini(size: Option<Size>) -> i64 {
    let tiles = match size {
        Some(size) if size.width <= 384 && size.height <= 384 => 1,
        Some(size) => cells(size, 768).min(GEMINI_TILES_MAX),
        None => GEMINI_TILES_MAX,
    };
    tiles * GEMINI_TILE_TOKENS
}

fn openai(model: &str, size: Option<Size>, low_detail: bool) -> i64 {
    if let Some(percent) = patch_percent(model) {
        let patches = size.map_or(OPENAI_PATCHES_MAX, |size| cells(size, 32).min(OPENAI_PATCHES_MAX));
        return (patches * percent + 99) / 100;
    }
    let (base, per_tile) = tile_tokens(model);
    if low_detail {
        return base;
    }
    let tiles = size.map_or(OPENAI_TILES_MAX, |size| {
        let size = fit(size, 2_048, 2_048);
        let short = size.width.min(size.height);
        cells(scale(size, 768.min(short), short), 512)
    });
    base + per_tile * tiles
}

/// What a patch costs in percent of a token, for models that count patches.
fn patch_percent(model: &str) -> Option<i64> {
    if model.starts_with("gpt-4o") {
        return None;
    }
    let parts = [("-nano", 246), ("-mini", 162)];
    parts
        .into_iter()
        .find_map(|(part, percent)| model.contains(part).then_some(percent))
}

fn tile_tokens(model: &str) -> (i64, i64) {
    match model {
        model if model.starts_with("gpt-4o-mini") => (2_833, 5_667),
        model if model.starts_with("gpt-5") => (70, 140),
        _ => (85, 170),
    }
}

/// `size` made smaller, if needed, to fit into a box.
fn fit(size: Size, width_max: u32, height_max: u32) -> Size {
    let by_width = scale(size, width_max.min(size.width), size.width);
    scale(by_width, height_max.min(by_width.height), by_width.height)
}

/// `size` times `numerator` / `denominator`, rounded up.
fn scale(size: Size, numerator: u32, denominator: u32) -> Size {
    let scaled = |pixels: u32| {
        let scaled = (u64::from(pixels) * u64::from(numerator)).div_ceil(u64::from(denominator.max(1)));
        u32::try_from(scaled).unwrap_or(u32::MAX)
    };
    Size {
        width: scaled(size.width),
        height: scaled(size.height),
    }
}

/// Squares of `edge` pixels that cover `size`.
fn cells(size: Size, edge: u32) -> i64 {
    i64::from(size.width.div_ceil(edge)).saturating_mul(i64::from(size.height.div_ceil(edge)))
}

/// The size that stands in the header of a PNG or a JPEG, given in base64.
pub(super) fn size_of(base64: &str) -> Option<Size> {
    let bytes: Vec<u8> = decode(base64).take(HEADER_BYTES_MAX).collect();
    png_size(&bytes).or_else(|| jpeg_size(&bytes))
}

fn png_size(bytes: &[u8]) -> Option<Size> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let side = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?));
    (header.get(4..8)? == b"IHDR").then_some(())?;
    Some(Size {
        width: side(8)?,
        height: side(12)?,
    })
}

/// Walks from segment to segment to the one that begins the frame.
fn jpeg_size(bytes: &[u8]) -> Option<Size> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        let &[0xff, marker, high, low, ref body @ ..] = rest else {
            return None;
        };
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            let side = |at: usize| {
                Some(u32::from(u16::from_be_bytes(
                    body.get(at..at + 2)?.try_into().ok()?,
                )))
            };
            return Some(Size {
                height: side(1)?,
                width: side(3)?,
            });
        }
        // The length counts its own two bytes.
        rest = body.get(usize::from(u16::from_be_bytes([high, low])).checked_sub(2)?..)?;
    }
}

/// The bytes behind a base64 text, up to the first character that isn't base64.
fn decode(base64: &str) -> impl Iterator<Item = u8> {
    let mut sextets = base64.bytes().map_while(sextet);
    let (mut bits, mut held) = (0_u32, 0_u32);
    std::iter::from_fn(move || {
        while held < 8 {
            bits = (bits << 6) | u32::from(sextets.next()?);
            held += 6;
        }
        held -= 8;
        u8::try_from((bits >> held) & 0xff).ok()
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

    #[test]
    fn a_size_stands_in_the_header() {
        let cases = [
            (PNG, Some((1_000, 500))),
            (JPEG, Some((640, 480))),
            ("", None),
            ("iVBORw0KGgo", None),
            ("/9j//gAB", None),
            ("R0lGODlhAQABAIAAAAUEBA", None),
            ("!", None),
        ];
        for (base64, size) in cases {
            let size = size.map(|(width, height)| Size { width, height });
            assert_eq!(size_of(base64), size, "{base64}");
        }
    }

    #[test]
    fn an_image_costs_what_its_vendor_says() {
        let openai = Vendor::OpenAi { is_cl100k: false };
        let older = Vendor::Anthropic { is_newer: false };
        let newer = Vendor::Anthropic { is_newer: true };
        let cases = [
            // 36 × 18 patches of 28 pixels.
            (older, "claude-sonnet-4-5", Some((1_000, 500)), 648),
            // Scaled to 1,568 × 784, then 56 × 28 patches.
            (older, "claude-sonnet-4-5", Some((4_000, 2_000)), 1_568),
            (newer, "claude-opus-5", Some((1_000, 500)), 648),
            (newer, "claude-opus-5", Some((2_000, 1_500)), 3_888),
            (newer, "claude-opus-5", None, 4_784),
            (Vendor::Google, "gemini-3-pro", Some((384, 384)), 258),
            (Vendor::Google, "gemini-3-pro", Some((1_000, 500)), 516),
            (Vendor::Google, "gemini-3-pro", None, 4_128),
            // 1,000 × 500 stays as it is: two tiles.
            (openai, "gpt-4o", Some((1_000, 500)), 425),
            (openai, "gpt-4o", Some((4_000, 4_000)), 765),
            (openai, "gpt-5", Some((1_000, 500)), 350),
            (openai, "gpt-4.1-mini", Some((1_000, 500)), 830),
            (openai, "gpt-4.1-mini", None, 2_489),
            (openai, "gpt-4o", None, 1_445),
            (Vendor::Local, "qwen3", Some((10, 10)), 768),
        ];
        for (vendor, model, size, expected) in cases {
            let size = size.map(|(width, height)| Size { width, height });
            assert_eq!(tokens(vendor, model, size, false), expected, "{model} {size:?}");
        }
        assert_eq!(tokens(openai, "gpt-4o", None, true), 85);
    }

    #[test]
    fn a_size_of_nothing_or_of_everything_is_no_crash() {
        let vendors = [
            Vendor::Google,
            Vendor::OpenAi { is_cl100k: false },
            Vendor::Anthropic { is_newer: true },
        ];
        for vendor in vendors {
            for side in [0, 1, u32::MAX] {
                let size = Some(Size {
                    width: side,
                    height: side,
                });
                assert!(
                    tokens(vendor, "gpt-4o", size, false) <= 4_784,
                    "{vendor:?} {side}"
                );
            }
        }
    }
}
