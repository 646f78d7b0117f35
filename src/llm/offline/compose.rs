//! The three texts of an item: the clauses and calls that tell most about a run within each limit, in their order.

use std::collections::HashSet;

use super::{
    clauses::{Clause, Source},
    reading::{Batch, Reading},
    render::{self, Piece, Voice},
    values::Telling,
    weigh::{Term, number},
};
use crate::domain::summary::item::{BRIEF_CHARS_MAX, GIST_CHARS_MAX, TEXT_CHARS_MAX};

/// The most clauses of a run that are weighed against each other; the best by themselves, when there are more.
const CANDIDATES_MAX: usize = 160;
/// What joining one more piece costs, in characters.
const JOINT_CHARS: usize = 4;
/// The longest piece of a text, in characters.
const PIECE_CHARS_MAX: usize = 260;
/// Room below this many characters isn't worth a cut piece.
const ROOM_CHARS_MIN: usize = 40;
/// A piece that adds less than this says nothing new; the shorter a text, the more each piece must tell.
const GAIN_MIN: f64 = 0.4;
/// See [`GAIN_MIN`]: the least for a text of one character, sinking with the root of the length.
const GAIN_MIN_SHORT: f64 = 14.0;
/// How strongly long pieces are held against their gain: 0 not at all, 1 in proportion.
const LENGTH_EXPONENT: f64 = 0.75;
/// Calls of tools with at least this influence change something and are told early.
pub(super) const INFLUENCE_TELLING: f64 = 0.3;
/// How much a call tells beyond the words in it, at full influence.
const CALL_GAIN: f64 = 9.0;
/// The aim is the first thing the user says with that many ordinary words: a name or an id alone is none.
const AIM_WORDS_MIN: usize = 2;
/// How much a failure tells beyond its words.
const FAILURE_GAIN: f64 = 0.8;
/// What an item says when there is nothing to say.
const NO_TEXT: &str = "(no text)";

/// The texts of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Texts {
    /// Detailed.
    pub(super) text: String,
    /// Shorter.
    pub(super) brief: String,
    /// Headline.
    pub(super) gist: String,
}

/// A piece that may be told.
struct Candidate {
    piece: Piece,
    terms: Vec<Term>,
    prior: f64,
    /// Words that needn't be told any more once this is, beyond `terms`.
    covers: Vec<Term>,
    /// What it tells beyond its words.
    own: f64,
}

/// The texts for a run of exchanges.
pub(super) fn texts(batch: &Batch, run: &[Reading]) -> Texts {
    let candidates = candidates(batch, run);
    let interrupted = run.iter().any(|reading| reading.interrupted);
    let tell = |chars_max: usize| {
        let chars_max = if interrupted {
            chars_max - render::INTERRUPTED.len()
        } else {
            chars_max
        };
        let chosen = choose(batch, &candidates, chars_max);
        let mut told = render::line(&chosen, chars_max);
        if told.is_empty() {
            NO_TEXT.clone_into(&mut told);
        }
        if interrupted {
            told.push_str(render::INTERRUPTED);
        }
        told
    };
    Texts {
        text: tell(TEXT_CHARS_MAX),
        brief: tell(BRIEF_CHARS_MAX),
        gist: tell(GIST_CHARS_MAX),
    }
}

fn candidates(batch: &Batch, run: &[Reading]) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = run
        .iter()
        .flat_map(|reading| {
            reading
                .clauses
                .iter()
                .enumerate()
                .map(move |(at, clause)| said(reading, at, clause))
        })
        .collect();
    if candidates.len() > CANDIDATES_MAX {
        let worth = |candidate: &Candidate| {
            candidate.prior * (candidate.own + batch.vocabulary.weight_of(&candidate.terms))
        };
        let mut worths: Vec<f64> = candidates.iter().map(worth).collect();
        worths.sort_unstable_by(f64::total_cmp);
        let least = worths
            .get(worths.len() - CANDIDATES_MAX)
            .copied()
            .unwrap_or_default();
        candidates.retain(|candidate| worth(candidate) >= least);
        candidates.truncate(CANDIDATES_MAX);
    }
    candidates.extend(done(batch, run));
    candidates
}

