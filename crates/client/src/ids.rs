//! A message's own id, as the daemon reads it: what was stored under it isn't stored again.

use serde_json::Value;

use recapd_core::formats;
use recapd_platform::randomness;

/// The message, with a `client_id` if it has no id, and whether the daemon knows it when it comes again. It gets none beside
/// one of its own: what is stored is the whole message, so that the same one would be another one when it is said again. What
/// is no object is left for the daemon to refuse, each time. Where the system gives no random bytes the message stays without
/// an id, and is sent once.
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
