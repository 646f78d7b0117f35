//! Ids of messages. The daemon doesn't store a second message with the same id.

use serde_json::Value;

use recapd_core::formats;
use recapd_platform::randomness;

/// Gives the message a `client_id` if it has no id. Also returns whether the daemon would recognise the message if it
/// is sent again. A message with an id of its own gets no second one: the daemon compares whole messages, so a new
/// random id would make the repetition another message. A value that isn't an object stays unchanged, because the
/// daemon always refuses it. If the operating system has no random bytes, the message stays without an id and is sent
/// only once.
pub(super) fn named(message: &Value) -> (Value, bool) {
    let mut message = message.clone();
    if !message.is_object() || has_id(&message) {
        return (message, true);
    }
    let mut is_named = false;
    if let Some(fields) = message.as_object_mut()
        && let Ok(id) = randomness::bytes()
    {
        let given = fields.entry("client_id").or_insert(Value::Null);
        if given.is_null() || given.as_str().is_some_and(str::is_empty) {
            *given = format!("{:032x}", u128::from_ne_bytes(id)).into();
            is_named = true;
        }
    }
    (message, is_named)
}

fn has_id(message: &Value) -> bool {
    formats::own_id(&message.to_string()).is_some()
}
