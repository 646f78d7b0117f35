//! The socket on which the daemon listens in addition to its address. Only programs on this machine reach it, and they can find
//! out which user's program listens.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{Environment, listen::Listen};

const AUTO: &str = "auto";
const OFF: &str = "off";
/// The runtime folder of the service (`RuntimeDirectory=` in its unit).
const SERVICE_FOLDER: &str = "/run/recapd";

/// The setting of the additional socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalSocket {
    /// In the runtime folder, if there is one.
    Auto,
    /// No socket.
    Off,
    /// At this path.
    At(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither `{AUTO}` nor `{OFF}`, nor a socket such as `unix:/run/recapd/recapd.sock`")]
pub struct InvalidSocket(String);

/// The folders for sockets without a configured path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeFolders {
    /// The folder in which a daemon creates its socket.
    daemon_folder: Option<PathBuf>,
    /// The folders that clients search.
    client_folders: Vec<PathBuf>,
}

/// The paths of the additional socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Where the daemon creates its socket.
    pub daemon_path: Option<PathBuf>,
    /// Where clients search for the socket, in this order.
    pub client_paths: Vec<PathBuf>,
}

impl Environment {
    /// Returns the folder that systemd created for the service (`RUNTIME_DIRECTORY`, systemd.exec(5)), otherwise the user's
    /// folder (`XDG_RUNTIME_DIR`, <https://specifications.freedesktop.org/basedir-spec/latest/>).
    pub fn runtime_folders(&self) -> RuntimeFolders {
        let absolute = |path: &&Path| path.is_absolute();
        let service = self.get("RUNTIME_DIRECTORY").and_then(|folders| folders.split(':').next());
        let service = service.map(Path::new).filter(absolute).map(Path::to_owned);
        let user = self.get("XDG_RUNTIME_DIR").map(Path::new).filter(absolute);
        let user = user.map(|folder| folder.join("recapd"));
        RuntimeFolders {
            daemon_folder: service.or_else(|| user.clone()),
            client_folders: user.into_iter().chain([SERVICE_FOLDER.into()]).collect(),
        }
    }
}

impl LocalSocket {
    /// Returns the socket's paths for a listen address. They contain the port, so that several daemons on one machine have
    /// different paths.
    pub(super) fn paths(&self, listen: &Listen, folders: &RuntimeFolders) -> Sockets {
        let Some(address) = listen.reachable() else {
            return Sockets::default();
        };
        let in_folder = |folder: &PathBuf| folder.join(format!("{}.sock", address.port()));
        match self {
            Self::Off => Sockets::default(),
            Self::At(path) => Sockets { daemon_path: Some(path.clone()), client_paths: vec![path.clone()] },
            // A port that the operating system will choose isn't known yet.
            Self::Auto if address.port() == 0 => Sockets::default(),
            Self::Auto => Sockets {
                daemon_path: folders.daemon_folder.as_ref().map(in_folder),
                client_paths: folders.client_folders.iter().map(in_folder).collect(),
            },
        }
    }
}

impl fmt::Display for LocalSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Off => f.write_str(OFF),
            Self::At(path) => Listen::Socket(path.clone()).fmt(f),
        }
    }
}

impl FromStr for LocalSocket {
    type Err = InvalidSocket;

    fn from_str(text: &str) -> Result<Self, InvalidSocket> {
        match (text, text.parse()) {
            (AUTO, _) => Ok(Self::Auto),
            (OFF, _) => Ok(Self::Off),
            (_, Ok(Listen::Socket(path))) => Ok(Self::At(path)),
            _ => Err(InvalidSocket(text.to_owned())),
        }
    }
}

impl Serialize for LocalSocket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LocalSocket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(socket: &str, listen: &str, environment: &[(&str, &str)]) -> (Option<String>, Vec<String>) {
        let environment: Environment = environment.iter().copied().collect();
        let socket: LocalSocket = socket.parse().unwrap();
        let found = socket.paths(&listen.parse().unwrap(), &environment.runtime_folders());
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        (found.daemon_path.map(text), found.client_paths.into_iter().map(text).collect())
    }

    #[test]
    fn the_runtime_folder_holds_it_by_its_port() {
        let service = "/run/recapd/7411.sock".to_owned();
        let user = "/run/user/1000/recapd/7411.sock".to_owned();
        for (environment, own, near) in [
            (&[][..], None, vec![service.clone()]),
            (
                &[("XDG_RUNTIME_DIR", "/run/user/1000")],
                Some(user.clone()),
                vec![user.clone(), service.clone()],
            ),
            (&[("RUNTIME_DIRECTORY", "/run/recapd:/run/more")], Some(service.clone()), vec![service.clone()]),
            (&[("XDG_RUNTIME_DIR", "relative")], None, vec![service.clone()]),
        ] {
            assert_eq!(sockets("auto", "127.0.0.1:7411", environment), (own, near));
        }
    }

    #[test]
    fn the_socket_can_be_elsewhere_or_off() {
        let runtime = [("XDG_RUNTIME_DIR", "/run/user/1000")];
        let named = "/srv/r.sock".to_owned();
        let expected = (Some(named.clone()), vec![named]);
        assert_eq!(sockets("unix:/srv/r.sock", "0.0.0.0:7411", &runtime), expected);
        for (socket, listen) in
            [("off", "127.0.0.1:7411"), ("auto", "127.0.0.1:0"), ("auto", "unix:/run/recapd/recapd.sock")]
        {
            assert_eq!(sockets(socket, listen, &runtime), (None, Vec::new()), "{socket} {listen}");
        }
        for wrong in ["", "yes", "127.0.0.1:7411", "unix:r.sock"] {
            let error = wrong.parse::<LocalSocket>().unwrap_err().to_string();
            assert!(error.contains("`auto`") && error.contains("unix:/run/recapd"), "{error}");
        }
    }
}
