//! Fitting a context into its limit: the oldest exchanges are left out whole, never the newest; inside that one, the
//! longest tool results are shortened.

use super::{
    Alternation, Context, ContextInput, ContextOptions, Piece, Reason, Role, SourceExchange, SourceMessage,
    Thinking, Turn, alternation, draft, elide, last_n::walk, pairs,
};
use crate::domain::{exchange::PREAMBLE, message::Part, text::head_tail, tokens::TokenCounter};

/// The anchor takes at most this part of a request.
const ANCHOR_SHARE: i64 = 4;

/// What goes where, before it is put together.
struct Plan<'i, 'a> {
    input: &'i ContextInput<'a>,
    options: &'i ContextOptions,
    counter: &'i dyn TokenCounter,
    preamble: Vec<Turn<'a>>,
    anchor: Option<Piece<'a>>,
    summary: Option<Piece<'a>>,
    body: Vec<Turn<'a>>,
}

/// Builds the context with that much thinking.
pub(super) fn fit<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    thinking: Thinking,
    counter: &dyn TokenCounter,
) -> Context<'a> {
    let mut plan = Plan::new(input, options, thinking, counter);
    let limit = options.limit_tokens();
    let start = plan.start(limit);
    let newest = input.exchanges.len().saturating_sub(1);
    plan.drop_before(start);
    let excess = limit.map_or(0, |limit| plan.cost(start) - limit);
    let elided = if start == newest && excess > 0 {
        elide::elide(&mut plan.body, excess, counter)
    } else {
        Vec::new()
    };
    let left_out = numbers(&input.exchanges[..start]);
    let turns = plan.assemble(start);
    let tokens = turns.iter().map(|turn| turn.tokens(counter)).sum();
    Context {
        turns,
        tokens,
        limit_tokens: limit,
        over_budget: limit.is_some_and(|limit| tokens > limit),
        left_out,
        elided,
    }
}

