//! Requests to providers: [`wire`], with failures mapped to what they mean for a call.

use reqwest::{Client, RequestBuilder};

use super::{Cause, LlmError, TransientFailure};
use recapd_platform::wire::{self, WireError};
pub use recapd_platform::wire::{HttpReply, HttpSettings, RESPONSE_BYTES_MAX};

/// A client with these settings.
pub fn client(settings: &HttpSettings) -> Result<Client, LlmError> {
    Ok(wire::client(settings)?)
}

/// Sends a request and reads the answer, whatever its status. Fails as [`LlmError::Transient`] when none comes, comes
/// too late, breaks off or is too long.
pub async fn send(request: RequestBuilder) -> Result<HttpReply, LlmError> {
    send_for(request, RESPONSE_BYTES_MAX).await
}

/// As [`send`], for answers of at most `bytes_max` bytes.
pub async fn send_for(request: RequestBuilder, bytes_max: usize) -> Result<HttpReply, LlmError> {
    Ok(wire::send(request, bytes_max).await?)
}

impl From<WireError> for LlmError {
    fn from(error: WireError) -> Self {
        let said = error.to_string();
        match error {
            WireError::Unsendable(_) | WireError::Untrusted(_) => Self::Permanent(said),
            WireError::Late(_) => Self::Transient(TransientFailure::new(Cause::Timeout, said)),
            WireError::Unreachable(_) => Self::Transient(TransientFailure::new(Cause::Network, said)),
            WireError::Broken(_) => Self::Transient(TransientFailure::new(Cause::Broken, said)),
            WireError::TooLong(_) => Self::Transient(said.into()),
        }
    }
}
