//! The capsule: the text that Codex keeps in place of the compacted conversation, and sends back with each request.
//!
//! A capsule holds the text itself, so a lost database loses nothing. A provider can't read a capsule, so the proxy
//! replaces it with a message before it forwards the request. Capsules of other programs stay unchanged.
//!
//! A capsule has a message authentication code (MAC), made with the proxy's token. A capsule with a valid MAC becomes a
//! developer's message; any other becomes a user's message. Without a token, the MAC only reveals damage.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use super::CompactReply;
use recapd_core::{
    domain::{agent::AgentId, text::floor_cut},
    hash::short_hash,
};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// Every capsule begins with this. It names the version of the capsule's form.
const MARK: &str = "recapd1.";
/// Limits the text in a capsule.
const TEXT_BYTES_MAX: usize = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Capsule {
    agent: AgentId,
    version: i64,
    text: String,
    #[serde(default)]
    mac: String,
}

impl Capsule {
    fn is_by(&self, key: &CapsuleKey) -> bool {
        bool::from(self.mac.as_bytes().ct_eq(key.mac(self).as_bytes()))
    }
}

/// The key for the MACs of capsules.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapsuleKey(pub(crate) Option<SecretString>);

impl CapsuleKey {
    fn mac(&self, capsule: &Capsule) -> String {
        let key = match &self.0 {
            Some(token) => token.expose_secret(),
            None => "",
        };
        short_hash(&[
            key.as_bytes(),
            capsule.agent.as_str().as_bytes(),
            &capsule.version.to_be_bytes(),
            capsule.text.as_bytes(),
        ])
    }
}

#[derive(Deserialize)]
struct RequestFields<'a> {
    #[serde(borrow)]
    input: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ItemFields {
    encrypted_content: Option<String>,
}

/// Seals a text in a capsule.
pub(super) fn seal(agent: &AgentId, text: &CompactReply, key: &CapsuleKey) -> String {
    let mut capsule = Capsule {
        agent: agent.clone(),
        version: text.summary_version,
        text: floor_cut(&text.text, TEXT_BYTES_MAX).to_owned(),
        mac: String::new(),
    };
    capsule.mac = key.mac(&capsule);
    let json = serde_json::to_vec(&capsule).unwrap_or_default();
    format!("{MARK}{}", URL_SAFE_NO_PAD.encode(json))
}

/// True if `body` contains the beginning of a capsule.
pub(super) fn may_be_in(body: &[u8]) -> bool {
    memmem::find(body, MARK.as_bytes()).is_some()
}

/// Replaces recapd's capsules in the body of a request. All other bytes stay unchanged. `None` if there are no
/// capsules.
pub(super) fn expand(body: &[u8], key: &CapsuleKey) -> Option<Vec<u8>> {
    if !may_be_in(body) {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?;
    let RequestFields { input } = serde_json::from_str(text).ok()?;
    let (mut expanded, mut copied) = (String::with_capacity(text.len()), 0);
    for raw in input {
        let Some(capsule) = read_capsule(raw.get()) else {
            continue;
        };
        let begin = raw.get().as_ptr().addr() - text.as_ptr().addr();
        expanded.push_str(text.get(copied..begin)?);
        expanded.push_str(&message(&capsule, key));
        copied = begin + raw.get().len();
    }
    expanded.push_str(text.get(copied..)?);
    (copied > 0).then(|| expanded.into_bytes())
}

/// Returns the capsule in an item of a request; `None` if the item isn't one of recapd's capsules.
fn read_capsule(item: &str) -> Option<Capsule> {
    if !item.contains(MARK) {
        return None;
    }
    let ItemFields { encrypted_content } = serde_json::from_str(item).ok()?;
    let content = encrypted_content?;
    let json = URL_SAFE_NO_PAD.decode(content.strip_prefix(MARK)?).ok()?;
    serde_json::from_slice(&json).ok()
}

/// Returns the message with the capsule's text.
fn message(capsule: &Capsule, key: &CapsuleKey) -> String {
    let text = format!(
        "The earlier conversation was compacted. This stands for it (recapd, agent {}, version {}):\n\n{}",
        capsule.agent, capsule.version, capsule.text
    );
    let content = json!([{"type": "input_text", "text": text}]);
    let role = if capsule.is_by(key) { "developer" } else { "user" };
    json!({"type": "message", "role": role, "content": content}).to_string()
}
