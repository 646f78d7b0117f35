//! Tests of whole calls through a breaker.

use super::*;
use crate::{
    Cause,
    fixtures::{CannedAnswer, CannedModel},
    limits::LimitWait,
};
use recapd_core::domain::{prompt::Prompt, reply};
use recapd_platform::clock::ManualClock;

fn down() -> CannedAnswer {
    Err(LlmError::Transient(TransientFailure::new(Cause::Network, "connection reset")))
}

/// The same failure, after which the circuit is open.
fn outage(wait_s: u64) -> CannedAnswer {
    Err(LlmError::Transient(TransientFailure {
        outage: Some(Duration::from_secs(wait_s)),
        ..TransientFailure::new(Cause::Network, "connection reset")
    }))
}

#[tokio::test]
async fn a_failing_provider_is_left_alone_and_asked_again() {
    let answers = vec![Ok(ModelAnswer::default()), down(), down(), down()];
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let breaker = Breaker::new(
        Arc::new(CannedModel(Mutex::new(answers))),
        BreakerSettings { failures: 2, rest_ms: 30_000 },
        clock.clone(),
    );
    let listener: BreakerListener = Arc::new({
        let heard = Arc::clone(&heard);
        move |_: &str, _: &str, state| heard.lock().unwrap().push(state)
    });
    breaker.watch(&listener);
    let request = ModelRequest {
        prompt: Prompt { system: String::new(), user: String::new(), schema: reply::ITEMS },
        transcripts: Vec::new(),
        facts: Vec::new(),
        output_tokens_max: 1,
        agent: None,
        limit_wait: LimitWait::default(),
    };
    let ask = async || breaker.answer(&request).await;
    let rests = |wait_s| LlmError::Waiting { wait: Duration::from_secs(wait_s), why: Wait::Circuit };
    assert_eq!(ask().await, down());
    assert_eq!(ask().await, outage(30));
    assert_eq!(ask().await, Err(rests(30)));
    clock.advance_ms(30_000);
    assert_eq!(ask().await, outage(60));
    assert_eq!(ask().await, Err(rests(60)));
    clock.advance_ms(60_000);
    assert_eq!(ask().await, Ok(ModelAnswer::default()));

    let open = |until_ms| CircuitState::Open { until: Timestamp(until_ms) };
    let states = [
        CircuitState::Closed,
        open(30_000),
        CircuitState::HalfOpen,
        open(90_000),
        CircuitState::HalfOpen,
        CircuitState::Closed,
    ];
    assert_eq!(*heard.lock().unwrap(), states);
}

#[test]
fn answers_show_whether_the_provider_works() {
    let words = String::new;
    for (answer, expected) in [
        (Ok(ModelAnswer::default()), CallVerdict::Answered),
        (down(), CallVerdict::Failed { rest_ms: 0 }),
        (Err(LlmError::Auth(words())), CallVerdict::Refused),
        (Err(LlmError::Refused { message: words(), usage: None }), CallVerdict::Answered),
        (Err(LlmError::Permanent(words())), CallVerdict::Answered),
        (Err(LlmError::Truncated { usage: None }), CallVerdict::Answered),
        (Err(LlmError::RateLimited { retry_after: None, message: words() }), CallVerdict::Answered),
    ] {
        assert_eq!(verdict(&answer), expected, "{answer:?}");
    }
}

/// A probe whose future is dropped doesn't block the next one for ever.
#[tokio::test]
async fn a_dropped_probe_allows_the_next() {
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let breaker = Breaker::new(
        Arc::new(CannedModel(Mutex::new(vec![Err(LlmError::Auth(String::new()))]))),
        BreakerSettings { failures: 2, rest_ms: 30_000 },
        clock.clone(),
    );
    let request = ModelRequest {
        prompt: Prompt { system: String::new(), user: String::new(), schema: reply::ITEMS },
        transcripts: Vec::new(),
        facts: Vec::new(),
        output_tokens_max: 1,
        agent: None,
        limit_wait: LimitWait::default(),
    };
    assert!(breaker.answer(&request).await.is_err());
    clock.advance_ms(30_000);
    tokio::select! {
        biased;
        _ = breaker.answer(&request) => panic!("it never ends"),
        state = async { breaker.circuit().state() } => assert_eq!(state, CircuitState::HalfOpen),
    }
    let until = Timestamp(30_000);
    assert_eq!(breaker.circuit().state(), CircuitState::Open { until });
}
