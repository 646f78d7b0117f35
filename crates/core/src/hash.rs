//! Short hashes, and the ids of the agents of hosts' sessions.

use sha2::{Digest as _, Sha256};

use crate::domain::{agent::AgentId, text::hexadecimal};

/// The length of a short hash: half of SHA-256, which is long enough to avoid collisions.
const BYTES: usize = 16;
/// The length of a UUID. A session's id that isn't a UUID is hashed, since it may contain anything.
const UUID_CHARS: usize = 36;
/// Such a session is named by this many digits of its hash.
const LABEL_DIGITS: usize = 16;

/// Returns the first half of SHA-256 over `parts`, each after its length, as 32 hexadecimal digits.
pub fn short_hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hexadecimal(hash.finalize().get(..BYTES).unwrap_or_default())
}

/// Returns the id `CLIENT:-:SESSION` of the agent of a session of the program `client`. The proxy and the hooks of hosts both use this id,
/// so a session has one agent, however its messages arrive.
pub fn session_agent(client: &str, session: &str) -> AgentId {
    AgentId::slug(&format!("{client}:-:{}", session_label(session)))
}

/// Returns a session's id in the form in which the agent's id contains it.
pub fn session_label(id: &str) -> String {
    let is_uuid = id.len() == UUID_CHARS && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_uuid {
        return id.to_ascii_lowercase();
    }
    short_hash(&[id.as_bytes()]).chars().take(LABEL_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_id_has_its_sessions_uuid_or_hash() {
        let agent = session_agent("claude-code", "0B1C2D3E-0000-4000-8000-000000000001");
        assert_eq!(agent.as_str(), "claude-code:-:0b1c2d3e-0000-4000-8000-000000000001");
        assert_eq!(session_agent("codex", "s/1").as_str(), "codex:-:2fccb739e8791639");
    }

    #[test]
    fn parts_are_separated_by_their_lengths() {
        assert_eq!(short_hash(&[b"ab", b"c"]), short_hash(&[b"ab", b"c"]));
        assert_ne!(short_hash(&[b"ab", b"c"]), short_hash(&[b"a", b"bc"]));
        // Must not change: spools, hooks' journals and ids of imports store such hashes.
        assert_eq!(short_hash(&[b""]), "af5570f5a1810b7af78caf4bc70a660f");
    }
}
