//! Conversations, pushed by several writers for each agent, as clients of all tempers do: most push again what wasn't
//! acknowledged until it is, some give up and go on, and the ledger says what they know.

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

/// The longest that a client waits for an answer to what it pushes.
const PUSH_MS_MAX: u64 = 4_000;
/// The longest that it waits for anything.
const ANSWER_MS_MAX: u64 = 30_000;
/// How long a client waits before it pushes again.
const AGAIN_MS: u64 = 25;
/// The longest pause between turns.
const PAUSE_MS_MAX: u64 = 250;
/// The same of a writer by SQL, each of whose inserts is a program of its own on PostgreSQL.
const SQL_PAUSE_MS_MAX: u64 = 1_000;
/// Turns of a writer, at least: enough for its window to overflow.
const TURNS_MIN: u64 = 8;
/// Turns of a writer, at most.
const TURNS_MAX: u64 = 800;
/// One in so many gives up after a try that wasn't answered.
const GIVES_UP: u8 = 6;

/// The agent's name.
pub(super) fn name_of(agent: u64) -> String {
    format!("agent-{agent}")
}

/// Which agent a model is asked about, from what its users say.
pub(super) fn agent_in(asked: &str) -> Option<u64> {
    let (_, rest) = asked.split_once("For agent-")?;
    rest.split(':').next()?.parse().ok()
}

/// What came of one try.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// It was done, and this was said.
    Done(Value),
    /// It was refused for what it is: the status, and what was said.
    Refused(u16, String),
    /// Nobody knows.
    Nothing,
    /// Nobody was there, so it isn't done.
    Absent,
}

/// What the clients share.
pub(super) struct Load {
    client: reqwest::Client,
    pub(super) roster: Arc<Roster>,
    pub(super) ledger: Arc<Ledger>,
    place: Place,
    is_over: AtomicBool,
    /// A daemon has answered well.
    is_served: AtomicBool,
    /// Requests that were refused though nothing is wrong with them.
    refused: Mutex<Vec<String>>,
}

impl Load {
    pub(super) fn new(roster: Arc<Roster>, place: Place) -> Result<Self, LlmError> {
        let settings = HttpSettings {
            timeout_ms: ANSWER_MS_MAX,
            connect_timeout_ms: 1_000,
            proxy_url: None,
        };
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

    /// Nothing is begun any more.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Whether a daemon has answered well.
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
                    self.complain(format!(
                        "turn {number} of {voice:?} was refused with {status}: {said}"
                    ));
                    break RequestFate::Refused;
                }
                Answer::Nothing if random.u8(..GIVES_UP) == 0 => break RequestFate::Ambiguous,
                Answer::Nothing | Answer::Absent => tokio::time::sleep(Duration::from_millis(AGAIN_MS)).await,
            }
        };
        let ended = self.ledger.tick();
        self.ledger.turn(Turn {
            voice: voice.clone(),
            number,
            fate,
            span: Span { begun, ended },
        });
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

    /// Asks a daemon once, about an agent and what follows it in the path.
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
        let request = with(
            request
                .header("content-type", "application/json")
                .body(body.to_string()),
        );
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
