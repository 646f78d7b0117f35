//! Collects violations, with JSON pointers into the request.

use std::fmt::Display;

use super::{Rule, Severity, VIOLATIONS_MAX, Violation};

/// Cuts an id or a name in a violation's message to this many characters.
const NAME_CHARS_MAX: usize = 80;

#[derive(Debug)]
pub(super) struct Findings {
    /// The JSON pointer to the array of messages.
    messages_pointer: String,
    violations: Vec<Violation>,
}

impl Findings {
    /// Creates a collection without violations. `messages_pointer` is the JSON pointer to the array of messages.
    pub(super) fn new(messages_pointer: String) -> Self {
        Self { messages_pointer, violations: Vec::new() }
    }

    /// Reports that the request breaks `rule` at `pointer`, a pointer below the array of messages (`/3/content/0`).
    pub(super) fn add(&mut self, rule: &Rule, pointer: impl Display, message: impl Into<String>) {
        let path = format!("{}{pointer}", self.messages_pointer);
        self.push(rule, rule.severity, path, message.into());
    }

    /// Reports that the array of messages as a whole breaks `rule`.
    pub(super) fn add_to_messages(&mut self, rule: &Rule, message: impl Into<String>) {
        self.add(rule, "", message);
    }

    /// Reports that the body as a whole breaks `rule`.
    pub(super) fn add_to_body(&mut self, rule: &Rule, message: impl Into<String>) {
        self.add_in_body(rule, "", message);
    }

    /// Reports that the request breaks `rule` at `path`, a pointer into the body (`/system/0`).
    pub(super) fn add_in_body(&mut self, rule: &Rule, path: &str, message: impl Into<String>) {
        self.push(rule, rule.severity, path.to_owned(), message.into());
    }

    /// Reports as [`Self::add`] does, for a rule that only some models have. `applies` is whether the request's model has the rule;
    /// `None` means that this is unknown, and makes the violation [`Severity::Risky`].
    pub(super) fn add_if(
        &mut self,
        applies: Option<bool>,
        rule: &Rule,
        pointer: impl Display,
        message: impl Into<String>,
    ) {
        let severity = match applies {
            Some(true) => rule.severity,
            Some(false) => return,
            None => Severity::Risky,
        };
        let path = format!("{}{pointer}", self.messages_pointer);
        self.push(rule, severity, path, message.into());
    }

    fn push(&mut self, rule: &Rule, severity: Severity, path: String, message: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation {
                path,
                rule: rule.code,
                message,
                severity,
                evidence: rule.evidence,
            });
        }
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }
}

/// Cuts an id or a name to [`NAME_CHARS_MAX`] for a violation's message.
pub(super) fn shorten(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// Joins ids for a violation's message: `toolu_1, toolu_2`.
pub(super) fn join(ids: &[&str]) -> String {
    ids.iter().map(|id| shorten(id)).collect::<Vec<_>>().join(", ")
}
