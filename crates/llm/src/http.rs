//! Sends requests to providers through [`http_client`], and turns each failure into an [`LlmError`].

use reqwest::{Client, RequestBuilder};

use super::{Cause, LlmError, TransientFailure};
use recapd_platform::http_client::{self, HttpClientError};
pub use recapd_platform::http_client::{HttpReply, HttpSettings, RESPONSE_BYTES_MAX};

pub fn client(settings: &HttpSettings) -> Result<Client, LlmError> {
    Ok(http_client::client(settings)?)
}

/// Sends a request and reads the reply, whatever its status. Fails as [`LlmError::Transient`] if no reply comes, or if it takes
/// too long, breaks off or is too big. Fails as [`LlmError::Permanent`] if the request can't be built, or a program of another
/// user listens at the address.
pub async fn send(request: RequestBuilder) -> Result<HttpReply, LlmError> {
    send_for(request, RESPONSE_BYTES_MAX).await
}

/// Works like [`send`] for replies of at most `bytes_max` bytes.
pub async fn send_for(request: RequestBuilder, bytes_max: usize) -> Result<HttpReply, LlmError> {
    Ok(http_client::send(request, bytes_max).await?)
}

impl From<HttpClientError> for LlmError {
    fn from(error: HttpClientError) -> Self {
        let message = error.to_string();
        match error {
            HttpClientError::Unsendable(_) | HttpClientError::Untrusted(_) => Self::Permanent(message),
            HttpClientError::Late(_) => Self::Transient(TransientFailure::new(Cause::Timeout, message)),
            HttpClientError::Unreachable(_) => {
                Self::Transient(TransientFailure::new(Cause::Network, message))
            }
            HttpClientError::Broken(_) => Self::Transient(TransientFailure::new(Cause::Broken, message)),
            HttpClientError::TooLong(_) => Self::Transient(message.into()),
        }
    }
}
