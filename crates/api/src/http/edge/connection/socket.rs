//! A Unix socket: every user who may write its file may send requests.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

/// Limits how many names are tried for the temporary folder in which a socket is created.
const NAMES_TRIED_MAX: u32 = 16;

/// A listening socket. Dropping it removes its file.
pub struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// The file's device and inode. A drop removes the file at `path` only if it is still this one.
    identity: (u64, u64),
}

impl Socket {
    /// Listens at `path`. `mode` (as for `chmod`) determines who may write the file. Replaces a socket at that path on which
    /// no program answers.
    ///
    /// # Errors
    /// [`ErrorKind::AddrInUse`] if another program answers at `path`, [`ErrorKind::AlreadyExists`] if the file is no socket, and the
    /// file system's errors.
    pub async fn listen(path: &Path, mode: u32) -> io::Result<Self> {
        remove_stale(path).await?;
        let hidden = PrivateFolder::create_near(path)?;
        let listener = UnixListener::bind(&hidden.socket)?;
        fs::set_permissions(&hidden.socket, fs::Permissions::from_mode(mode))?;
        let placed = fs::symlink_metadata(&hidden.socket)?;
        // A link, because a rename would replace a file that another program has created there in the meantime.
        fs::hard_link(&hidden.socket, path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => in_use_error(),
            _ => error,
        })?;
        Ok(Self { listener, path: path.to_owned(), identity: (placed.dev(), placed.ino()) })
    }
}

/// A folder that only its owner can enter. It is removed when dropped. The socket gets its permissions inside this
/// folder, because the umask might let other users write it before.
struct PrivateFolder {
    folder: PathBuf,
    socket: PathBuf,
}

impl PrivateFolder {
    /// Creates the folder beside `path`, on the same file system. Its path is hardly longer than `path`, because the
    /// length of a socket's path is limited.
    fn create_near(path: &Path) -> io::Result<Self> {
        let parent = path.parent().unwrap_or(Path::new(""));
        for number in 0..NAMES_TRIED_MAX {
            let folder = parent.join(format!(".{:x}-{number:x}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                result => {
                    result?;
                    let socket = folder.join("s");
                    return Ok(Self { folder, socket });
                }
            }
        }
        Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "every name that was tried for a folder beside the socket is taken",
        ))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        fs::remove_file(&self.socket).ok();
        if let Err(error) = fs::remove_dir(&self.folder) {
            tracing::debug!(%error, path = %self.folder.display(), "http.folder_left");
        }
    }
}

fn in_use_error() -> io::Error {
    io::Error::new(ErrorKind::AddrInUse, "another program already answers on this socket")
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "http.socket_left");
        }
    }
}

async fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "the file at this path isn't a socket"));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(in_use_error()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_follows_its_files_permissions_and_removes_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recapd.sock");
        let socket = Socket::listen(&path, 0o660).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        UnixStream::connect(&path).await.unwrap();
        let inside: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(inside.len(), 1, "{inside:?}");
        let again = Socket::listen(&path, 0o660).await;
        assert_eq!(again.err().unwrap().kind(), ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn nobody_reaches_a_socket_before_it_has_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let hidden = PrivateFolder::create_near(&folder.path().join("recapd.sock")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&hidden.folder), 0o700);
        assert_eq!(hidden.socket.parent(), Some(hidden.folder.as_path()));
        drop(std::os::unix::net::UnixListener::bind(&hidden.socket).unwrap());
        let left = hidden.folder.clone();
        drop(hidden);
        assert!(!left.exists());
    }

    #[tokio::test]
    async fn a_dead_socket_is_replaced_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recapd.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let old = Socket::listen(&path, 0o600).await.unwrap();
        // Somebody else took the path; their file stays.
        fs::remove_file(&path).unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(old);
        assert!(path.exists());

        let file = folder.path().join("file");
        fs::write(&file, "mine").unwrap();
        let refused = Socket::listen(&file, 0o600).await;
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }
}
