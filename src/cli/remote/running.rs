//! The daemon that the configuration says where to find: does one run there, and how is it?

use std::{net::TcpStream, os::unix::net::UnixStream, time::Duration};

use reqwest::Method;
use secrecy::SecretString;
use serde_json::Value;

use super::{super::open, Remote, Server, refusal};
use crate::config::{HttpConfig, Listen};

/// How long it is looked whether a daemon runs at all.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// The daemon that runs where the configuration says, if one does and lets us in.
pub(in super::super) fn find(config: &HttpConfig, token: Option<SecretString>) -> Option<Server> {
    // Mostly nobody listens, and then nothing more is set up.
    if !listens(&config.listen) {
        return None;
    }
    let server = Server {
        base: config.listen.base(),
        token,
    };
    let looked = open::block_on(async {
        let daemon = Remote::new(&server)?;
        Ok(tokio::time::timeout(LOOK_PATIENCE, daemon.read::<Value>("/version")).await)
    });
    let version = looked.ok()?.ok()?.ok()?;
    (version["name"] == env!("CARGO_PKG_NAME")).then_some(server)
}

/// Why a daemon isn't ready.
pub(in super::super) enum NotReady {
    /// Nobody answers.
    Away,
    /// It says so.
    Says(String),
}

/// Whether the daemon at `server`, else the one of the configuration, answers well at `path`, which needs no token.
pub(in super::super) async fn answers(
    server: Option<&Server>,
    config: &HttpConfig,
    path: &str,
) -> Result<(), NotReady> {
    let here = || Server {
        base: config.listen.base(),
        token: None,
    };
    let server = server.cloned().unwrap_or_else(here);
    let daemon = Remote::new(&server).map_err(|failed| NotReady::Says(failed.text()))?;
    match daemon.send(daemon.request(Method::GET, path)).await {
        Err(_) => Err(NotReady::Away),
        Ok((status, _)) if status.is_success() => Ok(()),
        Ok((status, text)) => Err(NotReady::Says(refusal::failed(status, &text).text())),
    }
}

/// Whether somebody listens there.
fn listens(listen: &Listen) -> bool {
    match listen {
        Listen::Address(_) => listen
            .reachable()
            .is_some_and(|address| TcpStream::connect_timeout(&address, LOOK_PATIENCE).is_ok()),
        Listen::Socket(path) => UnixStream::connect(path).is_ok(),
    }
}
