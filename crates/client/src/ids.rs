//! Ids of messages. The daemon doesn't store a second message with the same id.

use serde_json::Value;

use recapd_core::formats;
use recapd_platform::randomness;

/// Returns the message with a `client_id` if it has no id, and whether it may be sent again because the daemon would
/// recognise it.
///
/// A message with an id of its own gets no second one: the daemon compares whole messages, so with a new random id a
/// repetition would be another message. A value that isn't an object stays unchanged: it may be sent again, because the
/// daemon always refuses it. If the operating system has no random bytes, the message stays without an id and is sent
/// only once.
pub(super) fn with_id(message: &Value) -> (Value, bool) {
    let mut message = message.clone();
    if !message.is_object() || has_id(&message) {
        return (message, true);
    }
    let mut has_new_id = false;
    if let Some(fields) = message.as_object_mut()
        && let Ok(id) = randomness::bytes()
    {
        let client_id = fields.entry("client_id").or_insert(Value::Null);
        if client_id.is_null() || client_id.as_str().is_some_and(str::is_empty) {
            *client_id = format!("{:032x}", u128::from_ne_bytes(id)).into();
            has_new_id = true;
        }
    }
    (message, has_new_id)
}

fn has_id(message: &Value) -> bool {
    formats::own_id(&message.to_string()).is_some()
}
