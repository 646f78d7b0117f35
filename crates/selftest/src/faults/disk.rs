//! A small disk that can be filled.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What fills it, at a time.
const CHUNK: [u8; 16 * 1024] = [0; 16 * 1024];

/// A file system in memory, of a limited size, mounted on a folder.
pub(super) struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts one, if the system allows it: that is root's alone.
    pub(super) fn mount(folder: &Path, bytes: u64) -> Result<Self, String> {
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={bytes},mode=0711"),
                "recapd-selftest",
            ])
            .arg(folder)
            .stdin(Stdio::null())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Self {
                folder: folder.to_owned(),
            }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }

    /// Leaves no byte free.
    pub(super) fn fill(&self) {
        if let Ok(mut ballast) = File::create(self.ballast()) {
            while ballast.write_all(&CHUNK).is_ok() {}
        }
    }

    /// Frees what was filled.
    pub(super) fn free(&self) {
        // It is missing if nothing was filled.
        drop(fs::remove_file(self.ballast()));
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.folder).output();
        drop(unmounted);
    }
}
