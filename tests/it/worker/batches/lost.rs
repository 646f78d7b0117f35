//! Batches that are refused, gone, or may or may not exist.

use std::{
    slice,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use recapd_core::domain::{
    batch::{BatchIdentity, ListedBatch},
    time::MINUTE_MS,
};
use recapd_engine::worker::{BatchPoller, Outcome};
use recapd_llm::{LlmError, ModelRequest, batch as llm};
use recapd_platform::clock::ManualClock;
use recapd_store::batch::BatchFigures;

use super::{BatchRig, SHAPES, config, model};
use crate::support::{
    backend::Backend as _,
    fake_provider::{
        FakeProvider, Shape,
        batches::{BatchCall, Fate, Hitch},
    },
};

#[tokio::test]
async fn a_refused_batch_is_asked_directly() {
    for shape in SHAPES {
        let one = BatchRig::deferred(shape).await;
        one.fake.batches().hitch(BatchCall::Create, Hitch::Refused(400));
        one.look().await;
        assert_eq!((one.questions("failed").await, one.fake.batches().made()), (1, 0));
        assert_eq!(one.rig.drain().await, [Outcome::Completed]);
        assert_eq!((one.rig.verify().await.pending, one.paid()), (0, 1));
    }
}

/// Providers echo what they refuse.
#[tokio::test]
async fn errors_show_neither_the_key_nor_the_question() {
    for shape in SHAPES {
        let fake = FakeProvider::start();
        let model = model(&config(shape, &fake)).unwrap();
        let call = llm::BatchCall {
            key: "k".to_owned(),
            body: "{\"secret\":\"the moon is made of cheese\"}".to_owned(),
        };
        let first = if matches!(shape, Shape::OpenAi | Shape::Responses) {
            BatchCall::Upload
        } else {
            BatchCall::Create
        };
        for status in [400, 401, 429, 500] {
            fake.batches().hitch(first, Hitch::Refused(status));
            let refused = model.submit("recapd-1", slice::from_ref(&call)).await;
            let error = refused.unwrap_err();
            let said = format!("{error} {error:?}");
            assert!(said.contains(&format!("status {status}")), "{said}");
            assert!(!said.contains("a-key") && !said.contains("cheese"), "{said}");
        }
    }
}

#[tokio::test]
async fn a_batch_of_another_provider_is_given_up() {
    let mut one = BatchRig::sent(Shape::Anthropic).await;
    let config = config(Shape::Gemini, &one.fake);
    let parts = one.rig.parts.clone();
    one.rig.parts = parts.with_batches(&config, one.rig.db.batches(), model(&config));
    one.batch_poller = one.rig.parts.worker.batch_poller().unwrap();
    one.look().await;
    assert_eq!(one.figures().await, BatchFigures::default());
    assert_eq!(one.rig.drain().await, [Outcome::Completed]);
    assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 1));
}

#[tokio::test]
async fn a_batch_that_is_gone_is_asked_directly() {
    for shape in SHAPES {
        let one = BatchRig::sent(shape).await;
        one.fake.batches().forget();
        one.look().await;
        assert_eq!(one.rig.drain().await, [Outcome::Completed], "{shape:?}");
        assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 1));
    }
}

/// Batches that another program created on the same account are ignored.
#[tokio::test]
async fn a_lost_batch_is_found_among_others() {
    for shape in SHAPES {
        let one = BatchRig::deferred(shape).await;
        for _ in 0..3 {
            one.fake.batches().foreign(shape, 2);
        }
        one.fake.batches().hitch(BatchCall::Create, Hitch::Lost);
        one.look().await;
        assert_eq!(one.figures().await.intents, 1);
        one.look().await;
        assert_eq!(one.fake.batches().made(), 4, "{shape:?}: it isn't sent again");
        assert_eq!(one.figures().await.submitted, 1);
        one.fake.batches().end(&[Fate::Good]);
        one.look().await;
        assert_eq!(one.rig.drain().await, [Outcome::Completed], "{shape:?}");
        assert_eq!((one.rig.verify().await.pending, one.rig.model.calls()), (0, 0));
    }
}

/// Batches without names may be mistaken for ours: such a batch has no answer for us, and costs one more call.
#[tokio::test]
async fn a_mistaken_batch_does_no_harm() {
    let one = BatchRig::deferred(Shape::Anthropic).await;
    one.fake.batches().hitch(BatchCall::Create, Hitch::Refused(504));
    one.look().await;
    one.fake.batches().foreign(Shape::Anthropic, 1);
    one.look().await;
    one.look().await;
    assert_eq!(one.questions("failed").await, 1);
    assert_eq!(one.rig.drain().await, [Outcome::Completed]);
    assert_eq!((one.rig.verify().await.pending, one.paid()), (0, 1));
}

/// A provider whose list is so slow that another daemon takes the batch over meanwhile.
struct SlowList {
    provider: Arc<dyn llm::BatchModel>,
    clock: Arc<ManualClock>,
    other: Mutex<Option<BatchPoller>>,
}

#[async_trait]
impl llm::BatchModel for SlowList {
    fn provider(&self) -> &str {
        self.provider.provider()
    }

    fn model(&self) -> &str {
        self.provider.model()
    }

    fn body(&self, request: &ModelRequest) -> Result<String, LlmError> {
        self.provider.body(request)
    }

    async fn submit(&self, name: &str, calls: &[llm::BatchCall]) -> Result<String, LlmError> {
        self.provider.submit(name, calls).await
    }

    async fn find(&self, wanted: &BatchIdentity) -> Result<Vec<ListedBatch>, LlmError> {
        let listed = self.provider.find(wanted).await;
        let other = self.other.lock().unwrap().take();
        if let Some(other) = other {
            self.clock.advance_ms(11 * MINUTE_MS);
            other.step().await.unwrap();
        }
        listed
    }

    async fn look(&self, id: &str) -> Result<llm::BatchStatus, LlmError> {
        self.provider.look(id).await
    }

    async fn results(&self, ended: &llm::FinishedBatch) -> Result<Vec<llm::BatchResult>, LlmError> {
        self.provider.results(ended).await
    }
}

#[tokio::test]
async fn a_slow_list_sends_no_batch_twice() {
    let one = BatchRig::deferred(Shape::Anthropic).await;
    one.fake.batches().hitch(BatchCall::Create, Hitch::Refused(504));
    one.look().await;
    assert_eq!((one.figures().await.intents, one.fake.batches().made()), (1, 0));
    let slow = SlowList {
        provider: model(&one.config).unwrap(),
        clock: Arc::clone(&one.rig.clock),
        other: Mutex::new(one.rig.parts.worker.batch_poller()),
    };
    let parts = one.rig.parts.clone();
    let parts = parts.with_batches(&one.config, one.rig.db.batches(), Some(Arc::new(slow)));
    one.rig.clock.advance_ms(11 * MINUTE_MS);
    parts.worker.batch_poller().unwrap().step().await.unwrap();
    assert_eq!((one.figures().await.submitted, one.fake.batches().made()), (1, 1));
}
