//! Requests of agents other than messages: marks, rewinds, clears, forks, forgets, rollbacks. Each is sent once; the ledger
//! records the outcome.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    ledger::{Door, Request, RequestFate, Span, Step, Voice},
    load::{Answer, Load},
};

const PAUSE_MS_MAX: u64 = 2_000;
const TURNS_OF_FORK: u64 = 6;
const FORKS_MAX: usize = 3;
/// The least distance of a forgotten exchange from the newest one, so that it gets no more messages.
const FORGET_BEHIND: i64 = 4;

pub(super) struct Stepper {
    load: Arc<Load>,
    agent: String,
    random: Rng,
    marks: Vec<Mark>,
    forks: usize,
    /// The newest known exchange.
    newest: i64,
}

/// A mark to which the agent can go back.
struct Mark {
    label: String,
    /// The exchange that the mark follows.
    exchange: i64,
}

impl Stepper {
    pub(super) fn new(load: Arc<Load>, agent: String, seed: u64) -> Self {
        Self { load, agent, random: Rng::with_seed(seed), marks: Vec::new(), forks: 0, newest: 0 }
    }

    pub(super) async fn run(mut self) {
        let mut number = 0;
        while !self.load.is_over() {
            let pause_ms = self.random.u64(PAUSE_MS_MAX / 4..PAUSE_MS_MAX);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            number += 1;
            self.step(number).await;
        }
    }

    async fn step(&mut self, number: u64) {
        match self.random.u8(..12) {
            0..=3 => self.mark(number).await,
            4 => self.rewind().await,
            5 => self.clear().await,
            6 | 7 if self.forks < FORKS_MAX => self.fork().await,
            6..=9 => self.forget().await,
            _ => self.rollback().await,
        }
    }

    async fn mark(&mut self, number: u64) {
        let label = format!("mark-{number}");
        if let Answer::Done(said) = self.ask(Step::Mark, "mark", json!({"label": label})).await {
            let exchange = said["exchange"].as_i64().unwrap_or_default();
            self.newest = self.newest.max(exchange);
            self.marks.push(Mark { label, exchange });
        }
    }

    async fn rewind(&mut self) {
        if let Some(mark) = self.marks.pop() {
            self.ask(Step::Rewind(mark.exchange), "rewind", json!({"to": mark.label})).await;
        }
    }

    async fn clear(&mut self) {
        self.marks.clear();
        self.ask(Step::Clear, "clear", json!({})).await;
    }

    async fn fork(&mut self) {
        self.forks += 1;
        let child = format!("{}-f{}", self.agent, self.forks);
        let step = Step::Fork(child.clone());
        let answer = self.ask(step, "fork", json!({"child": child})).await;
        // Appending to a missing agent creates it, and the fork may still arrive: that would be another history.
        if matches!(answer, Answer::Done(_)) {
            let voice = Voice { agent: child, door: Door::Ids };
            for turn in 0..TURNS_OF_FORK {
                self.load.push_turn(&voice, turn, &mut self.random).await;
            }
        }
    }

    async fn forget(&mut self) {
        let exchange = self.newest - FORGET_BEHIND - self.random.i64(0..40);
        if exchange > 0 {
            self.ask(Step::Forget(exchange), "forget", json!({"exchanges": [exchange]})).await;
        }
    }

    async fn rollback(&mut self) {
        let version = self.random.i64(1..6);
        self.ask(Step::Rollback(version), "rollback", json!({"version": version})).await;
    }

    async fn ask(&mut self, step: Step, what: &str, body: Value) -> Answer {
        let daemon = self.random.usize(..self.load.roster.daemons());
        let path = format!("{}/{what}", self.agent);
        let begun = self.load.ledger.tick();
        let answer = self.load.ask(daemon, &path, &body, |request| request).await;
        let ended = self.load.ledger.tick();
        let fate = match &answer {
            Answer::Done(_) => RequestFate::Acknowledged,
            Answer::Nothing => RequestFate::Ambiguous,
            Answer::Absent => return answer,
            // The agent, the mark or the version doesn't exist, or not any more.
            Answer::Refused(404 | 409, _) => RequestFate::Refused,
            Answer::Refused(status, said) => {
                let step = step.name();
                self.load.complain(format!("{step} of {} was refused with {status}: {said}", self.agent));
                RequestFate::Refused
            }
        };
        let span = Span { begun, ended };
        self.load.ledger.step(&self.agent, Request { step, fate, span });
        answer
    }
}
