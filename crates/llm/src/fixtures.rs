//! A fake model for tests of the layers between the worker and a provider.

use std::sync::Mutex;

use async_trait::async_trait;

use super::{ChatModel, LlmError, ModelAnswer, ModelRequest};

pub(super) type CannedAnswer = Result<ModelAnswer, LlmError>;

/// Returns these answers, the last one first, and then never answers again.
pub(super) struct CannedModel(pub(super) Mutex<Vec<CannedAnswer>>);

#[async_trait]
impl ChatModel for CannedModel {
    fn provider(&self) -> &'static str {
        "canned"
    }

    fn model(&self) -> &'static str {
        "model"
    }

    async fn answer(&self, _: &ModelRequest) -> CannedAnswer {
        let next = self.0.lock().unwrap().pop();
        match next {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}
