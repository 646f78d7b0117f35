//! Refuses unknown roles.
//!
//! Transcripts may have messages with unknown roles, which are stored as metadata. In a new message such a role is a mistake: recapd
//! would accept the message and never send it to a model.

use super::{COMPACT_SUMMARY, FormatError, NAME_CHARS_MAX, chat, gemini, json::Fields, unknown_kind};
use crate::domain::{
    likeness::nearest,
    message::{Format, Kind, Message, Metadata},
    text::cut,
};

/// The kinds that models see.
const SENT_KINDS: [&str; 5] = ["user", "assistant", "system", "tool_call", "tool_result"];
/// Roles of messages that aren't for a model. mini-swe-agent reports in `exit` how a run ended. The readers of other programs' files give
/// the summaries of those programs a role.
const UNSENT_ROLES: [&str; 2] = ["exit", COMPACT_SUMMARY];

/// Refuses a message that is metadata only because its role is unknown. Accepts all lines of transcripts.
pub(super) fn check(message: &Message, fields: &Fields<'_>) -> Result<(), FormatError> {
    let Kind::Metadata(Metadata::Other(name)) = &message.kind else {
        return Ok(());
    };
    match message.format {
        Format::Native => check_kind(name),
        Format::OpenAiChat | Format::OpenAiResponses | Format::Anthropic => {
            check_role(message, fields, &chat::ROLES)
        }
        Format::Gemini => check_role(message, fields, &gemini::ROLES),
        Format::ClaudeCode | Format::Codex | Format::Pidgin | Format::Aider => Ok(()),
    }
}

/// Returns the error for a role that isn't one of `valid_roles`. It suggests the valid role that `role` resembles, or else `cure`.
pub(super) fn unknown_role(role: &str, valid_roles: &[&str], cure: &str) -> FormatError {
    let role = cut(role, NAME_CHARS_MAX);
    let cure = match nearest(&role, valid_roles.iter().copied()) {
        Some(suggestion) => did_you_mean(suggestion),
        None => cure.to_owned(),
    };
    FormatError::new(format!("role `{}` is unknown", role.escape_debug()), cure)
}

fn check_role(message: &Message, fields: &Fields<'_>, valid_roles: &[&str]) -> Result<(), FormatError> {
    let cure = "give a message that no model should see a `kind` of recapd's own format in place of the role";
    fields.text("role").map_or(Ok(()), |role| refuse_unknown(&message.kind, &role, valid_roles, cure))
}

/// Refuses a message of a request if its provider doesn't know its role. `kind` is the kind that the message was read as.
pub(super) fn check_sent(format: Format, kind: &Kind, role: &str) -> Result<(), FormatError> {
    let valid_roles: &[&str] = match format {
        Format::Gemini => &gemini::ROLES,
        _ => &chat::ROLES,
    };
    refuse_unknown(kind, role, valid_roles, "leave out messages that no model should see")
}

/// Refuses a role that isn't one of `valid_roles`, if it made the message metadata. `advice` ends the error.
fn refuse_unknown(kind: &Kind, role: &str, valid_roles: &[&str], advice: &str) -> Result<(), FormatError> {
    // An item of an unknown type gets its kind from the type, so its role doesn't matter.
    let is_known = valid_roles.contains(&role) || UNSENT_ROLES.contains(&role);
    if is_known || *kind != unknown_kind(role) {
        return Ok(());
    }
    let cure = format!("give one of {}; {advice}", valid_roles.join(", "));
    Err(unknown_role(role, valid_roles, &cure))
}

/// Refuses a kind that is one letter off a kind that models see. Accepts other unknown kinds, since agents may have kinds of their own.
fn check_kind(name: &str) -> Result<(), FormatError> {
    let lower = name.to_lowercase();
    let suggestion = SENT_KINDS.into_iter().find(|kind| strsim::osa_distance(kind, &lower) <= 1);
    suggestion.map_or(Ok(()), |kind| {
        let reason = format!("kind `{}` is unknown", name.escape_debug());
        Err(FormatError::new(reason, did_you_mean(kind)))
    })
}

fn did_you_mean(suggestion: &str) -> String {
    format!("did you mean `{suggestion}`?")
}
