//! Short hashes as names.

use sha2::{Digest as _, Sha256};

use crate::domain::text::hexadecimal;

/// Half of SHA-256 is long enough to avoid collisions.
const BYTES: usize = 16;

/// The first half of SHA-256 over `parts`, each with its length, as 32 hexadecimal digits.
pub fn short_hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hexadecimal(hash.finalize().get(..BYTES).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_separated_by_their_lengths() {
        assert_eq!(short_hash(&[b"ab", b"c"]), short_hash(&[b"ab", b"c"]));
        assert_ne!(short_hash(&[b"ab", b"c"]), short_hash(&[b"a", b"bc"]));
        // Pinned: spools, hooks' journals and ids of imports store such hashes.
        assert_eq!(short_hash(&[b""]), "af5570f5a1810b7af78caf4bc70a660f");
    }
}
