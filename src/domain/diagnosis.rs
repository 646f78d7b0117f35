//! What somebody who looks after recapd finds when they look: checks, each with its cure, and what the schedules do.

use serde::Serialize;

use super::time::Timestamp;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is right.
    Ok,
    /// It works, but somebody should look at it.
    Warn,
    /// Summaries aren't made, or won't be for long.
    Fail,
    /// There is nothing to check here.
    Skip,
}

/// What a schedule did last and does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// Which.
    pub name: &'static str,
    /// Its cron expression.
    pub crontab: String,
    /// When it was fired last, by whichever daemon; none if it never was.
    pub last_at: Option<Timestamp>,
    /// When it is due next; none if never.
    pub next_at: Option<Timestamp>,
}

/// One check, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
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

    /// It is right.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, detail)
    }

    /// It works, and this is how it would work better.
    pub fn warn(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, Verdict::Warn, detail).cure(fix)
    }

    /// It doesn't work, and this is how it would.
    pub fn fail(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, Verdict::Fail, detail).cure(fix)
    }

    /// There is nothing to check.
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
