//! Names made of what they stand for.

use sha2::{Digest as _, Sha256};

use crate::domain::text::hexadecimal;

/// Half of SHA-256 is more than enough to tell things apart.
const BYTES: usize = 16;

/// Half of SHA-256 over `parts`, each with its length, in 32 hexadecimal digits: the same whenever the same comes again.
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
    fn parts_are_told_apart_by_their_lengths() {
        assert_eq!(short_hash(&[b"ab", b"c"]), short_hash(&[b"ab", b"c"]));
        assert_ne!(short_hash(&[b"ab", b"c"]), short_hash(&[b"a", b"bc"]));
        // As kept in spools, journals of hooks and ids of imports: it can't be another one.
        assert_eq!(short_hash(&[b""]), "af5570f5a1810b7af78caf4bc70a660f");
    }
}
