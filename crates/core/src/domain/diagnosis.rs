//! What a diagnosis of a recapd finds: checks, each with its remedy, and what the schedules do.

use serde::Serialize;

use super::time::Timestamp;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All is well.
    Ok,
    /// It works, but should be looked at.
    Warn,
    /// Summaries aren't made, or soon won't be.
    Fail,
    /// There is nothing to check.
    Skip,
}

/// What a schedule did last and does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The schedule's name.
    pub name: &'static str,
    /// Its cron expression.
    pub crontab: String,
    /// When it was fired last, by whichever daemon; none if it never was.
    pub last_at: Option<Timestamp>,
    /// When it is due next; none if never.
    pub next_at: Option<Timestamp>,
}

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The check's name.
    pub name: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Check {
    fn new(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self {
            name,
            verdict,
            detail: detail.into(),
            fix: None,
        }
    }

    /// A check that found all well.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, detail)
    }

    /// A check that found something to improve, and how.
    pub fn warn(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, Verdict::Warn, detail).cure(fix)
    }

    /// A check that failed, and how to repair it.
    pub fn fail(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, Verdict::Fail, detail).cure(fix)
    }

    /// A check with nothing to check.
    pub fn skip(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Skip, detail)
    }

    fn cure(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }
}
