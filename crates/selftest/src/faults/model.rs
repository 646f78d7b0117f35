//! An unreliable model server: fast, slow, silent, refusing, answering nonsense, closing connections. It offers OpenAI's
//! chat completions and Anthropic's messages and batches, under a path of its own for each daemon.

mod batches;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use fastrand::Rng;
use futures::stream;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, time::Instant};

use super::load;
use crate::selftest::updates::Adversary;
use recapd_core::domain::prompt::ASKED;

/// The fates of a call, with their percentages.
const FATES: [(CallFate, u32); 8] = [
    (CallFate::Good, 60),
    (CallFate::Slow, 14),
    (CallFate::Nonsense, 12),
    (CallFate::RateLimited, 4),
    (CallFate::Failing, 4),
    (CallFate::Overloaded, 2),
    (CallFate::Cut, 2),
    (CallFate::Silent, 2),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallFate {
    Good,
    Slow,
    Nonsense,
    RateLimited,
    Failing,
    Overloaded,
    Cut,
    Silent,
}

impl CallFate {
    fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Slow => "slow",
            Self::Nonsense => "nonsense",
            Self::RateLimited => "429",
            Self::Failing => "500",
            Self::Overloaded => "529",
            Self::Cut => "cut off",
            Self::Silent => "silent",
        }
    }
}

#[derive(Clone)]
pub(super) struct Model {
    state: Arc<Mutex<Inner>>,
    /// Notified when a call arrives, and when held calls may continue.
    moved: Arc<Notify>,
}

struct Inner {
    random: Rng,
    adversary: Adversary,
    /// True if calls get good answers at once.
    is_calm: bool,
    /// True if calls are kept waiting.
    is_holding: bool,
    next_call: u64,
    /// The current calls: daemon and agent.
    open: HashMap<u64, (usize, u64)>,
    /// Agents whose daemon was killed during a call.
    orphans: HashMap<u64, Orphan>,
    batches: Vec<batches::Batch>,
    told: ModelLog,
}

#[derive(Clone, Copy)]
struct Orphan {
    since: Instant,
    daemon: usize,
}

/// The observations of the model.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelLog {
    pub(super) calls: BTreeMap<String, u64>,
    /// From a kill during a call to the agent's next call, by another daemon.
    pub(super) taken_over_ms: Vec<u64>,
    /// The same, by the restarted daemon.
    pub(super) restarted_ms: Vec<u64>,
    /// Agents without another call within the time that a take-over may take.
    pub(super) not_resumed: u64,
}

