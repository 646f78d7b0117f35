//! Telling systemd how the service is (`sd_notify(3)`): one datagram a message, to the socket that it named.
//!
//! Without such a socket, as on a terminal, all of this does nothing.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    sync::Arc,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// A manager that doesn't read is waited for no longer.
const SEND_MAX: Duration = Duration::from_millis(200);

/// What a service manager told the process in its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceManager {
    /// `NOTIFY_SOCKET`: a path, or an abstract name behind `@`.
    pub socket: Option<String>,
    /// `WATCHDOG_USEC`
    pub watchdog_usec: Option<String>,
    /// `WATCHDOG_PID`: whom that is for, if not for everybody.
    pub watchdog_pid: Option<String>,
}

/// The service manager, if there is one. Clones share its socket.
#[derive(Clone, Debug, Default)]
pub struct Notify {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// The manager that `told` names.
    ///
    /// # Errors
    /// When nobody listens at its socket.
    pub fn new(told: &ServiceManager) -> io::Result<Self> {
        let Some(name) = told.socket.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(Self::default());
        };
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        let is_ours = |pid: &String| *pid == std::process::id().to_string();
        let usec = told.watchdog_usec.as_ref().and_then(|usec| usec.parse().ok());
        Ok(Self {
            socket: Some(Arc::new(socket)),
            watchdog: usec
                .filter(|_| told.watchdog_pid.as_ref().is_none_or(is_ours))
                .map(Duration::from_micros),
        })
    }

    /// Whether anybody is told.
    pub fn is_heard(&self) -> bool {
        self.socket.is_some()
    }

    /// How long the manager waits for a [`Self::alive`] before it ends the service; `None` if it doesn't.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The service serves, again if it was reloading.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// The service reads its configuration again. Newer managers tell by the time which reload this answers.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    /// The service ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// The service makes progress.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// What the service does, in one line.
    pub fn status(&self, line: &str) {
        self.send(&format!("STATUS={}", line.replace('\n', " ")));
    }

    /// Starting or ending takes up to `longer` from now on.
    pub fn extend(&self, longer: Duration) {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}", longer.as_micros()));
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // A manager that is gone can't be told so.
            socket.send(message.as_bytes()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_protocol_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let told = ServiceManager {
            socket: Some(path.display().to_string()),
            watchdog_usec: Some("30000000".to_owned()),
            watchdog_pid: Some(std::process::id().to_string()),
        };
        let notify = Notify::new(&told).unwrap();
        assert_eq!(notify.watchdog(), Some(Duration::from_secs(30)));
        notify.ready();
        notify.status("queue 0\nidle");
        notify.extend(Duration::from_secs(5));
        notify.reloading();
        let received = || {
            let mut bytes = [0; 256];
            let length = manager.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..length].to_vec()).unwrap()
        };
        assert_eq!(received(), "READY=1");
        assert_eq!(received(), "STATUS=queue 0 idle");
        assert_eq!(received(), "EXTEND_TIMEOUT_USEC=5000000");
        let reloading = received();
        let usec = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(usec.parse::<u64>().unwrap() > 0);
    }

    #[test]
    fn an_abstract_socket_is_known_by_its_at_sign() {
        let name = format!("recapd-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let told = ServiceManager {
            socket: Some(format!("@{name}")),
            ..ServiceManager::default()
        };
        Notify::new(&told).unwrap().stopping();
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"STOPPING=1");
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        let notify = Notify::new(&ServiceManager::default()).unwrap();
        assert!(!notify.is_heard());
        notify.ready();
        let told = ServiceManager {
            socket: Some("/nowhere/notify".to_owned()),
            ..ServiceManager::default()
        };
        assert!(Notify::new(&told).is_err());
    }

    #[test]
    fn a_watchdog_for_another_process_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _manager = UnixDatagram::bind(&path).unwrap();
        let told = |pid: Option<&str>, usec: &str| ServiceManager {
            socket: Some(path.display().to_string()),
            watchdog_usec: Some(usec.to_owned()),
            watchdog_pid: pid.map(str::to_owned),
        };
        let watchdog = |told: ServiceManager| Notify::new(&told).unwrap().watchdog();
        assert_eq!(watchdog(told(Some("1"), "1000")), None);
        assert_eq!(watchdog(told(None, "soon")), None);
        assert_eq!(watchdog(told(None, "1000")), Some(Duration::from_millis(1)));
    }
}
