//! The URIs of resources.

use recapd_core::domain::agent::AgentId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceKind {
    Summary,
    History,
    Window,
}

impl ResourceKind {
    pub(super) const ALL: [Self; 3] = [Self::Summary, Self::History, Self::Window];

    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Summary => "summary.md",
            Self::History => "history.md",
            Self::Window => "window.json",
        }
    }

    pub(super) fn mime_type(self) -> &'static str {
        match self {
            Self::Summary | Self::History => "text/markdown",
            Self::Window => "application/json",
        }
    }
}

/// The template of another URI for summaries.
pub(super) const ALIAS: &str = "ikigai:///summaries/{agent_id}.md";

/// The resource that a URI names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceName {
    pub(super) agent: AgentId,
    pub(super) kind: ResourceKind,
}

impl ResourceName {
    /// Parses a URI; `None` if it names no resource.
    pub(super) fn read(uri: &str) -> Option<Self> {
        let (agent, kind) = if let Some(rest) = uri.strip_prefix("ikigai:///summaries/") {
            (rest.strip_suffix(".md")?, ResourceKind::Summary)
        } else {
            let (agent, file) = uri.strip_prefix("recapd://agents/")?.split_once('/')?;
            (agent, ResourceKind::ALL.into_iter().find(|kind| kind.file() == file)?)
        };
        // Clients that expand the template escape only this character of an id.
        let agent = agent.replace("%3A", ":").replace("%3a", ":");
        Some(Self { agent: agent.parse().ok()?, kind })
    }
}

/// Returns the URI template of a kind of resources.
pub(super) fn template(kind: ResourceKind) -> String {
    of("{agent_id}", kind)
}

pub(super) fn of(agent: &str, kind: ResourceKind) -> String {
    format!("recapd://agents/{agent}/{}", kind.file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_read_as_it_was_written() {
        for kind in ResourceKind::ALL {
            let name = ResourceName::read(&of("team:coder.1", kind)).unwrap();
            assert_eq!((name.agent.as_str(), name.kind), ("team:coder.1", kind));
        }
        for uri in ["ikigai:///summaries/team:coder.1.md", "recapd://agents/team%3Acoder.1/summary.md"] {
            let name = ResourceName::read(uri).unwrap();
            assert_eq!((name.agent.as_str(), name.kind), ("team:coder.1", ResourceKind::Summary));
        }
    }

    #[test]
    fn other_uris_are_not_resources() {
        for uri in [
            "",
            "recapd://agents/",
            "recapd://agents/coder",
            "recapd://agents/coder/",
            "recapd://agents/coder/other.md",
            "recapd://agents/coder/summary.md/more",
            "recapd://agents/../coder/summary.md",
            "recapd://agents/-x/summary.md",
            "ikigai:///summaries/.md",
            "ikigai:///summaries/a/b.md",
            "file:///etc/passwd",
        ] {
            assert_eq!(ResourceName::read(uri), None, "{uri}");
        }
    }
}
