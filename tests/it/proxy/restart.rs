//! `recapd proxy` on a listener of the service manager's: connections that are made during a restart wait for it.

use std::{
    net::TcpListener,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
};

use recapd_platform::http_client::relay_client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Starts the program as systemd does, but with the listener as its standard input.
fn start(listener: &TcpListener, settings: &[&str]) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("recapd"))
        .env_clear()
        .envs([("LISTEN_FDS", "1"), ("LISTEN_FDS_FIRST_FD", "0")])
        .args(["proxy", "--server", "http://127.0.0.1:9"])
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_waits_for_the_next_process() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let protocol = format!("http://{}/protocol", listener.local_addr().unwrap());
    let ask = || async {
        let client = relay_client(1_000).unwrap();
        let text = client.get(&protocol).send().await.unwrap().text().await.unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["mode"].clone()
    };
    let mut first = start(&listener, &[]);
    assert_eq!(ask().await, "observe");
    let pid = Pid::from_raw(i32::try_from(first.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(first.wait().unwrap().success());
    let restarted = async { start(&listener, &["proxy.mode=answer"]) };
    let (mode, mut second) = tokio::join!(ask(), restarted);
    assert_eq!(mode, "answer");
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn a_socket_that_others_reach_needs_a_token() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let output = start(&listener, &[]).wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{told}");
    assert!(told.contains("proxy.token_file"), "{told}");
}
