//! Decides who may read a database: its owner alone, or also a group if its folder is set up for one.
//!
//! SQLite gives the files that it creates next to a database (`-wal`, `-shm`) the mode of the database, whatever the umask is
//! (`findCreateFileMode` in its `os_unix.c`). So recapd must create only the database itself, before SQLite would.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::MissingFolder;

/// The mode of a file for the owner alone.
pub(crate) const OWN_MODE: u32 = 0o600;
/// The mode of a file for the owner and the group.
const GROUP_MODE: u32 = 0o660;
/// The mode of a folder for the owner alone.
const FOLDER_MODE: u32 = 0o700;
/// The bits of a folder that is set up for a group: new files belong to the group, and the group may write. The service's unit
/// sets them (`StateDirectoryMode=2770`).
const FOR_GROUP: u32 = 0o2020;

/// Returns the mode of a new file next to `file`.
pub(crate) fn mode_beside(file: &Path) -> u32 {
    let is_for_group =
        folder_of(file).metadata().is_ok_and(|folder| folder.permissions().mode() & FOR_GROUP == FOR_GROUP);
    if is_for_group { GROUP_MODE } else { OWN_MODE }
}

/// Opens `file` for writing. Gives a new file the mode that its folder prescribes; an existing file keeps its mode.
pub(super) fn make(file: &Path) -> io::Result<File> {
    let is_new = !file.try_exists()?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(OWN_MODE);
    let handle = options.open(file)?;
    if is_new {
        // The umask is overridden: a folder that is set up for a group is meant for everything created there.
        handle.set_permissions(Permissions::from_mode(mode_beside(file)))?;
    }
    Ok(handle)
}

/// Creates the folder of `file`, if it is missing and may be created.
///
/// # Errors
/// If it can't be created.
pub fn make_folder(file: &Path, missing: MissingFolder) -> io::Result<()> {
    let folder = folder_of(file);
    if missing == MissingFolder::Refuse || folder.try_exists()? {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// Returns the files of the database `file` that somebody can read who may not. The owner may, and the group if the folder is set
/// up for one.
pub fn exposed(file: &Path) -> Vec<PathBuf> {
    let candidates = ["", "-wal", "-shm", ".lock"].map(|end| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    });
    let allowed = mode_beside(file);
    let is_exposed = |file: &PathBuf| {
        let mode = file.metadata().map(|of| of.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o077 & !allowed != 0)
    };
    candidates.into_iter().filter(is_exposed).collect()
}

fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn mode(file: &Path) -> u32 {
        file.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_new_file_is_for_its_owner_and_in_a_group_folder_for_the_group() {
        for (folder_mode, expected) in
            [(0o755, 0o600), (0o775, 0o600), (0o2755, 0o600), (0o2770, 0o660), (0o2775, 0o660)]
        {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(folder_mode)).unwrap();
            let file = folder.path().join("one.db");
            make(&file).unwrap();
            assert_eq!(mode(&file), expected, "{folder_mode:o}");
            assert_eq!(exposed(&file), Vec::<PathBuf>::new());
            // A mode that somebody set is kept.
            fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
            make(&file).unwrap();
            assert_eq!(mode(&file), 0o664);
            assert_eq!(exposed(&file), [file]);
        }
    }

    #[test]
    fn a_file_created_through_a_dangling_link_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link.db"), folder.path().join("file.db"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        make(&link).unwrap();
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn a_missing_folder_is_made_only_if_the_setting_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b/one.db");
        make_folder(&file, MissingFolder::Refuse).unwrap();
        assert!(!folder.path().join("a").exists());
        make_folder(&file, MissingFolder::Make).unwrap();
        assert_eq!(mode(&folder.path().join("a/b")), 0o700);
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        make_folder(&file, MissingFolder::Make).unwrap();
    }
}
