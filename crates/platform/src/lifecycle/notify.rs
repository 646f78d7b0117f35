//! Reports the service's state to systemd (`sd_notify(3)`): one datagram per message, to the socket in `NOTIFY_SOCKET`.
//!
//! Without this variable, for example on a terminal, reports go nowhere.

use std::{
    io,
    os::unix::net::{SocketAddr, UnixDatagram},
    sync::Arc,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// How long a message waits for a manager that doesn't read.
const SEND_MAX: Duration = Duration::from_millis(200);

/// The variables in which the service manager describes itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceManager {
    /// `NOTIFY_SOCKET`: a path, or an abstract name after `@`.
    pub socket: Option<String>,
    /// `WATCHDOG_USEC`: the interval of the watchdog in microseconds.
    pub watchdog_usec: Option<String>,
    /// `WATCHDOG_PID`: the process to which the watchdog applies; if unset, every process.
    pub watchdog_pid: Option<String>,
}

/// The connection to the service manager, if there is one. Clones share its socket.
#[derive(Clone, Debug, Default)]
pub struct Notify {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Connects to the socket of the service manager, if there is one.
    ///
    /// # Errors
    /// If no manager listens at its socket.
    pub fn new(manager: &ServiceManager) -> io::Result<Self> {
        let Some(name) = manager.socket.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(Self::default());
        };
        let address = match name.strip_prefix('@') {
            Some(name) => abstract_address(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        let is_ours = |pid: &String| *pid == std::process::id().to_string();
        let usec = manager.watchdog_usec.as_ref().and_then(|usec| usec.parse().ok());
        Ok(Self {
            socket: Some(Arc::new(socket)),
            watchdog: usec
                .filter(|_| manager.watchdog_pid.as_ref().is_none_or(is_ours))
                .map(Duration::from_micros),
        })
    }

    /// Returns true if there is a service manager.
    pub fn is_heard(&self) -> bool {
        self.socket.is_some()
    }

    /// Returns how much time may pass between calls of [`Self::alive`] before the manager ends the service; `None` for no limit.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Reports that the service is ready. Also reports the end of a reload.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports a reload of the configuration. Newer managers use the time to match the report to their request.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Feeds the watchdog.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Reports the service's state in one line.
    pub fn status(&self, line: &str) {
        self.send(&format!("STATUS={}", line.replace('\n', " ")));
    }

    /// Extends the manager's timeout of a start or a stop to `longer` from now.
    pub fn extend(&self, longer: Duration) {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}", longer.as_micros()));
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // If the manager is gone, nobody receives reports.
            socket.send(message.as_bytes()).ok();
        }
    }
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &str) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name)
}

/// Fails, because only Linux has abstract names.
#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &str) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_the_protocol() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let variables = ServiceManager {
            socket: Some(path.display().to_string()),
            watchdog_usec: Some("30000000".to_owned()),
            watchdog_pid: Some(std::process::id().to_string()),
        };
        let notify = Notify::new(&variables).unwrap();
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
        let manager = UnixDatagram::bind_addr(&abstract_address(&name).unwrap()).unwrap();
        let variables = ServiceManager { socket: Some(format!("@{name}")), ..ServiceManager::default() };
        Notify::new(&variables).unwrap().stopping();
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"STOPPING=1");
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        let notify = Notify::new(&ServiceManager::default()).unwrap();
        assert!(!notify.is_heard());
        notify.ready();
        let variables =
            ServiceManager { socket: Some("/nowhere/notify".to_owned()), ..ServiceManager::default() };
        assert!(Notify::new(&variables).is_err());
    }

    #[test]
    fn a_watchdog_for_another_process_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _manager = UnixDatagram::bind(&path).unwrap();
        let variables = |pid: Option<&str>, usec: &str| ServiceManager {
            socket: Some(path.display().to_string()),
            watchdog_usec: Some(usec.to_owned()),
            watchdog_pid: pid.map(str::to_owned),
        };
        let watchdog = |variables: ServiceManager| Notify::new(&variables).unwrap().watchdog();
        assert_eq!(watchdog(variables(Some("1"), "1000")), None);
        assert_eq!(watchdog(variables(None, "soon")), None);
        assert_eq!(watchdog(variables(None, "1000")), Some(Duration::from_millis(1)));
    }
}
