//! Processes of the `recapd` program.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    time::Duration,
};

use reqwest::Client;
use tokio::time::sleep;

const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: usize = 3_000;

/// A process that is killed when this value is dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(words: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recapd"));
        let command = command.args(words).args(["--set", "log.level=error"]);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Returns the peak of the resident memory, in KiB.
    pub(crate) fn peak_kib(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Returns a free address.
pub(crate) fn address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Waits until `url` answers with success.
pub(crate) async fn until(client: &Client, url: &str) {
    let mut looks = 0..LOOKS_MAX;
    loop {
        let answer = client.get(url).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return;
        }
        assert!(looks.next().is_some(), "{url} doesn't answer");
        sleep(LOOK).await;
    }
}
