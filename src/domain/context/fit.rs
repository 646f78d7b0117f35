//! Fitting a context into its limit: the oldest exchanges are left out whole, never the newest; within that one, the
//! longest tool results are shortened.

use super::{
    Alternation, CONTINUATION, Context, ContextInput, ContextOptions, Passes, Piece, Reason, Role, SHARE_MAX,
    SourceExchange, SourceMessage, Thinking, Turn, alternation,
    copies::{Chosen, Copies},
    draft, elide,
    last_n::walk,
    pairs,
    passes::Pass,
};
use crate::domain::{
    exchange::PREAMBLE,
    message::Part,
    perspective::{Mode, Perspective},
    text::head_tail,
    tokens::TokenCounter,
};

/// The most characters of the anchor, whatever its share.
const ANCHOR_CHARS_MAX: usize = 100_000;
/// An anchor of which there is no room for so many characters tells nobody what the task was: it is left out.
const ANCHOR_CHARS_MIN: usize = 80;

/// What goes where, before it is put together.
struct Plan<'i, 'a> {
    input: &'i ContextInput<'a>,
    options: &'i ContextOptions,
    counter: &'i dyn TokenCounter,
    passes: Passes,
    preamble: Vec<Turn<'a>>,
    anchor: Option<Piece<'a>>,
    copies: Copies<'a>,
    summary: Option<Piece<'a>>,
    body: Vec<Turn<'a>>,
}

/// What follows a turn: the next turn of any kind, and the next one that isn't instructions.
#[derive(Clone, Copy, Default)]
struct Neighbours {
    turn: Option<Role>,
    said: Option<Role>,
}

/// Builds the context with the given thinking.
pub(super) fn fit<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    thinking: Thinking,
    counter: &dyn TokenCounter,
    passes: Passes,
) -> Context<'a> {
    let mut plan = Plan::new(input, options, thinking, counter, passes);
    let limit = options.limit_tokens();
    let start = plan.start(limit.filter(|_| passes.has(Pass::Fitting)));
    let newest = input.exchanges.len().saturating_sub(1);
    plan.drop_before(start);
    let excess = limit.map_or(0, |limit| plan.cost(start) - limit);
    let elided = if start == newest && excess > 0 {
        elide::elide(&mut plan.body, excess, counter)
    } else {
        Vec::new()
    };
    let unread = input.left_out.iter().copied();
    let left_out = unread.chain(numbers(&input.exchanges[..start])).collect();
    let chosen = plan.choose(start);
    let copied = chosen.taken.iter().map(|&at| plan.copies.seq(at)).collect();
    let left_copies = chosen.left;
    let turns = plan.assemble(start);
    let tokens = turns.iter().map(|turn| turn.tokens(counter)).sum();
    Context {
        turns,
        tokens,
        limit_tokens: limit,
        over_budget: limit.is_some_and(|limit| tokens > limit),
        left_out,
        copied,
        left_copies,
        elided,
    }
}

