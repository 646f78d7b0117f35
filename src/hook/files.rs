//! Reads, replaces and removes the files that hooks share. A file is always replaced as a whole, and removed if nobody has
//! touched it for a long time.

use std::{
    fs::{self, DirBuilder},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use tempfile::NamedTempFile;

use recapd_core::domain::time::{DAY_MS, HOUR_MS, Timestamp};

/// Longer state files aren't read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Files that were untouched for this long are removed.
const KEEP_MS: i64 = 60 * DAY_MS;
/// Reads at most this many files of a folder.
const FILES_MAX: usize = 4_096;
/// A half-written file counts as abandoned at this age.
const HALF_WRITTEN_KEEP_MS: i64 = HOUR_MS;
/// The names of files that are being written begin with this.
const HALF_WRITTEN: &str = ".";

/// Replaces a file atomically.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    write_temporary(path, content)?.persist(path)?;
    Ok(())
}

/// Replaces a file atomically and durably: the content survives a power failure.
pub(super) fn replace_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = write_temporary(path, content)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}

fn write_temporary(path: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_folder(folder)?;
    let mut file = tempfile::Builder::new().prefix(HALF_WRITTEN).tempfile_in(folder)?;
    file.write_all(content)?;
    Ok(file)
}

/// Removes files that were untouched for [`KEEP_MS`]. Another hook may have removed them already.
pub(super) fn remove_old(folder: &Path, now: Timestamp) {
    for file in files(folder) {
        if is_old(&file, now) {
            fs::remove_file(file).ok();
        }
    }
    remove_half_written(folder, now);
}

/// True if a file was untouched for [`KEEP_MS`].
pub(super) fn is_old(file: &Path, now: Timestamp) -> bool {
    touched_at(file).is_some_and(|at| now.since_ms(at) > KEEP_MS)
}

/// Removes half-written files that hooks left when they were killed.
pub(super) fn remove_half_written(folder: &Path, now: Timestamp) {
    for file in paths(folder).filter(|path| is_half_written(path)).take(FILES_MAX) {
        if touched_at(&file).is_some_and(|at| now.since_ms(at) > HALF_WRITTEN_KEEP_MS) {
            fs::remove_file(file).ok();
        }
    }
}

pub(super) fn replace_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    replace(path, &serde_json::to_vec(value).map_err(io::Error::other)?)
}

/// Reads a file; `None` if it is missing, too long, or invalid.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_str(&read_text(path)?).ok()
}

pub(super) fn read_text(path: &Path) -> Option<String> {
    let is_short = fs::metadata(path).ok()?.len() <= FILE_BYTES_MAX;
    is_short.then(|| fs::read_to_string(path).ok())?
}

/// Returns the files in a folder, sorted by name, without half-written ones.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let complete = paths(folder).filter(|path| !is_half_written(path));
    let mut complete: Vec<PathBuf> = complete.take(FILES_MAX).collect();
    complete.sort();
    complete
}

fn paths(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

fn is_half_written(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(HALF_WRITTEN.as_bytes())
}

pub(super) fn touched_at(path: &Path) -> Option<Timestamp> {
    let since_epoch = fs::metadata(path).ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH);
    Some(Timestamp(i64::try_from(since_epoch.ok()?.as_millis()).ok()?))
}

pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
