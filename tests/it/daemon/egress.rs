//! A daemon that reaches its provider only through a Unix socket, as in systemd/examples/egress-locked.conf.

use std::process::Stdio;

use tokio::net::{TcpStream, UnixListener};
use tokio_util::task::TaskTracker;

use super::Daemon;
use crate::support::fake_provider::{FakeProvider, Shape};

/// Forwards the bytes of each connection, as systemd-socket-proxyd does.
async fn pass_on(listener: UnixListener, to: String) {
    let connections = TaskTracker::new();
    while let Ok((mut from, _)) = listener.accept().await {
        let to = to.clone();
        connections.spawn(async move {
            let mut to = TcpStream::connect(to).await.unwrap();
            // Either side may hang up.
            tokio::io::copy_bidirectional(&mut from, &mut to).await.ok();
        });
    }
}

#[tokio::test]
async fn a_provider_is_reached_through_a_socket() {
    let fake = FakeProvider::start();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("egress.sock");
    let address = fake.base_url(Shape::OpenAi).replace("http://", "");
    let (host, path) = address.split_once('/').unwrap();
    TaskTracker::new().spawn(pass_on(UnixListener::bind(&socket).unwrap(), host.to_owned()));

    // No resolver knows this name: only the socket leads to the provider.
    let settings = [
        format!("model.base_url=http://provider.invalid/{path}"),
        format!("model.proxy=unix:{}", socket.display()),
    ];
    let environment = [("OPENAI_API_KEY", "key")];
    let settings = settings.each_ref().map(String::as_str);
    let daemon = Daemon::start_with(&fake, &settings, &environment, Stdio::inherit());
    daemon.until_ready().await;
    daemon.turn(1).await;
    daemon.turn(2).await;
    daemon.until_version(1).await;
    assert_eq!(fake.requests()[0].header("host"), "provider.invalid");
    fake.assert_well_formed();
}
