//! The load: conversations from several writers per agent, with clients of different patience. Most retry a push until it
//! is acknowledged, some give up and continue; the ledger records what they know.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{
    ledger::{Door, Ledger, RequestFate, Span, Turn, Voice},
    place::Place,
    roster::Roster,
};
use recapd_llm::{
    LlmError,
    http::{self, HttpSettings},
};

/// The longest that a client waits for the answer to a push.
const PUSH_MS_MAX: u64 = 4_000;
/// The longest that it waits for any other answer.
const ANSWER_MS_MAX: u64 = 30_000;
const AGAIN_MS: u64 = 25;
/// The longest pause between turns.
const PAUSE_MS_MAX: u64 = 250;
/// The same for a writer by SQL: on PostgreSQL, each insert starts a program.
const SQL_PAUSE_MS_MAX: u64 = 1_000;
/// The fewest turns of a writer, enough to overflow its window.
const TURNS_MIN: u64 = 8;
const TURNS_MAX: u64 = 800;
/// One in so many writers gives up after an unanswered attempt.
const GIVES_UP: u8 = 6;

pub(super) fn name_of(agent: u64) -> String {
    format!("agent-{agent}")
}

/// The agent that a model is asked about, from its users' messages.
pub(super) fn agent_in(asked: &str) -> Option<u64> {
    let (_, rest) = asked.split_once("For agent-")?;
    rest.split(':').next()?.parse().ok()
}

/// The outcome of one attempt.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// It succeeded, with this answer.
    Done(Value),
    /// It was refused as invalid, with this status and text.
    Refused(u16, String),
    Nothing,
    /// No daemon was there, so it isn't done.
    Absent,
}

/// The state that the clients share.
pub(super) struct Load {
    client: reqwest::Client,
    pub(super) roster: Arc<Roster>,
    pub(super) ledger: Arc<Ledger>,
    place: Place,
    is_over: AtomicBool,
    /// True once a daemon has answered successfully.
    is_served: AtomicBool,
    /// Valid requests that were refused.
    refused: Mutex<Vec<String>>,
}

impl Load {
    pub(super) fn new(roster: Arc<Roster>, place: Place) -> Result<Self, LlmError> {
        let settings = HttpSettings { timeout_ms: ANSWER_MS_MAX, connect_timeout_ms: 1_000, proxy_url: None };
        Ok(Self {
            client: http::client(&settings)?,
            roster,
            ledger: Arc::default(),
            place,
            is_over: AtomicBool::new(false),
            is_served: AtomicBool::new(false),
            refused: Mutex::default(),
        })
    }

    /// Stops clients from beginning anything new.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub(super) fn is_served(&self) -> bool {
        self.is_served.load(Ordering::SeqCst)
    }

    pub(super) fn refused(&self) -> Vec<String> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn complain(&self, refused: String) {
        let mut all = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(refused);
    }

    /// Pushes turns of one writer until the end.
    pub(super) async fn push(&self, voice: &Voice, seed: u64) {
        let mut random = Rng::with_seed(seed);
        let pause_ms_max = match voice.door {
            Door::Ids | Door::Key => PAUSE_MS_MAX,
            Door::Sql => SQL_PAUSE_MS_MAX,
        };
        for turn in 0..TURNS_MAX {
            if turn >= TURNS_MIN && self.is_over() {
                return;
            }
            self.push_turn(voice, turn, &mut random).await;
            let pause_ms = random.u64(..pause_ms_max);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    /// Pushes a turn until it is acknowledged or refused, or the writer gives up.
    pub(super) async fn push_turn(&self, voice: &Voice, number: u64, random: &mut Rng) {
        let begun = self.ledger.tick();
        let fate = loop {
            match self.try_turn(voice, number, random).await {
                Answer::Done(_) => break RequestFate::Acknowledged,
                Answer::Refused(status, said) => {
                    self.complain(format!("turn {number} of {voice:?} was refused with {status}: {said}"));
                    break RequestFate::Refused;
                }
                Answer::Nothing if random.u8(..GIVES_UP) == 0 => break RequestFate::Ambiguous,
                Answer::Nothing | Answer::Absent => tokio::time::sleep(Duration::from_millis(AGAIN_MS)).await,
            }
        };
        let ended = self.ledger.tick();
        self.ledger.turn(Turn { voice: voice.clone(), number, fate, span: Span { begun, ended } });
    }

    async fn try_turn(&self, voice: &Voice, number: u64, random: &mut Rng) -> Answer {
        let said = voice.turn(number);
        if voice.door == Door::Sql {
            return match self.place.insert(&voice.agent, said).await {
                Ok(()) => Answer::Done(Value::Null),
                Err(_) => Answer::Nothing,
            };
        }
        let messages: Vec<Value> = said.into_iter().map(|said| said.payload).collect();
        let daemon = random.usize(..self.roster.daemons());
        let path = format!("{}/messages?format=native", voice.agent);
        self.ask(daemon, &path, &json!(messages), |request| {
            let key = format!("{}-{number}", voice.agent);
            let request = request.timeout(Duration::from_millis(PUSH_MS_MAX));
            match voice.door {
                Door::Key => request.header("idempotency-key", key),
                Door::Ids | Door::Sql => request,
            }
        })
        .await
    }

    /// Sends one request to a daemon, about an agent; `path` follows the agent in the URL.
    pub(super) async fn ask(
        &self,
        daemon: usize,
        path: &str,
        body: &Value,
        with: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Answer {
        let Some(address) = self.roster.address(daemon) else {
            return Answer::Absent;
        };
        let url = format!("http://{address}/v1/agents/{path}");
        let request = self.client.request(Method::POST, url);
        let request = with(request.header("content-type", "application/json").body(body.to_string()));
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Answer::Absent,
            Err(_) => return Answer::Nothing,
        };
        let status = response.status();
        let is_passing = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
        let Ok(said) = response.text().await else {
            return Answer::Nothing;
        };
        if status.is_success() {
            self.is_served.store(true, Ordering::SeqCst);
            return serde_json::from_str(&said).map_or(Answer::Nothing, Answer::Done);
        }
        if is_passing {
            return Answer::Nothing;
        }
        Answer::Refused(status.as_u16(), said)
    }
}
