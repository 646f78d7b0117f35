//! Turns: what a provider expects of user and assistant, restored after the conversation was transformed.

use super::{BEGIN, Mode, Part, Perspective, Repair, Role, SILENCE, SeenMessage};

/// What the speaker answers in between, where the others said two things in a row.
const ASSISTANT_ACK: &str = "Understood.";
/// What the others answer in between, where the speaker said two things in a row.
const USER_ACK: &str = "Please go on.";

/// `seen`, beginning with a user and with turns taken.
pub(super) fn repair(seen: Vec<SeenMessage>, perspective: &Perspective) -> Vec<SeenMessage> {
    let mut repaired: Vec<SeenMessage> = Vec::with_capacity(seen.len());
    // Whose turn the last message was, instructions aside.
    let mut turn = None;
    for message in seen {
        let role = message.role;
        let is_repeated = turn == Some(role) && role != Role::Tool;
        if is_repeated && merges(&repaired, role, perspective) {
            merge(&mut repaired, message);
            continue;
        }
        match role {
            Role::Assistant if turn.is_none() => repaired.push(synthetic(Role::User, opening(perspective))),
            Role::Assistant if is_repeated => repaired.push(synthetic(Role::User, nudge(perspective))),
            Role::User if is_repeated => repaired.push(synthetic(Role::Assistant, ASSISTANT_ACK)),
            _ => {}
        }
        if role != Role::System {
            turn = Some(role);
        }
        repaired.push(message);
    }
    if perspective.mode == Mode::Meditation && turn == Some(Role::Assistant) {
        repaired.push(synthetic(Role::User, SILENCE));
    }
    repaired
}

fn opening(perspective: &Perspective) -> &'static str {
    match perspective.mode {
        Mode::Meditation => SILENCE,
        Mode::Talk | Mode::ChooseNames => BEGIN,
    }
}

fn nudge(perspective: &Perspective) -> &'static str {
    match perspective.mode {
        Mode::Meditation => SILENCE,
        Mode::Talk | Mode::ChooseNames => USER_ACK,
    }
}

/// Whether another message of `role` becomes part of the last one.
fn merges(repaired: &[SeenMessage], role: Role, perspective: &Perspective) -> bool {
    let last = repaired.iter().rev().find(|last| last.role == role);
    let is_call = |part: &Part| matches!(part, Part::ToolCall { .. });
    // Nothing may come between a call and its result: parallel calls that were logged one by one are one message.
    let calls = last.is_some_and(|last| last.parts.iter().any(is_call));
    let is_silent = perspective.mode == Mode::Meditation && role == Role::Assistant;
    calls || (perspective.repair == Repair::Merge && !is_silent)
}

/// Adds to the last message of the same role; instructions that came in between stay where they are.
fn merge(repaired: &mut [SeenMessage], message: SeenMessage) {
    let last = repaired.iter_mut().rev().find(|last| last.role == message.role);
    if let Some(last) = last {
        last.parts.extend(message.parts);
    }
}

fn synthetic(role: Role, text: &str) -> SeenMessage {
    SeenMessage {
        role,
        parts: vec![Part::Text(text.to_owned())],
        synthetic: true,
    }
}