fn said(reading: &Reading, at: usize, clause: &Clause) -> Candidate {
    let voice = match clause.source {
        Source::Failure => Voice::Failure,
        _ if reading.is_talk => Voice::Speaker(clause.speaker.clone()),
        Source::User => Voice::User,
        Source::Model => Voice::Model,
    };
    Candidate {
        own: if clause.source == Source::Failure {
            FAILURE_GAIN
        } else {
            0.0
        },
        terms: clause.terms.clone(),
        covers: Vec::new(),
        prior: clause.prior,
        piece: Piece {
            place: (reading.index, clause.line, at),
            voice,
            text: clause.text.clone(),
        },
    }
}

/// The calls of a run, folded by tool: `tool ×3 (a, b, c)`.
fn done(batch: &Batch, run: &[Reading]) -> Vec<Candidate> {
    let mut folded: Vec<Folded<'_>> = Vec::new();
    for reading in run {
        for call in &reading.calls {
            let at = folded.iter().position(|tool| tool.name == call.name);
            let tool = match at.and_then(|at| folded.get_mut(at)) {
                Some(tool) => tool,
                None => {
                    folded.push(Folded::new(&call.name, (reading.index, call.line, 0)));
                    let Some(tool) = folded.last_mut() else { continue };
                    tool
                }
            };
            tool.calls += 1;
            tool.values.extend(&call.values);
        }
    }
    folded.into_iter().map(|tool| tool.candidate(batch)).collect()
}

/// The calls of one tool in a run.
struct Folded<'a> {
    name: &'a str,
    place: (usize, usize, usize),
    calls: usize,
    values: Vec<&'a Telling>,
}

impl<'a> Folded<'a> {
    fn new(name: &'a str, place: (usize, usize, usize)) -> Self {
        Self {
            name,
            place,
            calls: 0,
            values: Vec::new(),
        }
    }

    fn candidate(&self, batch: &Batch) -> Candidate {
        let influence = batch.profiles.influence(self.name);
        let values_max = if influence >= INFLUENCE_TELLING { 6 } else { 3 };
        let shown = telling(&self.values, values_max);
        let times = if self.calls > 1 {
            format!(" ×{}", self.calls)
        } else {
            String::new()
        };
        let values = if shown.is_empty() {
            String::new()
        } else {
            format!("({})", shown.join(", "))
        };
        Candidate {
            own: 0.4 + CALL_GAIN * influence * influence,
            terms: Vec::new(),
            covers: batch.vocabulary.known(&format!(
                "{} {}",
                self.name.replace(['_', '-', '.'], " "),
                shown.join(" ")
            )),
            prior: 1.0,
            piece: Piece {
                place: self.place,
                voice: Voice::Call,
                text: format!("{}{times}{values}", self.name),
            },
        }
    }
}

/// The most telling of `values`, each once, in their order.
fn telling<'a>(values: &[&'a Telling], values_max: usize) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let mut distinct: Vec<(usize, &Telling)> = values
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, value)| seen.insert(value.text.as_str()))
        .collect();
    distinct.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));
    distinct.truncate(values_max);
    distinct.sort_by_key(|(at, _)| *at);
    distinct
        .into_iter()
        .map(|(_, value)| value.text.as_str())
        .collect()
}

/// The pieces that tell most within `chars_max`: first the anchors (change, aim, outcome), then greedily by what each
/// adds to what is already told, for its length.
fn choose(batch: &Batch, candidates: &[Candidate], chars_max: usize) -> Vec<Piece> {
    let mut told = Told::new(batch, chars_max);
    for (at, share) in anchors(batch, candidates, chars_max) {
        told.take(candidates, at, share);
    }
    while let Some(at) = told.next(candidates) {
        told.take(candidates, at, PIECE_CHARS_MAX);
    }
    told.pieces
}

