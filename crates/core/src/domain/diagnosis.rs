//! The results of a diagnosis: checks, each with its fix, and when schedules run.

use serde::Serialize;

use super::time::Timestamp;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No problem.
    Ok,
    /// Works, but needs attention.
    Warn,
    /// Summaries aren't made, or soon won't be.
    Fail,
    /// There was nothing to check.
    Skip,
}

/// The last and the next run of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The schedule's name.
    pub name: &'static str,
    /// The cron expression.
    pub crontab: String,
    /// When a daemon last ran it; `None` if none did.
    pub last_at: Option<Timestamp>,
    /// When it runs next; `None` if never.
    pub next_at: Option<Timestamp>,
}

/// A check and what it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The check's name.
    pub name: &'static str,
    /// Whether there is a problem.
    pub verdict: Verdict,
    /// What the check found.
    pub detail: String,
    /// What to do, if anything.
    pub fix: Option<String>,
}

impl Check {
    fn new(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { name, verdict, detail: detail.into(), fix: None }
    }

    /// Makes a check without a problem.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, detail)
    }

    /// Makes a check that needs attention, and says what to do.
    pub fn warn(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, Verdict::Warn, detail).with_fix(fix)
    }

    /// Makes a failed check, and says what to do.
    pub fn fail(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, Verdict::Fail, detail).with_fix(fix)
    }

    /// Makes a check that had nothing to check.
    pub fn skip(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Skip, detail)
    }

    fn with_fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}
