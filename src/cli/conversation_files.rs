//! Lists the files of conversations. Unpacks databases in which other programs keep sessions.

mod session_database;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

use super::{exit::CommandFailure, terminal::output};
use recapd_platform::files::list_files;
use session_database::SessionsError;

/// Files of conversations. Sessions in databases are unpacked to a temporary folder. Dropping this value deletes the folder.
pub(super) struct ConversationFiles {
    pub(super) files: Vec<PathBuf>,
    folder: Option<TempDir>,
}

impl ConversationFiles {
    /// Lists the files that `paths` name or contain. Reports databases that can't be read. Fails if there is nothing else.
    pub(super) fn list(paths: &[PathBuf]) -> Result<Self, CommandFailure> {
        let mut listed = Self { files: Vec::new(), folder: None };
        let mut refused = None;
        for path in list_files(paths).map_err(CommandFailure::unlisted)? {
            if !session_database::is_database(&path) {
                listed.files.push(path);
                continue;
            }
            let folder = listed.folder_for(&path)?;
            match session_database::unpack(&path, &folder) {
                Ok(files) => listed.files.extend(files),
                Err(error @ SessionsError::Unwritable { .. }) => return Err(anyhow::Error::new(error).into()),
                Err(error) => {
                    refused = Some(error).inspect(|error| output::error(&format!("skipped {error}")));
                }
            }
        }
        match refused {
            Some(error) if listed.files.is_empty() => Err(CommandFailure::usage(error.to_string())),
            _ => Ok(listed),
        }
    }

    /// Makes a folder for the sessions of a database. It has the database's name, because sessions of the same name in other databases are
    /// named by their folders.
    fn folder_for(&mut self, database: &Path) -> Result<PathBuf, CommandFailure> {
        let folder = match self.folder.take() {
            Some(folder) => self.folder.insert(folder),
            None => self.folder.insert(TempDir::new().context("can't make a temporary folder")?),
        };
        let number = folder.path().read_dir().map_or(0, Iterator::count);
        let name = database.file_stem().unwrap_or_default().to_string_lossy();
        let folder =
            folder.path().join(if number == 0 { name.into_owned() } else { format!("{name}-{number}") });
        std::fs::create_dir(&folder).context("can't make a temporary folder")?;
        Ok(folder)
    }
}
