//! The schema of an answer, for providers.

use serde_json::Value;

/// The JSON schema of an answer. In strict modes a model writes the fields in the schema's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The schema's name, for providers that want one.
    pub name: &'static str,
    /// The schema as JSON text.
    pub json: &'static str,
}

impl Schema {
    /// Parses the schema.
    pub fn value(self) -> Value {
        serde_json::from_str(self.json).expect("a literal, and a test reads it")
    }
}

/// The schema of an [`Answer`](super::Answer). The detailed text comes first, so that the model makes the shorter texts from it; the
/// importance comes last. The words for the importance are those of [`Importance::word`](crate::domain::summary::item::Importance::word).
pub const ITEMS: Schema = Schema {
    name: "summary_items",
    json: r#"{
  "type": "object",
  "properties": {
    "items": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "exchanges": {
            "type": "object",
            "properties": {"first": {"type": "integer"}, "last": {"type": "integer"}},
            "required": ["first", "last"],
            "additionalProperties": false
          },
          "text": {"type": "string"},
          "brief": {"type": "string"},
          "gist": {"type": "string"},
          "importance": {
            "type": "string",
            "enum": ["chat", "attempt", "fact", "result", "demand", "decision"]
          }
        },
        "required": ["exchanges", "text", "brief", "gist", "importance"],
        "additionalProperties": false
      }
    },
    "facts": {
      "type": "object",
      "properties": {
        "add": {
          "type": "array",
          "items": {
            "type": "object",
            "properties": {
              "kind": {
                "type": "string",
                "enum": ["goal", "demand", "decision", "state", "open", "dead_end", "person"]
              },
              "text": {"type": "string"},
              "exchange": {"type": "integer"}
            },
            "required": ["kind", "text", "exchange"],
            "additionalProperties": false
          }
        },
        "replace": {
          "type": "array",
          "items": {
            "type": "object",
            "properties": {
              "fact": {"type": "integer"},
              "text": {"type": "string"},
              "exchange": {"type": "integer"}
            },
            "required": ["fact", "text", "exchange"],
            "additionalProperties": false
          }
        },
        "close": {
          "type": "array",
          "items": {
            "type": "object",
            "properties": {"fact": {"type": "integer"}, "exchange": {"type": "integer"}},
            "required": ["fact", "exchange"],
            "additionalProperties": false
          }
        }
      },
      "required": ["add", "replace", "close"],
      "additionalProperties": false
    }
  },
  "required": ["items", "facts"],
  "additionalProperties": false
}"#,
};
