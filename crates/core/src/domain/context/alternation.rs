//! Alternation: no two consecutive turns of one side. Nothing ever comes between a call and its results, since those
//! are of different sides.

use super::{
    ACKNOWLEDGEMENT, Alternation, CONTINUATION, Piece, PieceOrigin, Reason, Role, Turn, fence::attribute,
};
use crate::domain::perspective::SILENCE;

/// What a user is called who has no name, among those who have one.
const UNNAMED: &str = "user";

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

/// Puts a user's turn with `opening` in front, if need be: a conversation can't begin with the model or with results.
pub(super) fn begin_with_user(turns: &mut Vec<Turn<'_>>, opening: &str) {
    let first = turns.iter().position(|turn| turn.role != Role::System);
    if let Some(first) = first.filter(|&first| turns[first].role != Role::User) {
        let exchange = turns[first].exchange;
        turns.insert(first, first_turn(opening, exchange));
    }
}

/// The user's made-up turn before the model's first.
pub(super) fn first_turn<'a>(opening: &str, exchange: i64) -> Turn<'a> {
    said(Role::User, Reason::FirstTurn, opening, exchange)
}

/// The user's made-up turn after the model's last.
pub(super) fn last_turn<'a>(exchange: i64) -> Turn<'a> {
    said(Role::User, Reason::Alternation, CONTINUATION, exchange)
}

/// Puts a silence of the user's after each turn of the model's that the user doesn't answer, at the end, too.
pub(super) fn answer_with_silence<'a>(turns: Vec<Turn<'a>>) -> Vec<Turn<'a>> {
    let mut answered: Vec<Turn<'a>> = Vec::with_capacity(turns.len());
    let mut before = None;
    for turn in turns {
        if is_silence_between(before, turn.role) {
            answered.push(silence(turn.exchange));
        }
        if turn.role != Role::System {
            before = Some(turn.role);
        }
        answered.push(turn);
    }
    if before == Some(Role::Assistant) {
        let exchange = answered.last().map_or(0, |last| last.exchange);
        answered.push(silence(exchange));
    }
    answered
}

/// Whether the user is silent between a turn of role `before` and one of role `next`, instructions aside.
pub(super) fn is_silence_between(before: Option<Role>, next: Role) -> bool {
    before == Some(Role::Assistant) && next == Role::Assistant
}

/// The turn that stands for a speaker's silence.
pub(super) fn silence<'a>(exchange: i64) -> Turn<'a> {
    said(Role::User, Reason::Silence, SILENCE, exchange)
}

/// Puts a user's turn at the end where the model is to answer, but a late result was moved to its call, before what the
/// model said since.
pub(super) fn end_with_user(turns: &mut Vec<Turn<'_>>) {
    let last = turns.iter().rfind(|turn| turn.role != Role::System);
    if let Some(last) = last.filter(|last| last.role == Role::Assistant) {
        let exchange = last.exchange;
        turns.push(said(Role::User, Reason::LateResult, CONTINUATION, exchange));
    }
}

/// Says whose words are whose in neighbouring turns of the user's that will become one, where they are several speakers'.
pub(super) fn name_speakers(turns: &mut [Turn<'_>]) {
    let said: Vec<usize> = (0..turns.len())
        .filter(|&at| turns[at].role != Role::System)
        .collect();
    let is_users = |at: usize| turns[at].role == Role::User;
    let mut named = Vec::new();
    for run in said.chunk_by(|&before, &next| is_users(before) && is_users(next)) {
        let speakers = run.iter().map(|&at| (at, turns[at].speaker()));
        let speakers: Vec<(usize, Option<&str>)> = speakers.collect();
        // Whoever speaks on isn't named again.
        let heads = speakers.chunk_by(|before, next| before.1 == next.1);
        let heads: Vec<(usize, Option<&str>)> = heads.map(|same| same[0]).collect();
        if heads.len() > 1 {
            named.extend(heads.into_iter().map(|(at, speaker)| (at, name_line(speaker))));
        }
    }
    for (at, line) in named {
        turns[at].pieces.insert(0, line);
    }
}

/// The lines that say whose words stand before `next`, and whose it is unless it says so already; none if all is one
/// speaker's.
pub(super) fn name_lines<'a>(
    before: Option<&str>,
    next: &Turn<'_>,
) -> Option<(Piece<'a>, Option<Piece<'a>>)> {
    let speaker = next.speaker();
    let is_named = next.pieces.first()?.origin == PieceOrigin::Synthetic(Reason::Speaker);
    (is_named || speaker != before).then(|| (name_line(before), (!is_named).then(|| name_line(speaker))))
}

fn name_line<'a>(speaker: Option<&str>) -> Piece<'a> {
    let name = speaker.map_or_else(|| UNNAMED.to_owned(), attribute);
    Piece::text(Reason::Speaker, &format!("{name}:"))
}

/// Repairs alternation; `by_speaker` leaves apart what several speakers say. Repairing twice changes nothing more.
pub(super) fn repair<'a>(turns: Vec<Turn<'a>>, mode: Alternation, by_speaker: bool) -> Vec<Turn<'a>> {
    let mut repaired: Vec<Turn<'a>> = Vec::with_capacity(turns.len());
    // Asked of a turn that many have become, it would take long each time.
    let mut before = None;
    for turn in turns {
        let speaker = turn.speaker();
        let goes_on = !by_speaker || speaker == before;
        before = speaker;
        match repaired.last_mut().filter(|last| clash(last.role, turn.role)) {
            Some(last) if mode == Alternation::Merge && goes_on => last.pieces.extend(turn.pieces),
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

/// The model's made-up short answer between two turns of the user's.
pub(super) fn acknowledgement<'a>(exchange: i64) -> Turn<'a> {
    said(Role::Assistant, Reason::Alternation, ACKNOWLEDGEMENT, exchange)
}

fn said<'a>(role: Role, reason: Reason, text: &str, exchange: i64) -> Turn<'a> {
    Turn::new(role, exchange, vec![Piece::text(reason, text)])
}
