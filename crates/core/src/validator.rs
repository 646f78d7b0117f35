//! Says what a provider would refuse in a request, in the provider's own terms.
//!
//! Written straight from the providers' rules and from nothing that builds requests, so that the two can check each
//! other. It looks at the history: roles, order, calls and their results, ids, reasoning. What it can't see from one
//! request it doesn't judge: whether a signature is genuine, whether a thinking block was changed, how many tokens it
//! all is.
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

/// The most violations that are told of one request; more of them say nothing new.
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

/// What a violation leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The provider answers 400 (or 413).
    Refused,
    /// Accepted, or not by every model, version or compatible server; or not known for certain.
    Risky,
}

/// Where a rule is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The vendor's documentation.
    Documented,
    /// The types and comments of the vendor's SDK, or its published API description.
    Schema,
    /// Texts of errors in public reports.
    Reported,
    /// General knowledge; nobody wrote it down.
    Unverified,
}

/// A rule of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Short and stable, for programs; unique within a target.
    pub code: &'static str,
    /// What breaking it leads to, where that is known for certain.
    pub severity: Severity,
    /// Where it is known from.
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
    /// Code of the rule.
    pub rule: &'static str,
    /// The vendor's own text where it is known, else the same in our words.
    pub message: String,
    /// [`Severity::Risky`] also where only some models refuse and the model isn't known.
    pub severity: Severity,
    /// Where the rule is known from.
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

/// What `target` would say to `request`, in the order of the checks; nothing when it is fine.
///
/// `request` is a whole body or the bare array of its messages, items or contents. `model` wins over the body's own;
/// some rules hold for some models only, and without a model those are [`Severity::Risky`]. At most
/// [`VIOLATIONS_MAX`].
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
