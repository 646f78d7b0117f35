//! What a model may answer: the schema, and the checks that an answer must pass before it is believed.

use serde::{Deserialize, Serialize};

use super::summary::item::ItemDraft;

/// A model's answer: `{"items": [{"exchanges": {"first": 3, "last": 5}, "importance": "fix", "text": …, "brief": …,
/// "gist": …}]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Items, oldest first.
    pub items: Vec<ItemDraft>,
}
