//! Checks that the open files still have their names, and remembers whether the last write failed. In both cases reads may
//! continue as if nothing were wrong.
//!
//! A file that was moved away or removed can still be written, but nobody would find its content: the next start opens whatever
//! file then has the name. The same holds for the log next to it, which has the newest commits, and for the lock, without which a
//! second daemon could start. A file with two names gets two logs, whose writers don't see each other.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use super::super::{Outage, OutageKind, StoreError, StoreResult};

/// The files that were opened under the database's name and next to it, and the error of the last write.
pub(super) struct Condition {
    opened: [OpenFile; 3],
    fault: Mutex<Option<Outage>>,
}

/// An open file, if it exists already. SQLite creates its log when it first reads.
struct OpenFile {
    name: PathBuf,
    file: OnceLock<Identity>,
}

/// Identifies a file whatever its name: its device and its inode.
type Identity = (u64, u64);

impl Condition {
    /// Records the files of a database that was just opened.
    pub(super) fn of(name: &Path) -> StoreResult<Self> {
        let condition = Self {
            opened: ["", "-wal", ".lock"]
                .map(|end| OpenFile { name: name_beside(name, end), file: OnceLock::new() }),
            fault: Mutex::default(),
        };
        condition.check_place().map_err(StoreError::Unavailable)?;
        Ok(condition)
    }

    /// Checks that the names still belong to the opened files. The error says what to do.
    pub(super) fn check_place(&self) -> Result<(), Outage> {
        self.opened.iter().try_for_each(OpenFile::check)
    }

    /// Records a failed write. Doesn't record that others held the file, because that says nothing about the next write.
    pub(super) fn record_failure(&self, error: &StoreError) {
        match error {
            StoreError::Unavailable(outage) if outage.kind != OutageKind::Busy => {
                *self.fault() = Some(outage.clone());
            }
            _ => {}
        }
    }

    /// Records a successful write. Doesn't clear damage, because the write may not have touched the damaged part.
    pub(super) fn record_success(&self) {
        self.fault().take_if(|fault| fault.kind != OutageKind::Corrupt);
    }

    /// Fails if the next write is likely to fail or to be lost.
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

impl OpenFile {
    /// Checks that the file with this name is the one that was opened, and has no other name.
    fn check(&self) -> Result<(), Outage> {
        let name = self.name.display();
        let fault = match fs::metadata(&self.name) {
            Ok(found) if found.nlink() > 1 => {
                return Err(format!(
                    "{name} has another name (a hard link): what is written by that one, or by this, can be lost; stop recapd, \
                     remove the other name, and start it again"
                )
                .into());
            }
            Ok(found) => {
                let file = (found.dev(), found.ino());
                if *self.file.get_or_init(|| file) == file {
                    return Ok(());
                }
                "another file has its name now"
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.file.get().is_none() {
                    return Ok(());
                }
                "it isn't there any more"
            }
            Err(error) => return Err(Outage::from(&error).of(name)),
        };
        let moved = format!(
            "{name} was moved away while it was open: {fault}; stop recapd, put the file back, and start it again"
        );
        Err(moved.into())
    }
}

fn name_beside(name: &Path, end: &str) -> PathBuf {
    let mut path = name.to_owned();
    path.as_mut_os_string().push(end);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_or_replaced_file_is_noticed() {
        for end in ["", "-wal", ".lock"] {
            let folder = tempfile::tempdir().unwrap();
            let name = folder.path().join("a.db");
            let (own, elsewhere) = (name_beside(&name, end), folder.path().join("elsewhere"));
            fs::write(&name, "database").unwrap();
            fs::write(&own, "one").unwrap();
            let condition = Condition::of(&name).unwrap();
            assert_eq!(condition.check_place(), Ok(()));
            fs::rename(&own, &elsewhere).unwrap();
            let missed = condition.check_place().unwrap_err().reason;
            assert!(missed.contains("isn't there any more"), "{missed}");
            fs::write(&own, "another").unwrap();
            let replaced = condition.check_place().unwrap_err().reason;
            assert!(replaced.contains("another file has its name"), "{replaced}");
            fs::rename(&elsewhere, &own).unwrap();
            assert_eq!(condition.check_place(), Ok(()));
        }
    }

    #[test]
    fn a_log_may_appear_later_but_a_second_name_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let (name, other) = (folder.path().join("a.db"), folder.path().join("b.db"));
        fs::write(&name, "database").unwrap();
        let condition = Condition::of(&name).unwrap();
        fs::write(name_beside(&name, "-wal"), "log").unwrap();
        assert_eq!(condition.check_place(), Ok(()));
        fs::hard_link(&name, &other).unwrap();
        let linked = condition.check_place().unwrap_err().reason;
        assert!(linked.contains("has another name"), "{linked}");
        assert!(Condition::of(&other).is_err());
        fs::remove_file(&other).unwrap();
        assert_eq!(condition.check_place(), Ok(()));
    }

    #[test]
    fn the_last_failed_write_is_reported_and_damage_stays() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let condition = Condition::of(file.path()).unwrap();
        let failed = |kind: OutageKind| {
            let reason = "a test".to_owned();
            condition.record_failure(&StoreError::Unavailable(Outage { kind, reason }));
        };
        failed(OutageKind::Busy);
        condition.check().unwrap();
        failed(OutageKind::Full);
        let full = condition.check().unwrap_err();
        assert_eq!(full.class(), Some("full"));
        assert!(full.to_string().contains("the last write failed"), "{full}");
        condition.record_success();
        condition.check().unwrap();
        failed(OutageKind::Corrupt);
        condition.record_success();
        assert_eq!(condition.check().unwrap_err().class(), Some("corrupt"));
    }
}
