//! Remembers exchanges that answers left out.

use hashlink::LruCache;

use recapd_core::domain::agent::AgentId;

const LEFT_OUT_MAX: usize = 10_000;

/// The exchanges, up to a limit. Forgetting one costs a few more calls when it is revisited.
#[derive(Debug)]
pub(super) struct LeftOut(LruCache<(AgentId, i64), ()>);

impl Default for LeftOut {
    fn default() -> Self {
        Self(LruCache::new(LEFT_OUT_MAX))
    }
}

impl LeftOut {
    pub(super) fn note(&mut self, agent: &AgentId, exchanges: &[i64]) {
        for exchange in exchanges {
            self.0.insert((agent.clone(), *exchange), ());
        }
    }

    pub(super) fn has_all(&self, agent: &AgentId, exchanges: &[i64]) -> bool {
        let mut exchanges = exchanges.iter();
        exchanges.all(|exchange| self.0.peek(&(agent.clone(), *exchange)).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_exchanges_are_remembered_per_agent() {
        let (mut left_out, a): (LeftOut, AgentId) = (LeftOut::default(), "a".parse().unwrap());
        left_out.note(&a, &[3, 5]);
        assert!(left_out.has_all(&a, &[3]) && left_out.has_all(&a, &[3, 5]));
        assert!(!left_out.has_all(&a, &[3, 4]) && !left_out.has_all(&"b".parse().unwrap(), &[3]));
    }
}
