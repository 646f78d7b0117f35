//! Alternation: makes sure that no two consecutive turns are of the same side. Calls and their results are on different sides, so nothing
//! is put between them.

use super::{ACKNOWLEDGEMENT, Alternation, CONTINUATION, Piece, PieceOrigin, Reason, Turn, fence::attribute};
use crate::domain::{message::Role, perspective::SILENCE};

/// Stands for the name of a user without one, if other users have names.
const UNNAMED: &str = "user";

/// The side of a turn, as providers see it. Results are on the user's side.
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

/// Returns true if a turn of role `next` can't follow one of role `previous` directly.
pub(super) fn clash(previous: Role, next: Role) -> bool {
    side(previous).is_some() && side(previous) == side(next)
}

/// Puts a user's turn with the text `opening` in front, unless the user speaks first. No conversation can begin with the model or with
/// results.
pub(super) fn begin_with_user(turns: &mut Vec<Turn<'_>>, opening: &str) {
    let first = turns.iter().position(|turn| turn.role != Role::System);
    if let Some(first) = first.filter(|&first| turns[first].role != Role::User) {
        let exchange = turns[first].exchange;
        turns.insert(first, first_turn(opening, exchange));
    }
}

/// Makes the user's synthetic turn before the model's first turn.
pub(super) fn first_turn<'a>(opening: &str, exchange: i64) -> Turn<'a> {
    synthetic_turn(Role::User, Reason::FirstTurn, opening, exchange)
}

/// Makes the user's synthetic turn after the model's last turn.
pub(super) fn last_turn<'a>(exchange: i64) -> Turn<'a> {
    synthetic_turn(Role::User, Reason::Alternation, CONTINUATION, exchange)
}

/// Puts a turn of silence after each turn of the model that the user doesn't answer, also at the end.
pub(super) fn answer_with_silence<'a>(turns: Vec<Turn<'a>>) -> Vec<Turn<'a>> {
    let mut alternating: Vec<Turn<'a>> = Vec::with_capacity(turns.len());
    let mut previous = None;
    for turn in turns {
        if is_silence_between(previous, turn.role) {
            alternating.push(silence(turn.exchange));
        }
        if turn.role != Role::System {
            previous = Some(turn.role);
        }
        alternating.push(turn);
    }
    if previous == Some(Role::Assistant) {
        let exchange = alternating.last().map_or(0, |last| last.exchange);
        alternating.push(silence(exchange));
    }
    alternating
}

/// Returns true if the user is silent between a turn of role `before` and one of role `next`. Instructions don't count.
pub(super) fn is_silence_between(before: Option<Role>, next: Role) -> bool {
    before == Some(Role::Assistant) && next == Role::Assistant
}

pub(super) fn silence<'a>(exchange: i64) -> Turn<'a> {
    synthetic_turn(Role::User, Reason::Silence, SILENCE, exchange)
}

/// Appends a user's turn if the model spoke last. After a late result was moved to its call, the model must still answer it.
pub(super) fn end_with_user(turns: &mut Vec<Turn<'_>>) {
    let last = turns.iter().rfind(|turn| turn.role != Role::System);
    if let Some(last) = last.filter(|last| last.role == Role::Assistant) {
        let exchange = last.exchange;
        turns.push(synthetic_turn(Role::User, Reason::LateResult, CONTINUATION, exchange));
    }
}

/// Names the speakers of neighbouring turns of the user that will be merged, if they have several speakers.
pub(super) fn name_speakers(turns: &mut [Turn<'_>]) {
    let conversation: Vec<usize> =
        (0..turns.len()).filter(|&index| turns[index].role != Role::System).collect();
    let is_from_user = |index: usize| turns[index].role == Role::User;
    let mut lines = Vec::new();
    for run in conversation.chunk_by(|&previous, &next| is_from_user(previous) && is_from_user(next)) {
        let speakers = run.iter().map(|&index| (index, turns[index].speaker()));
        let speakers: Vec<(usize, Option<&str>)> = speakers.collect();
        // Consecutive turns of the same speaker are named once.
        let heads = speakers.chunk_by(|previous, next| previous.1 == next.1);
        let heads: Vec<(usize, Option<&str>)> = heads.map(|same| same[0]).collect();
        if heads.len() > 1 {
            lines.extend(heads.into_iter().map(|(index, speaker)| (index, name_line(speaker))));
        }
    }
    for (index, line) in lines {
        turns[index].pieces.insert(0, line);
    }
}

/// Returns the lines with speakers' names that a merge adds: one with the speaker `previous`, and one with the speaker of the turn `next`
/// unless the turn has such a line already. Returns `None` if both speakers are the same.
pub(super) fn name_lines<'a>(
    previous: Option<&str>,
    next: &Turn<'_>,
) -> Option<(Piece<'a>, Option<Piece<'a>>)> {
    let speaker = next.speaker();
    let is_named = next.pieces.first()?.origin == PieceOrigin::Synthetic(Reason::Speaker);
    (is_named || speaker != previous).then(|| (name_line(previous), (!is_named).then(|| name_line(speaker))))
}

fn name_line<'a>(speaker: Option<&str>) -> Piece<'a> {
    let name = speaker.map_or_else(|| UNNAMED.to_owned(), attribute);
    Piece::text(Reason::Speaker, &format!("{name}:"))
}

/// Repairs alternation. With `by_speaker`, turns of different speakers aren't merged. A second repair changes nothing.
pub(super) fn repair<'a>(turns: Vec<Turn<'a>>, mode: Alternation, by_speaker: bool) -> Vec<Turn<'a>> {
    let mut repaired: Vec<Turn<'a>> = Vec::with_capacity(turns.len());
    // The speaker of the previous turn. A merged turn has many pieces, and reading the speakers of all of them takes long.
    let mut previous = None;
    for turn in turns {
        let speaker = turn.speaker();
        let may_merge = !by_speaker || speaker == previous;
        previous = speaker;
        match repaired.last_mut().filter(|last| clash(last.role, turn.role)) {
            Some(last) if mode == Alternation::Merge && may_merge => last.pieces.extend(turn.pieces),
            Some(_) if mode == Alternation::Ack => {
                let separator = if turn.role == Role::Assistant {
                    synthetic_turn(Role::User, Reason::Alternation, CONTINUATION, turn.exchange)
                } else {
                    acknowledgement(turn.exchange)
                };
                repaired.extend([separator, turn]);
            }
            _ => repaired.push(turn),
        }
    }
    repaired
}

/// Makes the model's short synthetic answer between two turns of the user.
pub(super) fn acknowledgement<'a>(exchange: i64) -> Turn<'a> {
    synthetic_turn(Role::Assistant, Reason::Alternation, ACKNOWLEDGEMENT, exchange)
}

fn synthetic_turn<'a>(role: Role, reason: Reason, text: &str, exchange: i64) -> Turn<'a> {
    Turn::new(role, exchange, vec![Piece::text(reason, text)])
}
