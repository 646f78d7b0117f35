//! Alternation: no two neighbouring turns of one side. Nothing ever comes between a call and its results, since those
//! are of different sides.

use super::{ACKNOWLEDGEMENT, Alternation, CONTINUATION, Piece, Reason, Role, Turn};

/// Who has said something last, as providers see it: results count as the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    User,
    Model,
}

fn side(role: Role) -> Option<Side> {
    match role {
        Role::System => None,
        Role::User | Role::Tool => Some(Side::User),
        Role::Assistant => Some(Side::Model),
    }
}

/// Whether a turn of role `next` right after one of role `before` needs repair.
pub(super) fn clash(before: Role, next: Role) -> bool {
    side(before).is_some() && side(before) == side(next)
}

/// Puts the user first: a conversation can't begin with the model or with results.
pub(super) fn begin_with_user(turns: &mut Vec<Turn<'_>>) {
    let first = turns.iter().position(|turn| turn.role != Role::System);
    if let Some(first) = first.filter(|&first| turns[first].role != Role::User) {
        let exchange = turns[first].exchange;
        turns.insert(first, said(Role::User, Reason::FirstTurn, CONTINUATION, exchange));
    }
}

/// Leaves the last word to the user, where somebody waits for the model although a late result has gone to its call,
/// before what the model said since.
pub(super) fn end_with_user(turns: &mut Vec<Turn<'_>>) {
    let last = turns.iter().rfind(|turn| turn.role != Role::System);
    if let Some(last) = last.filter(|last| last.role == Role::Assistant) {
        let exchange = last.exchange;
        turns.push(said(Role::User, Reason::LateResult, CONTINUATION, exchange));
    }
}

/// Repairs alternation. Repairing twice changes nothing more.
pub(super) fn repair<'a>(turns: Vec<Turn<'a>>, mode: Alternation) -> Vec<Turn<'a>> {
    let mut repaired: Vec<Turn<'a>> = Vec::with_capacity(turns.len());
    for turn in turns {
        match repaired.last_mut().filter(|last| clash(last.role, turn.role)) {
            Some(last) if mode == Alternation::Merge => last.pieces.extend(turn.pieces),
            Some(_) if mode == Alternation::Ack => {
                let between = if turn.role == Role::Assistant {
                    said(Role::User, Reason::Alternation, CONTINUATION, turn.exchange)
                } else {
                    acknowledgement(turn.exchange)
                };
                repaired.extend([between, turn]);
            }
            _ => repaired.push(turn),
        }
    }
    repaired
}

/// The model's short answer between two turns of the user's.
pub(super) fn acknowledgement<'a>(exchange: i64) -> Turn<'a> {
    said(Role::Assistant, Reason::Alternation, ACKNOWLEDGEMENT, exchange)
}

fn said<'a>(role: Role, reason: Reason, text: &str, exchange: i64) -> Turn<'a> {
    Turn::new(role, exchange, vec![Piece::text(reason, text)])
}