impl Model {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let inner = Inner {
            adversary: Adversary::new(random.u64(..)),
            random,
            is_calm: false,
            is_holding: false,
            next_call: 0,
            open: HashMap::new(),
            orphans: HashMap::new(),
            batches: Vec::new(),
            told: ModelLog::default(),
        };
        Self { state: Arc::new(Mutex::new(inner)), moved: Arc::default() }
    }

    /// Listens on a free port. The returned future serves it.
    pub(super) async fn serve(&self) -> io::Result<(SocketAddr, impl Future<Output = ()> + Send + use<>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/{daemon}/v1/chat/completions", post(complete))
            .route("/{daemon}/v1/messages", post(converse))
            .merge(batches::routes())
            .with_state(self.clone());
        let serving = async move {
            // It ends with the run.
            drop(axum::serve(listener, router).await);
        };
        Ok((address, serving))
    }

    /// Gives good answers at once from now on.
    pub(super) fn calm(&self) {
        self.state().is_calm = true;
        self.hold(false);
    }

    /// Keeps calls waiting, or lets them continue.
    pub(super) fn hold(&self, is_holding: bool) {
        self.state().is_holding = is_holding;
        self.moved.notify_waiters();
    }

    /// Waits for a call of one of `daemons` and returns the daemon. A held call stays open.
    pub(super) async fn caller(&self, daemons: &[usize]) -> usize {
        loop {
            let mut moved = Box::pin(self.moved.notified());
            moved.as_mut().enable();
            let found =
                self.state().open.values().map(|(daemon, _)| *daemon).find(|daemon| daemons.contains(daemon));
            match found {
                Some(daemon) => return daemon,
                None => moved.await,
            }
        }
    }

    pub(super) fn asked_by(&self, daemon: usize) -> Vec<u64> {
        let state = self.state();
        let calls = state.open.values();
        calls.filter_map(|&(of, agent)| (of == daemon).then_some(agent)).collect()
    }

    /// Notes that `daemon` was killed during calls about `agents`.
    pub(super) fn orphaned(&self, daemon: usize, agents: Vec<u64>) {
        let since = Instant::now();
        let orphans = agents.into_iter().map(|agent| (agent, Orphan { since, daemon }));
        self.state().orphans.extend(orphans);
    }

    /// Returns true if agents that lost their daemon during a call still wait for another call.
    pub(super) fn has_orphans(&self) -> bool {
        !self.state().orphans.is_empty()
    }

    /// Stops waiting for agents, so that the next fault isn't measured with them.
    pub(super) fn forget_orphans(&self) {
        let mut state = self.state();
        state.told.not_resumed += state.orphans.len() as u64;
        state.orphans.clear();
    }

    pub(super) fn told(&self) -> ModelLog {
        self.state().told.clone()
    }

    fn state(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call and draws its fate.
    fn enter(&self, daemon: usize, agent: u64) -> (Open, CallFate, Duration) {
        let mut state = self.state();
        let call = state.next_call;
        state.next_call += 1;
        state.open.insert(call, (daemon, agent));
        if let Some(orphan) = state.orphans.remove(&agent) {
            let span_ms = u64::try_from(orphan.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            if orphan.daemon == daemon {
                state.told.restarted_ms.push(span_ms);
            } else {
                state.told.taken_over_ms.push(span_ms);
            }
        }
        let fate = if state.is_calm { CallFate::Good } else { draw(&mut state.random) };
        *state.told.calls.entry(fate.name().to_owned()).or_default() += 1;
        let wait_ms = match fate {
            CallFate::Slow => state.random.u64(300..1_300),
            _ if state.is_calm => 1,
            _ => state.random.u64(1..120),
        };
        drop(state);
        self.moved.notify_waiters();
        let open = Open { model: self.clone(), call };
        (open, fate, Duration::from_millis(wait_ms))
    }

    async fn let_go(&self) {
        self.until(|state| !state.is_holding).await;
    }

    async fn until_calm(&self) {
        self.until(|state| state.is_calm).await;
    }

    async fn until(&self, is_so: fn(&Inner) -> bool) {
        loop {
            let mut moved = Box::pin(self.moved.notified());
            moved.as_mut().enable();
            if is_so(&self.state()) {
                return;
            }
            moved.await;
        }
    }
}

fn draw(random: &mut Rng) -> CallFate {
    let mut left = random.u32(..FATES.iter().map(|(_, weight)| *weight).sum::<u32>());
    for (fate, weight) in FATES {
        if left < weight {
            return fate;
        }
        left -= weight;
    }
    CallFate::Good
}

/// A current call. It ends with its answer, or when the connection is closed.
struct Open {
    model: Model,
    call: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.model.state().open.remove(&self.call);
    }
}

async fn complete(
    State(model): State<Model>,
    Path(daemon): Path<usize>,
    Json(body): Json<Value>,
) -> Response {
    let completion = |text: &str| {
        json!({
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 50},
        })
    };
    answer(&model, daemon, &asked(&body, 1), completion).await
}

async fn converse(
    State(model): State<Model>,
    Path(daemon): Path<usize>,
    Json(body): Json<Value>,
) -> Response {
    answer(&model, daemon, &asked(&body, 0), message).await
}

/// The text of the message at that place.
fn asked(body: &Value, place: usize) -> String {
    let content = &body["messages"][place]["content"];
    content.as_str().unwrap_or_default().to_owned()
}

