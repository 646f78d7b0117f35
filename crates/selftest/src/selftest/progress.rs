//! How far the work has come, in a file, so that it can be stopped and gone on with.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::work::{Work, WorkFindings};

/// What was done and found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialProgress<F> {
    /// Of which work: see [`Work::fingerprint`].
    plan: String,
    /// Which pieces are done, in no order.
    done: Vec<usize>,
    /// What was found in them.
    findings: F,
    /// Where this is kept, if it is.
    #[serde(skip)]
    file: Option<PathBuf>,
}

/// Why work can't be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum ProgressError {
    /// The file can't be read or written.
    #[error("`{}`: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something else stands in it.
    #[error("`{}` holds no progress of a self-test: {error}; name another file", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: serde_json::Error,
    },
    /// Other conversations, or others of the settings that decide what is tried.
    #[error(
        "`{}` belongs to other conversations or settings; give the same ones again, or remove it to start anew",
        path.display()
    )]
    OtherPlan {
        /// The file.
        path: PathBuf,
    },
}

impl<F: WorkFindings> TrialProgress<F> {
    /// The beginning of `work`, kept nowhere.
    pub fn begin<W: Work<Findings = F>>(work: &W) -> Self {
        Self {
            plan: work.fingerprint(),
            done: Vec::new(),
            findings: work.beginning(),
            file: None,
        }
    }

    /// What `file` says of `work`, or its beginning if there is no such file yet. Kept there from now on.
    ///
    /// # Errors
    /// [`ProgressError`]; the file is left as it is.
    pub fn resume<W: Work<Findings = F>>(work: &W, file: &Path) -> Result<Self, ProgressError> {
        let path = file.to_owned();
        let begun = Self::begin(work);
        let mut progress: Self = match std::fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| ProgressError::Unreadable {
                path: path.clone(),
                error,
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => begun.clone(),
            Err(error) => return Err(ProgressError::Io { path, error }),
        };
        if progress.plan != begun.plan {
            return Err(ProgressError::OtherPlan { path });
        }
        progress.file = Some(path);
        Ok(progress)
    }

    /// Whether piece number `piece` is done.
    pub fn is_done(&self, piece: usize) -> bool {
        self.done.contains(&piece)
    }

    /// What was found so far.
    pub fn findings(&self) -> &F {
        &self.findings
    }

    /// Takes in what was found in piece number `piece`, and keeps it.
    ///
    /// # Errors
    /// [`ProgressError::Io`]; the file then says what it said before.
    pub fn finish(&mut self, piece: usize, found: F) -> Result<(), ProgressError> {
        self.done.push(piece);
        self.findings.add(found.of_piece(piece));
        match &self.file {
            Some(path) => self.save(path).map_err(|error| ProgressError::Io {
                path: path.clone(),
                error,
            }),
            None => Ok(()),
        }
    }

    /// The old file stays whole until the new one is; a link to it stays a link.
    fn save(&self, path: &Path) -> io::Result<()> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.persist(path)?;
        Ok(())
    }
}
