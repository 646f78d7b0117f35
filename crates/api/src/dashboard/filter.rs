//! Parses and applies filters for the queue and the runs: `state:parked agent:build-* reason:rate_limited`.
//!
//! A filter has only qualifiers. It compares the fields of rows, and searches no texts.

use recapd_core::domain::agent::AgentId;
use recapd_store::operate::{QueueRow, QueueState, Run};

/// The states of a queue row. `failed` matches any row whose last attempt failed, whether or not it will be retried.
pub const QUEUE_STATES: [&str; 6] = ["ready", "running", "scheduled", "paused", "parked", FAILED];
/// How a run can end.
pub const RUN_STATES: [&str; 4] = ["completed", FAILED, "superseded", "postponed"];
const FAILED: &str = "failed";
const BYTES_MAX: usize = 400;

/// A filter. A missing qualifier matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The filter as written, with single spaces.
    text: String,
    state: Option<&'static str>,
    agent: Option<Names>,
    /// The reason of an update, or the class of its error.
    reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    One(AgentId),
    Prefixed(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("a filter has at most {BYTES_MAX} bytes")]
    TooLong,
    /// A word that isn't a known qualifier with a value.
    #[error("`{0}` isn't a qualifier; use state:…, agent:… or reason:…")]
    Unknown(String),
    #[error("`{0}:` occurs twice")]
    Twice(&'static str),
    #[error("state:{0} is unknown; the states are {1}")]
    State(String, String),
    #[error("agent:{0} isn't the name of an agent; name* matches all names that begin with `name`")]
    Agent(String),
}

impl Filter {
    /// Parses a filter. `states` are the states that it may name.
    ///
    /// # Errors
    /// [`FilterError`]; it names the wrong word.
    pub fn parse(text: &str, states: &'static [&'static str]) -> Result<Self, FilterError> {
        if text.len() > BYTES_MAX {
            return Err(FilterError::TooLong);
        }
        let mut filter =
            Self { text: text.split_whitespace().collect::<Vec<_>>().join(" "), ..Self::default() };
        for word in text.split_whitespace() {
            let unknown = || FilterError::Unknown(word.to_owned());
            let (name, value) = word.split_once(':').ok_or_else(unknown)?;
            if value.is_empty() {
                return Err(unknown());
            }
            match name {
                "state" => once(&mut filter.state, "state", state(value, states)?)?,
                "agent" => once(&mut filter.agent, "agent", names(value)?)?,
                "reason" => once(&mut filter.reason, "reason", value.to_owned())?,
                _ => return Err(unknown()),
            }
        }
        Ok(filter)
    }

    pub fn of_state(state: &str) -> String {
        format!("state:{state}")
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the agent if the filter names exactly one.
    pub fn agent(&self) -> Option<&AgentId> {
        match &self.agent {
            Some(Names::One(agent)) => Some(agent),
            Some(Names::Prefixed(_)) | None => None,
        }
    }

    pub fn matches_row(&self, row: &QueueRow) -> bool {
        let class = row.last_error.as_deref().and_then(|error| error.split(':').next());
        let has_failed = row.last_error.is_some()
            && matches!(row.state, QueueState::Parked | QueueState::Scheduled)
            && row.attempts > 0;
        let is_state = |state| state == row.state.name() || (state == FAILED && has_failed);
        self.state.is_none_or(is_state) && self.is_of(&row.agent_id) && self.is_for(&row.reason, class)
    }

    pub fn matches_run(&self, run: &Run) -> bool {
        self.state.is_none_or(|state| state == run.outcome.name())
            && self.is_of(&run.agent_id)
            && self.is_for(&run.reason, run.error_class.as_deref())
    }

    fn is_of(&self, agent: &AgentId) -> bool {
        match &self.agent {
            Some(Names::One(one)) => one == agent,
            Some(Names::Prefixed(prefix)) => agent.as_str().starts_with(prefix.as_str()),
            None => true,
        }
    }

    fn is_for(&self, reason: &str, class: Option<&str>) -> bool {
        let reason_filter = self.reason.as_deref();
        reason_filter.is_none_or(|reason_filter| reason_filter == reason || Some(reason_filter) == class)
    }
}

