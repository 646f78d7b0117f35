//! Decides which agent a session belongs to: by default an agent of its own, in the project of its folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Host, Input};
use recapd_config::Environment;
use recapd_core::{
    domain::{agent::AgentId, project::ProjectId, text::floor_cut},
    hash::{session_agent, short_hash},
};

/// The placeholder for the session in a template. A template that contains it gives each session an agent of its own.
const SESSION_PLACEHOLDER: &str = "{session}";
/// Claude Code's variable for the folder in which the session began. The input's `cwd` changes during the session.
pub(super) const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";
/// Limits the folder's name in a project's id.
const NAME_BYTES_MAX: usize = 40;
/// This many digits of the folder's hash are part of a project's id. They distinguish folders with the same name.
const HASH_DIGITS: usize = 8;
/// Searches this many parent folders for the root of the repository.
const ANCESTORS_MAX: usize = 64;

/// The agent of a session, and the agent's project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOwner {
    pub agent: AgentId,
    /// `None` if several sessions share the agent: its own summary then covers all of them, so they need no project.
    pub project: Option<SessionProject>,
}

/// The project of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionProject {
    pub id: ProjectId,
    /// In earlier versions of recapd, all sessions of a folder shared this agent. Its summary becomes part of the
    /// project's.
    pub former: AgentId,
}

/// Returns the owner of a session. `template` names the agent; without a template, the session has an agent of its own.
pub(super) fn owner(
    template: Option<&str>,
    host: Host,
    input: &Input,
    environment: &Environment,
) -> SessionOwner {
    let label = label(&project_folder(host, input, environment));
    let agent = template.map_or_else(
        || session_agent(host.name(), &input.session),
        |template| {
            let name = template.replace("{host}", host.name()).replace("{project}", &label);
            AgentId::slug(&name.replace(SESSION_PLACEHOLDER, &input.session))
        },
    );
    let is_per_session = template.is_none_or(|template| template.contains(SESSION_PLACEHOLDER));
    let project = label
        .parse()
        .ok()
        .filter(|_| is_per_session)
        .map(|id| SessionProject { id, former: AgentId::slug(&format!("{}:{label}", host.name())) });
    SessionOwner { agent, project }
}

/// Returns the id of the project that Claude Code's session in `folder` belongs to. Claude Code started this process.
pub fn project_id(folder: &Path, environment: &Environment) -> String {
    let input = Input { folder: Some(folder.to_owned()), ..Input::default() };
    label(&project_folder(Host::ClaudeCode, &input, environment))
}

/// Returns the folder of the session's project: the folder in which the session began, if the host names it; otherwise
/// the root of the repository around the input's folder; otherwise the input's folder.
fn project_folder(host: Host, input: &Input, environment: &Environment) -> PathBuf {
    let begun_in = environment.get(PROJECT_VARIABLE).filter(|_| host == Host::ClaudeCode);
    if let Some(folder) = begun_in {
        return resolve(Path::new(folder));
    }
    let folder = resolve(input.folder.as_deref().unwrap_or(Path::new("/")));
    let root = folder.ancestors().take(ANCESTORS_MAX).find(|folder| folder.join(".git").exists());
    root.map_or_else(|| folder.clone(), Path::to_owned)
}

fn resolve(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Returns the project's id: the folder's name and digits of its hash.
fn label(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = AgentId::slug(&name);
    let digits: String =
        short_hash(&[folder.as_os_str().as_encoded_bytes()]).chars().take(HASH_DIGITS).collect();
    format!("{}-{digits}", floor_cut(name.as_str(), NAME_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(folder: &Path) -> Input {
        Input { session: "0b1c/2".to_owned(), folder: Some(folder.to_owned()), ..Input::default() }
    }

    #[test]
    fn all_folders_of_a_repository_have_the_same_project() {
        let folder = tempfile::tempdir().unwrap();
        let (deep, git) = (folder.path().join("my shop/src/deep"), folder.path().join("my shop/.git"));
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(git).unwrap();
        let none = Environment::default();
        let project = |folder: &Path, environment: &Environment| {
            let owner = owner(None, Host::ClaudeCode, &input(folder), environment);
            owner.project.unwrap()
        };
        let root = folder.path().join("my shop");
        let shop = project(&root, &none);
        assert!(shop.id.as_str().starts_with("my-shop-"), "{shop:?}");
        assert_eq!(shop.former.as_str(), format!("claude-code:{}", shop.id));
        assert_eq!(project(&deep, &none), shop);
        assert_ne!(project(folder.path(), &none), shop);
        let variable = [(PROJECT_VARIABLE, root.to_str().unwrap())].into_iter().collect();
        assert_eq!(project(Path::new("/"), &variable), shop);
        let codex = owner(None, Host::Codex, &input(&deep), &variable);
        assert_eq!(codex.project.unwrap().id, shop.id);
    }

    #[test]
    fn a_session_has_the_agent_that_the_proxy_gives_it() {
        let session = "0b1c2d3e-0000-4000-8000-000000000001";
        let input = Input { session: session.to_owned(), ..input(Path::new("/")) };
        let owner = owner(None, Host::ClaudeCode, &input, &Environment::default());
        assert_eq!(owner.agent.as_str(), format!("claude-code:-:{session}"));
    }

    #[test]
    fn a_template_names_the_agent() {
        let owner_by = |template| {
            let input = input(Path::new("/shop"));
            owner(Some(template), Host::Codex, &input, &Environment::default())
        };
        let own = owner_by("me:{host}:{session}");
        assert_eq!(own.agent.as_str(), "me:codex:0b1c-2");
        assert!(own.project.is_some());
        assert_eq!(owner_by("me").project, None, "the agent's own summary covers all its sessions");
    }
}
