//! The daemon that a command asks: where it is, and the credentials for it.

use std::{convert::Infallible, os::unix::net::UnixStream, path::Path, str::FromStr};

use secrecy::SecretString;

use crate::cli::exit::CommandFailure;
use recapd_client::{Credentials, TOKEN_VARIABLE, Trust, USER_VARIABLE};
use recapd_config::{Environment, HttpConfig, Listen, read_private};

/// Longer token files aren't read.
const TOKEN_BYTES_MAX: u64 = 16_384;

/// A daemon's base URL and the credentials for it.
#[derive(Clone, Debug)]
pub(crate) struct DaemonTarget {
    pub(crate) base: String,
    pub(super) credentials: Credentials,
}

impl FromStr for DaemonTarget {
    type Err = Infallible;

    fn from_str(base: &str) -> Result<Self, Infallible> {
        Ok(Self::at(base))
    }
}

impl DaemonTarget {
    pub(super) fn at(base: &str) -> Self {
        Self { base: base.to_owned(), credentials: Credentials::default() }
    }

    pub(crate) fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }
}

/// Reads the token from `file`, otherwise from the environment. Also reads which user's daemon may receive the token.
pub(crate) fn credentials(
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Credentials, CommandFailure> {
    let token = token(file, environment)?;
    let trust = Trust::of(environment.get(USER_VARIABLE))
        .map_err(|error| CommandFailure::usage(format!("{USER_VARIABLE}: {error}")))?;
    Ok(Credentials { token, trust })
}

/// Reads the token from `file`, otherwise from the environment. The token is never an argument, because other users
/// could see it.
fn token(file: Option<&Path>, environment: &Environment) -> Result<Option<SecretString>, CommandFailure> {
    let text = match file {
        None => environment.get(TOKEN_VARIABLE).map(str::to_owned),
        Some(file) => {
            let unreadable = |error: std::io::Error| {
                CommandFailure::usage(format!("--token-file {}: {error}", file.display()))
            };
            Some(read_private(file, TOKEN_BYTES_MAX).map_err(unreadable)?)
        }
    };
    let Some(text) = text else {
        return Ok(None);
    };
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let from = if file.is_some() { "--token-file" } else { TOKEN_VARIABLE };
        return Err(CommandFailure::usage(format!(
            "{from} doesn't hold a token: expected one line such as rcp_…, as `recapd token create` printed it"
        )));
    }
    Ok(Some(token.into()))
}

/// Returns the base URL of the configured daemon: its socket if a program listens there, otherwise its address.
pub(crate) fn base(config: &HttpConfig) -> String {
    let mut sockets = config.sockets.client_paths.iter();
    match sockets.find(|path| UnixStream::connect(path).is_ok()) {
        Some(path) => Listen::Socket(path.clone()).base(),
        None => config.listen.base(),
    }
}
