//! The permissions of a token: its scope (which actions it allows) and its reach (which agents and projects it can see).

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{
    agent::{AgentId, is_id},
    project::ProjectId,
};

/// Which actions a token allows. Each scope includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Reading.
    Read,
    /// Appending, and changes to an agent's own data: marks, pins, corrections of its summary.
    Write,
    /// Changing how recapd runs, and deleting data for good.
    Admin,
}

impl Scope {
    /// All scopes, from the weakest to the strongest.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Returns the name used in the database and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// Parses a scope's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// Which agents and projects a token can see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// All agents and projects.
    All,
    /// Only the named agents and projects.
    Only(AccessNames),
}

/// Agents and projects, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessNames {
    /// The ids of agents. Such an agent needn't exist yet.
    pub agents: BTreeSet<AgentId>,
    /// The agents that belong to these projects when the request comes, and the projects' own summaries.
    pub projects: BTreeSet<ProjectId>,
}

impl Reach {
    /// Returns the names to which the reach is limited; `None` if it is unlimited.
    pub fn names(&self) -> Option<&AccessNames> {
        match self {
            Self::All => None,
            Self::Only(names) => Some(names),
        }
    }

    /// Returns true if the reach includes a new agent, which is in no project yet.
    pub fn includes_new(&self, agent: &AgentId) -> bool {
        self.names().is_none_or(|names| names.agents.contains(agent))
    }

    /// Returns true if the reach includes `project`.
    pub fn includes_project(&self, project: &ProjectId) -> bool {
        self.names().is_none_or(|names| names.projects.contains(project))
    }
}

/// The name by which a token is listed and revoked. It follows the rules of an agent's id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenName(String);

/// The text isn't a valid token name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token's name must be 1 to 128 characters of A-Z a-z 0-9 . _ : - and begin with a letter or digit")]
pub struct InvalidTokenName;

impl TokenName {
    /// Returns the name as text.
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
    fn a_reach_includes_everything_or_only_its_names() {
        let coder: AgentId = "coder".parse().unwrap();
        let web: ProjectId = "web".parse().unwrap();
        assert!(Reach::All.includes_new(&coder) && Reach::All.includes_project(&web));
        let none = Reach::Only(AccessNames::default());
        assert!(!none.includes_new(&coder) && !none.includes_project(&web));
        let one =
            Reach::Only(AccessNames { agents: BTreeSet::from([coder.clone()]), projects: BTreeSet::new() });
        assert!(one.includes_new(&coder) && !one.includes_project(&web));
        for reach in [Reach::All, none, one] {
            let text = serde_json::to_string(&reach).unwrap();
            assert_eq!(serde_json::from_str::<Reach>(&text).unwrap(), reach, "{text}");
        }
    }
}
