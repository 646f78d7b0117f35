//! Drafts of turns, made from stored messages. They have no metadata, no blank texts, and only the thinking that may be sent. Only the
//! model's drafts have calls, and only drafts of role `Tool` have results. In a conversation of several, drafts show one speaker's
//! perspective.

use std::{borrow::Cow, collections::BTreeSet};

use super::{ContextInput, Piece, PieceOrigin, SourceExchange, SourceMessage, Thinking};
use crate::domain::{
    message::{Kind, Message, Part, Role},
    perspective::{Perspective, PerspectiveMessage},
    tokens::MESSAGE_OVERHEAD_TOKENS,
};

/// How much of a draft the speaker sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    /// All of it.
    Visible,
    /// The results of calls that the speaker sees, and the rest of their message.
    WithCalls,
    /// Nothing. The draft only shows to which calls results belong.
    Hidden,
}

/// A message, or a part of one, with content for the model.
pub(super) struct Draft<'a> {
    pub(super) role: Role,
    pub(super) exchange: i64,
    pub(super) seq: i64,
    pub(super) parts: Cow<'a, [Part]>,
    /// The message, if `parts` are all of it except blank texts and thinking.
    pub(super) source: Option<&'a Message>,
    speaker: Option<&'a str>,
    pub(super) visibility: Visibility,
    keeps_thinking: bool,
    tokens: Option<i64>,
}

impl<'a> Draft<'a> {
    pub(super) fn piece(&self) -> Piece<'a> {
        Piece {
            parts: self.parts.clone(),
            origin: PieceOrigin::Stored { seq: self.seq },
            source: self.source,
            speaker: self.speaker,
            keeps_thinking: self.keeps_thinking,
            tokens: self.tokens,
        }
    }

    /// Returns a piece with other content than the stored message.
    pub(super) fn piece_with(&self, parts: Vec<Part>) -> Piece<'a> {
        Piece { parts: Cow::Owned(parts), source: None, tokens: None, ..self.piece() }
    }

    pub(super) fn has_calls(&self) -> bool {
        self.parts.iter().any(is_call)
    }

    /// Returns true if the model's next message belongs to the same turn, because this one has only thinking or ends with a block of the
    /// provider, such as a search whose result comes in the next message.
    pub(super) fn continues(&self) -> bool {
        let is_thinking = |part: &Part| matches!(part, Part::Thinking(_));
        matches!(self.parts.last(), Some(Part::Opaque { .. })) || self.parts.iter().all(is_thinking)
    }
}

pub(super) fn window_drafts<'a>(input: &ContextInput<'a>, thinking: Thinking) -> Vec<Draft<'a>> {
    let viewer = input.perspective;
    // Legs of one exchange are open together.
    let open_exchanges = input.exchanges.iter().filter(|row| row.is_open);
    let open_exchanges: BTreeSet<i64> = open_exchanges.map(|row| row.first_leg).collect();
    let row_drafts = |row: &SourceExchange<'a>| {
        let keeps_thinking = match thinking {
            Thinking::All => true,
            Thinking::Open => open_exchanges.contains(&row.first_leg),
            Thinking::None => false,
        };
        let number = row.exchange;
        let messages = row.messages.clone().into_iter();
        messages.flat_map(move |message| message_drafts(message, number, keeps_thinking, viewer))
    };
    input.exchanges.iter().flat_map(row_drafts).collect()
}

/// Returns the drafts of a message: none if it has no content, two if it has results and other content.
pub(super) fn message_drafts<'a>(
    stored: SourceMessage<'a>,
    exchange: i64,
    keeps_thinking: bool,
    viewer: Option<&Perspective>,
) -> Vec<Draft<'a>> {
    let message = stored.message;
    let Some(role) = role(message) else {
        return Vec::new();
    };
    let Some(viewer) = viewer else {
        let parts = Cow::Borrowed(message.parts.as_slice());
        let mut drafts = visible_drafts(stored, exchange, keeps_thinking, PerspectiveMessage { role, parts });
        // Instructions have a speaker to whom they are addressed.
        let speaker = message.speaker.as_deref().filter(|_| role != Role::System);
        for draft in &mut drafts {
            draft.speaker = speaker;
        }
        return drafts;
    };
    let visible = viewer.see(message);
    let (is_for_speaker, is_caller) = match &visible {
        Some(visible) => (true, visible.role == Role::Assistant),
        None => (false, false),
    };
    let mut drafts =
        visible.map_or_else(Vec::new, |visible| visible_drafts(stored, exchange, keeps_thinking, visible));
    if role != Role::Tool && !is_caller {
        // Results belong to calls of the speaker, whoever passed them on, unless they were addressed to others only.
        let hidden = hidden_drafts(stored, exchange)
            .filter(|draft| is_for_speaker || draft.visibility == Visibility::Hidden);
        drafts.extend(hidden);
    } else if role == Role::Tool && !viewer.is_own(message) {
        drafts.retain(|draft| draft.role == Role::Tool);
        for draft in &mut drafts {
            draft.visibility = Visibility::WithCalls;
        }
    }
    drafts
}