/// Which pieces come first, with the characters each may take: in a task the most influential change, the aim
/// and the last outcome; in talk none.
fn anchors(batch: &Batch, candidates: &[Candidate], chars_max: usize) -> Vec<(usize, usize)> {
    let worth = |candidate: &Candidate| candidate.prior * batch.vocabulary.weight_of(&candidate.terms);
    let of = |voice: Voice| {
        candidates
            .iter()
            .enumerate()
            .filter(move |(_, one)| one.piece.voice == voice)
    };
    let aim = of(Voice::User)
        .find(|(_, one)| one.prior >= 0.5 && batch.vocabulary.plain_words(&one.terms) >= AIM_WORDS_MIN)
        .or_else(|| of(Voice::User).max_by(|(_, a), (_, b)| worth(a).total_cmp(&worth(b))));
    let change = of(Voice::Call)
        .filter(|(_, one)| one.own >= 0.4 + CALL_GAIN * INFLUENCE_TELLING * INFLUENCE_TELLING)
        .max_by(|(_, a), (_, b)| a.own.total_cmp(&b.own));
    let last = of(Voice::Model).map(|(_, one)| one.piece.place.0).max();
    let outcome = of(Voice::Model)
        .filter(|(_, one)| Some(one.piece.place.0) == last && worth(one) >= 1.5)
        .max_by(|(_, a), (_, b)| worth(a).total_cmp(&worth(b)));
    [(change, chars_max / 2), (aim, chars_max), (outcome, chars_max)]
        .into_iter()
        .filter_map(|(found, share)| found.map(|(at, _)| (at, share.min(PIECE_CHARS_MAX))))
        .collect()
}

/// What is told so far.
struct Told<'a> {
    batch: &'a Batch,
    room: usize,
    gain_min: f64,
    taken: HashSet<usize>,
    words: HashSet<Term>,
    pieces: Vec<Piece>,
}

impl<'a> Told<'a> {
    fn new(batch: &'a Batch, room: usize) -> Self {
        Self {
            batch,
            room,
            gain_min: GAIN_MIN.max(GAIN_MIN_SHORT / number(room.max(1)).sqrt()),
            taken: HashSet::new(),
            words: HashSet::new(),
            pieces: Vec::new(),
        }
    }

    /// The candidate that adds most for its length, if any fits and adds something.
    fn next(&self, candidates: &[Candidate]) -> Option<usize> {
        candidates
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.taken.contains(at))
            .filter_map(|(at, candidate)| Some((at, self.rate(candidate)?)))
            .fold(None, |best: Option<(usize, f64)>, one| match best {
                Some(best) if best.1 >= one.1 => Some(best),
                _ => Some(one),
            })
            .map(|(at, _)| at)
    }

    /// What a candidate adds for its length; `None` if that is nothing, or it doesn't fit.
    fn rate(&self, candidate: &Candidate) -> Option<f64> {
        let news: f64 = candidate
            .terms
            .iter()
            .filter(|term| !self.words.contains(term))
            .map(|&term| self.batch.vocabulary.weight(term))
            .sum();
        let gain = candidate.prior * (candidate.own + news);
        let chars = candidate.piece.chars().min(PIECE_CHARS_MAX) + JOINT_CHARS;
        let cut = if chars <= self.room {
            1.0
        } else if self.room >= ROOM_CHARS_MIN && self.room * 2 >= chars {
            0.6
        } else {
            return None;
        };
        let length = number(chars + 12).powf(LENGTH_EXPONENT);
        (gain >= self.gain_min).then_some(cut * gain / length)
    }

    /// Tells a candidate in at most `share` characters.
    fn take(&mut self, candidates: &[Candidate], at: usize, share: usize) {
        let Some(candidate) = candidates.get(at).filter(|_| self.taken.insert(at)) else {
            return;
        };
        let room = share.min(self.room.saturating_sub(JOINT_CHARS));
        let piece = candidate.piece.fitted(room);
        let is_stump = piece.chars() * 2 < candidate.piece.chars().min(PIECE_CHARS_MAX);
        if piece.text.is_empty()
            || (is_stump && !self.pieces.is_empty() && candidate.piece.voice != Voice::User)
        {
            return;
        }
        self.room = self.room.saturating_sub(piece.chars() + JOINT_CHARS);
        self.words.extend(&candidate.terms);
        self.words.extend(&candidate.covers);
        self.pieces.push(piece);
    }
}
