//! Conversations, pushed over HTTP as a stubborn client does: a turn that wasn't acknowledged is pushed again.

use std::{
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::llm::{
    LlmError,
    http::{self, HttpSettings},
};

/// The longest that a push may take.
const PUSH_MS_MAX: u64 = 4_000;
/// How long a client waits before it pushes again.
const AGAIN_MS: u64 = 25;
/// The longest pause between turns.
const PAUSE_MS_MAX: u64 = 60;
/// Turns of an agent, at least: enough for its window to overflow.
const TURNS_MIN: u64 = 16;
/// Turns of an agent, at most.
const TURNS_MAX: u64 = 400;
/// For so many turns an agent works on one request.
const TURNS_OF_REQUEST: u64 = 12;
/// Messages of a turn.
pub(super) const MESSAGES_OF_TURN: usize = 4;

/// What is said in a turn: ids and messages, in order.
pub(super) fn turn_of(agent: u64, turn: u64) -> [Value; MESSAGES_OF_TURN] {
    let mut random = Rng::with_seed(agent << 32 | turn);
    let lines = if random.u8(..12) == 0 { 60 } else { 4 };
    let result = format!("fn handler_{turn}() {{ retry({turn}) }}\n").repeat(random.usize(1..=lines));
    let done = format!("handler_{turn} is in src/module_{turn}.rs; the ticket is solved. ");
    // Some agents are asked seldom, and work for many turns on what they were asked.
    let asks = agent.is_multiple_of(2) || turn.is_multiple_of(TURNS_OF_REQUEST);
    [
        json!({"kind": if asks { "user" } else { "assistant" }, "id": id(turn, "user"),
               "content": format!("For agent-{agent}: please look at src/module_{turn}.rs, ticket T-{agent}-{turn}.")}),
        json!({"kind": "tool_call", "content": "", "id": id(turn, "call"),
               "data": {"tool_call_id": "call", "name": "read_file",
                        "arguments": {"path": format!("src/module_{turn}.rs")}}}),
        json!({"kind": "tool_result", "content": result, "id": id(turn, "result"), "data": {"tool_call_id": "call"}}),
        json!({"kind": "assistant", "content": done.repeat(random.usize(1..4)), "id": id(turn, "assistant")}),
    ]
}

fn id(turn: u64, part: &str) -> String {
    format!("{turn}-{part}")
}

/// Which agent a model is asked about, from what its users say.
pub(super) fn agent_in(asked: &str) -> Option<u64> {
    let (_, rest) = asked.split_once("For agent-")?;
    rest.split(':').next()?.parse().ok()
}

/// The agent's name.
pub(super) fn name_of(agent: u64) -> String {
    format!("agent-{agent}")
}

/// What the pushers share.
pub(super) struct Load {
    client: reqwest::Client,
    /// Where daemons listen, those that run.
    addresses: Vec<Mutex<Option<SocketAddr>>>,
    is_over: AtomicBool,
    acknowledged: AtomicU64,
    /// Requests that were refused for what they are.
    refused: Mutex<Vec<String>>,
}

impl Load {
    pub(super) fn new(daemons: usize) -> Result<Self, LlmError> {
        let settings = HttpSettings {
            timeout_ms: PUSH_MS_MAX,
            connect_timeout_ms: 1_000,
            proxy_url: None,
        };
        Ok(Self {
            client: http::client(&settings)?,
            addresses: (0..daemons).map(|_| Mutex::default()).collect(),
            is_over: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            refused: Mutex::default(),
        })
    }

    /// A daemon listens there from now on, or nowhere.
    pub(super) fn moved(&self, daemon: usize, address: Option<SocketAddr>) {
        if let Some(known) = self.addresses.get(daemon) {
            *known.lock().unwrap_or_else(PoisonError::into_inner) = address;
        }
    }

    /// No turn is begun any more.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(super) fn refused(&self) -> Vec<String> {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Pushes turns of one agent until the end. Returns how many were acknowledged: all that were begun, unless one was
    /// refused.
    pub(super) async fn push(&self, agent: u64, seed: u64) -> u64 {
        let mut random = Rng::with_seed(seed ^ agent);
        for turn in 0..TURNS_MAX {
            if turn >= TURNS_MIN && self.is_over.load(Ordering::SeqCst) {
                return turn;
            }
            let body = json!(turn_of(agent, turn)).to_string();
            loop {
                match self.push_once(agent, &body, &mut random).await {
                    Some(true) => break,
                    Some(false) => return turn,
                    None => tokio::time::sleep(Duration::from_millis(AGAIN_MS)).await,
                }
            }
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(random.u64(..PAUSE_MS_MAX))).await;
        }
        TURNS_MAX
    }

    /// Whether it was acknowledged or refused; none if it is to be tried again.
    async fn push_once(&self, agent: u64, body: &str, random: &mut Rng) -> Option<bool> {
        let daemon = random.choice(&self.addresses)?;
        let address = (*daemon.lock().unwrap_or_else(PoisonError::into_inner))?;
        let url = format!(
            "http://{address}/v1/agents/{}/messages?format=native",
            name_of(agent)
        );
        let request = self.client.post(url).header("content-type", "application/json");
        let response = request.body(body.to_owned()).send().await.ok()?;
        let status = response.status();
        if status.is_success() {
            return Some(true);
        }
        let is_passing = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
        if is_passing {
            return None;
        }
        let said = response.text().await.unwrap_or_default();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.push(format!(
            "a turn of {} was refused with {status}: {said}",
            name_of(agent)
        ));
        Some(false)
    }
}
