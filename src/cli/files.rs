//! The files that a command is given, folders looked through.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::exit::{Failed, USAGE};

/// Folders are looked through so deep.
const FOLDER_DEPTH_MAX: usize = 16;

/// The files among `paths` and below the folders among them, in order.
pub(super) fn list_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failed> {
    let mut files = Vec::new();
    for path in paths {
        if !path.exists() {
            return Err(Failed::new(
                USAGE,
                anyhow::anyhow!("{} does not exist", path.display()),
            ));
        }
        list_below(path, FOLDER_DEPTH_MAX, &mut files).with_context(|| path.display().to_string())?;
    }
    Ok(files)
}

fn list_below(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut inside: Vec<PathBuf> = std::fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    inside.sort();
    for path in inside.iter().filter(|_| depth > 0) {
        list_below(path, depth - 1, files)?;
    }
    Ok(())
}
