//! What every provider must do: a table of events and their results.

use std::{net::TcpListener, time::Duration};

use recapd_core::domain::{
    redaction::Redactor,
    reply::{self, CheckedReply, OPERATIONS, ReplyError},
    summary::item::LONG_TEXT_CHARS_MAX,
};
use recapd_llm::LlmError;

use super::{ASKED, IMPATIENT_MS, KEY, PATIENT_MS, model, request, settings, with};
use crate::support::{
    fake_provider::{FakeProvider, Planned, Recorded, Shape, Trouble, Wait},
    port::Port,
};

async fn checked(shape: Shape, fake: &FakeProvider) -> Result<CheckedReply, ReplyError> {
    let answer = model(shape, fake).answer(&request()).await.unwrap();
    reply::parse(&answer.text, &ASKED, &Redactor::standard())
}

#[tokio::test]
async fn a_good_answer_covers_its_exchanges_and_reports_its_tokens() {
    for shape in Shape::ALL {
        let fake = FakeProvider::start();
        let asked = request();
        let answer = model(shape, &fake).answer(&asked).await.unwrap();
        let checked = reply::parse(&answer.text, &ASKED, &Redactor::standard()).unwrap();
        let covered: Vec<i64> = checked.drafts.iter().map(|draft| draft.exchanges.first).collect();
        assert_eq!((covered.as_slice(), checked.missing.as_slice()), (&ASKED[..], &[][..]));

        let input = i64::try_from((asked.prompt.system.len() + asked.prompt.user.len()) / 4).unwrap();
        let output = i64::try_from(answer.text.len() / 4).unwrap() + 7;
        let (cached, written, thought) = match shape {
            Shape::Anthropic | Shape::OpenAi | Shape::Responses => (input / 2, input / 4, 7),
            Shape::Gemini => (input / 2, 0, 7),
            Shape::Ollama => (0, 0, 0),
        };
        assert_eq!(
            [
                answer.input_tokens,
                answer.cached_input_tokens,
                answer.cache_write_tokens,
                answer.output_tokens,
                answer.reasoning_tokens
            ],
            [input, cached, written, output, thought],
            "{shape:?}"
        );
        let id = shape.request_id_header().map(|_| "req_fake");
        assert_eq!(answer.request_id.as_deref(), id, "{shape:?}");
        fake.assert_well_formed();
    }
}

#[tokio::test]
async fn a_request_says_who_asks_and_in_which_form() {
    for shape in Shape::ALL {
        let fake = FakeProvider::start();
        model(shape, &fake).answer(&request()).await.unwrap();
        let mut keyless = settings(fake.base_url(shape), PATIENT_MS);
        keyless.api_key = None;
        with(shape, keyless).unwrap().0.answer(&request()).await.unwrap();
        fake.assert_well_formed();
        let requests = fake.requests();
        let [first, second] = requests.as_slice() else { panic!("{requests:?}") };
        let key = match shape.key_header() {
            "authorization" => format!("Bearer {KEY}"),
            _ => KEY.to_owned(),
        };
        assert_eq!(first.shape, shape);
        assert_eq!(first.header(shape.key_header()), key);
        assert_eq!(first.header("user-agent"), format!("recapd/{}", env!("CARGO_PKG_VERSION")));
        assert_eq!(first.header("content-type"), "application/json");
        assert!(!first.path.contains(KEY));
        assert_eq!((first.format(), first.exchanges()), ("json_schema", ASKED.to_vec()), "{shape:?}");
        assert_eq!(second.header(shape.key_header()), "");
    }
}

#[tokio::test]
async fn operations_are_asked_for_by_their_own_schema() {
    for shape in Shape::ALL {
        let fake = FakeProvider::start();
        let mut request = request();
        request.prompt.schema = OPERATIONS;
        model(shape, &fake).answer(&request).await.unwrap();
        fake.assert_well_formed();
        assert_eq!(fake.requests()[0].schema(), &OPERATIONS.value(), "{shape:?}");
    }
}

