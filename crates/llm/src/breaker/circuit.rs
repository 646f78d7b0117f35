//! The states of a circuit, computed from the time and the results of calls.

use recapd_core::domain::time::{CLOCK_JUMP_MS_MIN, MINUTE_MS, Timestamp};

/// Limits the rest after failed probes, unless the first rest is longer.
const REST_MS_MAX: i64 = 10 * MINUTE_MS;
/// How long callers wait while a probe is in progress.
const PROBE_WAIT_MS: i64 = 5_000;

/// When a circuit opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// After this many failures in a row the circuit opens; 0 never opens it.
    pub failures: i64,
    /// The length of the first rest. Each failed probe doubles it, up to ten minutes.
    pub rest_ms: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CircuitState {
    /// Calls go through.
    #[default]
    Closed,
    /// No calls go through.
    Open { until: Timestamp },
    /// One call goes through, as a test whether the provider works again.
    HalfOpen,
}

/// What the end of a call shows about the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallVerdict {
    /// The provider works.
    Answered,
    /// The provider failed, and asked for no calls for this long; 0 if it asked for nothing.
    Failed { rest_ms: i64 },
    /// The provider refuses the account, which only an operator can change.
    Refused,
    /// Nothing: the call wasn't made, or nobody waited for its answer.
    Nothing,
}

/// The kind of a permitted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallPermit {
    Ordinary,
    /// The call that tests whether the provider works again.
    Probe,
}

#[derive(Debug)]
pub(super) struct Circuit {
    settings: BreakerSettings,
    state: CircuitState,
    /// Failures since the last answer.
    failures: i64,
    /// The length of the next rest.
    rest_ms: i64,
    /// The length of the present rest.
    resting_ms: i64,
}

