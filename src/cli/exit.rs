//! The exit codes, and the one place that prints errors.

use std::process::ExitCode;

use super::terminal::output;
use recapd_api::access::file::FileError;
use recapd_config::{ConfigError, Environment, HeadersError, KeyError, LogFormat};
use recapd_platform::{
    clock::{Clock as _, SystemClock},
    files::ListError,
    randomness::NoRandomness,
};
use recapd_store::{FactFault, StoreError};
use recapd_telemetry::Surroundings;

pub(super) const NOT_FOUND: u8 = 3;
pub(super) const UNHEALTHY: u8 = 4;
/// The database or the daemon is unreachable (sysexits `EX_UNAVAILABLE`).
pub(super) const UNAVAILABLE: u8 = 69;
/// Not done yet; a later call may succeed (sysexits `EX_TEMPFAIL`).
pub(super) const RETRY_LATER: u8 = 75;
/// The configuration is wrong (sysexits `EX_CONFIG`). A restart doesn't help.
pub(super) const CONFIGURATION: u8 = 78;
pub(super) const USAGE: u8 = 2;

pub(super) const CODES: [(u8, &str); 8] = [
    (0, "fine"),
    (1, "the command or a check failed"),
    (USAGE, "wrong usage"),
    (NOT_FOUND, "not found"),
    (UNHEALTHY, "the daemon isn't ready"),
    (UNAVAILABLE, "database or daemon unreachable"),
    (RETRY_LATER, "not done yet: try again later"),
    (CONFIGURATION, "the configuration is wrong"),
];

#[derive(Debug)]
pub(super) struct CommandFailure {
    code: u8,
    error: anyhow::Error,
}

impl CommandFailure {
    pub(super) fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: error.into() }
    }

    pub(super) fn usage(what: String) -> Self {
        Self { code: USAGE, error: anyhow::Error::msg(what) }
    }

    /// Returns the failure for a token file (`http.tokens_file`) that can't be used.
    pub(super) fn tokens_file(error: &FileError) -> Self {
        // The error's text already contains its source.
        Self::new(CONFIGURATION, anyhow::Error::msg(format!("http.tokens_file: {error}")))
    }

    /// Returns the failure for files on the command line that can't be listed.
    pub(super) fn unlisted(error: ListError) -> Self {
        match error {
            ListError::Missing(_) => Self::usage(format!("{error}; check the path")),
            ListError::Unreadable { .. } => anyhow::Error::new(error).into(),
        }
    }

    pub(super) fn not_found(what: String) -> Self {
        Self { code: NOT_FOUND, error: anyhow::Error::msg(what) }
    }

    /// Adds to the error what was done before it occurred.
    pub(super) fn after(self, done: &str) -> Self {
        Self { error: self.error.context(done.to_owned()), ..self }
    }

    pub(super) fn code(&self) -> u8 {
        self.code
    }

    /// Returns the error with its causes, as one line.
    pub(super) fn text(&self) -> String {
        format!("{:#}", self.error)
    }

    pub(super) fn report(&self) -> ExitCode {
        output::error(&format!("recapd: {}", self.text()));
        ExitCode::from(self.code)
    }

    /// Like [`Self::report`], but in the format of the daemon's log, where people look for the reason why the daemon
    /// stopped.
    pub(super) fn report_in_log(&self, format: LogFormat, environment: &Environment) -> ExitCode {
        let surroundings = Surroundings::of_standard_error(environment);
        output::error(&surroundings.last_words(format, &self.text(), SystemClock.now()));
        ExitCode::from(self.code)
    }
}

impl From<anyhow::Error> for CommandFailure {
    fn from(error: anyhow::Error) -> Self {
        Self { code: 1, error }
    }
}

impl From<NoRandomness> for CommandFailure {
    fn from(error: NoRandomness) -> Self {
        Self::from(anyhow::Error::from(error))
    }
}

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> Self {
        Self { code: CONFIGURATION, error: error.into() }
    }
}

impl From<KeyError> for CommandFailure {
    fn from(error: KeyError) -> Self {
        Self { code: CONFIGURATION, error: error.into() }
    }
}

impl From<HeadersError> for CommandFailure {
    fn from(error: HeadersError) -> Self {
        Self::new(CONFIGURATION, error)
    }
}

impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> Self {
        let code = match error {
            StoreError::Unavailable(_) | StoreError::Contended(_) | StoreError::InUse(_) => UNAVAILABLE,
            StoreError::UnknownAgent(_)
            | StoreError::UnknownMark(_)
            | StoreError::UnknownMessage(_)
            | StoreError::UnknownVersion { .. }
            | StoreError::UnknownItem { .. }
            | StoreError::Fact(FactFault::Unknown(_))
            | StoreError::UnknownNote(_)
            | StoreError::UnknownExchange(_) => NOT_FOUND,
            StoreError::Schema(_) => CONFIGURATION,
            StoreError::Fenced(_)
            | StoreError::Refused(_)
            | StoreError::AgentExists(_)
            | StoreError::HasForks { .. }
            | StoreError::ClientIdReused(_)
            | StoreError::KeyReused(_)
            | StoreError::WouldOverflow { .. }
            | StoreError::PinsFull { .. }
            | StoreError::ItemPinsFull
            | StoreError::Note(_)
            | StoreError::NoteChanged { .. }
            | StoreError::NotesFull
            | StoreError::Fact(_)
            | StoreError::Inconsistent { .. }
            | StoreError::Panicked(_) => 1,
        };
        Self { code, error: error.into() }
    }
}

impl From<std::io::Error> for CommandFailure {
    fn from(error: std::io::Error) -> Self {
        Self { code: 1, error: error.into() }
    }
}
