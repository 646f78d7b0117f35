//! A fake model for the tests of the layers between the worker and a provider.

use std::sync::Mutex;

use async_trait::async_trait;

use super::{ChatModel, LlmError, ModelAnswer, ModelRequest};

/// The result of a call.
pub(super) type Answer = Result<ModelAnswer, LlmError>;

/// Gives these answers, the last one first; then waits for ever.
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