fn numbers(exchanges: &[SourceExchange<'_>]) -> impl DoubleEndedIterator<Item = i64> {
    exchanges.iter().map(|exchange| exchange.exchange)
}

impl<'i, 'a> Plan<'i, 'a> {
    fn new(
        input: &'i ContextInput<'a>,
        options: &'i ContextOptions,
        thinking: Thinking,
        counter: &'i dyn TokenCounter,
        passes: Passes,
    ) -> Self {
        let of_preamble = input.preamble.iter();
        let preamble: Vec<draft::Draft<'a>> = of_preamble
            .flat_map(|&message| draft::of_message(message, PREAMBLE, false, input.perspective))
            .collect();
        let drafts: Vec<draft::Draft<'a>> = input
            .exchanges
            .iter()
            .flat_map(|exchange| draft::of_exchange(exchange, thinking, input.perspective))
            .collect();
        let mut plan = Self {
            input,
            options,
            counter,
            passes,
            preamble: pairs::repair(&preamble, passes),
            anchor: options.anchor.then(|| anchor(input, options, counter)).flatten(),
            copies: Copies::new(input, counter),
            summary: input
                .summary
                .as_ref()
                .map(|text| Piece::text(Reason::Summary, text)),
            body: pairs::repair(&drafts, passes),
        };
        // Whose the results are that aren't seen for sure, nobody here knows: nobody waits for the model because of them.
        let is_said =
            |draft: &&draft::Draft<'_>| draft.role != Role::System && draft.sight == draft::Sight::Seen;
        let newest = drafts.iter().rfind(is_said);
        if newest.is_some_and(|newest| newest.role != Role::Assistant) {
            alternation::end_with_user(&mut plan.body);
        }
        let tells_speakers = options.names_speakers || input.perspective.is_some();
        if options.alternation == Alternation::Merge && !tells_speakers {
            alternation::name_speakers(&mut plan.body);
        }
        let turns = plan.preamble.iter_mut().chain(&mut plan.body);
        let pieces = turns.flat_map(|turn| &mut turn.pieces);
        let copies = plan.copies.pieces_mut();
        for piece in pieces
            .chain(&mut plan.anchor)
            .chain(copies)
            .chain(&mut plan.summary)
        {
            piece.measure(counter);
        }
        plan
    }

    /// The index of the first exchange that is sent.
    fn start(&self, limit: Option<i64>) -> usize {
        let (Some(limit), Some(newest)) = (limit, self.input.exchanges.len().checked_sub(1)) else {
            return 0;
        };
        let costs = self.costs_from();
        walk(0, newest, |at| self.fixed(at) + costs[at] <= limit)
    }

    /// The tokens of the exchanges from each index on, with the turns that may have to be put between them.
    fn costs_from(&self) -> Vec<i64> {
        let mut costs = vec![0; self.input.exchanges.len() + 1];
        let (mut at, mut sum) = (self.body.len(), 0);
        let mut next = Neighbours::default();
        for (index, exchange) in self.input.exchanges.iter().enumerate().rev() {
            while let Some(turn) = at.checked_sub(1).map(|before| &self.body[before]) {
                if turn.exchange < exchange.exchange {
                    break;
                }
                sum += turn.tokens(self.counter) + self.between(turn.role, next);
                // Instructions that move to the front don't separate their neighbours.
                if turn.role != Role::System || self.options.system_in_place {
                    next.turn = Some(turn.role);
                }
                if turn.role != Role::System {
                    next.said = Some(turn.role);
                }
                at -= 1;
            }
            costs[index] = sum;
        }
        costs
    }

    /// The tokens of everything but the exchanges, if these begin at index `start` of the window.
    fn fixed(&self, start: usize) -> i64 {
        let preamble = self
            .preamble
            .iter()
            .chain(&self.head(start))
            .map(|turn| turn.tokens(self.counter))
            .sum::<i64>();
        // There may be one more turn between head and window, or one before both; and a silence after them.
        let acknowledged = alternation::acknowledgement(PREAMBLE).tokens(self.counter);
        let opened = alternation::first_turn(self.opening(), PREAMBLE).tokens(self.counter);
        let answered = match (self.is_silent(), self.options.ends_with_user) {
            (true, _) => self.silence(),
            (false, true) => alternation::last_turn(PREAMBLE).tokens(self.counter),
            (false, false) => 0,
        };
        let named = self.names(start).and_then(|(_, next)| next);
        let named = named.map_or(0, |line| line.cost(self.counter));
        preamble + acknowledged.max(opened) + answered + named
    }

    /// The turns that have to be put between a turn of role `before` and its neighbours.
    fn between(&self, before: Role, next: Neighbours) -> i64 {
        let is_silence = |said| alternation::is_silence_between(Some(before), said);
        if self.is_silent() && next.said.is_some_and(is_silence) {
            return self.silence();
        }
        let clashes = next.turn.is_some_and(|next| alternation::clash(before, next));
        if clashes { self.acknowledgement() } else { 0 }
    }

    fn opening(&self) -> &'static str {
        let perspective = self.input.perspective;
        perspective.map_or(CONTINUATION, Perspective::opening)
    }

    fn is_silent(&self) -> bool {
        let perspective = self.input.perspective;
        perspective.is_some_and(|perspective| perspective.mode() == Mode::Meditation)
    }

    fn silence(&self) -> i64 {
        alternation::silence(PREAMBLE).tokens(self.counter)
    }

    fn cost(&self, start: usize) -> i64 {
        self.fixed(start) + self.costs_from()[start]
    }

    fn acknowledgement(&self) -> i64 {
        match self.options.alternation {
            Alternation::Ack => alternation::acknowledgement(PREAMBLE).tokens(self.counter),
            Alternation::Merge | Alternation::Keep => 0,
        }
    }

    fn drop_before(&mut self, start: usize) {
        let first = self.input.exchanges.get(start).map_or(0, |first| first.exchange);
        self.body.retain(|turn| turn.exchange >= first);
    }

    /// The copies that are sent if the exchanges begin at index `start` of the window.
    fn choose(&self, start: usize) -> Chosen {
        let first = self.input.exchanges.get(start);
        let first_exchange = first.map_or(i64::MAX, |first| first.exchange);
        let anchor = self.input.anchor.filter(|_| self.anchor.is_some());
        let max_tokens = self.options.copies_max_tokens();
        self.copies
            .choose(first_exchange, anchor.map(|anchor| anchor.seq), max_tokens)
    }

    /// The anchor, if the exchanges from index `start` on don't hold it.
    fn anchor_before(&self, start: usize) -> Option<&Piece<'a>> {
        let first = self.input.exchanges.get(start);
        let first_seq = first.and_then(|exchange| exchange.messages.first());
        let is_away = |anchor: &SourceMessage<'_>| first_seq.is_none_or(|first| anchor.seq < first.seq);
        self.anchor
            .as_ref()
            .filter(|_| self.input.anchor.as_ref().is_some_and(is_away))
    }

    /// The index of the first turn behind the head, if the exchanges begin at index `start` of the window.
    fn first_turn(&self, start: usize) -> Option<usize> {
        let first = self.input.exchanges.get(start)?.exchange;
        let from = self.body.partition_point(|turn| turn.exchange < first);
        let stays = |&at: &usize| self.options.system_in_place || self.body[at].role != Role::System;
        (from..self.body.len()).find(stays)
    }

    /// The lines that say whose the anchor is, and whose the window's first words are that follow it, if need be.
    fn names(&self, start: usize) -> Option<(Piece<'a>, Option<Piece<'a>>)> {
        let names_speakers = self.options.names_speakers;
        let become_one = self.options.alternation == Alternation::Merge;
        if self.input.perspective.is_some() || !(names_speakers || become_one) {
            return None;
        }
        let anchor = self.anchor_before(start)?;
        let next = &self.body[self.first_turn(start)?];
        let (before, line) =
            alternation::name_lines(anchor.speaker, next).filter(|_| next.role == Role::User)?;
        // Where turns name their speakers, one without a name becomes one with the head all the same.
        let is_joined = become_one && (!names_speakers || next.speaker().is_none());
        Some((before, line.filter(|_| is_joined)))
    }

    /// The user's turn between preamble and window: anchor, copies, summary, and the note of what was left out.
    fn head(&self, start: usize) -> Option<Turn<'a>> {
        let input = self.input;
        let left_out = left_out_note(&input.left_out, &input.exchanges[..start]);
        let left_out = left_out.iter().map(|text| Piece::text(Reason::LeftOut, text));
        let chosen = self.choose(start);
        let copies = chosen.taken.iter().filter_map(|&at| self.copies.piece(at));
        let anchor = self.anchor_before(start).into_iter();
        let kept = anchor.chain(copies).chain(&self.summary).cloned();
        let name = self.names(start).map(|(before, _)| before);
        let pieces: Vec<Piece<'a>> = name.into_iter().chain(kept).chain(left_out).collect();
        (!pieces.is_empty()).then(|| Turn::new(Role::User, PREAMBLE, pieces))
    }

    fn assemble(mut self, start: usize) -> Vec<Turn<'a>> {
        let head = self.head(start);
        if let (Some((_, Some(line))), Some(first)) = (self.names(start), self.first_turn(start)) {
            self.body[first].pieces.insert(0, line);
        }
        let (mode, in_place) = (self.options.alternation, self.options.system_in_place);
        let (opening, is_silent) = (self.opening(), self.is_silent());
        let opens_itself = self.input.perspective.is_some();
        let ends_with_user = self.options.ends_with_user;
        // A perspective tells who speaks by itself.
        let by_speaker = self.options.names_speakers && !opens_itself;
        let stays = |turn: &Turn<'a>| in_place || turn.role != Role::System;
        let (body, hoisted): (Vec<_>, Vec<_>) = self.body.into_iter().partition(stays);
        let mut turns: Vec<Turn<'a>> = self
            .preamble
            .into_iter()
            .chain(hoisted)
            .chain(head)
            .chain(body)
            .collect();
        if self.passes.has(Pass::FirstTurn) {
            alternation::begin_with_user(&mut turns, opening);
        }
        if opens_itself && turns.iter().all(|turn| turn.role == Role::System) {
            turns.push(alternation::first_turn(opening, PREAMBLE));
        }
        if is_silent {
            turns = alternation::answer_with_silence(turns);
        }
        if ends_with_user && let Some(last) = turns.last().filter(|last| last.role == Role::Assistant) {
            turns.push(alternation::last_turn(last.exchange));
        }
        if self.passes.has(Pass::Alternation) {
            turns = alternation::repair(turns, mode, by_speaker);
        }
        turns
    }
}

