//! The ledger: what was said and asked for, by whom, and what is known of it. A client that loses its connection doesn't
//! know: what it asked for may be done, may not be, and may be yet.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fastrand::Rng;
use serde_json::{Value, json};

/// For so many turns an agent works on one request.
const TURNS_OF_REQUEST: u64 = 12;

/// How every marker begins.
pub(super) const MARKER: &str = "m-agent-";

/// How a writer's messages come in, and are known again when they come twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Door {
    /// Over HTTP; each message has an id.
    Ids,
    /// Over HTTP; the request has a key.
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

/// Who says something: one writer of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Voice {
    pub(super) agent: String,
    pub(super) door: Door,
}

/// One message of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Utterance {
    /// What nothing else holds: it is in the message's text.
    pub(super) marker: String,
    pub(super) id: Option<String>,
    /// As it is sent over HTTP, and stored.
    pub(super) payload: Value,
}

impl Voice {
    /// What is said in a turn.
    pub(super) fn turn(&self, turn: u64) -> Vec<Utterance> {
        let agent = &self.agent;
        let short = agent.strip_prefix("agent-").unwrap_or(agent);
        let name = |part: &str| format!("{MARKER}{short}-{}-{turn}-{part}", self.door.name());
        let seed = agent.bytes().fold(turn << 8 | self.door as u64, |seed, byte| {
            seed.rotate_left(7) ^ u64::from(byte)
        });
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
        // Some agents are asked seldom, and work for many turns on what they were asked.
        let asks = !agent.ends_with(['1', '3', '5']) || turn.is_multiple_of(TURNS_OF_REQUEST);
        let user = said(
            if asks { "user" } else { "assistant" },
            "user",
            &mut |marker, message| {
                message["content"] = json!(format!(
                    "For {agent}: please look at src/module_{turn}.rs, ticket {marker}."
                ));
            },
        );
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

/// What is known of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFate {
    /// It was acknowledged.
    Acknowledged,
    /// Nobody knows.
    Ambiguous,
    /// It was refused for what it is, and isn't done.
    Refused,
}

/// A turn that was begun.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) voice: Voice,
    pub(super) number: u64,
    pub(super) fate: RequestFate,
    /// When it was begun and ended, by the ledger's own count.
    pub(super) span: Span,
}

/// From one tick of the ledger to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begun: u64,
    pub(super) ended: u64,
}

impl Span {
    /// It had ended when the other one began.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.ended < other.begun
    }
}

/// What else was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A mark was set.
    Mark,
    /// Back to a mark behind that exchange.
    Rewind(i64),
    /// The session was closed.
    Clear,
    /// That child was made.
    Fork(String),
    /// That exchange was to be forgotten.
    Forget(i64),
    /// Back to that version.
    Rollback(i64),
}

impl Step {
    /// As reports call it.
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

/// A step that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) step: Step,
    pub(super) fate: RequestFate,
    pub(super) span: Span,
}

/// All that was asked of one agent.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) turns: Vec<Turn>,
    pub(super) steps: Vec<Request>,
}

/// All that was asked.
#[derive(Default)]
pub(super) struct Ledger {
    histories: Mutex<BTreeMap<String, History>>,
    ticks: AtomicU64,
    acknowledged: AtomicU64,
}

impl Ledger {
    /// A moment after all before and before all after.
    pub(super) fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    /// How many turns were acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// A turn is over, as far as its writer is concerned.
    pub(super) fn turn(&self, turn: Turn) {
        if turn.fate == RequestFate::Acknowledged {
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        let mut histories = self.histories();
        let history = histories.entry(turn.voice.agent.clone()).or_default();
        history.turns.push(turn);
    }

    /// A step is over.
    pub(super) fn step(&self, agent: &str, asked: Request) {
        let mut histories = self.histories();
        histories.entry(agent.to_owned()).or_default().steps.push(asked);
    }

    /// All of it, by agents.
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
                let voice = Voice {
                    agent: agent.to_owned(),
                    door,
                };
                for said in (0..30).flat_map(|turn| voice.turn(turn)) {
                    assert!(said.payload.to_string().contains(&said.marker), "{said:?}");
                    assert_eq!(said.id.is_none(), door == Door::Key);
                    assert!(markers.insert(said.marker));
                }
            }
        }
        let is_part = |marker: &String| {
            markers
                .iter()
                .any(|other| other != marker && other.contains(marker))
        };
        assert!(!markers.iter().any(is_part), "none is part of another one");
    }
}
