//! Plans a context: places each part, counts its tokens, and assembles the turns.

use super::{
    Alternation, CONTINUATION, ContextInput, ContextOptions, Elision, Passes, Piece, Reason, SourceExchange,
    SourceMessage, Thinking, Turn, alternation,
    anchor::anchor,
    copies::{Copies, CopySelection},
    draft, own_answers, pairs,
    passes::Pass,
    request::{RequestCopy, Requests},
};
use crate::domain::{
    exchange::PREAMBLE,
    message::Role,
    perspective::{Mode, Perspective},
    tokens::TokenCounter,
};

pub(super) struct Plan<'i, 'a> {
    pub(super) input: &'i ContextInput<'a>,
    pub(super) options: &'i ContextOptions,
    pub(super) counter: &'i dyn TokenCounter,
    passes: Passes,
    preamble: Vec<Turn<'a>>,
    anchor: Option<Piece<'a>>,
    requests: Requests<'a>,
    pub(super) copies: Copies<'a>,
    summary: Option<Piece<'a>>,
    pub(super) body: Vec<Turn<'a>>,
    /// recapd's own answers that are shortened in the body.
    pub(super) own_answers: Vec<Elision>,
}

/// The roles before a turn.
#[derive(Clone, Copy, Default)]
pub(super) struct EarlierRoles {
    /// The role of the turn right before it.
    turn: Option<Role>,
    /// The role of the last turn before it that isn't instructions.
    spoken: Option<Role>,
}

