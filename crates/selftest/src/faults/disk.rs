//! A small disk that can be filled.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const CHUNK: [u8; 16 * 1024] = [0; 16 * 1024];

/// A file system in memory, of a limited size, mounted on a folder.
pub(super) struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts one, which only root may do.
    pub(super) fn mount(folder: &Path, bytes: u64) -> Result<Self, String> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=0711"), "recapd-selftest"])
            .arg(folder)
            .stdin(Stdio::null())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Self { folder: folder.to_owned() }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }

    pub(super) fn fill(&self) {
        if let Ok(mut ballast) = File::create(self.ballast()) {
            while ballast.write_all(&CHUNK).is_ok() {}
        }
    }

    /// Removes the filling.
    pub(super) fn free(&self) {
        // The file is missing if the disk wasn't filled.
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
