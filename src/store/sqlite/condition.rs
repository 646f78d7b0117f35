//! Whether the file that is open is still the one of its name, and how the last write went: reading may go on as if nothing
//! were wrong where neither is well.
//!
//! A file that was moved away or removed can be written on and on, and nobody would find what is in it: the next start opens
//! what has the name by then.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::super::{Outage, OutageKind, StoreError, StoreResult};

/// A file's name, which file had it when it was opened, and what the last write failed with.
pub(super) struct Condition {
    name: PathBuf,
    opened: (u64, u64),
    fault: Mutex<Option<Outage>>,
}

impl Condition {
    /// That of a file that was just opened.
    pub(super) fn of(name: &Path) -> io::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            opened: file(name)?,
            fault: Mutex::default(),
        })
    }

    /// Whether the name still leads to that file; if not, what to do.
    pub(super) fn check_place(&self) -> Result<(), Outage> {
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

    /// A write failed. That others hold the file says nothing of the next one.
    pub(super) fn failed(&self, error: &StoreError) {
        match error {
            StoreError::Unavailable(outage) if outage.kind != OutageKind::Busy => {
                *self.fault() = Some(outage.clone());
            }
            _ => {}
        }
    }

    /// Something was written. What is damaged stays so, whatever else can be written.
    pub(super) fn written(&self) {
        self.fault().take_if(|fault| fault.kind != OutageKind::Corrupt);
    }

    /// Whether it can be believed that the next write will be done, and found again.
    pub(super) fn check(&self) -> StoreResult<()> {
        self.check_place().map_err(StoreError::Unavailable)?;
        match self.fault().as_ref() {
            None => Ok(()),
            Some(fault) => Err(StoreError::Unavailable(fault.clone().of("the last write failed"))),
        }
    }

    fn fault(&self) -> MutexGuard<'_, Option<Outage>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
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
        let condition = Condition::of(&name).unwrap();
        assert_eq!(condition.check_place(), Ok(()));
        fs::rename(&name, &elsewhere).unwrap();
        let missed = condition.check_place().unwrap_err().reason;
        assert!(missed.contains("isn't there any more"), "{missed}");
        fs::write(&name, "another").unwrap();
        let replaced = condition.check_place().unwrap_err().reason;
        assert!(replaced.contains("another file has its name"), "{replaced}");
        fs::rename(&elsewhere, &name).unwrap();
        assert_eq!(condition.check_place(), Ok(()));
    }

    #[test]
    fn the_last_write_is_told_and_damage_for_good() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let condition = Condition::of(file.path()).unwrap();
        let failed = |kind: OutageKind| {
            let reason = "a test".to_owned();
            condition.failed(&StoreError::Unavailable(Outage { kind, reason }));
        };
        failed(OutageKind::Busy);
        condition.check().unwrap();
        failed(OutageKind::Full);
        let full = condition.check().unwrap_err();
        assert_eq!(full.class(), Some("full"));
        assert!(full.to_string().contains("the last write failed"), "{full}");
        condition.written();
        condition.check().unwrap();
        failed(OutageKind::Corrupt);
        condition.written();
        assert_eq!(condition.check().unwrap_err().class(), Some("corrupt"));
    }
}
