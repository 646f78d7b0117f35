//! Writes the three texts of an item from the most informative clauses and calls of a run that fit each limit, in order.

use std::collections::HashSet;

use super::{
    candidates::{self, CallStyle, Candidate},
    reading::{Corpus, ExchangeReading},
    render::{self, PieceVoice, TextPiece},
    weigh::{Term, number},
};
use recapd_core::domain::summary::item::{BRIEF_CHARS_MAX, GIST_CHARS_MAX, TEXT_CHARS_MAX};

const TEXT_CALLS: CallStyle = CallStyle { values_max: 6, spans_turns: false };
const BRIEF_CALLS: CallStyle = CallStyle { values_max: 4, spans_turns: false };
const GIST_CALLS: CallStyle = CallStyle { values_max: 4, spans_turns: true };
/// How many characters one more piece takes for its joint.
const JOINT_CHARS: usize = 4;
const PIECE_CHARS_MAX: usize = 260;
/// A piece isn't cut to less than this many characters.
const ROOM_CHARS_MIN: usize = 40;
/// A piece that adds less than this says nothing new. In short texts each piece must add more, see [`GAIN_MIN_SHORT`].
const GAIN_MIN: f64 = 0.4;
/// The required gain for a text of one character. It falls with the square root of the length.
const GAIN_MIN_SHORT: f64 = 20.0;
/// How much the length of a piece counts against it: 0 not at all, 1 in proportion.
const LENGTH_EXPONENT: f64 = 0.75;
/// The prior that an aim must have at least. A phrase, a single word or an announcement has less.
const AIM_PRIOR_MIN: f64 = 0.25;
/// A change comes before the outcome if its value is at least this share of the highest one.
const CHANGE_SHARE_MIN: f64 = 0.6;
const CHANGES_MAX: usize = 3;
/// The model's last words are an outcome if their weight is at least this.
const OUTCOME_WORTH_MIN: f64 = 1.5;
/// The aim is the user's first sentence with at least this many ordinary words. A name or an id alone is not an aim.
const AIM_WORDS_MIN: usize = 2;
const POINT_CHARS_MIN: usize = 160;
/// The text of an item whose exchanges contain nothing to summarise.
const NO_TEXT: &str = "(no text)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Texts {
    pub(super) text: String,
    pub(super) brief: String,
    pub(super) gist: String,
}

impl Texts {
    /// Replaces an empty text with `quotation`.
    pub(super) fn or_quote(self, quotation: &str) -> Self {
        let quoted = |text: String| match text.strip_prefix(NO_TEXT) {
            Some(rest) if !quotation.is_empty() => format!("“{quotation}”{rest}"),
            _ => text,
        };
        Self { text: quoted(self.text), brief: quoted(self.brief), gist: quoted(self.gist) }
    }
}

/// Writes the detailed text of a long run: a point for each exchange, as long as its share of the words.
pub(super) fn long_text(batch: &Corpus, run: &[ExchangeReading], chars_max: usize) -> String {
    let total_bytes = run.iter().fold(0_usize, |sum, reading| sum.saturating_add(reading.text_bytes)).max(1);
    let points = run.iter().map(|reading| {
        let share = (chars_max.saturating_mul(reading.text_bytes) / total_bytes)
            .clamp(POINT_CHARS_MIN, TEXT_CHARS_MAX);
        write_text(batch, std::slice::from_ref(reading), (share, TEXT_CALLS))
    });
    points.filter(|point| point != NO_TEXT).collect::<Vec<_>>().join("\n")
}

pub(super) fn texts(batch: &Corpus, run: &[ExchangeReading]) -> Texts {
    Texts {
        text: write_text(batch, run, (TEXT_CHARS_MAX, TEXT_CALLS)),
        brief: write_text(batch, run, (BRIEF_CHARS_MAX, BRIEF_CALLS)),
        gist: write_text(batch, run, (GIST_CHARS_MAX, GIST_CALLS)),
    }
}

/// Writes one line about a run, in at most `chars_max` characters, with calls in the given style.
fn write_text(batch: &Corpus, run: &[ExchangeReading], (chars_max, style): (usize, CallStyle)) -> String {
    // Either all exchanges of a run are interrupted, or none is.
    let interrupted = run.iter().any(|reading| reading.interrupted);
    let candidates = candidates::of(batch, run, style);
    let mark = if interrupted { render::INTERRUPTED } else { "" };
    let chars_max = chars_max - mark.len();
    let chosen = choose(batch, &candidates, chars_max);
    let mut text = render::line(&chosen, chars_max);
    if text.is_empty() {
        NO_TEXT.clone_into(&mut text);
    }
    text + mark
}

/// Picks the pieces of a text: first the anchors (changes, aim, outcome), then again and again the piece that adds most for its
/// length.
fn choose(batch: &Corpus, candidates: &[Candidate], chars_max: usize) -> Vec<TextPiece> {
    let mut story = StoryState::new(batch, chars_max);
    for (index, share) in anchors(batch, candidates, chars_max) {
        story.take(candidates, index, share);
    }
    while let Some(index) = story.next(candidates) {
        story.take(candidates, index, PIECE_CHARS_MAX);
    }
    story.pieces
}

/// Returns the pieces that come first, each with its limit in characters. In a task these are the greatest change (so that the
/// aim leaves room for it), the aim, further changes, the last outcome. In talk there are none.
fn anchors(batch: &Corpus, candidates: &[Candidate], chars_max: usize) -> Vec<(usize, usize)> {
    let mut anchors: Vec<(usize, usize)> =
        changes(candidates).into_iter().map(|index| (index, chars_max / 2)).collect();
    let second = anchors.len().min(1);
    anchors.splice(second..second, aim(batch, candidates).map(|index| (index, chars_max)));
    anchors.extend(outcome(batch, candidates).map(|index| (index, chars_max)));
    anchors.into_iter().map(|(index, share)| (index, share.min(PIECE_CHARS_MAX))).collect()
}

