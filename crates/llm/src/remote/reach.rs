//! Checks that a provider can be reached and accepts the key, without asking a model.

use reqwest::StatusCode;

use super::{Protocol, RemoteModel, address};
use crate::{LlmError, fault, http};

impl<P: Protocol> RemoteModel<P> {
    /// Lists the models, which costs nothing. A server that has no such list counts as reached.
    pub(super) async fn reach_provider(&self) -> Result<(), LlmError> {
        let call =
            self.client.get(address::endpoint(&self.address, P::MODELS_PATH)?).headers(self.headers.clone());
        let reply = http::send(call).await?;
        let has_no_list = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
        if reply.status.is_success() || has_no_list.contains(&reply.status) {
            return Ok(());
        }
        Err(fault::error_of_refusal(&reply, reply.status.as_u16(), self.discreet("")))
    }
}
