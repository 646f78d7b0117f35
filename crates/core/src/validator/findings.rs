//! Collects violations, with JSON pointers into the request.

use std::fmt::Display;

use super::{Rule, Severity, VIOLATIONS_MAX, Violation};

/// A violation's message has at most this many characters of an id or a name.
const QUOTED_CHARS_MAX: usize = 80;

#[derive(Debug)]
pub(super) struct Findings {
    /// The pointer to the array of messages.
    root: String,
    found: Vec<Violation>,
}

impl Findings {
    /// Creates a collection without violations. `root` is the pointer to the array of messages.
    pub(super) fn new(root: String) -> Self {
        Self {
            root,
            found: Vec::new(),
        }
    }

    /// Reports that the request breaks `rule` at `place`, a pointer below the array of messages (`/3/content/0`).
    pub(super) fn add(&mut self, rule: &Rule, place: impl Display, message: impl Into<String>) {
        let path = format!("{}{place}", self.root);
        self.push(rule, rule.severity, path, message.into());
    }

    /// Reports that the request breaks `rule` at `path`, a pointer into the body.
    pub(super) fn add_in_body(&mut self, rule: &Rule, path: &str, message: impl Into<String>) {
        self.push(rule, rule.severity, path.to_owned(), message.into());
    }

    /// Reports as [`Self::add`] does, for a rule of some models only. `holds` is `None` if it is unknown whether the model has the rule.
    pub(super) fn add_if(
        &mut self,
        holds: Option<bool>,
        rule: &Rule,
        place: impl Display,
        message: impl Into<String>,
    ) {
        let severity = match holds {
            Some(true) => rule.severity,
            Some(false) => return,
            None => Severity::Risky,
        };
        let path = format!("{}{place}", self.root);
        self.push(rule, severity, path, message.into());
    }

    fn push(&mut self, rule: &Rule, severity: Severity, path: String, message: String) {
        if self.found.len() < VIOLATIONS_MAX {
            self.found.push(Violation {
                path,
                rule: rule.code,
                message,
                severity,
                evidence: rule.evidence,
            });
        }
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.found
    }
}

/// Truncates an id or a name for a violation's message.
pub(super) fn quoted(name: &str) -> String {
    name.chars().take(QUOTED_CHARS_MAX).collect()
}

pub(super) fn listed(ids: &[&str]) -> String {
    ids.iter().map(|id| quoted(id)).collect::<Vec<_>>().join(", ")
}
