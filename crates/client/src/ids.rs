//! Ids of messages, as the daemon reads them: it doesn't store a second message with the same id.

use serde_json::Value;

use recapd_core::formats;
use recapd_platform::randomness;

/// Gives the message a `client_id` if it has no id, and returns whether the daemon will recognise a repetition. A message
/// with an id of its own gets no second one: the whole message is stored, so a new random id would make it differ when it
/// is sent again. A value that is no object is left for the daemon to refuse, each time. Without random bytes from the
/// operating system, the message stays without an id and is sent once.
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
