//! Asking a provider for the tokens of a request.

use async_trait::async_trait;
use serde_json::Value;

use super::{Protocol, RemoteModel, place::check_name};
use crate::llm::{Cause, Fault, LlmError, counting::CountEndpoint, fault};

#[async_trait]
impl<P: Protocol> CountEndpoint for RemoteModel<P> {
    async fn count(&self, model: &str, body: &[u8]) -> Result<i64, LlmError> {
        self.count_tokens(model, body).await
    }
}

impl<P: Protocol> RemoteModel<P> {
    /// The tokens of `request`, the JSON body of a request in this provider's format, as the provider counts them for
    /// `model`. What the provider's count doesn't take (limits, streaming) is left out. It costs no tokens, but has a
    /// rate limit of its own.
    ///
    /// Fails as [`LlmError::Permanent`] when the request is no JSON object or the provider counts nothing, and as
    /// [`ChatModel::answer`](crate::llm::ChatModel::answer) does.
    pub async fn count_tokens(&self, model: &str, request: &[u8]) -> Result<i64, LlmError> {
        let wrong = |what: String| LlmError::Permanent(what);
        check_name(model)?;
        let body: Value = serde_json::from_slice(request)
            .map_err(|error| wrong(format!("the request is not JSON: {error}")))?;
        if !body.is_object() {
            return Err(wrong("the request is not a JSON object".to_owned()));
        }
        let (path, body) = self
            .protocol
            .count_call(&self.address, model, &body)
            .ok_or_else(|| wrong(format!("{} counts no tokens there", P::PROVIDER)))?;
        let reply = self.post(&path, body.to_string().into_bytes()).await?;
        let material = String::from_utf8_lossy(request);
        let discreet = self.discreet(&material);
        if !reply.status.is_success() {
            return Err(fault::refused(&reply, reply.status.as_u16(), discreet));
        }
        let count = serde_json::from_slice(&reply.body)
            .ok()
            .and_then(|body| self.protocol.read_count(&body));
        count.filter(|count| *count >= 0).ok_or_else(|| {
            let said = fault::said(&reply, "the answer is no count of tokens", discreet);
            LlmError::Transient(Fault::new(Cause::Server, said))
        })
    }
}

/// The fields of `request` that `names` lists, for `model`.
pub(in crate::llm) fn only(request: &Value, names: &[&str], model: &str) -> Value {
    let fields = request.as_object().into_iter().flatten();
    let mut kept: serde_json::Map<String, Value> = fields
        .filter(|(name, value)| names.contains(&name.as_str()) && !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    kept.insert("model".to_owned(), model.into());
    Value::Object(kept)
}
