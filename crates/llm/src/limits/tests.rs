//! Tests with a canned model and a manual clock.

use super::*;
use crate::{
    Cause, TransientFailure,
    fixtures::{CannedAnswer, CannedModel},
};
use recapd_core::domain::{prompt::Prompt, reply, time::Timestamp};
use recapd_platform::clock::ManualClock;

/// Shorter than the four seconds for which the minute's limits delay a call in these tests.
const LESS_THAN_THE_WAIT: Duration = Duration::from_secs(3);

fn request() -> ModelRequest {
    ModelRequest {
        prompt: Prompt { system: "s".repeat(400), user: "u".repeat(400), schema: reply::ITEMS },
        transcripts: Vec::new(),
        facts: Vec::new(),
        output_tokens_max: 300,
        agent: None,
        limit_wait: LimitWait::default(),
    }
}

fn took(input_tokens: i64, rest: Option<Duration>) -> ModelAnswer {
    ModelAnswer { input_tokens, rest, ..ModelAnswer::default() }
}

fn refused(retry_after: Option<Duration>) -> LlmError {
    LlmError::RateLimited { retry_after, message: "slow down".to_owned() }
}

fn overloaded(retry_after: Option<Duration>) -> LlmError {
    LlmError::Transient(TransientFailure {
        retry_after,
        ..TransientFailure::new(Cause::Overloaded, "overloaded")
    })
}

fn limited(
    answers: Vec<CannedAnswer>,
    concurrency: usize,
    limits: MinuteLimits,
) -> (LimitedModel, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
    let canned = Arc::new(CannedModel(Mutex::new(answers.into_iter().rev().collect())));
    let time: Arc<dyn Clock> = clock.clone();
    (LimitedModel::new(canned, concurrency, limits, time), clock)
}

async fn wait_s(model: &LimitedModel) -> Option<u64> {
    match model.answer(&request()).await {
        Err(LlmError::Waiting { wait, .. }) => Some(wait.as_secs()),
        _ => None,
    }
}

#[tokio::test]
async fn actual_tokens_replace_the_estimate() {
    let limits = MinuteLimits { requests: 0, tokens: 1_000 };
    // Each call reserves 500 tokens.
    let answers = vec![Ok(took(900, None)), Ok(took(100, None)), Ok(took(1, None))];
    let (model, clock) = limited(answers, 9, limits);
    assert_eq!(wait_s(&model).await, None);
    assert_eq!(wait_s(&model).await, Some(60));
    clock.advance_ms(60_000);
    assert_eq!(wait_s(&model).await, None);
    assert_eq!(wait_s(&model).await, None, "the call before took fewer tokens than were reserved");
}

#[tokio::test]
async fn the_providers_wait_holds_for_all_callers() {
    let rest = Some(Duration::from_secs(20));
    let answers = vec![
        Ok(took(1, rest)),
        Err(refused(Some(Duration::from_mins(2)))),
        Err(overloaded(Some(Duration::from_secs(90)))),
        Err(overloaded(None)),
        Ok(took(1, None)),
    ];
    let (model, clock) = limited(answers, 9, MinuteLimits::default());
    assert_eq!(wait_s(&model).await, None);
    assert_eq!(wait_s(&model).await, Some(20));
    clock.advance_ms(20_000);
    let refusal = model.answer(&request()).await.unwrap_err();
    assert_eq!(refusal.retry_after(), Some(Duration::from_mins(2)));
    assert_eq!(wait_s(&model).await, Some(120));
    clock.advance_ms(120_000);
    let overload = model.answer(&request()).await.unwrap_err();
    assert_eq!(overload.retry_after(), Some(Duration::from_secs(90)));
    assert_eq!(wait_s(&model).await, Some(90));
    clock.advance_ms(90_000);
    let overload = model.answer(&request()).await.unwrap_err();
    assert_eq!(overload.retry_after(), None);
    assert_eq!(model.answer(&request()).await, Ok(took(1, None)));
}

#[tokio::test]
async fn each_refusal_without_a_time_doubles_the_backoff() {
    let mut answers: Vec<CannedAnswer> = std::iter::repeat_with(|| Err(refused(None))).take(8).collect();
    answers.extend([Ok(took(1, None)), Err(refused(None))]);
    let (model, clock) = limited(answers, 9, MinuteLimits::default());
    let mut backoffs_s = Vec::new();
    for _ in 0..10 {
        let wait = model.answer(&request()).await.map_or_else(|error| error.retry_after(), |_| None);
        let wait_s = wait.map_or(0, |wait| wait.as_secs());
        clock.advance_ms(i64::try_from(wait_s).unwrap() * 1_000);
        backoffs_s.push(wait_s);
    }
    assert_eq!(backoffs_s, [5, 10, 20, 40, 80, 160, 300, 300, 0, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_is_waited_out() {
    let limits = MinuteLimits { requests: 1, tokens: 0 };
    let (model, clock) = limited(vec![Ok(took(1, None)), Ok(took(1, None))], 9, limits);
    assert_eq!(wait_s(&model).await, None);
    clock.advance_ms(56_000);
    let began = tokio::time::Instant::now();
    assert_eq!(wait_s(&model).await, None);
    assert_eq!(began.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_held_until_it_may_be_sent() {
    let limits = MinuteLimits { requests: 1, tokens: 0 };
    let (model, clock) = limited(vec![Ok(took(1, None))], 9, limits);
    assert_eq!(wait_s(&model).await, None);
    clock.advance_ms(56_000);
    let request = request();
    let mut asking = model.answer(&request);
    let waited = tokio::time::timeout(LESS_THAN_THE_WAIT, &mut asking).await;
    assert!(waited.is_err() && request.limit_wait.is_waiting());
    let asked = tokio::time::timeout(LESS_THAN_THE_WAIT, &mut asking).await;
    assert!(asked.is_err() && !request.limit_wait.is_waiting(), "no answer ever comes");
}

/// A call that wasn't sent uses nothing of the minute.
#[tokio::test(start_paused = true)]
async fn an_abandoned_held_call_frees_its_room() {
    for (requests, tokens) in [(1, 0), (0, 500)] {
        let answers = vec![Ok(took(1, None)), Ok(took(1, None))];
        let (model, clock) = limited(answers, 9, MinuteLimits { requests, tokens });
        assert_eq!(wait_s(&model).await, None);
        clock.advance_ms(56_000);
        let request = request();
        let waited = tokio::time::timeout(LESS_THAN_THE_WAIT, model.answer(&request)).await;
        assert!(waited.is_err() && request.limit_wait.is_waiting());
        clock.advance_ms(4_000);
        assert_eq!(wait_s(&model).await, None, "{requests} requests, {tokens} tokens");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_are_limited() {
    let (model, _) = limited(Vec::new(), 1, MinuteLimits::default());
    let request = request();
    tokio::select! {
        biased;
        _ = model.answer(&request) => panic!("it never ends"),
        wait = wait_s(&model) => assert_eq!(wait, Some(5)),
    }
    // An abandoned call frees its place.
    assert_eq!(model.permits.available_permits(), 1);
}
