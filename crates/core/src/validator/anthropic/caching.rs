//! Checks the number of prompt cache markers: blocks with `cache_control`.

use serde_json::Value;

use super::{CACHE_MARKERS, turn::Conversation};
use crate::validator::{findings::Findings, request::RequestToCheck};

/// The maximum number of blocks with a marker in a request.
const MARKERS_MAX: usize = 4;

pub(super) fn check(request: &RequestToCheck<'_>, conversation: &Conversation<'_>, findings: &mut Findings) {
    let in_field = |key: &str| request.body().and_then(|body| body.get(key)).map_or(0, count_markers);
    let blocks = conversation.messages.iter().flat_map(|message| &message.blocks);
    let in_messages = blocks.map(|block| {
        let is_marked = is_marker(block.field("cache_control"));
        usize::from(is_marked) + block.field("content").map_or(0, count_markers)
    });
    let markers = in_field("tools") + in_field("system") + in_messages.sum::<usize>();
    if markers > MARKERS_MAX {
        let text =
            format!("A maximum of {MARKERS_MAX} blocks with cache_control may be provided. Found {markers}.");
        findings.add_to_messages(&CACHE_MARKERS, text);
    }
}

fn count_markers(value: &Value) -> usize {
    let blocks = value.as_array().into_iter().flatten();
    blocks.filter(|block| is_marker(block.get("cache_control"))).count()
}

fn is_marker(field: Option<&Value>) -> bool {
    field.is_some_and(|marker| !marker.is_null())
}
