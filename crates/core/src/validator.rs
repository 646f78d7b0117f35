//! Reports what a provider would refuse in a request, in the provider's own terms.
//!
//! The validator is written from the providers' rules and independent of the code that builds requests, so that each can check the other.
//! It checks the history: roles, order, calls and their results, ids, reasoning. It doesn't judge what a single request can't show:
//! whether a signature is genuine, whether a thinking block was changed, how many tokens there are.
//!
//! Unknown kinds of blocks, items and parts pass, since providers add new ones all the time.
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
use request::RequestToCheck;

/// Reports at most this many violations of one request.
pub const VIOLATIONS_MAX: usize = 1_000;

/// The API for which a request is meant.
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
    /// The provider may accept the request: only some models, versions or compatible servers refuse it, or nobody knows for certain.
    Risky,
}

/// Where a rule comes from.
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
    /// What breaking the rule leads to. A violation may be less severe, see [`Violation::severity`].
    pub severity: Severity,
    /// Where the rule comes from.
    pub evidence: Evidence,
}

impl Rule {
    const fn refused(code: &'static str, evidence: Evidence) -> Self {
        Self { code, severity: Severity::Refused, evidence }
    }

    const fn risky(code: &'static str, evidence: Evidence) -> Self {
        Self { code, severity: Severity::Risky, evidence }
    }
}

/// A rule broken at one place of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// A JSON pointer into the request as [`validate`] got it.
    pub path: String,
    /// The code of the rule.
    pub rule: &'static str,
    /// The text of the vendor's error, if known; otherwise one in its style.
    pub message: String,
    /// The severity of the rule, or [`Severity::Risky`] if only some models have the rule and the model is unknown.
    pub severity: Severity,
    /// Where the rule comes from.
    pub evidence: Evidence,
}

impl Target {
    /// Returns every rule that [`validate`] checks for this target.
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
/// `request` is a whole body, or the bare array of its messages, items or contents. `model` overrides the model of the body. If no model
/// is known, violations of rules that only some models have are [`Severity::Risky`].
pub fn validate(target: Target, request: &Value, model: Option<&str>) -> Vec<Violation> {
    match target {
        Target::Anthropic => check_with(request, "messages", model, anthropic::check),
        Target::OpenAiChat => check_with(request, "messages", model, openai_chat::check),
        Target::OpenAiResponses => check_with(request, "input", model, openai_responses::check),
        Target::Gemini => check_with(request, "contents", model, gemini::check),
    }
}

fn check_with(
    body: &Value,
    messages_key: &'static str,
    model: Option<&str>,
    check: fn(&RequestToCheck<'_>, &mut Findings),
) -> Vec<Violation> {
    let request = RequestToCheck::new(body, messages_key, model);
    let mut findings = Findings::new(request.messages_pointer());
    check(&request, &mut findings);
    findings.into_violations()
}