fn numbers(exchanges: &[SourceExchange<'_>]) -> Vec<i64> {
    exchanges.iter().map(|exchange| exchange.exchange).collect()
}

impl<'i, 'a> Plan<'i, 'a> {
    fn new(
        input: &'i ContextInput<'a>,
        options: &'i ContextOptions,
        thinking: Thinking,
        counter: &'i dyn TokenCounter,
    ) -> Self {
        let of_preamble = input.preamble.iter();
        let preamble: Vec<draft::Draft<'a>> = of_preamble
            .flat_map(|&message| draft::of_message(message, PREAMBLE, false))
            .collect();
        let drafts: Vec<draft::Draft<'a>> = input
            .exchanges
            .iter()
            .flat_map(|exchange| draft::of_exchange(exchange, thinking))
            .collect();
        let mut plan = Self {
            input,
            options,
            counter,
            preamble: pairs::repair(&preamble),
            anchor: options.anchor.then(|| anchor(input, options, counter)).flatten(),
            summary: input
                .summary
                .as_ref()
                .map(|text| Piece::text(Reason::Summary, text)),
            body: pairs::repair(&drafts),
        };
        let newest = drafts.iter().rfind(|draft| draft.role != Role::System);
        if newest.is_some_and(|newest| newest.role != Role::Assistant) {
            alternation::end_with_user(&mut plan.body);
        }
        let turns = plan.preamble.iter_mut().chain(&mut plan.body);
        let pieces = turns.flat_map(|turn| &mut turn.pieces);
        for piece in pieces.chain(&mut plan.anchor).chain(&mut plan.summary) {
            piece.measure(counter);
        }
        plan
    }

    /// The first exchange that is sent.
    fn start(&self, limit: Option<i64>) -> usize {
        let (Some(limit), Some(newest)) = (limit, self.input.exchanges.len().checked_sub(1)) else {
            return 0;
        };
        let costs = self.costs_from();
        walk(0, newest, |at| self.fixed(at) + costs[at] <= limit)
    }

    /// What the exchanges from each on cost, with the turns that may have to be put between them.
    fn costs_from(&self) -> Vec<i64> {
        let between = self.acknowledgement();
        let mut costs = vec![0; self.input.exchanges.len() + 1];
        let (mut at, mut sum) = (self.body.len(), 0);
        let mut next: Option<Role> = None;
        for (index, exchange) in self.input.exchanges.iter().enumerate().rev() {
            while let Some(turn) = at.checked_sub(1).map(|before| &self.body[before]) {
                if turn.exchange < exchange.exchange {
                    break;
                }
                let clashes = next.is_some_and(|next| alternation::clash(turn.role, next));
                sum += turn.tokens(self.counter) + if clashes { between } else { 0 };
                // Instructions that move to the front don't keep their neighbours apart.
                if turn.role != Role::System || self.options.system_in_place {
                    next = Some(turn.role);
                }
                at -= 1;
            }
            costs[index] = sum;
        }
        costs
    }

    /// What everything but the exchanges costs, if they begin with exchange number `start` of the window.
    fn fixed(&self, start: usize) -> i64 {
        let preamble = self
            .preamble
            .iter()
            .chain(&self.head(start))
            .map(|turn| turn.tokens(self.counter))
            .sum::<i64>();
        // Between head and window there may be one turn more, or one in front of both.
        preamble + alternation::acknowledgement(PREAMBLE).tokens(self.counter)
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

    /// What stands between preamble and window: anchor, summary, and what was left out, in one turn of the user's.
    fn head(&self, start: usize) -> Option<Turn<'a>> {
        let input = self.input;
        let first_seq = input
            .exchanges
            .get(start)
            .and_then(|exchange| exchange.messages.first());
        let is_away = |anchor: &SourceMessage<'_>| first_seq.is_none_or(|first| anchor.seq < first.seq);
        let anchor = self
            .anchor
            .iter()
            .filter(|_| input.anchor.as_ref().is_some_and(is_away));
        let left_out = left_out_note(&input.exchanges[..start]);
        let left_out = left_out.iter().map(|text| Piece::text(Reason::LeftOut, text));
        let kept = anchor.chain(&self.summary).cloned();
        let pieces: Vec<Piece<'a>> = kept.chain(left_out).collect();
        (!pieces.is_empty()).then(|| Turn::new(Role::User, PREAMBLE, pieces))
    }

    fn assemble(self, start: usize) -> Vec<Turn<'a>> {
        let head = self.head(start);
        let (mode, in_place) = (self.options.alternation, self.options.system_in_place);
        let stays = |turn: &Turn<'a>| in_place || turn.role != Role::System;
        let (body, hoisted): (Vec<_>, Vec<_>) = self.body.into_iter().partition(stays);
        let mut turns: Vec<Turn<'a>> = self
            .preamble
            .into_iter()
            .chain(hoisted)
            .chain(head)
            .chain(body)
            .collect();
        alternation::begin_with_user(&mut turns);
        alternation::repair(turns, mode)
    }
}

/// The first message of the session; if it takes more than its share, its text without the middle, if it has one.
fn anchor<'a>(
    input: &ContextInput<'a>,
    options: &ContextOptions,
    counter: &dyn TokenCounter,
) -> Option<Piece<'a>> {
    let drafts = draft::of_message(input.anchor?, PREAMBLE, false);
    let draft = drafts.into_iter().find(|draft| draft.role == Role::User)?;
    let piece = draft.piece();
    let share = options.limit_tokens().map(|limit| limit / ANCHOR_SHARE);
    let Some(share) = share.filter(|&share| piece.cost(counter) > share) else {
        return Some(piece);
    };
    // A token is a character or more, but for rare ones.
    let chars = usize::try_from(share).unwrap_or(0);
    let said = input.anchor?.message.text();
    let text = head_tail(said.trim(), chars * 2 / 3, chars / 3);
    (!text.is_empty()).then(|| draft.share(vec![Part::Text(text)]))
}

/// Says what the model doesn't see, since neither window nor summary does.
fn left_out_note(exchanges: &[SourceExchange<'_>]) -> Option<String> {
    let (first, last) = (exchanges.first()?.exchange, exchanges.last()?.exchange);
    Some(if first == last {
        format!("[exchange #{first} is left out here, to keep within the budget]")
    } else {
        format!("[exchanges #{first} to #{last} are left out here, to keep within the budget]")
    })
}