impl Circuit {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: CircuitState::Closed, failures: 0, rest_ms: settings.rest_ms, resting_ms: 0 }
    }

    pub(super) fn state(&self) -> CircuitState {
        self.state
    }

    /// Permits a call, or returns how many milliseconds to wait. Once the rest is over, the first call is the probe.
    pub(super) fn permit_call(&mut self, now: Timestamp) -> Result<CallPermit, i64> {
        match self.state {
            CircuitState::Closed => Ok(CallPermit::Ordinary),
            // More time than the whole rest is left only if the clock was set back.
            CircuitState::Open { until }
                if now < until && until.since_ms(now) < self.resting_ms.saturating_add(CLOCK_JUMP_MS_MIN) =>
            {
                Err(until.since_ms(now))
            }
            CircuitState::Open { .. } => {
                self.state = CircuitState::HalfOpen;
                Ok(CallPermit::Probe)
            }
            CircuitState::HalfOpen => Err(PROBE_WAIT_MS),
        }
    }

    /// Ends a call. A call that was in progress when the circuit opened changes nothing.
    pub(super) fn end_call(&mut self, permit: CallPermit, verdict: CallVerdict, now: Timestamp) {
        let state_of_call = match permit {
            CallPermit::Ordinary => CircuitState::Closed,
            CallPermit::Probe => CircuitState::HalfOpen,
        };
        if self.state != state_of_call {
            return;
        }
        match verdict {
            CallVerdict::Answered => self.close(),
            // The next probe is due at once.
            CallVerdict::Nothing if permit == CallPermit::Probe => {
                self.state = CircuitState::Open { until: now }
            }
            CallVerdict::Failed { rest_ms } => {
                self.failures += 1;
                if permit == CallPermit::Probe || self.is_enough() {
                    self.open(now, rest_ms);
                }
            }
            CallVerdict::Refused if self.settings.failures > 0 => self.open(now, 0),
            CallVerdict::Nothing | CallVerdict::Refused => {}
        }
    }

    fn is_enough(&self) -> bool {
        self.settings.failures > 0 && self.failures >= self.settings.failures
    }

    fn close(&mut self) {
        *self = Self::new(self.settings);
    }

    fn open(&mut self, now: Timestamp, rest_ms: i64) {
        self.resting_ms = self.rest_ms.max(rest_ms);
        let until = now.plus_ms(self.resting_ms);
        self.state = CircuitState::Open { until };
        let longest = REST_MS_MAX.max(self.settings.rest_ms);
        self.rest_ms = self.rest_ms.saturating_mul(2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: CallVerdict = CallVerdict::Failed { rest_ms: 0 };

    fn circuit() -> Circuit {
        Circuit::new(BreakerSettings { failures: 3, rest_ms: 30_000 })
    }

    /// Makes a call at `at_ms` and returns the new state; `None` if no call may be made.
    fn call(circuit: &mut Circuit, at_ms: i64, verdict: CallVerdict) -> Option<CircuitState> {
        let permit = circuit.permit_call(Timestamp(at_ms)).ok()?;
        circuit.end_call(permit, verdict, Timestamp(at_ms));
        Some(circuit.state())
    }

    fn open(until_ms: i64) -> CircuitState {
        let until = Timestamp(until_ms);
        CircuitState::Open { until }
    }

    #[test]
    fn only_failures_in_a_row_open_the_circuit() {
        let mut circuit = circuit();
        for verdict in [FAILED, FAILED, CallVerdict::Answered, FAILED, FAILED] {
            assert_eq!(call(&mut circuit, 0, verdict), Some(CircuitState::Closed));
        }
        assert_eq!(call(&mut circuit, 1_000, FAILED), Some(open(31_000)));
        assert_eq!(circuit.permit_call(Timestamp(30_999)), Err(1));
    }

    #[test]
    fn one_probe_decides() {
        let mut circuit = circuit();
        for _ in 0..3 {
            call(&mut circuit, 0, FAILED);
        }
        assert_eq!(circuit.permit_call(Timestamp(30_000)), Ok(CallPermit::Probe));
        assert_eq!(circuit.state(), CircuitState::HalfOpen);
        assert_eq!(
            circuit.permit_call(Timestamp(30_000)),
            Err(PROBE_WAIT_MS),
            "there is one probe at a time"
        );
        circuit.end_call(CallPermit::Probe, FAILED, Timestamp(31_000));
        assert_eq!(circuit.state(), open(91_000), "twice the rest");
        assert_eq!(call(&mut circuit, 90_999, CallVerdict::Answered), None);
        assert_eq!(
            call(&mut circuit, 91_000, CallVerdict::Nothing),
            Some(open(91_000)),
            "nothing was learned"
        );
        assert_eq!(call(&mut circuit, 91_000, CallVerdict::Answered), Some(CircuitState::Closed));
        // The failed probes are forgotten.
        assert_eq!(call(&mut circuit, 91_000, FAILED), Some(CircuitState::Closed));
    }

    #[test]
    fn the_rest_grows_to_ten_minutes() {
        let mut circuit = circuit();
        let mut now = 0;
        let mut rests = Vec::new();
        while rests.len() < 8 {
            if let Some(CircuitState::Open { until }) = call(&mut circuit, now, FAILED) {
                rests.push((until.0 - now) / 1_000);
                now = until.0;
            }
        }
        assert_eq!(rests, [30, 60, 120, 240, 480, 600, 600, 600]);
    }

    #[test]
    fn a_refused_account_opens_the_circuit_and_the_providers_wait_is_kept() {
        assert_eq!(call(&mut circuit(), 0, CallVerdict::Refused), Some(open(30_000)));
        let mut circuit = circuit();
        call(&mut circuit, 0, FAILED);
        call(&mut circuit, 0, FAILED);
        assert_eq!(call(&mut circuit, 0, CallVerdict::Failed { rest_ms: 90_000 }), Some(open(90_000)));
    }

    #[test]
    fn late_ends_of_earlier_calls_change_nothing() {
        let mut circuit = circuit();
        for _ in 0..9 {
            circuit.permit_call(Timestamp(0)).unwrap();
        }
        for _ in 0..9 {
            circuit.end_call(CallPermit::Ordinary, FAILED, Timestamp(1_000));
        }
        assert_eq!(circuit.state(), open(31_000));
        circuit.end_call(CallPermit::Ordinary, CallVerdict::Answered, Timestamp(2_000));
        assert_eq!(circuit.state(), open(31_000));
        circuit.permit_call(Timestamp(31_000)).unwrap();
        circuit.end_call(CallPermit::Ordinary, FAILED, Timestamp(32_000));
        assert_eq!(circuit.state(), CircuitState::HalfOpen, "the probe decides");
    }

    #[test]
    fn the_breaker_can_be_switched_off_and_a_clock_set_back_ends_the_rest() {
        let mut off = Circuit::new(BreakerSettings { failures: 0, rest_ms: 30_000 });
        for verdict in [FAILED; 20].into_iter().chain([CallVerdict::Refused]) {
            assert_eq!(call(&mut off, 0, verdict), Some(CircuitState::Closed));
        }
        let mut circuit = circuit();
        call(&mut circuit, 10_000, CallVerdict::Refused);
        assert_eq!(circuit.permit_call(Timestamp(10_000)), Err(30_000));
        assert_eq!(circuit.permit_call(Timestamp(9_000)), Ok(CallPermit::Probe));
    }
}
