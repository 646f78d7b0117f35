//! A daemon process, which is killed, stopped and restarted.

use std::{
    fs::{self, OpenOptions},
    io,
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::Instant;

use super::roster::Whereabouts;

/// The log event of a daemon that created missing queue rows.
const REPAIRED: &str = "queue.repaired";

#[derive(Clone)]
pub(super) struct DaemonLaunch {
    pub(super) program: PathBuf,
    pub(super) number: usize,
    /// An address of its own, so that no other daemon takes its port while it is down.
    pub(super) host: Ipv4Addr,
    pub(super) settings: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
    /// The folder of its log, clock and process id.
    pub(super) folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    /// Stopped, and continued at this time.
    Stalled(Instant),
    /// Asked to end, at this time.
    Ending(Instant),
    /// Down, and restarted at this time.
    Away(Instant),
}

pub(super) struct Daemon {
    launch: DaemonLaunch,
    child: Option<Child>,
    pub(super) state: State,
}

impl Daemon {
    pub(super) fn new(launch: DaemonLaunch) -> Self {
        Self { launch, child: None, state: State::Away(Instant::now()) }
    }

    /// Starts it on a free port. Returns its address and process id.
    pub(super) fn start(&mut self) -> io::Result<Whereabouts> {
        let address = TcpListener::bind((self.launch.host, 0))?.local_addr()?;
        let log = OpenOptions::new().create(true).append(true).open(self.file("log"))?;
        let child = Command::new(&self.launch.program)
            .env_clear()
            .env("OPENAI_API_KEY", "selftest")
            .env("ANTHROPIC_API_KEY", "selftest")
            .envs(self.launch.environment.iter().cloned())
            .current_dir(&self.launch.folder)
            .arg("serve")
            .args(["--listen", &address.to_string()])
            .arg("--clock-offset-file")
            .arg(self.file("clock"))
            // A default name would include its port, which changes with each start, and its leases belong to its name.
            .args(["--set", &format!("queue.owner={}", self.launch.host)])
            .args(self.launch.settings.iter().flat_map(|setting| ["--set", setting]))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let pid = child.id();
        fs::write(self.file("pid"), pid.to_string())?;
        self.child = Some(child);
        self.state = State::Up;
        Ok(Whereabouts { address, pid })
    }

    /// Kills it, stopped or not, and waits until it is gone.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A process that has already ended can't be killed.
            drop(child.kill());
            drop(child.wait());
            drop(fs::remove_file(self.file("pid")));
        }
    }

    /// Stops it until `until`.
    pub(super) fn stall(&mut self, until: Instant) {
        self.signal(Signal::STOP);
        self.state = State::Stalled(until);
    }

    pub(super) fn go_on(&mut self) {
        self.signal(Signal::CONT);
        self.state = State::Up;
    }

    pub(super) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        self.state = State::Ending(Instant::now());
    }

    /// Its exit status, once it has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        drop(fs::remove_file(self.file("pid")));
        Some(status)
    }

    pub(super) fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// The number of times that it created missing queue rows, over all its starts.
    pub(super) fn repairs(&self) -> io::Result<u64> {
        match fs::read(self.file("log")) {
            Ok(log) => Ok(String::from_utf8_lossy(&log).matches(REPAIRED).count() as u64),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Sets its clock ahead, or back if negative.
    pub(super) fn set_clock(&self, offset_ms: i64) -> io::Result<()> {
        // In one step, since it may be read at any time.
        let new = self.file("clock.new");
        fs::write(&new, offset_ms.to_string())?;
        fs::rename(new, self.file("clock"))
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
        if let Some(pid) = pid {
            // A process that has ended ignores signals.
            kill_process(pid, signal).ok();
        }
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.launch.folder.join(format!("daemon-{}.{kind}", self.launch.number))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Creates a folder for a run, or for files that runs share.
pub(super) fn run_folder(parent: &Path) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("recapd-faults-").tempdir_in(parent)?;
    // The server's user must be able to reach its own folder in it.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711))?;
    Ok(folder)
}

/// Ends the processes of a run and removes its folder if the program that runs it is killed.
pub(super) struct Guard {
    marker: PathBuf,
    child: Child,
}

/// Waits for the end of its input. A run that ends well removes `running`.
const GUARD: &str = r#"
trap '' HUP INT TERM
cat >/dev/null
[ -e "$0/running" ] || exit 0
for file in "$0"/*.pid; do [ -e "$file" ] && kill -KILL "$(cat "$file")"; done
[ -e "$0/disk/server/data/postmaster.pid" ] && kill -QUIT "$(head -n 1 "$0/disk/server/data/postmaster.pid")" && sleep 1
umount -l "$0/disk"
rm -rf "$0"
"#;

impl Guard {
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let marker = folder.join("running");
        fs::write(&marker, "")?;
        let child = Command::new("sh")
            .args(["-c", GUARD])
            .arg(folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { marker, child })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.marker));
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_are_counted_in_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::new(DaemonLaunch {
            program: PathBuf::new(),
            number: 1,
            host: Ipv4Addr::LOCALHOST,
            settings: Vec::new(),
            environment: Vec::new(),
            folder: folder.path().to_owned(),
        });
        assert_eq!(daemon.repairs().unwrap(), 0, "it was never started");
        let lines = "{\"message\":\"daemon.ready\"}\n{\"message\":\"queue.repaired\",\"rows\":2}\n\
                     {\"message\":\"queue.probed\"}\n{\"message\":\"queue.repaired\",\"rows\":1}\n";
        fs::write(folder.path().join("daemon-1.log"), lines).unwrap();
        assert_eq!(daemon.repairs().unwrap(), 2);
    }
}
