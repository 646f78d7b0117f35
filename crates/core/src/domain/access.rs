//! What the holder of a token may do (its scope), and with which agents and projects (its reach).

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{
    agent::{AgentId, is_id},
    project::ProjectId,
};

/// The actions that a token allows; each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Reading.
    Read,
    /// Appending, and what belongs to an agent's own work: marks, pins, corrections of its summary.
    Write,
    /// Changing how recapd runs, and deleting things for good.
    Admin,
}

impl Scope {
    /// All scopes, the least first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The scope's name, in the database and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// The scope of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// The agents and projects that a token's holder can see at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// All agents and projects.
    All,
    /// Only the named agents and projects.
    Only(AccessNames),
}

/// Agents and projects by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessNames {
    /// These agents, also before they exist.
    pub agents: BTreeSet<AgentId>,
    /// The agents that belong to these projects at the time, and the projects' own summaries.
    pub projects: BTreeSet<ProjectId>,
}

impl Reach {
    /// The names that the reach is restricted to, if it is.
    pub fn named(&self) -> Option<&AccessNames> {
        match self {
            Self::All => None,
            Self::Only(named) => Some(named),
        }
    }

    /// Whether it includes this agent, which isn't in any project yet.
    pub fn includes_new(&self, agent: &AgentId) -> bool {
        self.named().is_none_or(|named| named.agents.contains(agent))
    }

    /// Whether it includes this project.
    pub fn includes_project(&self, project: &ProjectId) -> bool {
        self.named().is_none_or(|named| named.projects.contains(project))
    }
}

/// The name of a token, by which it is listed and revoked; the same characters as in an agent's id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenName(String);

/// Why a text is no token's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token's name must be 1 to 128 characters of A-Z a-z 0-9 . _ : - and begin with a letter or digit")]
pub struct InvalidTokenName;

impl TokenName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenName {
    type Err = InvalidTokenName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        is_id(text).then(|| Self(text.to_owned())).ok_or(InvalidTokenName)
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_include_those_before_them() {
        assert!(Scope::Read < Scope::Write && Scope::Write < Scope::Admin);
        for scope in Scope::ALL {
            assert_eq!(Scope::from_name(scope.name()), Some(scope));
        }
        assert_eq!(Scope::from_name("root"), None);
    }

    #[test]
    fn a_reach_is_all_or_what_it_names() {
        let coder: AgentId = "coder".parse().unwrap();
        let web: ProjectId = "web".parse().unwrap();
        assert!(Reach::All.includes_new(&coder) && Reach::All.includes_project(&web));
        let none = Reach::Only(AccessNames::default());
        assert!(!none.includes_new(&coder) && !none.includes_project(&web));
        let one = Reach::Only(AccessNames {
            agents: BTreeSet::from([coder.clone()]),
            projects: BTreeSet::new(),
        });
        assert!(one.includes_new(&coder) && !one.includes_project(&web));
        for reach in [Reach::All, none, one] {
            let text = serde_json::to_string(&reach).unwrap();
            assert_eq!(serde_json::from_str::<Reach>(&text).unwrap(), reach, "{text}");
        }
    }
}
