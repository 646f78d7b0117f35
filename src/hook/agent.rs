//! The agent of a hook's session: by default one for each host and project folder.

use std::path::{Path, PathBuf};

use super::{Host, Input};
use recapd_config::Environment;
use recapd_core::{
    domain::{agent::AgentId, text::floor_cut},
    hash::short_hash,
};

/// The default template of the agent's name.
const TEMPLATE: &str = "{host}:{project}";
/// Claude Code's variable for the folder in which the session began; `cwd` changes during it.
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";
/// Limits of a folder's name in an agent's id: bytes of the name, then digits of its hash, which tells namesakes apart.
const NAME_BYTES_MAX: usize = 40;
const HASH_DIGITS: usize = 8;
/// How many parent folders are searched for the root of the repository.
const ANCESTORS_MAX: usize = 64;

/// Returns the agent named by `template`.
pub(super) fn name(template: Option<&str>, host: Host, input: &Input, environment: &Environment) -> AgentId {
    let project = project(host, input, environment);
    let name = template
        .unwrap_or(TEMPLATE)
        .replace("{host}", host.name())
        .replace("{project}", &label(&project))
        .replace("{session}", &input.session);
    AgentId::slug(&name)
}

/// Returns the session's folder: where the host says it began, else the root of the repository around `cwd`, else `cwd`.
fn project(host: Host, input: &Input, environment: &Environment) -> PathBuf {
    let said = environment
        .get(PROJECT_VARIABLE)
        .filter(|_| host == Host::ClaudeCode);
    if let Some(folder) = said {
        return resolved(Path::new(folder));
    }
    let folder = resolved(input.folder.as_deref().unwrap_or(Path::new("/")));
    let root = folder
        .ancestors()
        .take(ANCESTORS_MAX)
        .find(|folder| folder.join(".git").exists());
    root.map_or_else(|| folder.clone(), Path::to_owned)
}

fn resolved(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

fn label(project: &Path) -> String {
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let name = AgentId::slug(&name);
    let digits: String = short_hash(&[project.as_os_str().as_encoded_bytes()])
        .chars()
        .take(HASH_DIGITS)
        .collect();
    format!("{}-{digits}", floor_cut(name.as_str(), NAME_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(folder: &Path) -> Input {
        Input {
            session: "0b1c/2".to_owned(),
            folder: Some(folder.to_owned()),
            ..Input::default()
        }
    }

    #[test]
    fn all_folders_of_a_project_have_one_agent() {
        let folder = tempfile::tempdir().unwrap();
        let (deep, git) = (
            folder.path().join("my shop/src/deep"),
            folder.path().join("my shop/.git"),
        );
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(git).unwrap();
        let none = Environment::default();
        let agent = |folder: &Path, environment: &Environment| {
            name(None, Host::ClaudeCode, &input(folder), environment)
        };
        let root = folder.path().join("my shop");
        let named = agent(&root, &none);
        assert!(named.as_str().starts_with("claude-code:my-shop-"), "{named}");
        assert_eq!(agent(&deep, &none), named);
        assert_ne!(agent(folder.path(), &none), named);
        let said = [(PROJECT_VARIABLE, root.to_str().unwrap())].into_iter().collect();
        assert_eq!(agent(Path::new("/"), &said), named);
        let codex = name(None, Host::Codex, &input(&deep), &said);
        assert_eq!(codex.as_str().replace("codex", "claude-code"), named.as_str());
    }

    #[test]
    fn a_template_names_the_agent() {
        let named = name(
            Some("me:{host}:{session}"),
            Host::Codex,
            &input(Path::new("/")),
            &Environment::default(),
        );
        assert_eq!(named.as_str(), "me:codex:0b1c-2");
    }
}
