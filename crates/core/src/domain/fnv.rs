//! FNV-1a: a hash that is the same on every machine. It isn't safe against deliberate collisions.

use std::hash::Hasher;

/// Computes the 32-bit hash.
pub fn fnv32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A hasher for the 64-bit hash.
pub struct Fnv64(u64);

impl Default for Fnv64 {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv64 {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        let hash = |text: &str| fnv32(text.bytes());
        assert_eq!((hash(""), hash("a"), hash("foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
        let hash = |text: &str| {
            let mut hasher = Fnv64::default();
            hasher.write(text.as_bytes());
            hasher.finish()
        };
        assert_eq!(
            (hash(""), hash("a"), hash("foobar")),
            (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8)
        );
    }
}