fn message(text: &str) -> Value {
    json!({
        "id": "msg", "type": "message", "role": "assistant", "model": "selftest",
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 100, "output_tokens": 50},
    })
}

async fn answer(model: &Model, daemon: usize, asked: &str, form: fn(&str) -> Value) -> Response {
    let (open, fate, wait) = model.enter(daemon, load::agent_in(asked).unwrap_or(u64::MAX));
    tokio::time::sleep(wait).await;
    model.let_go().await;
    drop(open);
    match fate {
        CallFate::Good | CallFate::Slow => Json(form(&good(asked))).into_response(),
        CallFate::Nonsense => {
            let text = nonsense(&mut model.state().adversary, asked);
            Json(form(&text)).into_response()
        }
        CallFate::RateLimited => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")], "slow down").into_response()
        }
        CallFate::Failing => (StatusCode::INTERNAL_SERVER_ERROR, "oh no").into_response(),
        CallFate::Overloaded => {
            let overloaded = StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            (overloaded, "overloaded").into_response()
        }
        CallFate::Cut => {
            Body::from_stream(stream::iter([Ok("{\"choices\": ["), Err(io::Error::other("the line is cut"))]))
                .into_response()
        }
        // After the repair, no call may wait for an answer that never comes.
        CallFate::Silent => {
            model.until_calm().await;
            (StatusCode::SERVICE_UNAVAILABLE, "back again").into_response()
        }
    }
}

fn nonsense(adversary: &mut Adversary, asked: &str) -> String {
    let exchanges = exchanges(asked);
    if exchanges.is_empty() { adversary.operations(8) } else { adversary.items(&exchanges) }
}

/// The exchanges in the question; none if it is about operations.
fn exchanges(asked: &str) -> Vec<i64> {
    let line = asked.lines().rev().find_map(|line| line.strip_prefix(ASKED));
    let spans = line.unwrap_or_default().split(", ");
    spans
        .filter_map(|span| {
            let (first, last) = span.split_once('–').unwrap_or((span, span));
            let number = |text: &str| text.strip_prefix('#')?.parse::<i64>().ok();
            Some(number(first)?..=number(last)?)
        })
        .flatten()
        .collect()
}

fn good(asked: &str) -> String {
    let exchanges = exchanges(asked);
    if exchanges.is_empty() {
        return json!({"merge": [], "shorten": [], "drop": [1, 2, 3, 4, 5, 6]}).to_string();
    }
    let item = |exchange: &i64| {
        json!({
            "exchanges": {"first": exchange, "last": exchange},
            "importance": if exchange % 7 == 0 { "decision" } else { "feature" },
            "text": format!("The user asked about ticket {exchange}, the assistant read the module and solved it."),
            "brief": format!("Ticket {exchange} was solved."),
            "gist": format!("Ticket {exchange}"),
        })
    };
    json!({"items": exchanges.iter().map(item).collect::<Vec<_>>()}).to_string()
}

#[cfg(test)]
mod tests {
    use super::{
        super::ledger::{self, Door},
        *,
    };
    use recapd_core::domain::{
        prompt::{Prompt, PromptLimits, PromptMaterial},
        time::Timestamp,
        transcript::{Transcript, Voice},
    };

    #[test]
    fn a_question_says_which_exchanges_of_which_agent() {
        let voice = ledger::Voice { agent: "agent-3".to_owned(), door: Door::Ids };
        let user = voice.turn(17).remove(0);
        let said = user.payload["content"].as_str().unwrap();
        let transcript = |exchange| Transcript::of_lines(exchange, Timestamp(0), &[(Voice::User, "", said)]);
        let asked = Prompt::new(
            PromptMaterial::of(&[transcript(4), transcript(6), transcript(7)]),
            "abcdefgh",
            PromptLimits::default(),
        )
        .user;
        assert_eq!(exchanges(&asked), [4, 6, 7]);
        assert_eq!(load::agent_in(&asked), Some(3));
    }
}