/// The first message of the session, its images named; if it takes more than its share, its text without the middle, if it
/// has one. Images were for then: sent again each time they would take the room of those that are talked about now.
fn anchor<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    counter: &dyn TokenCounter,
) -> Option<Piece<'a>> {
    let drafts = draft::of_message(input.anchor?, PREAMBLE, false, input.perspective);
    let draft = drafts.into_iter().find(|draft| draft.role == Role::User)?;
    let has_images = draft
        .parts
        .iter()
        .any(|part| matches!(part, Part::Attachment { .. }));
    let piece = if has_images {
        draft.share(draft.parts.iter().map(with_image_named).collect())
    } else {
        draft.piece()
    };
    let said: Vec<&str> = draft.parts.iter().filter_map(text_of).collect();
    let said = said.join("\n");
    let said = said.trim();
    let share = options.limit_tokens().map(|limit| limit / SHARE_MAX);
    let is_within = share.is_none_or(|share| piece.cost(counter) <= share);
    if is_within && said.chars().nth(ANCHOR_CHARS_MAX).is_none() {
        return Some(piece);
    }
    // A token is a character or more, but for rare ones.
    let chars = share.map_or(ANCHOR_CHARS_MAX, |share| usize::try_from(share).unwrap_or(0));
    let chars = chars.min(ANCHOR_CHARS_MAX);
    let text = head_tail(said, chars * 2 / 3, chars / 3);
    let says_enough = text == said || chars >= ANCHOR_CHARS_MIN;
    (says_enough && !text.is_empty()).then(|| draft.share(vec![Part::Text(text)]))
}

fn with_image_named(part: &Part) -> Part {
    match part {
        Part::Attachment { media, .. } => Part::Text(format!("[attachment: {media}]")),
        part => part.clone(),
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        _ => None,
    }
}

/// The note of exchanges that neither window nor summary shows the model: those that weren't read, and `exchanges`
/// after them.
fn left_out_note(unread: &[i64], exchanges: &[SourceExchange<'_>]) -> Option<String> {
    let mut left_out = unread.iter().copied().chain(numbers(exchanges));
    let first = left_out.next()?;
    let last = left_out.next_back().unwrap_or(first);
    Some(if first == last {
        format!("[exchange #{first} is left out here, to keep within the budget]")
    } else {
        format!("[exchanges #{first} to #{last} are left out here, to keep within the budget]")
    })
}