fn once<T>(slot: &mut Option<T>, name: &'static str, value: T) -> Result<(), FilterError> {
    if slot.replace(value).is_some() {
        return Err(FilterError::Twice(name));
    }
    Ok(())
}

fn state(value: &str, states: &'static [&'static str]) -> Result<&'static str, FilterError> {
    let found = states.iter().find(|state| **state == value).copied();
    found.ok_or_else(|| FilterError::State(value.to_owned(), states.join(", ")))
}

fn names(value: &str) -> Result<Names, FilterError> {
    let invalid_name = || FilterError::Agent(value.to_owned());
    match value.strip_suffix('*') {
        None => value.parse().map(Names::One).map_err(|_| invalid_name()),
        Some("") => Ok(Names::Prefixed(String::new())),
        Some(prefix) => {
            // A prefix that no id begins with would match nothing.
            let id: AgentId = prefix.parse().map_err(|_| invalid_name())?;
            Ok(Names::Prefixed(id.as_str().to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::time::Timestamp;

    fn row(agent: &str, state: QueueState, last_error: Option<&str>) -> QueueRow {
        QueueRow {
            agent_id: agent.parse().unwrap(),
            state,
            waits_for: None,
            next_at: None,
            reason: "eviction".to_owned(),
            priority: 100,
            queued_at: Timestamp(0),
            age_ms: 0,
            attempts: i64::from(last_error.is_some()),
            crashes: 0,
            owner: None,
            leased_at: None,
            parked_at: None,
            paused_for: None,
            last_error: last_error.map(str::to_owned),
        }
    }

    #[test]
    fn a_row_must_match_every_qualifier() {
        let parked = row("build-7", QueueState::Parked, Some("rate_limited: come back later"));
        let ready = row("coder", QueueState::Ready, None);
        for (text, of_parked, of_ready) in [
            ("", true, true),
            ("state:parked", true, false),
            ("state:failed", true, false),
            ("state:ready", false, true),
            ("agent:coder", false, true),
            ("agent:build-*", true, false),
            ("agent:*", true, true),
            ("reason:rate_limited", true, false),
            ("reason:eviction", true, true),
            ("  reason:eviction   agent:build-7 state:parked ", true, false),
            ("reason:come", false, false),
        ] {
            let filter = Filter::parse(text, &QUEUE_STATES).unwrap();
            let found = (filter.matches_row(&parked), filter.matches_row(&ready));
            assert_eq!(found, (of_parked, of_ready), "{text}");
        }
        let filter = Filter::parse(" agent:a   state:ready ", &QUEUE_STATES).unwrap();
        assert_eq!(filter.text(), "agent:a state:ready");
        assert_eq!(filter.agent().map(AgentId::as_str), Some("a"));
    }

    #[test]
    fn an_error_names_the_wrong_word() {
        for (text, told) in [
            ("parked", "`parked` isn't a qualifier; use state:…, agent:… or reason:…"),
            ("owner:me", "`owner:me` isn't a qualifier; use state:…, agent:… or reason:…"),
            ("state:", "`state:` isn't a qualifier; use state:…, agent:… or reason:…"),
            ("state:ready state:parked", "`state:` occurs twice"),
            ("state:gone", "state:gone is unknown; the states are completed, failed, superseded, postponed"),
            (
                "agent:-x",
                "agent:-x isn't the name of an agent; name* matches all names that begin with `name`",
            ),
            (
                "agent:<b>*",
                "agent:<b>* isn't the name of an agent; name* matches all names that begin with `name`",
            ),
        ] {
            let states = if text.contains("ready") { &QUEUE_STATES[..] } else { &RUN_STATES };
            assert_eq!(Filter::parse(text, states).unwrap_err().to_string(), told);
        }
        assert_eq!(Filter::parse(&"a".repeat(401), &RUN_STATES), Err(FilterError::TooLong));
    }
}
