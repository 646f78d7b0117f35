//! Reads files that contain a key or a token. Whoever can read such a file can use the key.
//!
//! A file that other users can read or write is refused. The group may read the file only if root owns it: this is how a service
//! gets its secrets (`root:recapd`, 0640), while a user's own key isn't shared with a group by accident. Credentials from systemd
//! and container secrets may have any mode, because they are in folders that other users can't enter.

use std::{
    fs::{File, Metadata},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

/// Where systemd and container runtimes put secrets.
const HANDED_OVER: [&str; 2] = ["/run/credentials/", "/run/secrets/"];
/// All permissions of other users, and all of the group.
const OTHERS: u32 = 0o007;
const GROUP: u32 = 0o070;
const GROUP_READS: u32 = 0o040;

/// Reads a text file of at most `bytes_max` bytes. Refuses it if other users can read or write it.
///
/// # Errors
/// If the file can't be read, is too large, or is refused (`PermissionDenied`). The text says what to do.
pub fn read_private(path: &Path, bytes_max: u64) -> io::Result<String> {
    let file = File::open(path)?;
    if let Some(refusal) = refusal(path, &file.metadata()?) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal));
    }
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= bytes_max) {
        Ok(text)
    } else {
        Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {bytes_max} bytes")))
    }
}

/// Returns why the file is refused, and what to do; `None` if it is private. Accepts pipes.
fn refusal(path: &Path, found: &Metadata) -> Option<String> {
    if !found.is_file() || HANDED_OVER.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let mode = found.permissions().mode() & 0o777;
    let is_exposed = is_exposed(mode, found.uid() == 0);
    is_exposed.then(|| {
        format!("other users can read or write it (mode {mode:04o}): `chmod 600 {}`", path.display())
    })
}

fn is_exposed(mode: u32, is_roots: bool) -> bool {
    let allowed = if is_roots { GROUP_READS } else { 0 };
    mode & (OTHERS | GROUP) & !allowed != 0
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn only_roots_secrets_may_be_readable_by_their_group() {
        for (mode, of_user, of_root) in [
            (0o600, false, false),
            (0o400, false, false),
            (0o640, true, false),
            (0o440, true, false),
            (0o660, true, true),
            (0o644, true, true),
            (0o602, true, true),
            (0o604, true, true),
        ] {
            let found = (is_exposed(mode, false), is_exposed(mode, true));
            assert_eq!(found, (of_user, of_root), "{mode:o}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_cure() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        fs::write(&file, "geheim").unwrap();
        let read = |mode| {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            read_private(&file, 10).map_err(|error| error.to_string())
        };
        assert_eq!(read(0o600), Ok("geheim".to_owned()));
        let refused = read(0o644).unwrap_err();
        let expected =
            format!("other users can read or write it (mode 0644): `chmod 600 {}`", file.display());
        assert_eq!(refused, expected);
        fs::write(&file, "x".repeat(11)).unwrap();
        assert_eq!(read(0o600).unwrap_err(), "larger than 10 bytes");
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let open = file.metadata().unwrap();
        assert!(refusal(&file, &open).is_some());
        assert_eq!(refusal(Path::new("/run/secrets/key"), &open), None);
    }
}