#[tokio::test]
async fn invalid_answers_fail_the_checks() {
    for shape in Shape::ALL {
        let fake = FakeProvider::start();
        fake.plan([Planned::Garbage, Planned::Empty, Planned::WrongExchanges]);
        assert!(matches!(checked(shape, &fake).await, Err(ReplyError::Unreadable(_))));
        assert!(matches!(checked(shape, &fake).await, Err(ReplyError::Unreadable(_))));
        assert!(matches!(checked(shape, &fake).await, Err(ReplyError::Misattributed(_))));
        fake.plan([
            Planned::MissingExchanges,
            Planned::Oversize,
            Planned::Content("{\"items\": []}".to_owned()),
        ]);
        assert_eq!(checked(shape, &fake).await.unwrap().missing, [9]);
        let oversize = checked(shape, &fake).await.unwrap();
        assert!(oversize.drafts.iter().all(|draft| draft.text.chars().count() <= LONG_TEXT_CHARS_MAX));
        assert!(matches!(checked(shape, &fake).await, Err(ReplyError::Worthless(_))));
    }
}

pub(crate) fn failures(shape: Shape) -> Vec<(Planned, &'static str)> {
    let trouble = |trouble| Planned::Trouble(trouble, Wait::Unsaid);
    let mut failures = vec![
        (trouble(Trouble::RateLimited), "provider_rate_limited"),
        (trouble(Trouble::Quota), "provider_auth"),
        (trouble(Trouble::BadKey), "provider_auth"),
        (trouble(Trouble::Forbidden), "provider_auth"),
        (trouble(Trouble::NoModel), "provider_invalid_request"),
        (trouble(Trouble::Because("no such field".to_owned())), "provider_invalid_request"),
        (trouble(Trouble::TooLong), "provider_context_length"),
        (trouble(Trouble::TooLarge), "provider_context_length"),
        (trouble(Trouble::Server), "provider_server"),
        (trouble(Trouble::Overloaded), "provider_overloaded"),
        (trouble(Trouble::GatewayTimeout), "provider_timeout"),
        // Failures of proxies and gateways.
        (Planned::status(502, "<html>Bad gateway</html>"), "provider_server"),
        (Planned::status(503, ""), "provider_overloaded"),
        (Planned::status(529, ""), "provider_overloaded"),
        (Planned::status(408, ""), "provider_timeout"),
        (Planned::status(204, ""), "provider_server"),
        (
            Planned::status(200, r#"{"error":{"code":429,"message":"Provider returned error"}}"#),
            "provider_rate_limited",
        ),
        (Planned::status(200, "{}"), "provider_server"),
        (Planned::status(200, "null"), "provider_server"),
        (Planned::BrokenBody, "provider_server"),
        (Planned::Flood, "provider_server"),
        (Planned::CutConnection, "provider_network"),
        (Planned::Length, "bad_output"),
    ];
    // Ollama's models decline in their own words, which the checks refuse.
    if shape != Shape::Ollama {
        failures.push((Planned::Refusal, "provider_refusal"));
        failures.push((Planned::ContentFilter, "provider_refusal"));
    }
    failures
}

#[tokio::test]
async fn every_failure_has_its_class() {
    for shape in Shape::ALL {
        let fake = FakeProvider::start();
        let model = model(shape, &fake);
        let failures = failures(shape);
        let count = failures.len();
        for (planned, class) in failures {
            fake.plan([planned.clone()]);
            let error = model.answer(&request()).await.unwrap_err();
            assert_eq!(error.class(), class, "{shape:?} {planned:?}: {error}");
            assert_eq!(error.retry_after(), None, "{shape:?} {planned:?}: {error}");
        }
        assert_eq!(
            fake.requests().len(),
            count,
            "no failure is tried again here: that is the queue's business"
        );
        fake.assert_well_formed();
    }
}

/// A request that the provider had, and failed over, may be the cause. An overloaded provider fails with any request.
#[tokio::test]
async fn failures_tell_whether_the_request_may_be_the_cause() {
    for shape in Shape::ALL {
        let fake = FakeProvider::start();
        let model = model(shape, &fake);
        for (planned, may_be_why) in [
            (Planned::Trouble(Trouble::Server, Wait::Unsaid), true),
            (Planned::Trouble(Trouble::GatewayTimeout, Wait::Unsaid), true),
            (Planned::CutConnection, true),
            (Planned::Trouble(Trouble::Overloaded, Wait::Unsaid), false),
            (Planned::status(503, ""), false),
            (Planned::status(529, ""), false),
        ] {
            fake.plan([planned.clone()]);
            let error = model.answer(&request()).await.unwrap_err();
            assert_eq!(may_be_the_request(&error), may_be_why, "{shape:?} {planned:?}: {error}");
        }
    }
}

fn may_be_the_request(error: &LlmError) -> bool {
    matches!(error, LlmError::Transient(fault) if fault.may_be_due_to_request())
}

/// Compatible servers often answer errors in another provider's format.
#[tokio::test]
async fn errors_are_understood_in_every_providers_format() {
    let fake = FakeProvider::start();
    for shape in Shape::ALL {
        let model = model(shape, &fake);
        for words in Shape::ALL {
            for (trouble, class) in [
                (Trouble::RateLimited, "provider_rate_limited"),
                (Trouble::Quota, "provider_auth"),
                (Trouble::BadKey, "provider_auth"),
                (Trouble::TooLong, "provider_context_length"),
                (Trouble::Overloaded, "provider_overloaded"),
            ] {
                fake.plan([Planned::foreign(words, &trouble)]);
                let error = model.answer(&request()).await.unwrap_err();
                assert_eq!(error.class(), class, "{words:?} to {shape:?}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn the_read_size_of_answers_is_limited() {
    let fake = FakeProvider::start();
    fake.otherwise(Planned::Flood);
    for shape in Shape::ALL {
        let error = model(shape, &fake).answer(&request()).await.unwrap_err();
        assert!(error.to_string().ends_with("the answer is longer than 4194304 bytes"), "{error}");
    }
}

#[tokio::test]
async fn the_provider_says_when_to_come_back() {
    let fake = FakeProvider::start();
    for shape in Shape::ALL {
        let model = model(shape, &fake);
        for trouble in [Trouble::RateLimited, Trouble::Overloaded] {
            for (wait, wait_ms) in [
                (Wait::Unsaid, None),
                (Wait::Seconds(3), Some(3_000)),
                (Wait::Millis(250), Some(250)),
                (Wait::Date(30), Some(30_000)),
                (Wait::Limits(45), Some(45_000)),
                (Wait::Body(46), Some(46_000)),
            ] {
                fake.plan([Planned::Trouble(trouble.clone(), wait)]);
                let error = model.answer(&request()).await.unwrap_err();
                assert_eq!(
                    error.retry_after().map(|wait| wait.as_millis()),
                    wait_ms,
                    "{shape:?} {wait:?}: {error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn slow_answers_are_awaited_and_too_slow_ones_are_not() {
    let fake = FakeProvider::start();
    for shape in Shape::ALL {
        // An abandoned request may never reach the fake, so no answer is planned for a single one.
        fake.otherwise(Planned::Late(Duration::from_millis(20)));
        assert!(model(shape, &fake).answer(&request()).await.is_ok());
        let (impatient, _) = with(shape, settings(fake.base_url(shape), IMPATIENT_MS)).unwrap();
        for planned in
            [Planned::Hang, Planned::Stall, Planned::Late(Duration::from_millis(50 * IMPATIENT_MS))]
        {
            fake.otherwise(planned.clone());
            let error = impatient.answer(&request()).await.unwrap_err();
            assert_eq!(error.class(), "provider_timeout", "{shape:?} {planned:?}: {error}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_server_is_a_network_failure() {
    let port = Port::reserve();
    let url = format!("http://{}/v1", port.address());
    for shape in Shape::ALL {
        let (model, _) = with(shape, settings(url.as_str(), PATIENT_MS)).unwrap();
        let error = model.answer(&request()).await.unwrap_err();
        assert_eq!(error.class(), "provider_network", "{error}");
        assert!(!may_be_the_request(&error), "{error}");
    }
}

/// The provider never got the request, so the request can't be the cause.
#[tokio::test]
async fn a_connect_timeout_is_a_network_failure() {
    // It accepts connections, and never answers the TLS handshake.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", silent.local_addr().unwrap());
    for shape in Shape::ALL {
        let mut settings = settings(url.as_str(), PATIENT_MS);
        settings.http.connect_timeout_ms = IMPATIENT_MS;
        let (model, _) = with(shape, settings).unwrap();
        let error = model.answer(&request()).await.unwrap_err();
        assert_eq!(error.class(), "provider_network", "{error}");
        assert!(!may_be_the_request(&error), "{error}");
    }
}

#[tokio::test]
async fn a_hanging_call_can_be_dropped() {
    for shape in Shape::ALL {
        let fake = FakeProvider::start();
        fake.otherwise(Planned::Hang);
        let model = model(shape, &fake);
        let request = request();
        tokio::select! {
            answer = model.answer(&request) => panic!("{answer:?}"),
            () = fake.arrived(1) => {}
        }
        fake.otherwise(Planned::Good);
        assert!(model.answer(&request).await.is_ok());
    }
}

#[tokio::test]
async fn a_key_does_not_follow_a_redirect() {
    for shape in Shape::ALL {
        let (fake, other) = (FakeProvider::start(), FakeProvider::start());
        let elsewhere = other.base_url(shape);
        fake.plan([Planned::Status(307, String::new(), vec![("location", elsewhere)])]);
        assert!(matches!(model(shape, &fake).answer(&request()).await, Err(LlmError::Permanent(_))));
        assert_eq!(other.requests().len(), 0);
    }
}

/// Each provider's own complaints: a refused field isn't sent again, and the answer is used.
#[tokio::test]
async fn fields_that_a_server_refuses_are_not_sent_again() {
    for (shape, name, complaints, formats) in [
        (
            Shape::Anthropic,
            "claude-opus-4-6",
            vec![
                "This model does not support the effort parameter.",
                "output_config.format: Extra inputs are not permitted",
            ],
            vec!["json_schema", "json_schema", "", ""],
        ),
        (
            Shape::OpenAi,
            "small-model",
            vec!["This response_format type is unavailable now", "'response_format.type' must be 'text'"],
            vec!["json_schema", "json_object", "", ""],
        ),
        (
            Shape::Responses,
            "gpt-5-mini",
            vec![
                "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.",
            ],
            vec!["json_schema", "json_schema", "json_object", "json_object"],
        ),
        (
            Shape::Gemini,
            "gemini-3.8-flash",
            vec![
                "Thinking level is not supported for this model.",
                "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field.",
            ],
            vec!["json_schema", "json_schema", "json_object", "json_object"],
        ),
        (
            Shape::Ollama,
            "llama3.2",
            vec![
                "\"llama3.2\" does not support thinking",
                "json: cannot unmarshal object into Go struct field ChatRequest.format of type string",
            ],
            vec!["json_schema", "json_schema", "json_object", "json_object"],
        ),
    ] {
        let fake = FakeProvider::start();
        let model = super::named(shape, &fake, name);
        let complaint = |why: &&str| Planned::Trouble(Trouble::Because((*why).to_owned()), Wait::Unsaid);
        fake.plan(complaints.iter().map(complaint));
        assert!(model.answer(&request()).await.is_ok(), "{shape:?}");
        assert!(model.answer(&request()).await.is_ok(), "{shape:?}");
        let requests = fake.requests();
        let asked: Vec<&str> = requests.iter().map(Recorded::format).collect();
        assert_eq!(asked, formats, "{shape:?}");
        fake.assert_well_formed();
    }
}