fn with_voice(candidates: &[Candidate], voice: PieceVoice) -> impl Iterator<Item = (usize, &Candidate)> {
    candidates.iter().enumerate().filter(move |(_, candidate)| candidate.piece.voice == voice)
}

fn worth(batch: &Corpus, candidate: &Candidate) -> f64 {
    candidate.prior * batch.vocabulary.weight_of(&candidate.terms)
}

fn aim(batch: &Corpus, candidates: &[Candidate]) -> Option<usize> {
    let is_aim = |candidate: &Candidate| {
        candidate.prior >= AIM_PRIOR_MIN && batch.vocabulary.plain_words(&candidate.terms) >= AIM_WORDS_MIN
    };
    let user_pieces = || with_voice(candidates, PieceVoice::User);
    user_pieces()
        .find(|(_, candidate)| is_aim(candidate))
        .or_else(|| user_pieces().max_by(|(_, a), (_, b)| worth(batch, a).total_cmp(&worth(batch, b))))
        .map(|(index, _)| index)
}

/// Returns the greatest changes, in descending order.
fn changes(candidates: &[Candidate]) -> Vec<usize> {
    let mut changes: Vec<(usize, &Candidate)> =
        with_voice(candidates, PieceVoice::Call).filter(|(_, candidate)| candidate.is_change).collect();
    changes.sort_by(|(_, a), (_, b)| b.base_value.total_cmp(&a.base_value));
    // Next to a great change, a small one is more likely a look-up.
    let base_value_min =
        changes.first().map_or(0.0, |(_, candidate)| candidate.base_value * CHANGE_SHARE_MIN);
    changes
        .into_iter()
        .filter(|(_, candidate)| candidate.base_value >= base_value_min)
        .take(CHANGES_MAX)
        .map(|(index, _)| index)
        .collect()
}

/// Returns the most informative sentence of the model in the last exchange in which it speaks.
fn outcome(batch: &Corpus, candidates: &[Candidate]) -> Option<usize> {
    let exchange = |candidate: &Candidate| candidate.piece.position.0;
    let last = with_voice(candidates, PieceVoice::Model).map(|(_, candidate)| exchange(candidate)).max()?;
    with_voice(candidates, PieceVoice::Model)
        .filter(|(_, candidate)| exchange(candidate) == last && worth(batch, candidate) >= OUTCOME_WORTH_MIN)
        .max_by(|(_, a), (_, b)| worth(batch, a).total_cmp(&worth(batch, b)))
        .map(|(index, _)| index)
}

struct StoryState<'a> {
    batch: &'a Corpus,
    room: usize,
    gain_min: f64,
    taken_indices: HashSet<usize>,
    terms: HashSet<Term>,
    pieces: Vec<TextPiece>,
}

impl<'a> StoryState<'a> {
    fn new(batch: &'a Corpus, room: usize) -> Self {
        Self {
            batch,
            room,
            gain_min: GAIN_MIN.max(GAIN_MIN_SHORT / number(room.max(1)).sqrt()),
            taken_indices: HashSet::new(),
            terms: HashSet::new(),
            pieces: Vec::new(),
        }
    }

    /// Returns the candidate that adds most for its length; `None` if none fits or none adds anything.
    fn next(&self, candidates: &[Candidate]) -> Option<usize> {
        candidates
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.taken_indices.contains(index))
            .filter_map(|(index, candidate)| Some((index, self.rate(candidate)?)))
            .fold(None, |best: Option<(usize, f64)>, one| match best {
                Some(best) if best.1 >= one.1 => Some(best),
                _ => Some(one),
            })
            .map(|(index, _)| index)
    }

    /// Returns a candidate's gain for its length; `None` if it adds too little or doesn't fit.
    fn rate(&self, candidate: &Candidate) -> Option<f64> {
        let news: f64 = candidate
            .terms
            .iter()
            .filter(|term| !self.terms.contains(term))
            .map(|&term| self.batch.vocabulary.weight(term))
            .sum();
        let gain = candidate.prior * (candidate.base_value + news);
        let chars = candidate.piece.chars().min(PIECE_CHARS_MAX) + JOINT_CHARS;
        let cut = if chars <= self.room {
            1.0
        } else if self.pieces.is_empty() && self.room >= ROOM_CHARS_MIN && self.room * 2 >= chars {
            0.6
        } else {
            return None;
        };
        let length = number(chars + 12).powf(LENGTH_EXPONENT);
        (gain >= self.gain_min).then_some(cut * gain / length)
    }

    /// Adds a candidate to the text, in at most `share` characters.
    fn take(&mut self, candidates: &[Candidate], index: usize, share: usize) {
        let Some(candidate) = candidates.get(index).filter(|_| self.taken_indices.insert(index)) else {
            return;
        };
        let room = share.min(self.room.saturating_sub(JOINT_CHARS));
        let piece = candidate.piece.fitted(room);
        let is_stump = piece.chars() * 2 < candidate.piece.chars().min(PIECE_CHARS_MAX);
        if piece.text.is_empty()
            || (is_stump && !self.pieces.is_empty() && candidate.piece.voice != PieceVoice::User)
        {
            return;
        }
        self.room = self.room.saturating_sub(piece.chars() + JOINT_CHARS);
        self.terms.extend(&candidate.terms);
        self.terms.extend(&candidate.covers);
        self.pieces.push(piece);
    }
}
