//! A model for the tests of what stands between the worker and a provider.

use std::sync::Mutex;

use async_trait::async_trait;

use super::{ChatModel, LlmError, ModelAnswer, ModelRequest};

/// What a call ends with.
pub(super) type Answer = Result<ModelAnswer, LlmError>;

/// Gives its answers, the last one first; then none ever.
pub(super) struct Told(pub(super) Mutex<Vec<Answer>>);

#[async_trait]
impl ChatModel for Told {
    fn provider(&self) -> &'static str {
        "told"
    }

    fn model(&self) -> &'static str {
        "so"
    }

    async fn answer(&self, _: &ModelRequest) -> Answer {
        let next = self.0.lock().unwrap().pop();
        match next {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}
