//! The only source of random bytes: the operating system. The bytes become secrets, ids, and seeds of generators. A test or a
//! simulation that gives a generator a fixed seed instead is reproducible.

use rustls::crypto::ring::default_provider;

/// The operating system provides no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

/// Returns unpredictable bytes.
pub fn bytes<const COUNT: usize>() -> Result<[u8; COUNT], NoRandomness> {
    let mut bytes = [0; COUNT];
    let filled = default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// Returns a generator's seed. It is unpredictable and independent of the time.
pub fn seed() -> Result<u64, NoRandomness> {
    bytes().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_differ_from_call_to_call() {
        let seeds = [seed(), seed(), seed()].map(Result::unwrap);
        let [a, b, c] = seeds;
        assert!(a != b && b != c && a != c, "{seeds:?}");
        assert_ne!(bytes::<32>().unwrap(), bytes::<32>().unwrap());
    }
}
