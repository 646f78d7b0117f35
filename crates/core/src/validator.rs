//! Reports what a provider would refuse in a request, in the provider's own terms.
//!
//! Written straight from the providers' rules and independent of the code that builds requests, so that the two can check
//! each other. It checks the history: roles, order, calls and their results, ids, reasoning. It doesn't judge what a single
//! request can't show: whether a signature is genuine, whether a thinking block was changed, how many tokens there are.
//!
//! Unknown kinds of blocks, items and parts pass: providers add them all the time.
//!
//! ```
//! use recapd_core::validator::{Target, validate};
//!
//! let request = serde_json::json!({"messages": [
//!     {"role": "user", "content": "What time is it?"},
//!     {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "clock", "input": {}}]},
//!     {"role": "user", "content": "Hello?"},
//! ]});
//! let violations = validate(Target::Anthropic, &request, None);
//! assert_eq!(violations[0].path, "/messages/1");
//! assert_eq!(violations[0].rule, "call_unanswered");
//! ```

mod anthropic;
mod findings;
mod gemini;
mod model;
mod openai_chat;
mod openai_responses;
mod openai_terms;
mod request;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

use findings::Findings;
use request::CheckedRequest;

/// The most violations that are reported for one request.
pub const VIOLATIONS_MAX: usize = 1_000;

/// The API a request is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Anthropic Messages: `{system, messages, …}`.
    Anthropic,
    /// OpenAI Chat Completions: `{messages, …}`.
    OpenAiChat,
    /// OpenAI Responses: `{input, …}`.
    OpenAiResponses,
    /// Gemini `generateContent`: `{contents, …}`.
    Gemini,
}

/// The effect of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The provider answers 400 (or 413).
    Refused,
    /// Accepted, or refused only by some models, versions or compatible servers; or not known for certain.
    Risky,
}

/// The source of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The vendor's documentation.
    Documented,
    /// The types and comments of the vendor's SDK, or its published API description.
    Schema,
    /// Texts of errors in public reports.
    Reported,
    /// General knowledge without a written source.
    Unverified,
}

/// A rule of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// A short, stable name for programs; unique within a target.
    pub code: &'static str,
    /// The effect of breaking it, where that is certain.
    pub severity: Severity,
    /// The source of the rule.
    pub evidence: Evidence,
}

impl Rule {
    const fn refused(code: &'static str, evidence: Evidence) -> Self {
        Self {
            code,
            severity: Severity::Refused,
            evidence,
        }
    }

    const fn risky(code: &'static str, evidence: Evidence) -> Self {
        Self {
            code,
            severity: Severity::Risky,
            evidence,
        }
    }
}

/// A rule broken at one place of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// JSON pointer into the request as it was given.
    pub path: String,
    /// The code of the rule.
    pub rule: &'static str,
    /// The vendor's own text if known, else an equivalent.
    pub message: String,
    /// Also [`Severity::Risky`] if only some models refuse and the model isn't known.
    pub severity: Severity,
    /// The source of the rule.
    pub evidence: Evidence,
}

impl Target {
    /// Every rule that [`validate`] checks for this target.
    pub fn rules(self) -> &'static [Rule] {
        match self {
            Self::Anthropic => anthropic::RULES,
            Self::OpenAiChat => openai_chat::RULES,
            Self::OpenAiResponses => openai_responses::RULES,
            Self::Gemini => gemini::RULES,
        }
    }
}

/// Checks `request` against the rules of `target`. Returns the violations in the order of the checks, at most
/// [`VIOLATIONS_MAX`].
///
/// `request` is a whole body or the bare array of its messages, items or contents. `model` overrides the body's own.
/// Violations of rules for some models only are [`Severity::Risky`] if no model is known.
pub fn validate(target: Target, request: &Value, model: Option<&str>) -> Vec<Violation> {
    match target {
        Target::Anthropic => checked(request, "messages", model, anthropic::check),
        Target::OpenAiChat => checked(request, "messages", model, openai_chat::check),
        Target::OpenAiResponses => checked(request, "input", model, openai_responses::check),
        Target::Gemini => checked(request, "contents", model, gemini::check),
    }
}

fn checked(
    body: &Value,
    key: &'static str,
    model: Option<&str>,
    check: fn(&CheckedRequest<'_>, &mut Findings),
) -> Vec<Violation> {
    let request = CheckedRequest::new(body, key, model);
    let mut findings = Findings::new(request.root());
    check(&request, &mut findings);
    findings.into_violations()
}
