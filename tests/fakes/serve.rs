//! Serves the fake providers to `check.py`, which compares them and recapd's requests with the providers' own clients.
//!
//! Prints one line of JSON: the addresses, and the bodies of the requests that recapd sends, in every variant. Then
//! it reads line by line: the name of a plan for the next request (answered with `ok`), `last` (answered with the
//! body of the last request), or `end` (ends all batches). It ends with its input.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a part of the tests: a failure should stop at once, and standard output is the interface"
)]

use std::io::{BufRead as _, Write as _};

use recapd_core::domain::{
    effects::Effects,
    prompt::{Prompt, PromptLimits, PromptMaterial},
    time::Timestamp,
    transcript::{Line, Transcript, Voice},
    zone::Zone,
};
use recapd_llm::{
    ChatModel as _, ModelRequest,
    anthropic::Anthropic,
    gemini::Gemini,
    limits::LimitWait,
    ollama::Ollama,
    openai::OpenAiChat,
    remote::{Protocol, RemoteModel, RemoteSettings},
    responses::Responses,
};
use serde_json::{Value, json};

use support::fake_provider::{FakeProvider, Planned, Shape, Trouble, Wait, batches::Fate};

#[path = "../it/support"]
mod support {
    #[expect(dead_code, reason = "the integration tests use the rest of it")]
    pub(crate) mod fake_provider;
}

/// Models of each provider, of several generations.
const MODELS: [(Shape, &[&str]); 5] = [
    (Shape::Anthropic, &["claude-haiku-5-5", "claude-haiku-4-5"]),
    (Shape::OpenAi, &["gpt-5.4-mini", "gpt-4o-mini"]),
    (Shape::Responses, &["gpt-5.4-mini", "gpt-4o-mini"]),
    (Shape::Gemini, &["gemini-3.8-flash", "gemini-2.5-flash", "gemini-2.0-flash"]),
    (Shape::Ollama, &["qwen3:8b", "gpt-oss:20b"]),
];
/// Errors that make recapd leave something out; each provider's client reacts to those about what it sent.
const COMPLAINTS: [&str; 4] = [
    "Unsupported parameter: 'max_completion_tokens' is not supported, use max_tokens.",
    "effort, reasoning and thinking are not supported",
    "output_config, text.format, response_format, responseJsonSchema: json_schema is not supported",
    "text.format, response_format, responseMimeType, format: json_object is not supported",
];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let fake = FakeProvider::start();
    let mut requests = Vec::new();
    for (shape, names) in MODELS {
        for name in names {
            requests.extend(sent(shape, name).await);
        }
    }
    let addresses: serde_json::Map<String, Value> =
        Shape::ALL.iter().map(|shape| (shape.name().to_owned(), fake.base_url(*shape).into())).collect();
    say(&json!({"base_urls": addresses, "requests": requests}).to_string());
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().as_str() {
            "end" => {
                fake.batches().end(&[Fate::Good, Fate::Errored]);
                say("ok");
            }
            "last" => say(&fake.requests().pop().unwrap().body.to_string()),
            name => {
                fake.plan([planned(name).unwrap_or_else(|| panic!("unknown: {name}"))]);
                say("ok");
            }
        }
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// Collects all requests that recapd sends to a model of that name: the preferred variant and every simpler one.
async fn sent(shape: Shape, name: &str) -> Vec<Value> {
    let fake = FakeProvider::start();
    for complaint in COMPLAINTS {
        fake.plan([Planned::Trouble(Trouble::Because(complaint.to_owned()), Wait::Unsaid)]);
    }
    let settings = RemoteSettings::new(fake.base_url(shape), name);
    match shape {
        Shape::Anthropic => exercise(Anthropic, settings).await,
        Shape::OpenAi => exercise(OpenAiChat::default(), settings).await,
        Shape::Responses => exercise(Responses, settings).await,
        Shape::Gemini => exercise(Gemini, settings).await,
        Shape::Ollama => exercise(Ollama { num_ctx: 40_960 }, settings).await,
    }
    fake.assert_well_formed();
    let requests = fake.requests().into_iter();
    let shown = requests.map(|request| {
        json!({"shape": shape.name(), "format": request.format(), "model": name, "body": request.body})
    });
    shown.collect()
}

async fn exercise<P: Protocol>(protocol: P, settings: RemoteSettings) {
    let model = RemoteModel::new(protocol, settings).unwrap();
    // The first answers may be errors: only the requests matter.
    for _ in 0..=COMPLAINTS.len() {
        drop(model.answer(&request()).await);
    }
}

fn request() -> ModelRequest {
    let transcripts = [Transcript {
        continues: None,
        exchange: 1,
        started_at: Timestamp(1_795_000_000_000),
        zone: Zone::UTC,
        tokens: 0,
        interrupted: false,
        api_error: String::new(),
        effects: Effects::default(),
        lines: vec![Line {
            voice: Voice::User,
            label: String::new(),
            text: "Fix the parser.".to_owned(),
            at: Timestamp(1_795_000_000_000),
        }],
    }];
    ModelRequest {
        prompt: Prompt::new(PromptMaterial::of(&transcripts), "k3v9x2m7", PromptLimits::default()),
        transcripts: transcripts.to_vec(),
        facts: Vec::new(),
        output_tokens_max: 4_000,
        agent: None,
        limit_wait: LimitWait::default(),
    }
}

/// Parses `good`, `length` and the like, or a trouble with its wait: `rate_limited seconds`.
fn planned(name: &str) -> Option<Planned> {
    let (name, wait) = name.split_once(' ').unwrap_or((name, ""));
    let wait = match wait {
        "" => Wait::Unsaid,
        "seconds" => Wait::Seconds(3),
        "millis" => Wait::Millis(250),
        "limits" => Wait::Limits(45),
        "body" => Wait::Body(46),
        _ => return None,
    };
    let trouble = match name {
        "good" => return Some(Planned::Good),
        "empty" => return Some(Planned::Empty),
        "garbage" => return Some(Planned::Garbage),
        "refusal" => return Some(Planned::Refusal),
        "filter" => return Some(Planned::ContentFilter),
        "length" => return Some(Planned::Length),
        "rate_limited" => Trouble::RateLimited,
        "quota" => Trouble::Quota,
        "bad_key" => Trouble::BadKey,
        "forbidden" => Trouble::Forbidden,
        "no_model" => Trouble::NoModel,
        "bad_request" => Trouble::Because("no such field".to_owned()),
        "too_long" => Trouble::TooLong,
        "too_large" => Trouble::TooLarge,
        "server" => Trouble::Server,
        "overloaded" => Trouble::Overloaded,
        "timeout" => Trouble::GatewayTimeout,
        _ => return None,
    };
    Some(Planned::Trouble(trouble, wait))
}
