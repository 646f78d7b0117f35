//! Chance: the one place where random bytes of the system come in. Secrets and ids are made of them, and seeds of
//! generators, so that with a seed of its own a simulation or a test is the same each time.

use rustls::crypto::ring::default_provider;

/// Why there are no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

/// Bytes that nobody can guess.
pub fn bytes<const COUNT: usize>() -> Result<[u8; COUNT], NoRandomness> {
    let mut bytes = [0; COUNT];
    let filled = default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// What a generator begins with: another one each time, whatever the time is.
pub fn seed() -> Result<u64, NoRandomness> {
    bytes().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_alike() {
        let seeds = [seed(), seed(), seed()].map(Result::unwrap);
        let [a, b, c] = seeds;
        assert!(a != b && b != c && a != c, "{seeds:?}");
        assert_ne!(bytes::<32>().unwrap(), bytes::<32>().unwrap());
    }
}
