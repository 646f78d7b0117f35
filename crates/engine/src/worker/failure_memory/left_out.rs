//! Exchanges that answers left out, although they were asked about by themselves, too.

use hashlink::LruCache;

use recapd_core::domain::agent::AgentId;

/// The most exchanges that are remembered.
const LEFT_OUT_MAX: usize = 10_000;

/// The exchanges, until they are forgotten for newer ones. Forgetting one costs a few calls more when it is revisited.
#[derive(Debug)]
pub(super) struct LeftOut(LruCache<(AgentId, i64), ()>);

impl Default for LeftOut {
    fn default() -> Self {
        Self(LruCache::new(LEFT_OUT_MAX))
    }
}

impl LeftOut {
    /// Notes those exchanges.
    pub(super) fn note(&mut self, agent: &AgentId, exchanges: &[i64]) {
        for exchange in exchanges {
            self.0.insert((agent.clone(), *exchange), ());
        }
    }

    /// Whether all of them were left out.
    pub(super) fn has_all(&self, agent: &AgentId, exchanges: &[i64]) -> bool {
        let mut exchanges = exchanges.iter();
        exchanges.all(|exchange| self.0.peek(&(agent.clone(), *exchange)).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_known_agent_by_agent() {
        let (mut left_out, a): (LeftOut, AgentId) = (LeftOut::default(), "a".parse().unwrap());
        left_out.note(&a, &[3, 5]);
        assert!(left_out.has_all(&a, &[3]) && left_out.has_all(&a, &[3, 5]));
        assert!(!left_out.has_all(&a, &[3, 4]) && !left_out.has_all(&"b".parse().unwrap(), &[3]));
    }
}