pub(super) fn numbers(exchanges: &[SourceExchange<'_>]) -> impl DoubleEndedIterator<Item = i64> {
    exchanges.iter().map(|exchange| exchange.exchange)
}

impl<'i, 'a> Plan<'i, 'a> {
    pub(super) fn new(
        input: &'i ContextInput<'a>,
        options: &'i ContextOptions,
        thinking: Thinking,
        counter: &'i dyn TokenCounter,
        passes: Passes,
    ) -> Self {
        let preamble_messages = input.preamble.iter();
        let preamble: Vec<draft::Draft<'a>> = preamble_messages
            .flat_map(|&message| draft::message_drafts(message, PREAMBLE, false, input.perspective))
            .collect();
        let drafts = draft::window_drafts(input, thinking);
        let mut body = pairs::repair(&drafts, passes);
        let own_answers = own_answers::shorten(&mut body, input.passed_before);
        let mut plan = Self {
            input,
            options,
            counter,
            passes,
            preamble: pairs::repair(&preamble, passes),
            anchor: options.anchor.then(|| anchor(input, options, counter)).flatten(),
            requests: Requests::new(input, options, counter),
            copies: Copies::new(input, counter),
            summary: input.summary.as_ref().map(|text| Piece::text(Reason::Summary, text)),
            body,
            own_answers,
        };
        // Results that the speaker may not see have unknown callers. They don't mean that the model must answer.
        let is_visible = |draft: &&draft::Draft<'_>| {
            draft.role != Role::System && draft.visibility == draft::Visibility::Visible
        };
        let newest = drafts.iter().rfind(is_visible);
        if newest.is_some_and(|newest| newest.role != Role::Assistant) {
            alternation::end_with_user(&mut plan.body);
        }
        let is_naming_speakers = options.names_speakers || input.perspective.is_some();
        if options.alternation == Alternation::Merge && !is_naming_speakers {
            alternation::name_speakers(&mut plan.body);
        }
        let turns = plan.preamble.iter_mut().chain(&mut plan.body);
        let pieces = turns.flat_map(|turn| &mut turn.pieces);
        let copies = plan.requests.pieces_mut().chain(plan.copies.pieces_mut());
        for piece in pieces.chain(&mut plan.anchor).chain(copies).chain(&mut plan.summary) {
            piece.measure(counter);
        }
        plan
    }

    /// Returns the tokens of everything but the exchanges. The exchanges begin at index `start` of the window.
    pub(super) fn fixed(&self, start: usize) -> i64 {
        let preamble =
            self.preamble.iter().chain(&self.head(start)).map(|turn| turn.tokens(self.counter)).sum::<i64>();
        // There may be one more turn between head and window or before both, and one of the user at the end.
        let acknowledgement = alternation::acknowledgement(PREAMBLE).tokens(self.counter);
        let opening = alternation::first_turn(self.opening(), PREAMBLE).tokens(self.counter);
        let ending = match (self.is_silent(), self.options.ends_with_user) {
            (true, _) => self.silence(),
            (false, true) => alternation::last_turn(PREAMBLE).tokens(self.counter),
            (false, false) => 0,
        };
        let name_line = self.names(start).and_then(|(_, next)| next);
        let name = name_line.map_or(0, |line| line.cost(self.counter));
        preamble + acknowledgement.max(opening) + ending + name
    }

    /// Returns the tokens of the turns that alternation puts before a turn of that role. Then adds the role to `earlier`.
    pub(super) fn between(&self, earlier: &mut EarlierRoles, role: Role) -> i64 {
        let is_silence = self.is_silent() && alternation::is_silence_between(earlier.spoken, role);
        let clashes = earlier.turn.is_some_and(|previous| alternation::clash(previous, role));
        // Instructions that move to the front don't separate their neighbours.
        if role != Role::System || self.options.system_in_place {
            earlier.turn = Some(role);
        }
        if role != Role::System {
            earlier.spoken = Some(role);
        }
        match (is_silence, clashes) {
            (true, _) => self.silence(),
            (false, true) => self.acknowledgement(),
            (false, false) => 0,
        }
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

    fn acknowledgement(&self) -> i64 {
        match self.options.alternation {
            Alternation::Ack => alternation::acknowledgement(PREAMBLE).tokens(self.counter),
            Alternation::Merge | Alternation::Keep => 0,
        }
    }

    pub(super) fn drop_before(&mut self, start: usize) {
        let first = self.input.exchanges.get(start).map_or(0, |first| first.exchange);
        self.body.retain(|turn| turn.exchange >= first);
        self.own_answers.retain(|answer| answer.exchange >= first);
    }

    /// Chooses the copies to send if the exchanges begin at index `start` of the window.
    pub(super) fn choose_copies(&self, start: usize) -> CopySelection {
        let first = self.input.exchanges.get(start);
        let first_exchange = first.map_or(i64::MAX, |first| first.exchange);
        let anchor = self.input.anchor.filter(|_| self.anchor.is_some());
        let anchor = anchor.map(|anchor| anchor.seq);
        let request = self.request_before(start).map(|request| request.seq);
        let sent: Vec<i64> = anchor.into_iter().chain(request).collect();
        self.copies.choose(first_exchange, &sent, self.options.copies_max_tokens())
    }

    /// Returns the copy of the request that the exchanges from index `start` on work on; `None` if they have the request themselves, or if
    /// the anchor is that request.
    fn request_before(&self, start: usize) -> Option<&RequestCopy<'a>> {
        let request = self.requests.before(self.input.exchanges.get(start)?)?;
        let is_anchor = self.anchor_before(start).is_some()
            && self.input.anchor.is_some_and(|anchor| anchor.seq == request.seq);
        (!is_anchor).then_some(request)
    }

    /// Returns the anchor; `None` if the exchanges from index `start` on have it.
    fn anchor_before(&self, start: usize) -> Option<&Piece<'a>> {
        let first = self.input.exchanges.get(start);
        let first_seq = first.and_then(|exchange| exchange.messages.first());
        let is_before_window =
            |anchor: &SourceMessage<'_>| first_seq.is_none_or(|first| anchor.seq < first.seq);
        self.anchor.as_ref().filter(|_| self.input.anchor.as_ref().is_some_and(is_before_window))
    }

    /// Returns the index of the first turn after the head. The exchanges begin at index `start` of the window.
    fn first_turn(&self, start: usize) -> Option<usize> {
        let first = self.input.exchanges.get(start)?.exchange;
        let from = self.body.partition_point(|turn| turn.exchange < first);
        let stays = |&index: &usize| self.options.system_in_place || self.body[index].role != Role::System;
        (from..self.body.len()).find(stays)
    }

    /// Returns the lines that name the speakers of the anchor and of the window's first words after it, if needed.
    fn names(&self, start: usize) -> Option<(Piece<'a>, Option<Piece<'a>>)> {
        let names_speakers = self.options.names_speakers;
        let merges_turns = self.options.alternation == Alternation::Merge;
        if self.input.perspective.is_some() || !(names_speakers || merges_turns) {
            return None;
        }
        let anchor = self.anchor_before(start)?;
        let next = &self.body[self.first_turn(start)?];
        let (anchor_line, next_line) =
            alternation::name_lines(anchor.speaker, next).filter(|_| next.role == Role::User)?;
        // Where turns name their speakers, a turn without a name is still merged with the head.
        let is_joined = merges_turns && (!names_speakers || next.speaker().is_none());
        Some((anchor_line, next_line.filter(|_| is_joined)))
    }

    /// Makes the user's turn between preamble and window: anchor, request, copies, summary, and the note of left-out exchanges.
    fn head(&self, start: usize) -> Option<Turn<'a>> {
        let input = self.input;
        let left_out = left_out_note(&input.left_out, &input.exchanges[..start]);
        let left_out = left_out.iter().map(|text| Piece::text(Reason::LeftOut, text));
        let selection = self.choose_copies(start);
        let copies = selection.chosen.iter().filter_map(|&index| self.copies.piece(index));
        let anchor = self.anchor_before(start).into_iter();
        let request = self.request_before(start).map(|request| &request.piece);
        let content = anchor.chain(request).chain(copies).chain(&self.summary).cloned();
        let name = self.names(start).map(|(anchor_line, _)| anchor_line);
        let pieces: Vec<Piece<'a>> = name.into_iter().chain(content).chain(left_out).collect();
        (!pieces.is_empty()).then(|| Turn::new(Role::User, PREAMBLE, pieces))
    }

    pub(super) fn assemble(mut self, start: usize) -> Vec<Turn<'a>> {
        let head = self.head(start);
        if let (Some((_, Some(line))), Some(first)) = (self.names(start), self.first_turn(start)) {
            self.body[first].pieces.insert(0, line);
        }
        let (mode, system_in_place) = (self.options.alternation, self.options.system_in_place);
        let (opening, is_silent) = (self.opening(), self.is_silent());
        let has_perspective = self.input.perspective.is_some();
        let ends_with_user = self.options.ends_with_user;
        // With a perspective, the texts name their speakers already.
        let by_speaker = self.options.names_speakers && !has_perspective;
        let stays = |turn: &Turn<'a>| system_in_place || turn.role != Role::System;
        let (body, hoisted): (Vec<_>, Vec<_>) = self.body.into_iter().partition(stays);
        let mut turns: Vec<Turn<'a>> =
            self.preamble.into_iter().chain(hoisted).chain(head).chain(body).collect();
        if self.passes.has(Pass::FirstTurn) {
            alternation::begin_with_user(&mut turns, opening);
        }
        if has_perspective && turns.iter().all(|turn| turn.role == Role::System) {
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

/// Writes the note about exchanges that are in neither window nor summary: the unread ones, and `exchanges` after them.
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
