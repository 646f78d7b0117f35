//! Roles that nobody knows.
//!
//! Transcripts hold such messages, and what they tell is kept as metadata. In what is said now such a role is a slip: the
//! message would be accepted, and never sent to a model.

use super::{FormatError, NAME_CHARS_MAX, chat, gemini, json::Fields, unknown_kind};
use crate::domain::{
    likeness::nearest,
    message::{Format, Kind, Message, Metadata},
    text::cut,
};

/// Kinds of the native format that are sent to a model.
const SENT_KINDS: [&str; 5] = ["user", "assistant", "system", "tool_call", "tool_result"];
/// Roles that known programs give to what isn't for a model: mini-swe-agent's of how a run ended.
const UNSENT_ROLES: [&str; 1] = ["exit"];

/// Refuses a message that is metadata only because nobody knows its role. Lines of transcripts may be anything.
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

/// What to say of a role that isn't among the `known` ones; `cure` says what to do if it is like none of them.
pub(super) fn unknown_role(role: &str, known: &[&str], cure: &str) -> FormatError {
    let role = cut(role, NAME_CHARS_MAX);
    let cure = match nearest(&role, known.iter().copied()) {
        Some(meant) => did_you_mean(meant),
        None => cure.to_owned(),
    };
    FormatError::new(format!("role `{}` is unknown", role.escape_debug()), cure)
}

fn check_role(message: &Message, fields: &Fields<'_>, known: &[&str]) -> Result<(), FormatError> {
    // An item of a type that nobody knows is no message, whatever its role.
    let role = fields
        .text("role")
        .filter(|role| message.kind == unknown_kind(role) && !UNSENT_ROLES.contains(&role.as_str()));
    let cure = || {
        let known = known.join(", ");
        format!(
            "give one of {known}; what no model is to see has a `kind` of recapd's own format in place of the role"
        )
    };
    role.map_or(Ok(()), |role| Err(unknown_role(&role, known, &cure())))
}

/// Agents have kinds of their own, so only one that is a letter off from one that is sent is a slip.
fn check_kind(name: &str) -> Result<(), FormatError> {
    let lower = name.to_lowercase();
    let meant = SENT_KINDS
        .into_iter()
        .find(|kind| strsim::osa_distance(kind, &lower) <= 1);
    meant.map_or(Ok(()), |meant| {
        let reason = format!("kind `{}` is unknown", name.escape_debug());
        Err(FormatError::new(reason, did_you_mean(meant)))
    })
}

fn did_you_mean(meant: &str) -> String {
    format!("did you mean `{meant}`?")
}
