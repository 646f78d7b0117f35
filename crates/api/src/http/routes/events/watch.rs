//! Collects the agents whose states must be read because of a change. Does no I/O.

use std::collections::BTreeSet;

use recapd_core::domain::agent::AgentId;
use recapd_platform::notice::Change;

/// The agents whose states must be read: of all agents, or only of one.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The watched agent; `None` if all agents are watched.
    only: Option<AgentId>,
    due: BTreeSet<AgentId>,
    /// Agents whose state couldn't be read. They are due again at the next tick.
    later: BTreeSet<AgentId>,
}

/// Changes were missed, and it is unknown which agents changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissedChanges;

impl Watch {
    /// Watches only this agent. It is due at once.
    pub(super) fn one(agent: AgentId) -> Self {
        Self { due: BTreeSet::from([agent.clone()]), only: Some(agent), later: BTreeSet::new() }
    }

    pub(super) fn is_of_all(&self) -> bool {
        self.only.is_none()
    }

    /// Records a change; `None` if one was missed. A subscription to one agent loses nothing: the next read finds every
    /// change.
    pub(super) fn note(&mut self, change: Option<Change>) -> Result<(), MissedChanges> {
        match (change, &self.only) {
            (Some(Change::Agent(agent)), only) => {
                if only.as_ref().is_none_or(|only| *only == agent) {
                    self.due.insert(agent);
                }
                Ok(())
            }
            (Some(Change::All) | None, Some(only)) => {
                self.due.insert(only.clone());
                Ok(())
            }
            (Some(Change::All) | None, None) => {
                self.due.clear();
                Err(MissedChanges)
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<AgentId> {
        self.due.pop_first()
    }

    pub(super) fn retry(&mut self, agent: AgentId) {
        self.later.insert(agent);
    }

    /// Makes agents due whose state couldn't be read, and the one agent that is watched. Called at each tick.
    pub(super) fn recheck_all(&mut self) {
        self.due.append(&mut self.later);
        self.due.extend(self.only.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    fn due(watch: &mut Watch) -> Vec<AgentId> {
        std::iter::from_fn(|| watch.next()).collect()
    }

    #[test]
    fn several_changes_of_an_agent_cause_one_read() {
        let mut watch = Watch::default();
        for name in ["a", "b", "a"] {
            assert_eq!(watch.note(Some(Change::Agent(id(name)))), Ok(()));
        }
        assert_eq!(due(&mut watch), [id("a"), id("b")]);
        watch.retry(id("b"));
        assert_eq!(due(&mut watch), []);
        watch.recheck_all();
        assert_eq!(due(&mut watch), [id("b")]);
    }

    #[test]
    fn missed_changes_are_caught_up_or_reported() {
        for missed in [None, Some(Change::All)] {
            let (mut one, mut all) = (Watch::one(id("a")), Watch::default());
            assert_eq!(due(&mut one), [id("a")]);
            assert_eq!(one.note(Some(Change::Agent(id("b")))), Ok(()));
            assert_eq!(due(&mut one), []);
            assert_eq!(one.note(missed.clone()), Ok(()));
            assert_eq!(due(&mut one), [id("a")]);
            all.note(Some(Change::Agent(id("b")))).unwrap();
            assert_eq!(all.note(missed), Err(MissedChanges));
            assert_eq!(due(&mut all), []);
        }
    }
}