/// Returns the calls and results of a message that the speaker doesn't hear.
fn hidden_drafts(stored: SourceMessage<'_>, exchange: i64) -> impl Iterator<Item = Draft<'_>> {
    let parts = stored.message.parts.iter();
    let calls = parts.clone().filter(|part| is_call(part)).cloned().collect();
    let results = parts.filter(|part| is_result(part)).cloned().collect();
    let drafts = [(Role::Assistant, Visibility::Hidden, calls), (Role::Tool, Visibility::WithCalls, results)];
    drafts.into_iter().filter_map(move |(role, visibility, parts)| {
        let parts: Vec<Part> = parts;
        (!parts.is_empty()).then_some(Draft {
            role,
            exchange,
            seq: stored.seq,
            parts: Cow::Owned(parts),
            source: None,
            speaker: None,
            visibility,
            keeps_thinking: false,
            tokens: None,
        })
    })
}

fn visible_drafts<'a>(
    stored: SourceMessage<'a>,
    exchange: i64,
    keeps_thinking: bool,
    visible: PerspectiveMessage<'a>,
) -> Vec<Draft<'a>> {
    let SourceMessage { seq, message, tokens } = stored;
    let PerspectiveMessage { role, parts } = visible;
    let is_stored_role = matches!(parts, Cow::Borrowed(_)) && self::role(message) == Some(role);
    let (parts, is_faithful) = match parts {
        Cow::Borrowed(parts) => clean(role, parts, keeps_thinking),
        Cow::Owned(parts) => {
            let (parts, _) = clean(role, &parts, keeps_thinking);
            (Cow::Owned(parts.into_owned()), false)
        }
    };
    let is_whole = matches!(parts, Cow::Borrowed(_));
    let draft = Draft {
        role,
        exchange,
        seq,
        source: (is_faithful && is_stored_role).then_some(message),
        speaker: None,
        visibility: Visibility::Visible,
        keeps_thinking,
        tokens: tokens.filter(|_| is_whole).map(|tokens| tokens - MESSAGE_OVERHEAD_TOKENS),
        parts,
    };
    match (draft.parts.is_empty(), role, draft.parts.iter().any(is_result)) {
        (true, ..) => Vec::new(),
        (_, Role::Tool, false) => vec![Draft { role: Role::User, ..draft }],
        (_, Role::Tool, true) | (_, _, false) => vec![draft],
        (_, _, true) => separate_results(&draft),
    }
}

fn role(message: &Message) -> Option<Role> {
    match message.kind {
        Kind::System => Some(Role::System),
        Kind::User => Some(Role::User),
        Kind::Assistant | Kind::ToolCall => Some(Role::Assistant),
        Kind::ToolResult => Some(Role::Tool),
        Kind::Metadata(_) => None,
    }
}

/// Returns the parts to send, and true if only blank texts and thinking are missing.
fn clean(role: Role, parts: &[Part], keeps_thinking: bool) -> (Cow<'_, [Part]>, bool) {
    let may_call = role == Role::Assistant;
    let stays = |part: &Part| match part {
        Part::Text(text) => !text.trim().is_empty(),
        Part::Thinking(_) => keeps_thinking && may_call,
        Part::ToolCall { .. } | Part::ToolResult { .. } | Part::Attachment { .. } | Part::Opaque { .. } => {
            true
        }
    };
    let is_faithful = may_call || !parts.iter().any(is_call);
    if is_faithful && parts.iter().all(stays) {
        return (Cow::Borrowed(parts), true);
    }
    let cleaned = parts.iter().filter(|part| stays(part));
    let cleaned = cleaned.map(|part| match part {
        // No provider accepts calls by anyone but the model.
        Part::ToolCall { name, arguments, .. } if !may_call => {
            Part::Text(format!("[called {name} with {arguments}]"))
        }
        part => part.clone(),
    });
    (Cow::Owned(cleaned.collect()), is_faithful)
}

/// Separates the results of a message from its other content: results go before the user's content and after the model's.
fn separate_results<'a>(draft: &Draft<'a>) -> Vec<Draft<'a>> {
    let role = draft.role;
    let (results, other_parts): (Vec<Part>, Vec<Part>) = draft.parts.iter().cloned().partition(is_result);
    let draft_with =
        |role, parts| Draft { role, parts: Cow::Owned(parts), source: None, tokens: None, ..*draft };
    let mut drafts = vec![draft_with(Role::Tool, results)];
    if !other_parts.is_empty() {
        drafts.push(draft_with(role, other_parts));
    }
    if role == Role::Assistant {
        drafts.reverse();
    }
    drafts
}

pub(super) fn is_call(part: &Part) -> bool {
    matches!(part, Part::ToolCall { .. })
}

pub(super) fn is_result(part: &Part) -> bool {
    matches!(part, Part::ToolResult { .. })
}
