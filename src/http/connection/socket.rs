//! A socket in the file system: whoever may write the file may ask.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

/// A listening socket; its file goes with it.
pub struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode, so that nobody else's file is removed.
    identity: (u64, u64),
}

impl Socket {
    /// Listens at `path`, for those whom `mode` (as of `chmod`) lets write the file. A socket that stands there is removed if
    /// nobody answers at it.
    ///
    /// # Errors
    /// [`ErrorKind::AddrInUse`] if somebody answers there, [`ErrorKind::AlreadyExists`] if it is no socket, and what the file
    /// system says.
    pub async fn listen(path: &Path, mode: u32) -> io::Result<Self> {
        remove_stale(path).await?;
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        let placed = fs::symlink_metadata(path)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            identity: (placed.dev(), placed.ino()),
        })
    }
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
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "there is a file, and it is no socket",
        ));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "somebody answers there already",
        )),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_lets_in_whom_its_file_lets_in_and_takes_it_along() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recapd.sock");
        let socket = Socket::listen(&path, 0o660).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        UnixStream::connect(&path).await.unwrap();
        let again = Socket::listen(&path, 0o660).await;
        assert_eq!(again.err().unwrap().kind(), ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_nobody_answers_at_is_replaced_and_what_is_no_socket_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recapd.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let old = Socket::listen(&path, 0o600).await.unwrap();
        // Somebody else took the place: their file stays.
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
