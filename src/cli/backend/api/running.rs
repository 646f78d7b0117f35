//! Finds the daemon at the configured address, and asks for its state.

use std::{net::TcpStream, os::unix::net::UnixStream, time::Duration};

use reqwest::{Method, StatusCode, header::ACCEPT};

use super::{
    super::{
        open,
        target::{DaemonTarget, base},
    },
    Api, refusal,
};
use crate::cli::exit::CommandFailure;
use recapd_client::{Answerer, Credentials, answerer};
use recapd_config::{HttpConfig, Listen};
use recapd_platform::http_client::HttpClientError;

const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// The statuses of an overloaded daemon. The command is sent to it nevertheless, because it may be free by then.
const BUSY: [StatusCode; 2] = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];

/// Returns the daemon at the configured address, if one runs there and accepts the credentials.
pub(crate) fn find(
    config: &HttpConfig,
    credentials: Credentials,
) -> Result<Option<DaemonTarget>, CommandFailure> {
    // Usually no daemon listens, and trying to connect is quicker than a request.
    let base = base(config);
    if base == config.listen.base() && !listens(&config.listen) {
        return Ok(None);
    }
    let server = DaemonTarget { base, credentials };
    let is_usable = open::block_on(async {
        match Api::new(&server) {
            Ok(daemon) => accepts_us(&daemon).await,
            Err(_) => Ok(false),
        }
    })?;
    Ok(is_usable.then_some(server))
}

/// True if a daemon runs and accepts the credentials. Fails if a slow daemon doesn't answer in time: the command must not
/// open the database instead, because the daemon may use another database, and its configuration wouldn't apply.
async fn accepts_us(daemon: &Api) -> Result<bool, CommandFailure> {
    let request = daemon.request(Method::GET, "/version").header(ACCEPT, "application/json");
    match daemon.reply(request).await {
        Ok((status, text)) => Ok(match answerer(status, text.as_bytes()) {
            Answerer::Daemon => true,
            Answerer::Refusing => BUSY.contains(&status),
            Answerer::Other => false,
        }),
        Err(error @ (HttpClientError::Late(_) | HttpClientError::Untrusted(_))) => {
            Err(daemon.unanswered_failure(error))
        }
        Err(_) => Ok(false),
    }
}

/// Why a daemon isn't ready.
pub(crate) enum NotReady {
    /// Nothing listens at the address.
    Away,
    /// A program listens and doesn't answer, for this reason.
    Silent(String),
    /// The daemon answers that it isn't ready, for this reason.
    Says(String),
}

/// Checks that a daemon answers with success at `path`, which needs no token: the daemon at `server`, otherwise the
/// configured one.
pub(crate) async fn answers(
    server: Option<&DaemonTarget>,
    config: &HttpConfig,
    path: &str,
) -> Result<(), NotReady> {
    let configured = || DaemonTarget { base: base(config), credentials: Credentials::default() };
    let server = server.cloned().unwrap_or_else(configured);
    let daemon = Api::new(&server).map_err(|failure| NotReady::Says(failure.text()))?;
    match daemon.reply(daemon.request(Method::GET, path)).await {
        Err(error) => Err(no_answer(&error)),
        Ok((status, _)) if status.is_success() => Ok(()),
        Ok((status, text)) => Err(NotReady::Says(refusal::command_failure(status, &text).text())),
    }
}

fn no_answer(error: &HttpClientError) -> NotReady {
    match error {
        HttpClientError::Unreachable(_) => NotReady::Away,
        error => NotReady::Silent(error.to_string()),
    }
}

fn listens(listen: &Listen) -> bool {
    match listen {
        Listen::Address(_) => listen
            .reachable()
            .is_some_and(|address| TcpStream::connect_timeout(&address, CONNECT_PATIENCE).is_ok()),
        Listen::Socket(path) => UnixStream::connect(path).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_answers_late_is_silent_and_not_away() {
        let late = HttpClientError::Late("operation timed out".to_owned());
        assert!(matches!(no_answer(&late), NotReady::Silent(why) if why == "operation timed out"));
        let nobody = HttpClientError::Unreachable("connection refused".to_owned());
        assert!(matches!(no_answer(&nobody), NotReady::Away));
    }
}
