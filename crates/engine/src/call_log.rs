//! Logs the last calls of models with prompt and answer, for people who wonder why a summary says what it says. The log is in
//! memory only: nobody needs an old prompt, and stored prompts would store every conversation a second time.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use recapd_core::domain::{
    agent::AgentId,
    time::{HOUR_MS, Timestamp},
};

const CALLS_MAX: usize = 64;
/// Limits the bytes of all logged prompts and answers together.
const BYTES_MAX: usize = 8 << 20;
const AGE_MS_MAX: i64 = HOUR_MS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    pub agent: AgentId,
    pub asked_at: Timestamp,
    /// Instructions and material, as they were sent.
    pub prompt: String,
    /// The model's answer with secrets redacted, or the error of the call.
    pub answer: Result<String, String>,
}

impl LoggedCall {
    fn bytes(&self) -> usize {
        let answer = self.answer.as_ref().unwrap_or_else(|error| error);
        self.prompt.len() + answer.len()
    }
}

#[derive(Debug, Default)]
pub struct CallLog {
    calls: Mutex<VecDeque<LoggedCall>>,
}

impl CallLog {
    /// Adds a call. Drops the oldest calls beyond the limits.
    pub fn note(&self, call: LoggedCall) {
        let mut calls = self.locked();
        let old = call.asked_at.plus_ms(-AGE_MS_MAX);
        calls.push_back(call);
        let mut bytes: usize = calls.iter().map(LoggedCall::bytes).sum();
        while calls.len() > CALLS_MAX
            || bytes > BYTES_MAX
            || calls.front().is_some_and(|call| call.asked_at < old)
        {
            let Some(oldest) = calls.pop_front() else { break };
            bytes -= oldest.bytes();
        }
    }

    /// Returns the calls about `agent` between the two times, oldest first.
    pub fn of(&self, agent: &AgentId, from: Timestamp, through: Timestamp) -> Vec<LoggedCall> {
        let calls = self.locked();
        let is_in =
            |call: &&LoggedCall| call.agent == *agent && from <= call.asked_at && call.asked_at <= through;
        calls.iter().filter(is_in).cloned().collect()
    }

    /// Drops all calls about an agent whose content is being forgotten.
    pub fn forget(&self, agent: &AgentId) {
        self.locked().retain(|call| call.agent != *agent);
    }

    fn locked(&self) -> MutexGuard<'_, VecDeque<LoggedCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(agent: &str, at: i64, bytes: usize) -> LoggedCall {
        LoggedCall {
            agent: agent.parse().unwrap(),
            asked_at: Timestamp(at),
            prompt: "p".repeat(bytes),
            answer: Ok(String::new()),
        }
    }

    #[test]
    fn the_log_keeps_the_last_calls_within_its_limits() {
        let log = CallLog::default();
        let all = |agent: &str| log.of(&agent.parse().unwrap(), Timestamp(0), Timestamp(i64::MAX));
        log.note(call("a", 0, 10));
        log.note(call("b", 1, BYTES_MAX - 10));
        assert_eq!((all("a").len(), all("b").len()), (1, 1));
        log.note(call("a", 2, 1));
        assert_eq!(all("a").iter().map(|call| call.asked_at.0).collect::<Vec<_>>(), [2]);
        log.forget(&"b".parse().unwrap());
        assert!(all("b").is_empty());
        for at in 3..100 {
            log.note(call("c", at, 1));
        }
        assert_eq!((all("a").len(), all("c").len()), (0, CALLS_MAX));
        log.note(call("a", 2 * HOUR_MS, 1));
        assert!(all("c").is_empty());
    }
}
