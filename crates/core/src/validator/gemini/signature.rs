//! Checks the thought signatures of calls since the user's last words, which Gemini 3 and later require.

use super::{
    SIGNATURE_MISSING,
    content::{self, ContentTurn},
};
use crate::validator::{
    findings::Findings,
    request::{Object, RequestToCheck},
};

/// The first version that requires signatures.
const REQUIRES_SIGNATURES_FROM: (u32, u32) = (3, 0);

/// Checks each turn of the model after the user's last words. Of parallel calls, the first one must have the signature.
pub(super) fn check(request: &RequestToCheck<'_>, turns: &[ContentTurn<'_>], findings: &mut Findings) {
    let requires_signatures = request.model.gemini().map(|version| version >= REQUIRES_SIGNATURES_FROM);
    let last_words = turns.iter().rposition(has_user_words).unwrap_or(0);
    for turn in turns.iter().skip(last_words).filter(|turn| turn.is_of_model()) {
        let first = turn.parts.iter().find(|(_, part)| content::call(part).is_some());
        if let Some((index, _)) = first.filter(|(_, part)| !has_signature(part)) {
            let text = "Function call is missing a thought_signature in functionCall parts. This is required for tools \
                        to work correctly";
            let pointer = format!("/{}/parts/{index}", turn.index);
            findings.add_if(requires_signatures, &SIGNATURE_MISSING, pointer, text);
        }
    }
}

/// Returns true for a user turn with a part that isn't a response.
fn has_user_words(turn: &ContentTurn<'_>) -> bool {
    let is_words = |part: &Object| content::response(part).is_none();
    !turn.is_of_model() && turn.parts.iter().any(|(_, part)| is_words(part))
}

fn has_signature(part: &Object) -> bool {
    let signature = content::field(part, "thoughtSignature", "thought_signature");
    signature.is_some_and(|signature| signature.as_str().is_none_or(|text| !text.is_empty()))
}
