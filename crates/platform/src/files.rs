//! Lists files and the contents of folders.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use recapd_core::formats::file::is_conversation_folder;

const FOLDER_DEPTH_MAX: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A given path doesn't exist.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
}

/// Lists the files that `paths` name, and those in the folders that `paths` name, in order. A folder with one conversation is listed like
/// a file.
pub fn list_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ListError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.exists() {
            return Err(ListError::Missing(path.clone()));
        }
        let mut visited = HashSet::new();
        list_below(path, FOLDER_DEPTH_MAX, true, &mut visited, &mut files)
            .map_err(|source| ListError::Unreadable { path: path.clone(), source })?;
    }
    Ok(files)
}

/// Adds `path`, or the files below it. `visited` holds the real paths of what was listed: a file with several links is listed
/// once, and a link back to a parent folder ends there.
fn list_below(
    path: &Path,
    depth: usize,
    is_named: bool,
    visited: &mut HashSet<PathBuf>,
    files: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    if path.canonicalize().is_ok_and(|real| !visited.insert(real)) {
        return Ok(());
    }
    if !path.is_dir() || is_conversation_folder(path) {
        // A pipe is read if it is named, but skipped in a folder, because reading it would block. A dead link is kept, because
        // opening it reports the error.
        if is_named || !is_special(path) {
            files.push(path.to_owned());
        }
        return Ok(());
    }
    let mut inside: Vec<PathBuf> =
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    // Real files come before links, so that a file is listed under its real name.
    inside.sort_by_cached_key(|path| (path.is_symlink(), path.clone()));
    for path in inside.iter().filter(|_| depth > 0) {
        list_below(path, depth - 1, false, visited, files)?;
    }
    Ok(())
}

fn is_special(path: &Path) -> bool {
    path.exists() && !path.is_file() && !path.is_dir()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn linked_files_are_listed_once_under_their_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str| folder.path().join(name);
        std::fs::create_dir(named("inside")).unwrap();
        for name in ["b.jsonl", "inside/c.jsonl"] {
            std::fs::write(named(name), "").unwrap();
        }
        for (to, link) in
            [(".", "self"), ("..", "inside/up"), ("b.jsonl", "a.jsonl"), ("nowhere", "dead.jsonl")]
        {
            symlink(to, named(link)).unwrap();
        }
        let folder = folder.path().to_owned();
        let expected = ["b.jsonl", "inside/c.jsonl", "dead.jsonl"].map(|name| folder.join(name));
        assert_eq!(list_files(std::slice::from_ref(&folder)).unwrap(), expected);
        // A file that the caller names twice is listed twice.
        let twice = [folder.join("b.jsonl"), folder.join("a.jsonl")];
        assert_eq!(list_files(&twice).unwrap(), twice);
    }
}
