//! The progress of the work, saved in a file, so that it can be stopped and resumed.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::work::{Work, WorkFindings};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialProgress<F> {
    plan: String,
    /// The indices of completed pieces, in any order.
    done: Vec<usize>,
    findings: F,
    #[serde(skip)]
    file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProgressError {
    #[error("`{}`: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The file holds something else.
    #[error("`{}` holds no progress of a self-test: {error}; name another file", path.display())]
    Unreadable { path: PathBuf, error: serde_json::Error },
    /// It belongs to other conversations, or to other settings that determine the tests.
    #[error(
        "`{}` belongs to other conversations or settings; give the same ones again, or remove it to start anew",
        path.display()
    )]
    OtherPlan { path: PathBuf },
}

impl<F: WorkFindings> TrialProgress<F> {
    /// Begins `work` without saving progress.
    pub fn begin<W: Work<Findings = F>>(work: &W) -> Self {
        Self { plan: work.fingerprint(), done: Vec::new(), findings: work.beginning(), file: None }
    }

    /// Resumes `work` from `file`, or begins it if there is no such file yet. Saves progress there from now on.
    ///
    /// # Errors
    /// [`ProgressError`]; the file stays as it is.
    pub fn resume<W: Work<Findings = F>>(work: &W, file: &Path) -> Result<Self, ProgressError> {
        let path = file.to_owned();
        let begun = Self::begin(work);
        let mut progress: Self = match std::fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| ProgressError::Unreadable { path: path.clone(), error })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => begun.clone(),
            Err(error) => return Err(ProgressError::Io { path, error }),
        };
        if progress.plan != begun.plan {
            return Err(ProgressError::OtherPlan { path });
        }
        progress.file = Some(path);
        Ok(progress)
    }

    pub fn is_done(&self, piece: usize) -> bool {
        self.done.contains(&piece)
    }

    pub fn findings(&self) -> &F {
        &self.findings
    }

    /// Adds the findings of piece number `piece`, and saves the progress.
    ///
    /// # Errors
    /// [`ProgressError::Io`]; the file then keeps its old contents.
    pub fn finish(&mut self, piece: usize, found: F) -> Result<(), ProgressError> {
        self.done.push(piece);
        self.findings.add(found.of_piece(piece));
        match &self.file {
            Some(path) => self.save(path).map_err(|error| ProgressError::Io { path: path.clone(), error }),
            None => Ok(()),
        }
    }

    /// Replaces the old file atomically; a link to it stays a link.
    fn save(&self, path: &Path) -> io::Result<()> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.persist(path)?;
        Ok(())
    }
}
