//! Counts the tokens of an image by its size in pixels, and of a document by its pages. An image of unknown size counts as the vendor's
//! largest one.
//!
//! Anthropic documents its rule. The rules of OpenAI and Google are from older documentation and may have changed.

use super::vendor::{Vendor, bare};
use crate::domain::{
    attachment::{Extent, ImageSize},
    tokens::{ATTACHMENT_TOKENS, PAGE_TOKENS},
};

/// The side of Claude's patch, in pixels.
const CLAUDE_PATCH: u32 = 28;
/// The tokens of an image for a local model: Ollama's own guess.
const LOCAL_IMAGE_TOKENS: i64 = 768;
/// The tokens of a tile of an image, or of a page, for Gemini.
const GEMINI_TILE_TOKENS: i64 = 258;
/// The most tiles of an image for Gemini.
const GEMINI_TILES_MAX: i64 = 16;
/// The most patches of an image for OpenAI's models that count patches.
const OPENAI_PATCHES_MAX: i64 = 1_536;
/// The most tiles of an image for OpenAI's other models, which scale it down to 2,048 × 768 pixels.
const OPENAI_TILES_MAX: i64 = 8;

/// Returns the tokens of an attachment.
pub(super) fn attachment(vendor: Vendor, model: &str, media: &str, extent: Extent) -> i64 {
    match extent {
        Extent::Pixels(size) => tokens(vendor, model, Some(size), false),
        Extent::Pages(pages) => i64::from(pages).saturating_mul(page_tokens(vendor)),
        Extent::Unknown if media.starts_with("image/") => tokens(vendor, model, None, false),
        Extent::Unknown => ATTACHMENT_TOKENS,
    }
}

fn page_tokens(vendor: Vendor) -> i64 {
    if vendor == Vendor::Google { GEMINI_TILE_TOKENS } else { PAGE_TOKENS }
}

/// Returns the tokens of an image of `size`; `None` stands for the largest one. `low_detail` is OpenAI's `detail: low`.
pub(super) fn tokens(vendor: Vendor, model: &str, size: Option<ImageSize>, low_detail: bool) -> i64 {
    match vendor {
        Vendor::Anthropic { is_newer } => claude(is_newer, size),
        Vendor::Google => gemini(size),
        Vendor::OpenAi { .. } => openai(bare(model), size, low_detail),
        Vendor::Local => LOCAL_IMAGE_TOKENS,
    }
}

fn claude(is_newer: bool, size: Option<ImageSize>) -> i64 {
    let (edge_max, tokens_max) = if is_newer { (2_576, 4_784) } else { (1_568, 1_568) };
    let Some(size) = size else { return tokens_max };
    let size = fit(size, edge_max, edge_max);
    size.cells(CLAUDE_PATCH).min(tokens_max)
}

/// Counts tiles of 768 pixels. An image of at most 384 × 384 pixels is one tile.
fn gemini(size: Option<ImageSize>) -> i64 {
    let tiles = match size {
        Some(size) if size.width <= 384 && size.height <= 384 => 1,
        Some(size) => size.cells(768).min(GEMINI_TILES_MAX),
        None => GEMINI_TILES_MAX,
    };
    tiles * GEMINI_TILE_TOKENS
}

/// Counts patches of 32 pixels or, for older models, tiles of 512 pixels.
fn openai(model: &str, size: Option<ImageSize>, low_detail: bool) -> i64 {
    if let Some(percent) = patch_percent(model) {
        let patches = size.map_or(OPENAI_PATCHES_MAX, |size| size.cells(32).min(OPENAI_PATCHES_MAX));
        return (patches * percent + 99) / 100;
    }
    let (base, per_tile) = tile_tokens(model);
    if low_detail {
        return base;
    }
    let tiles = size.map_or(OPENAI_TILES_MAX, |size| {
        let size = fit(size, 2_048, 2_048);
        let short = size.width.min(size.height);
        scale(size, 768.min(short), short).cells(512)
    });
    base + per_tile * tiles
}

/// Returns the tokens of 100 patches; `None` for a model that counts tiles.
fn patch_percent(model: &str) -> Option<i64> {
    if model.starts_with("gpt-4o") {
        return None;
    }
    let sizes = [("-nano", 246), ("-mini", 162)];
    sizes.into_iter().find_map(|(size, percent)| model.contains(size).then_some(percent))
}

/// Returns the tokens of any image, and those of each of its tiles.
fn tile_tokens(model: &str) -> (i64, i64) {
    match model {
        model if model.starts_with("gpt-4o-mini") => (2_833, 5_667),
        model if model.starts_with("gpt-5") => (70, 140),
        _ => (85, 170),
    }
}

/// Scales `size` down to fit into a box, if it doesn't fit.
fn fit(size: ImageSize, width_max: u32, height_max: u32) -> ImageSize {
    let by_width = scale(size, width_max.min(size.width), size.width);
    scale(by_width, height_max.min(by_width.height), by_width.height)
}

/// Returns `size` times `numerator` / `denominator`, rounded up.
fn scale(size: ImageSize, numerator: u32, denominator: u32) -> ImageSize {
    let scaled = |pixels: u32| {
        let scaled = (u64::from(pixels) * u64::from(numerator)).div_ceil(u64::from(denominator.max(1)));
        u32::try_from(scaled).unwrap_or(u32::MAX)
    };
    ImageSize { width: scaled(size.width), height: scaled(size.height) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_counted_by_its_vendors_rule() {
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
            let size = size.map(|(width, height)| ImageSize { width, height });
            assert_eq!(tokens(vendor, model, size, false), expected, "{model} {size:?}");
        }
        assert_eq!(tokens(openai, "gpt-4o", None, true), 85);
    }

    #[test]
    fn a_document_is_counted_by_its_pages() {
        let claude = Vendor::Anthropic { is_newer: true };
        let cost = |vendor, media, extent| attachment(vendor, "claude-opus-5", media, extent);
        let pdf = "application/pdf";
        assert_eq!(cost(claude, pdf, Extent::Pages(300)), 900_000);
        assert_eq!(cost(Vendor::Google, pdf, Extent::Pages(300)), 77_400);
        assert_eq!(cost(claude, pdf, Extent::Unknown), ATTACHMENT_TOKENS);
        assert_eq!(cost(claude, "image/*", Extent::Unknown), 4_784);
    }

    #[test]
    fn extreme_image_sizes_do_not_panic() {
        let vendors =
            [Vendor::Google, Vendor::OpenAi { is_cl100k: false }, Vendor::Anthropic { is_newer: true }];
        for vendor in vendors {
            for side in [0, 1, u32::MAX] {
                let size = Some(ImageSize { width: side, height: side });
                assert!(tokens(vendor, "gpt-4o", size, false) <= 4_784, "{vendor:?} {side}");
            }
        }
    }
}
