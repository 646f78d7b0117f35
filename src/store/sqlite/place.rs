//! Whether the file that is open is still the one of its name.
//!
//! One that was moved away or removed can be written on and on, and nobody would find what is in it: the next start opens
//! what has the name by then.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::store::outage::Outage;

/// A file's name, and which file had it when it was opened.
pub(super) struct Place {
    name: PathBuf,
    opened: (u64, u64),
}

impl Place {
    /// That of a file that was just opened.
    pub(super) fn of(name: &Path) -> io::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            opened: file(name)?,
        })
    }

    /// Whether the name still leads to that file; if not, what to do.
    pub(super) fn check(&self) -> Result<(), Outage> {
        let name = self.name.display();
        let fault = match file(&self.name) {
            Ok(found) if found == self.opened => return Ok(()),
            Ok(_) => "another file has its name now".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "it isn't there any more".to_owned(),
            Err(error) => return Err(Outage::from(&error).of(name)),
        };
        let moved = format!(
            "{name} was moved away while it was open: {fault}; stop recapd, put the file back, and start it again"
        );
        Err(moved.into())
    }
}

/// The device and the number of the file at the end of all links.
fn file(name: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(name)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_moved_or_replaced_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let (name, elsewhere) = (folder.path().join("a.db"), folder.path().join("old.db"));
        fs::write(&name, "one").unwrap();
        let place = Place::of(&name).unwrap();
        assert_eq!(place.check(), Ok(()));
        fs::rename(&name, &elsewhere).unwrap();
        assert!(place.check().unwrap_err().reason.contains("isn't there any more"));
        fs::write(&name, "another").unwrap();
        assert!(
            place
                .check()
                .unwrap_err()
                .reason
                .contains("another file has its name")
        );
        fs::rename(&elsewhere, &name).unwrap();
        assert_eq!(place.check(), Ok(()));
    }
}
