//! The ledger: which writer said and requested what, and the known outcome. A client that loses its connection doesn't know
//! the outcome: its request may be done, not done, or still to be done.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fastrand::Rng;
use serde_json::{Value, json};

/// The number of turns in which an agent works on one request.
const TURNS_OF_REQUEST: u64 = 12;

pub(super) const MARKER: &str = "m-agent-";

/// The way in which a writer's messages are sent, and duplicates recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Door {
    /// Over HTTP; each message has an id.
    Ids,
    /// Over HTTP; the request has an idempotency key.
    Key,
    /// By SQL; each message has an id.
    Sql,
}

impl Door {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Key => "key",
            Self::Sql => "sql",
        }
    }
}

/// One writer of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Voice {
    pub(super) agent: String,
    pub(super) door: Door,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Utterance {
    /// A unique string within the message's text.
    pub(super) marker: String,
    pub(super) id: Option<String>,
    /// The message as sent over HTTP, and stored.
    pub(super) payload: Value,
}

impl Voice {
    /// The messages of a turn.
    pub(super) fn turn(&self, turn: u64) -> Vec<Utterance> {
        let agent = &self.agent;
        let short = agent.strip_prefix("agent-").unwrap_or(agent);
        let name = |part: &str| format!("{MARKER}{short}-{}-{turn}-{part}", self.door.name());
        let seed = agent
            .bytes()
            .fold(turn << 8 | self.door as u64, |seed, byte| seed.rotate_left(7) ^ u64::from(byte));
        let mut random = Rng::with_seed(seed);
        let said = |kind: &str, part: &str, with: &mut dyn FnMut(&str, &mut Value)| {
            let marker = name(part);
            let mut payload = json!({"kind": kind});
            let id = (self.door != Door::Key).then(|| format!("{}-{turn}-{part}", self.door.name()));
            if let Some(id) = &id {
                payload["id"] = json!(id);
            }
            with(&marker, &mut payload);
            Utterance { marker, id, payload }
        };
        // Some agents get few requests, and work on each for many turns.
        let asks = !agent.ends_with(['1', '3', '5']) || turn.is_multiple_of(TURNS_OF_REQUEST);
        let user = said(if asks { "user" } else { "assistant" }, "user", &mut |marker, message| {
            message["content"] =
                json!(format!("For {agent}: please look at src/module_{turn}.rs, ticket {marker}."));
        });
        let answer = said("assistant", "answer", &mut |marker, message| {
            let done = format!("handler_{turn} is in src/module_{turn}.rs; {marker} is solved. ");
            message["content"] = json!(done.repeat(random.usize(1..4)));
        });
        if self.door == Door::Sql {
            return vec![user, answer];
        }
        let lines = if random.u8(..12) == 0 { 60 } else { 4 };
        let call = said("tool_call", "call", &mut |marker, message| {
            message["content"] = json!("");
            message["data"] =
                json!({"tool_call_id": "call", "name": "read_file", "arguments": {"path": marker}});
        });
        let result = said("tool_result", "result", &mut |marker, message| {
            let line = format!("fn {marker}() {{ retry({turn}) }}\n");
            message["content"] = json!(line.repeat(random.usize(1..=lines)));
            message["data"] = json!({"tool_call_id": "call"});
        });
        vec![user, call, result, answer]
    }
}

/// The known outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFate {
    Acknowledged,
    /// The client doesn't know.
    Ambiguous,
    /// It was refused as invalid, and isn't done.
    Refused,
}

#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) voice: Voice,
    pub(super) number: u64,
    pub(super) fate: RequestFate,
    /// Its begin and end in ticks of the ledger.
    pub(super) span: Span,
}

/// From one tick of the ledger to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begun: u64,
    pub(super) ended: u64,
}

impl Span {
    /// Returns true if it ended before the other one began.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.ended < other.begun
    }
}

/// A request other than a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Mark,
    /// Goes back to a mark after this exchange.
    Rewind(i64),
    Clear,
    /// Creates this child.
    Fork(String),
    /// Forgets this exchange.
    Forget(i64),
    /// Goes back to this version.
    Rollback(i64),
}

impl Step {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Rewind(_) => "rewind",
            Self::Clear => "clear",
            Self::Fork(_) => "fork",
            Self::Forget(_) => "forget",
            Self::Rollback(_) => "rollback",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) step: Step,
    pub(super) fate: RequestFate,
    pub(super) span: Span,
}

/// All requests about one agent.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) turns: Vec<Turn>,
    pub(super) steps: Vec<Request>,
}

#[derive(Default)]
pub(super) struct Ledger {
    histories: Mutex<BTreeMap<String, History>>,
    ticks: AtomicU64,
    acknowledged: AtomicU64,
}

impl Ledger {
    /// A unique number that grows with time.
    pub(super) fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Records a turn that has ended for its writer.
    pub(super) fn turn(&self, turn: Turn) {
        if turn.fate == RequestFate::Acknowledged {
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        let mut histories = self.histories();
        let history = histories.entry(turn.voice.agent.clone()).or_default();
        history.turns.push(turn);
    }

    pub(super) fn step(&self, agent: &str, asked: Request) {
        let mut histories = self.histories();
        histories.entry(agent.to_owned()).or_default().steps.push(asked);
    }

    pub(super) fn all(&self) -> BTreeMap<String, History> {
        self.histories().clone()
    }

    fn histories(&self) -> MutexGuard<'_, BTreeMap<String, History>> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_messages_have_a_marker_in_common() {
        let mut markers = HashSet::new();
        for agent in ["agent-1", "agent-1-f1"] {
            for door in [Door::Ids, Door::Key, Door::Sql] {
                let voice = Voice { agent: agent.to_owned(), door };
                for said in (0..30).flat_map(|turn| voice.turn(turn)) {
                    assert!(said.payload.to_string().contains(&said.marker), "{said:?}");
                    assert_eq!(said.id.is_none(), door == Door::Key);
                    assert!(markers.insert(said.marker));
                }
            }
        }
        let is_part = |marker: &String| markers.iter().any(|other| other != marker && other.contains(marker));
        assert!(!markers.iter().any(is_part), "none is part of another one");
    }
}
